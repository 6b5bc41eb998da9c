"""The register of what was refused, and why: bad input never enters, and is never forgotten."""

import re
from typing import Any

from rareswitch.campaigns.record.canonical import digest_of
from rareswitch.campaigns.record.cohorts import Cohorts
from rareswitch.campaigns.record.counting import INTAKE
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping.looking import look

MOST_CHARACTERS = 2000
# Who it was, in a text that may not even be JSON: the register is kept for good.
PARTICIPANT = re.compile(r'("participant"\s*+:\s*+)(?:"(?:[^"\\]|\\.)*(?:"|$)|(?!null|").*)', re.S)


def refuse(pen: Pen, state: State, episode_id: Any, *, reason: str, said: str, now: str) -> int:
    """Write a refusal into the register, and look whether there are too many; return its number.

    Of what was said the beginning is kept, without who it was and with all that is not plain text
    escaped, and a digest.
    """
    cohorts = Cohorts(pen, state)
    number = pen.add(
        "refusals",
        seq=pen.heads["episodes"].length,
        episode_id=_readable(episode_id) if isinstance(episode_id, str) else None,
        reason=_readable(reason),
        excerpt=_readable(PARTICIPANT.sub(r'\1"…"', said[:MOST_CHARACTERS])),
        digest=digest_of(said.encode(errors="surrogatepass")),
        received=now,
    )
    cohorts.add(INTAKE, 1.0)
    if not state.stopped:
        look(pen, state.protocol, cohorts, version=state.in_force.version, now=now)
    cohorts.write()
    return number


def _readable(text: str) -> str:
    """Return the beginning of a text with escapes for all that could hide something.

    >>> _readable("a" + chr(0))
    'a\\\\x00'
    """
    escaped = text[:MOST_CHARACTERS].encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)
