"""Sentences about a study: its state, its rules, and the entries of its ledger."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rareswitch.campaigns.proof.export.words import one_line
from rareswitch.campaigns.rulebook.names import ENGINE, SCHEDULE, same_person
from rareswitch.campaigns.rulebook.rows import Entry, canonical
from rareswitch.campaigns.rulebook.signing import SENSES, sense_of
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.stopping import (
    EPISODES,
    ControlFutility,
    ControlHarm,
    ControlSuperiority,
    DataQuality,
    Futility,
    Harm,
    StoppingRule,
    Watched,
)
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.campaigns.status import Status, changed_values, entry_words
from rareswitch.service.pages.rendering import count, figure, percent, plural

MOST_SHOWN = 200  # characters of one value of a protocol
STATUSES = {
    "waiting": "waits for a decision",
    "deployed": "deployed",
    "rejected": "rejected",
    "void": "void: another version came into force",
    "declined": "not worth proposing",
    "expired": "expired",
}


def candidate_status(status: str, *, stopped: bool) -> str:
    """Return the status of a candidate in words; after the end of a study none is pending."""
    if stopped and status == "waiting":
        return "the study has ended"
    return STATUSES.get(status, status)


def headline(found: Status, state: State) -> str:
    """Return the state of a study in one sentence, without returns."""
    of = f"{count(found.recorded)} of {plural(found.planned_episodes, 'episode')}"
    if state.stopped is not None:
        return f"The study has ended, with {of} recorded and version {found.version} in force."
    if not found.recorded:
        begun = f"{plural(found.open, 'episode')} assigned" if found.open else "No episode yet"
        return f"{begun}: version {found.version} is in force, and nothing is recorded so far."
    waits = ""
    if found.waiting is not None:
        waits = f"; a candidate for version {found.waiting['version']} waits for a decision"
    elif found.amendment is not None:
        waits = "; an amendment of the protocol waits for a second person"
    return f"Version {found.version} is in force, and {of} are recorded{waits}."


def ended(state: State, *, blinded: bool) -> str:
    """Return who stopped a study and why; blinded readers do not see the rule."""
    stopped = state.stopped
    if stopped is None:
        return ""
    rule = stopped.payload.get("rule")
    who = "The engine" if same_person(stopped.actor, ENGINE) else one_line(stopped.actor)
    if blinded and rule not in (EPISODES, DataQuality.name):
        return f"{who} stopped it." if rule is None else "It was stopped."
    return f"{who} stopped it: {one_line(stopped.reason)}."


class RuleWords(NamedTuple):
    """A stopping rule: its condition, its current value, and the ends of the scale."""

    name: str
    stops: str
    now: str
    threshold: str
    value: float | None
    limit: float
    low: float
    high: float
    passed: bool


def rules_in_words(terms: Terms, seen: list[Watched], version: int) -> Iterator[RuleWords]:
    """Yield every stopping rule of a protocol with its value; None if episodes are too few."""
    values = {one.rule: one for one in seen}
    for rule in terms.stopping:
        yield _rule(rule, values.get(rule.name), terms.horizon, version)
    last = values[EPISODES]
    yield RuleWords(
        "Planned end",
        f"All {count(terms.episodes)} planned episodes are recorded.",
        f"{count(int(last.value))} recorded",
        count(terms.episodes),
        last.value,
        terms.episodes,
        0.0,
        terms.episodes,
        last.passed,
    )


def _rule(rule: StoppingRule, seen: Watched | None, horizon: int, version: int) -> RuleWords:
    low, high, show = 0.0, float(horizon), figure
    match rule:
        case Harm():
            words = ("Harm", f"The mean return of a version is surely below {figure(rule.below)}.",
                     f"version {version}: at most {{}}", rule.below)  # fmt: skip
        case Futility():
            words = ("Futility",
                     f"After {count(rule.after)} episodes the version in force surely returns less "
                     f"than {figure(rule.target)} on average.",
                     f"version {version}: at most {{}}", rule.target)  # fmt: skip
        case DataQuality():
            words = ("Data quality",
                     f"Surely more than {percent(rule.most)} of reports are refused.",
                     "at least {} refused", rule.most)  # fmt: skip
            low, high, show = 0.0, 1.0, lambda value, digits=3: percent(value)
        case ControlSuperiority():
            by = "" if not rule.margin else f" plus {figure(rule.margin)}"
            words = ("Superiority over the control",
                     f"Learned members surely return more than the control{by}, looked at from "
                     f"{count(rule.after)} compared episodes on.",
                     "difference at least {}", rule.margin)  # fmt: skip
            low = -float(horizon)
        case ControlHarm():
            by = "" if not rule.margin else f", by more than {figure(rule.margin)}"
            words = ("Harm against the control",
                     f"A version surely returns less than its control{by}.",
                     f"version {version}: difference at most {{}}", -rule.margin)  # fmt: skip
            low = -float(horizon)
        case ControlFutility():
            words = ("Futility against the control",
                     f"After {count(rule.after)} compared episodes, the gain over the control is "
                     f"surely below {figure(rule.target)}.",
                     "difference at most {}", rule.target)  # fmt: skip
            low = -float(horizon)
    name, stops, now, limit = words
    text = "waits: too few episodes yet" if seen is None else now.format(show(seen.value))
    value = None if seen is None else seen.value
    passed = seen is not None and seen.passed
    return RuleWords(name, stops, text, show(limit), value, limit, low, high, passed)


def done_words(entry: Entry) -> str:
    """Return the words for an entry of the ledger, to follow its actor's name."""
    try:
        return one_line(entry_words(entry)).replace("the campaign", "the study")
    except LookupError:  # an entry without the fields of its kind
        return entry.kind


def meaning_of(entry: Entry) -> str:
    """Return the meaning of an entry's signature and the signed words."""
    told = entry.payload.get("meaning")
    words = one_line(told) if isinstance(told, str) else done_words(entry)
    return f"{sense_of(entry)}: {words}" if entry.kind in SENSES else words


def who_signs(terms: Terms, proposer: str) -> str:
    """Return who may sign a proposal."""
    others = [one_line(name) for name in terms.approval.signers if not same_person(name, proposer)]
    but = "" if proposer == SCHEDULE else f" other than {one_line(proposer)}"
    return " or ".join(others) or f"an approver{but}"


class Difference(NamedTuple):
    """A key in which two protocols differ; None is not set."""

    key: str
    before: str | None
    after: str | None


def differences(old: Any, new: Any) -> list[Difference]:
    """Return the keys in which two protocols differ, with both values in words.

    >>> differences({"budget": {"deployments": 2}}, {"budget": {"deployments": 4}})
    [Difference(key='budget.deployments', before='2', after='4')]
    """
    return [
        Difference(key, *(None if one is None else plain_value(one) for one in values))
        for key, *values in changed_values(old, new)
    ]


def plain_value(value: Any) -> str:
    """Return a value of a protocol as text.

    >>> plain_value(True), plain_value(["a", "b"]), plain_value({"share": 0.2})
    ('yes', 'a, b', 'share 0.2')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(one, dict) for one in value) else ", "
        return between.join(map(plain_value, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain_value(one)}" for key, one in value.items()) or "none"
    text = one_line(value) if isinstance(value, str) else canonical(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:40]}… ({len(text)} characters)"
