"""The claims of a report: site, begin and end, and the participant's subgroup and adverse events.

The writer and every verifier check them with `broken_claim`.
"""

from collections.abc import Mapping
from typing import Any

from rareswitch.campaigns.rulebook.names import MOST_CHARACTERS, checked_text
from rareswitch.campaigns.rulebook.terms import AnalysisTerms
from rareswitch.support.arguments import short_repr, whole

CLAIMED_TEXTS = ("site", "began", "ended", "subgroup")
CLAIMS = (*CLAIMED_TEXTS, "events")
MOST_EVENTS = 2**31  # of one kind, in one episode


def checked_events(events: Any) -> dict[str, int]:
    """Return the number of adverse events of each kind, in the order of their names.

    >>> checked_events({"serious": 0, "nausea": 2}), checked_events({})
    ({'nausea': 2, 'serious': 0}, {})
    """
    if not isinstance(events, Mapping):
        raise TypeError(
            f"events must be counts by the kind of event, such as {{'nausea': 2}}; got "
            f"{short_repr(events)}"
        )
    counts: dict[str, int] = {}
    for kind, count in events.items():
        name = checked_text("events: each kind", kind, most=MOST_CHARACTERS)
        if name in counts:
            raise ValueError(f"events must be of distinct kinds; got {short_repr(kind)} twice")
        counts[name] = whole("events: each count", count, least=0, most=MOST_EVENTS)
    return dict(sorted(counts.items()))


def occurred(events: Mapping[str, int]) -> dict[str, int]:
    """Return the events as a record has them: without kinds that did not occur."""
    return {kind: count for kind, count in events.items() if count}


def undeclared_event(analysis: AnalysisTerms, events: Mapping[str, int] | None) -> str | None:
    """Return why the kinds of events are not allowed, those with 0 among them; None if they are."""
    for kind in events or {}:
        if analysis.events and kind not in analysis.events:
            return (
                f"events must be of the kinds {', '.join(analysis.events)}, as the protocol "
                f"declares; got {short_repr(kind)}"
            )
    return None


def broken_claim(analysis: AnalysisTerms, claims: Any) -> str | None:
    """Return why claims (JSON values) are not allowed; None if they are.

    >>> broken_claim(AnalysisTerms(events=["nausea"]), {"events": {"headache": 1}})
    "events must be of the kinds nausea, as the protocol declares; got 'headache'"
    """
    if not isinstance(claims, dict):
        return f"claims must be a table; got {short_repr(claims)}"
    for name, value in claims.items():
        if name == "events":
            why = _broken_events(analysis, value)
        elif name not in CLAIMED_TEXTS:
            why = f"claims must be {', '.join(CLAIMS)} only; got {short_repr(name)}"
        elif not isinstance(value, str):
            why = f"{name} must be a text; got {short_repr(value)}"
        else:
            why = _broken_subgroup(analysis, value) if name == "subgroup" else None
        if why is not None:
            return why
    return None


def _broken_subgroup(analysis: AnalysisTerms, name: str) -> str | None:
    if analysis.subgroups is None:
        return "subgroup must not be told: [analysis] of the protocol declares none"
    if name not in analysis.subgroups.names:
        names = ", ".join(analysis.subgroups.names)
        return f"subgroup must be one of {names}, as the protocol declares; got {short_repr(name)}"
    return None


def _broken_events(analysis: AnalysisTerms, counts: Any) -> str | None:
    if not analysis.events:
        return "events must not be told: [analysis] of the protocol declares none"
    try:
        events = checked_events(counts)
    except (TypeError, ValueError) as error:
        return str(error)
    if not all(events.values()):
        return "events: a record leaves out kinds that did not occur; got a count of 0"
    return undeclared_event(analysis, counts)  # the names as they stand
