"""A candidate in sentences, which are the same on the terminal and in the final report.

The proposer writes the evidence, so any part of it may be missing or of a wrong type: such a part
is "not recorded".
"""

import re
from collections.abc import Iterator
from typing import Any

from rareswitch.support.words import plural

MOST_CHANGES = 5
LARGEST = 1e300  # larger numbers are not shown
NOT_RECORDED = "not recorded"
ONE_IS_ENOUGH = "one reached trigger is enough"
UNCERTAIN = "cannot tell: gain "  # a verdict whose interval contains 0
# White space, controls, and characters that are invisible or change the direction of text.
_UNSEEN = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ud800-\udfff]+"
)


def one_line(text: str) -> str:
    r"""Return a text in one line, with single spaces in place of invisible characters.

    >>> one_line("two\nlines\u202e")
    'two lines'
    """
    return _UNSEEN.sub(" ", text).strip()


def candidate_lines(
    number: int, *, version: int, proposer: str, planned: bool, evidence: Any, **others: Any
) -> list[str]:
    """Return the sentences about a candidate for its signers; `others` are ignored.

    >>> gain = {"value": 0.4, "low": 0.3, "high": 0.6, "verdict": "the log says nothing about it"}
    >>> known = {"episodes": 640, "disagreement": 0.66, "gain": gain, "warnings": [], "triggers": [
    ...     {"quantity": "episode", "value": 641, "threshold": 640, "reached": True}]}
    >>> lines = candidate_lines(7, version=3, proposer="schedule", planned=True, evidence=known)
    >>> print(*lines, sep="\\n")
    candidate 7 for version 3: fitted on 640 episodes, proposed by schedule
    trigger: episode 641 of 640, reached
    differs from the policy in force in 66% of logged states
    expected gain: cannot be estimated from this log
    """
    found = evidence if isinstance(evidence, dict) else {}
    episodes = found.get("episodes")
    known = type(episodes) is int
    fitted = plural(episodes, "episode") if known else "episodes whose number is unknown"  # type: ignore[arg-type]
    unplanned = "" if planned else ", unplanned"
    entered = "declined" if others.get("status") == "declined" else "proposed"
    return [
        f"candidate {number} for version {version}: fitted on {fitted}, {entered} by "
        f"{one_line(proposer)}{unplanned}",
        *trigger_lines(_listed(found, "triggers")),
        _difference(found.get("disagreement", NOT_RECORDED)),
        *_action_changes(_listed(found, "changes")),
        *map(_subgroup_line, _listed(found, "subgroups")),
        _gain(found),
        *_worth(found.get("worth")),
        *(f"warning: {_word(warning)}" for warning in _listed(found, "warnings")),
    ]


def trigger_lines(triggers: list[Any]) -> list[str]:
    """Return a line for each trigger, and the rule that decides if they differ.

    >>> known = {"quantity": "episode", "value": 9, "threshold": 8, "reached": True}
    >>> trigger_lines([known, known | {"threshold": 10, "reached": False}])[1:]
    ['trigger: episode 9 of 10, not reached', 'one reached trigger is enough']
    """
    reached = {is_trigger(one) and one.get("reached") is True for one in triggers}
    return [*map(trigger_line, triggers), *([ONE_IS_ENOUGH] if len(reached) == 2 else [])]


def trigger_line(trigger: Any, name: str = "trigger") -> str:
    if not is_trigger(trigger):
        return f"{name}: {NOT_RECORDED}"
    reached = "reached" if trigger.get("reached") is True else "not reached"
    return (
        f"{name}: {_word(trigger['quantity'])} {trigger['value']:.6g} of "
        f"{trigger['threshold']:.6g}, {reached}"
    )


def deciding_trigger(evidence: Any) -> dict[str, Any] | None:
    """Return the first reached trigger, or else the first trigger."""
    found = evidence if isinstance(evidence, dict) else {}
    triggers = [trigger for trigger in _listed(found, "triggers") if is_trigger(trigger)]
    reached = [trigger for trigger in triggers if trigger.get("reached") is True]
    return next(iter([*reached, *triggers]), None)


def is_trigger(trigger: Any) -> bool:
    """Return whether a trigger has a quantity, a value and a threshold."""
    return (
        isinstance(trigger, dict)
        and isinstance(trigger.get("quantity"), str)
        and is_number(trigger.get("value"))
        and is_number(trigger.get("threshold"))
    )


def _worth(worth: Any) -> Iterator[str]:
    """Yield the gain by the fitted model, and the schedule's reasons about it."""
    if not isinstance(worth, dict):
        return
    gain = worth.get("gain")
    value, error = (gain.get("value"), gain.get("error")) if isinstance(gain, dict) else (0, None)
    if isinstance(gain, dict) and is_number(value):
        known = f", standard error {error:.3g}" if is_number(error) else ""
        yield f"gain by the fitted model: {value:.3g} per episode{known}"
    for reason in _listed(worth, "reasons"):
        yield trigger_line(reason, "worth")


def _difference(share: Any) -> str:
    if share is None:
        return "difference from the policy in force: no logged state tells enough"
    if not is_number(share):
        return f"difference from the policy in force: {NOT_RECORDED}"
    return f"differs from the policy in force in {share:.0%} of logged states"


def _action_changes(changes: list[Any]) -> Iterator[str]:
    """Yield the largest changes of action, a sentence each."""
    known = [one for one in changes if isinstance(one, dict) and is_number(one.get("share"))]
    known.sort(key=lambda one: -one["share"])  # stable: equal shares keep their order
    for one in known[:MOST_CHANGES]:
        actions = f"{_action(one.get('from'))} → {_action(one.get('to'))}"
        stage = _word(one.get("stage"))
        yield f"most frequent action in {one['share']:.0%} of states of stage {stage}: {actions}"
    if len(known) > MOST_CHANGES:
        yield f"and {len(known) - MOST_CHANGES} smaller changes"


def _subgroup_line(one: Any) -> str:
    """Describe the change of treatment in a subgroup.

    >>> one = {"subgroup": "severe", "episodes": 212, "share": 0.64, "from": "usual care",
    ...     "to": "high dose", "share_of_change": 0.9}
    >>> _subgroup_line(one)
    'severe (212 episodes): treated otherwise in 64% of cases, mostly usual care → high dose'
    """
    if not isinstance(one, dict):
        return f"subgroup: {NOT_RECORDED}"
    count, share, part = (one.get(name) for name in ("episodes", "share", "share_of_change"))
    episodes = f"{_word(count)} {'episode' if count == 1 else 'episodes'}"
    line = f"{_word(one.get('subgroup'))} ({episodes}): "
    if not is_number(share):
        return f"{line}{NOT_RECORDED}"
    if share == 0:
        return f"{line}treated as before"
    line += f"treated otherwise in {share:.0%} of cases"
    if not is_number(part):
        return line
    often = "mostly" if part > 0.5 else "most often"  # type: ignore[operator]
    return f"{line}, {often} {_action(one.get('from'))} → {_action(one.get('to'))}"


def _gain(evidence: dict[str, Any]) -> str:
    """Describe the expected gain with its interval, without numbers if the log has no estimate."""
    unknown = f"expected gain: {NOT_RECORDED}"
    if "gain" not in evidence:
        return unknown
    if (gain := evidence["gain"]) is None:
        return "expected gain: cannot be estimated from this log"
    if not isinstance(gain, dict) or not isinstance(verdict := gain.get("verdict"), str):
        return unknown
    if verdict.startswith("no difference"):
        return "expected gain: none, the candidate is the policy in force"
    if not verdict.startswith(("gain ", "loss ", UNCERTAIN)):
        return "expected gain: cannot be estimated from this log"
    ends: list[Any] = [gain.get(name) for name in ("value", "low", "high")]
    if not all(map(is_number, ends)):
        return unknown
    word = f"{verdict[:4]}:"
    if verdict.startswith("loss "):
        ends = [-ends[0], -ends[2], -ends[1]]
    elif verdict.startswith(UNCERTAIN):
        word = "gain: uncertain,"
    value, low, high = ends
    return f"expected {word} {value:.3g} per episode (95% interval from {low:.3g} to {high:.3g})"


def is_number(value: Any) -> bool:
    """Return whether a value is a finite int or float that is not huge."""
    return type(value) in (int, float) and abs(value) < LARGEST


def _listed(evidence: dict[str, Any], name: str) -> list[Any]:
    found = evidence.get(name, [])
    return list(found) if isinstance(found, list | tuple) else [None]


def _word(value: Any) -> str:
    return (one_line(str(value)) if type(value) in (int, str) else "") or NOT_RECORDED


def _action(value: Any) -> str:
    return f"action {value}" if type(value) is int else _word(value)
