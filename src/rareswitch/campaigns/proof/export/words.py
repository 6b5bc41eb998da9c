"""A candidate in sentences, which are the same on the terminal and in the final report.

The proposer writes the evidence, so any part of it may be missing or of a wrong type: such a part
is "not recorded".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rareswitch.support.words import plural

MOST_CHANGES = 5
MOST_TREATMENTS = 36
NO_SUBGROUP = "no subgroup"
LARGEST = 1e300  # larger numbers are not shown
NOT_RECORDED = "not recorded"
GROWTH = "log-determinant"  # part of the quantities that grow with the data
ONE_IS_ENOUGH = "one reached trigger is enough"
UNCERTAIN = "cannot tell: gain "  # a verdict whose interval contains 0
OPTIMISTIC = "optimistic: estimated on the episodes that the candidate was fitted on"
NO_PROOF = f"a loss is not excluded; {OPTIMISTIC}"
BY_FIRST = "by first treatment; harm of later treatments is not separated"
EQUAL = 0.005  # probabilities nearer than this look equal in whole percent
# A recorded warning, which the line of the estimate replaces.
FITTED = "the candidate was fitted to these episodes, so the estimate is optimistic"
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
    number: int,
    *,
    version: int,
    proposer: str,
    planned: bool,
    evidence: Any,
    protocol: Mapping[str, Any] | None = None,
    tabled: bool = False,
    **others: Any,
) -> list[str]:
    """Return the sentences about a candidate for its signers; `others` are ignored.

    `protocol` has the tables of the protocol under which the candidate was proposed: with it the
    sentences name the wait of the schedule, the shares of control and floor, and subgroups in their
    declared order. `tabled` leaves out the treatments, for a page with a table of them.

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
    treatments, tables = treatments_of(found), protocol or {}
    return [
        f"candidate {number} for version {version}: fitted on {fitted}, {entered} by "
        f"{one_line(proposer)}{unplanned}",
        *trigger_lines(_listed(found, "triggers"), wait_of(tables) if planned else ""),
        _difference(found.get("disagreement", NOT_RECORDED)),
        *_action_changes(_listed(found, "changes"), without_first=bool(treatments)),
        *(_subgroup_line(one, bool(treatments)) for one in subgroups_of(found, tables)),
        *(() if tabled else _treatments(treatments, tables)),
        _gain(found),
        *_worth(found.get("worth")),
        *(f"warning: {warning}" for warning in warnings_of(found)),
    ]


def trigger_lines(triggers: list[Any], wait: str = "") -> list[str]:
    """Return a line for each trigger, the rule that decides if they differ, and the wait.

    >>> known = {"quantity": "episode", "value": 9, "threshold": 8, "reached": True}
    >>> trigger_lines([known, known | {"threshold": 10, "reached": False}])[1:]
    ['trigger: episode 9 of 10, not reached', 'one reached trigger is enough']
    """
    reached = {is_trigger(one) and one.get("reached") is True for one in triggers}
    enough = ", after the wait" if wait else ""
    said = [f"{ONE_IS_ENOUGH}{enough}"] if len(reached) == 2 else []
    return [*map(trigger_line, triggers), *said, *([wait] if wait else [])]


def wait_of(protocol: Mapping[str, Any]) -> str:
    """Return the wait of a protocol's schedule; "" if it has none.

    >>> rule = {"kind": "waiting", "first": 80, "apart": 60, "schedule": {"kind": "total-growth"}}
    >>> wait_of({"schedule": rule})
    'wait: 80 reported episodes before the first new version, 60 more before each later version'
    """
    schedule = protocol.get("schedule", {})
    if schedule.get("kind") != "waiting":
        return ""
    first, apart = schedule.get("first", 0), schedule.get("apart", 0)
    parts = [f"{plural(first, 'reported episode')} before the first new version"] if first else []
    parts += [f"{apart} more before each later version"] if apart else []
    return f"wait: {', '.join(parts)}" if parts else ""


def shares_of(protocol: Mapping[str, Any]) -> str:
    """Return the shares of control and floor in a version's episodes; "" if it has neither.

    >>> shares_of({"recipe": {"control": {"plays": 0, "share": 0.2}, "floor": 0.1}})
    'control (20%) and floor (10%, in equal parts)'
    """
    recipe = protocol.get("recipe", {})
    control, floor = (recipe.get("control") or {}).get("share", 0.0), recipe.get("floor") or 0.0
    parts = [f"control ({100 * control:.3g}%)"] if control else []
    parts += [f"floor ({100 * floor:.3g}%, in equal parts)"] if floor else []
    return " and ".join(parts)


def subgroups_of(evidence: dict[str, Any], protocol: Mapping[str, Any]) -> list[Any]:
    """Return the subgroups of the evidence in the protocol's order, unknown subgroups last."""
    found, declared = _listed(evidence, "subgroups"), protocol.get("analysis", {}).get("subgroups")
    names = list(declared.get("names", ())) if isinstance(declared, Mapping) else []

    def place(one: Any) -> int:
        name = one.get("subgroup") if isinstance(one, dict) else None
        return names.index(name) if name in names else len(names)

    return sorted(found, key=place)  # stable


def protocol_at(entries: Sequence[Any], number: int) -> Mapping[str, Any]:
    """Return the tables of the protocol that was in force at an entry of the ledger."""
    revisions = [
        one.payload["protocol"]
        for one in entries
        if one.kind in ("created", "amended") and one.number <= number
    ]
    return revisions[-1] if revisions else {}


def trigger_line(trigger: Any, name: str = "trigger") -> str:
    """Describe a trigger; the growth of log-determinants is that of the data.

    >>> growth = {"quantity": "total growth of the log-determinants", "value": 12.8754,
    ...     "threshold": 5.32173, "reached": True}
    >>> trigger_line(growth)
    'trigger: the data have grown enough for a new version (12.9; threshold 5.32)'
    """
    if not is_trigger(trigger):
        return f"{name}: {NOT_RECORDED}"
    is_reached = trigger.get("reached") is True
    if GROWTH in trigger["quantity"]:
        enough = "grown enough" if is_reached else "not grown enough yet"
        return (
            f"{name}: the data have {enough} for a new version ({trigger['value']:.3g}; threshold "
            f"{trigger['threshold']:.3g})"
        )
    reached = "reached" if is_reached else "not reached"
    return (
        f"{name}: {_word(trigger['quantity'])} {trigger['value']:.6g} of "
        f"{trigger['threshold']:.6g}, {reached}"
    )


def warnings_of(evidence: dict[str, Any]) -> list[str]:
    """Return the warnings, except the one that the line of the estimate replaces.

    >>> warnings_of({"warnings": [FITTED, "few episodes"]})
    ['few episodes']
    """
    return [_word(one) for one in _listed(evidence, "warnings") if one != FITTED]


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


def _action_changes(changes: list[Any], *, without_first: bool) -> Iterator[str]:
    """Yield the largest changes of action, a sentence each.

    `without_first` leaves out the first stage, which the lines of treatments show.
    """
    known = [one for one in changes if isinstance(one, dict) and is_number(one.get("share"))]
    known = [one for one in known if not (without_first and one.get("stage") == 0)]
    known.sort(key=lambda one: -one["share"])  # stable: equal shares keep their order
    for one in known[:MOST_CHANGES]:
        actions = f"{_action(one.get('from'))} → {_action(one.get('to'))}"
        stage = stage_number(one.get("stage"))
        yield f"most frequent action in {one['share']:.0%} of states of stage {stage}: {actions}"
    if len(known) > MOST_CHANGES:
        yield f"and {len(known) - MOST_CHANGES} smaller changes"


def _subgroup_line(one: Any, told: bool = False) -> str:
    """Describe the change of treatment in a subgroup.

    The lines of treatments, if they are `told`, show the direction of the change.

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
    if told or not is_number(part):
        return line
    often = "mostly" if part > 0.5 else "most often"  # type: ignore[operator]
    return f"{line}, {often} {_action(one.get('from'))} → {_action(one.get('to'))}"


class Treatment(NamedTuple):
    """The probability of a first action in a subgroup, now and then, and its episodes so far."""

    whom: str  # "" if no row names a subgroup
    action: str
    now: float
    then: float
    episodes: int
    mean_return: float | None
    told: int  # episodes whose reports tell about adverse events
    events: dict[str, int]  # episodes with each kind

    @property
    def harm(self) -> str:
        """The adverse events in words; "" without declared kinds or without an episode."""
        if not self.events or not self.episodes:
            return ""
        counts = ", ".join(f"{kind} in {number}" for kind, number in self.events.items())
        return counts if self.told == self.episodes else f"{counts} of {self.told} that tell"


def treatments_of(evidence: Any) -> list[Treatment]:
    """Return the treatments of the evidence that can be read."""
    rows = _listed(evidence, "treatments") if isinstance(evidence, dict) else []
    known = [one for one in rows if isinstance(one, dict) and _is_treatment(one)]
    named = any(one.get("subgroup") is not None for one in known)
    return [
        Treatment(
            ("" if not named else NO_SUBGROUP) if one.get("subgroup") is None
            else _word(one["subgroup"]),
            _action(one.get("action")),
            one["now"],
            one["then"],
            one["episodes"],
            one["mean_return"] if is_number(one.get("mean_return")) else None,
            one["told"],
            {_word(kind): number for kind, number in one["events"].items()},
        )
        for one in known
    ]  # fmt: skip


def _is_treatment(one: dict[str, Any]) -> bool:
    """Return whether the evidence has the probabilities and counts of a treatment."""
    events = one.get("events")
    if not isinstance(events, dict):
        return False
    counts = [*events.values(), one.get("episodes"), one.get("told")]
    whole = all(type(count) is int and is_number(count) for count in counts)
    return whole and is_number(one.get("now")) and is_number(one.get("then"))


def as_of(seq: int, since: Mapping[str, int]) -> str:
    """Describe the row of the log that a candidate was fitted on, and the rows since.

    >>> as_of(120, {"reports": 99, "corrections": 1})
    'evidence as of row 120; 99 reports and 1 correction of fitted episodes since'
    """
    reports, corrections = since["reports"], since["corrections"]
    if not reports and not corrections:
        return f"evidence as of row {seq}; no reports since"
    return (
        f"evidence as of row {seq}; {plural(reports, 'report')} and "
        f"{plural(corrections, 'correction')} of fitted episodes since"
    )


def change_of(rows: Sequence[Treatment]) -> str:
    """Describe the change of the probabilities of the treatments of a subgroup.

    >>> def row(action, now, then):
    ...     return Treatment("mild", action, now, then, 9, None, 9, {})
    >>> change_of([row("usual care", 0.333, 0.233), row("low dose", 0.333, 0.733)])
    'from equal allocation to mostly low dose'
    >>> change_of([row("usual care", 0.6, 0.93), row("low dose", 0.4, 0.07)])
    'usual care 60% → 93%'
    """
    before, after = ([getattr(one, time) for one in rows] for time in ("now", "then"))
    if max(abs(now - then) for now, then in zip(before, after, strict=True)) < EQUAL:
        return "probabilities as before"
    top = before.index(max(before)), after.index(max(after))
    equal = [max(shares) - min(shares) < 2 * EQUAL for shares in (before, after)]
    if top[0] == top[1] and not any(equal):
        return f"{rows[top[0]].action} {before[top[0]]:.0%} → {after[top[0]]:.0%}"
    said = [
        "equal allocation"
        if level
        else f"{'mostly' if shares[most] > 0.5 else 'most often'} {rows[most].action}"
        for shares, most, level in zip((before, after), top, equal, strict=True)
    ]
    return f"from {said[0]} to {said[1]}"


def _treatments(rows: list[Treatment], protocol: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each first action in each subgroup.

    >>> row = Treatment("severe", "high dose", 0.33, 0.63, 21, 0.64, 21, {"serious": 3})
    >>> print(*_treatments([row], {}), sep="\\n")
    probability of each treatment, now → under the candidate, and its episodes so far:
    severe, high dose: 33% → 63%; 21 episodes, mean return 0.64, serious in 3
    """
    if rows:
        shares = shares_of(protocol)
        first = f" ({BY_FIRST})" if several_visits(protocol) else ""
        yield (
            f"probability of each treatment, now → under the candidate"
            f"{shares and f', including {shares}'}, and its episodes so far{first}:"
        )
    for row in rows[:MOST_TREATMENTS]:
        whom = f"{row.whom}, " if row.whom else ""
        mean = "" if row.mean_return is None else f", mean return {row.mean_return:.3g}"
        yield (
            f"{whom}{row.action}: {row.now:.0%} → {row.then:.0%}; "
            f"{plural(row.episodes, 'episode')}{mean}{row.harm and f', {row.harm}'}"
        )
    if len(rows) > MOST_TREATMENTS:
        yield f"and {len(rows) - MOST_TREATMENTS} more treatments: `candidates --json` has all"


def _gain(evidence: dict[str, Any]) -> str:
    """Describe the expected gain, without a number if the log has no estimate.

    The recorded interval is left out: it comes from the episodes that the candidate was fitted on,
    so it is above 0 too often.
    """
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
    value: Any = gain.get("value")
    if not is_number(value):
        return unknown
    word, said = ("loss", OPTIMISTIC) if value < 0 else ("gain", NO_PROOF)
    return f"expected {word}: {abs(value):.3g} per episode ({said})"


def several_visits(protocol: Mapping[str, Any]) -> bool:
    """Return whether an episode may have more than one decision."""
    return bool(protocol.get("task", {}).get("horizon", 1) > 1)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite int or float that is not huge."""
    return type(value) in (int, float) and abs(value) < LARGEST


def _listed(evidence: dict[str, Any], name: str) -> list[Any]:
    found = evidence.get(name, [])
    return list(found) if isinstance(found, list | tuple) else [None]


def _word(value: Any) -> str:
    return (one_line(str(value)) if type(value) in (int, str) else "") or NOT_RECORDED


def stage_number(value: Any) -> str:
    """Return the number of a recorded stage for people, who count from 1; records count from 0.

    >>> stage_number(0), stage_number(None)
    ('1', 'not recorded')
    """
    return str(value + 1) if type(value) is int else _word(value)


def _action(value: Any) -> str:
    return f"action {value}" if type(value) is int else _word(value)
