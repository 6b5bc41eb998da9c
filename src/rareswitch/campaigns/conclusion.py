"""The conclusion from a comparison with the control, and its error.

The interval at the end, and a claim, are valid only under conditions that the record shows. This
module has a sentence for each broken condition.
"""

from collections.abc import Mapping
from typing import Any

from rareswitch.campaigns.rulebook.calibration import Calibrated
from rareswitch.campaigns.rulebook.names import ENGINE, same_person
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.stopping import EPISODES, ControlSuperiority
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.support.words import plural

MOST_BEFORE = 0.5  # of the episodes before the first new version
NO_END = "the study has not ended"


def why_not_at_the_end(state: State, assigned: int) -> str | None:
    """Return why the interval of a study of planned length is invalid; None if it is valid."""
    if state.stopped is None:
        return NO_END
    if (lost := why_no_claim_at_the_end(state, assigned)) is not None:
        return lost
    rule = state.stopped.payload.get("rule")
    if same_person(state.stopped.actor, ENGINE) and rule != EPISODES:
        return f"the rule {rule} ended the study before its planned end"
    return None


def why_no_claim_at_the_end(state: State, assigned: int) -> str | None:
    """Return why nothing can be claimed at the end any more; None while the plan is kept."""
    stopped, first = state.stopped, state.revisions[0]
    if not first.intake.assigned:
        return "episodes need not be assigned before they begin, so roles can be chosen"
    if any(terms.episodes != first.episodes for terms in state.revisions):
        return "an amendment changed the number of planned episodes"
    if _amended(state):
        return f"an amendment changed the rule {ControlSuperiority.name}"
    if stopped is None or same_person(stopped.actor, ENGINE) or assigned >= first.episodes:
        return None
    return f"{stopped.actor} ended the study before its planned end"


def cost_of_amendment(state: State, amendment: Entry) -> str | None:
    """Return in sentences what a study loses by an amendment; None if it loses nothing.

    The first revision of the protocol planned the conclusion. `amendment` waits, or is the last
    that came into force.
    """
    first, after = state.revisions[0], Terms.of(amendment.payload["protocol"])
    before = state.terms
    if before.plain == after.plain and len(state.revisions) > 1:
        before = state.revisions[-2]
    removed = {rule.name for rule in before.stopping} - {rule.name for rule in after.stopping}
    told = [f"the rule {name} is removed." for name in sorted(removed)]
    claimed, lost = _claimed(first), []
    if first.control_share and after.episodes != first.episodes:
        lost += [
            "this changes the number of episodes.",
            f"The study can no longer claim {claimed} at the planned end.",
        ]
    if superiority_rule(first) != superiority_rule(after):
        lost += [
            f"this changes the rule {ControlSuperiority.name}.",
            f"The study can no longer claim {claimed} by it.",
        ]
    told += [*lost, "The interval valid at any time stays valid."] if lost else []
    sentences = [told[0], *(f"{one[0].upper()}{one[1:]}" for one in told[1:])] if told else []
    return " ".join(sentences) or None


def _amended(state: State) -> bool:
    """Return whether the superiority rule differs from that of the first revision."""
    return any(
        superiority_rule(terms) != superiority_rule(state.revisions[0]) for terms in state.revisions
    )


def superiority_rule(terms: Terms) -> ControlSuperiority | None:
    """Return the rule that may claim superiority at a look, if the protocol has one."""
    rules = [rule for rule in terms.stopping if isinstance(rule, ControlSuperiority)]
    return rules[0] if rules else None


def _claimed(terms: Terms) -> str:
    rule = superiority_rule(terms)
    return "non-inferiority" if rule is not None and rule.margin < 0.0 else "superiority"


def describe_error(state: State, assigned: int, calibrated: Calibrated | None = None) -> str:
    """Describe how the planned error of a claim is split between the looks and the end.

    `calibrated` is the calibration of the rule in the attached simulation.
    """
    terms = state.revisions[0]
    rule, end = superiority_rule(terms), (1.0 - terms.analysis.confidence) / 2.0
    margin = rule.margin if rule is not None else 0.0
    more = f" {'plus' if margin > 0.0 else 'minus'} {abs(margin):g}" if margin else ""
    claimed, why = _claimed(terms), why_no_claim_at_the_end(state, assigned)
    if rule is not None and (_amended(state) or not terms.intake.assigned):
        rule = None  # a look claims nothing either
    if rule is None and why is not None:
        return f"{claimed.capitalize()} cannot be claimed, since {why}."
    looks = 0.0 if rule is None else looks_error(rule)
    total = looks + (0.0 if why is not None else end)
    bound = "at most" if why is not None and rule is not None else "at most about"
    if rule is not None and rule.calibrated is not None:
        bound = "about"  # a simulation is no bound
    if rule is None:
        split = ", all of it at the end"
    elif why is None:
        split = f": {_looks_words(rule, calibrated)}, and about {end:.3g} at the end"
    elif rule.calibrated is None:
        split = f", all of it at the looks of {rule.name}, all versions together"
    else:
        split = f": {_looks_words(rule, calibrated)}"
    said = (
        f"If learned members return no more than the control{more}, {claimed} is claimed with "
        f"probability {bound} {total:.3g}{split}."
    )
    return said if why is None else f"{said} Nothing can be claimed at the end, since {why}."


def looks_error(rule: ControlSuperiority) -> float:
    """Return the error at the looks: that of the bound, or that of its calibration."""
    return 1.0 - rule.confidence if rule.calibrated is None else rule.calibrated


def _looks_words(rule: ControlSuperiority, calibrated: Calibrated | None) -> str:
    bound = 1.0 - rule.confidence
    if rule.calibrated is None:
        return f"at most {bound:.3g} at the looks of {rule.name}, all versions together"
    rounds = "" if calibrated is None else f" ({calibrated.words})"
    return (
        f"{rule.calibrated:.3g} at the looks of {rule.name}, by the simulation that the protocol "
        f"attaches{rounds}; the bound alone guarantees {bound:.3g}"
    )


def design_notes(terms: Terms, calibrated: Calibrated | None = None) -> list[str]:
    """Return the planned error of a claim, and the weak points of a design, a sentence each."""
    rule, notes = superiority_rule(terms), list[str]()
    if rule is not None and terms.control_share:
        looks, end = looks_error(rule), (1.0 - terms.analysis.confidence) / 2.0
        simulated = ""
        if rule.calibrated is not None:
            known = "" if calibrated is None else f": {calibrated.words}"
            simulated = f" (simulated{known})"
        notes.append(
            f"error of a claim: {looks:.3g} at the looks{simulated} plus {end:.3g} at the end, "
            f"{looks + end:.3g} together"
        )
        if terms.analysis.missing != "reported":
            notes.append(
                f'note: missing = "{terms.analysis.missing}" covers a claim at the end only; '
                f"{rule.name} compares reported outcomes at its looks"
            )
    return notes


def weak_points(terms: Terms, *, drawn: bool) -> list[str]:
    """Return notes on terms that make a study weak, a sentence each.

    `drawn` says that the member of an episode is drawn at random.
    """
    notes, schedule = list[str](), terms.plain["schedule"]
    if drawn and not terms.intake.concealed:
        needs = "" if terms.intake.assigned else ", which needs assigned = true"
        notes.append(
            f"note: [intake] concealed is not set{needs}: who knows the protocol can compute the "
            "member and the role of an id before its assignment"
        )
    first = schedule.get("first", 0) if schedule["kind"] == "waiting" else 0
    if first > MOST_BEFORE * terms.episodes:
        burn_in = terms.plain["recipe"].get("burn_in") and terms.control_share
        lost = "; the burn-in has no control to compare with" if burn_in else ""
        notes.append(
            f"note: first = {first} of {terms.episodes} episodes: at most {terms.episodes - first} "
            f"reports are left for all learned versions{lost}"
        )
    if terms.horizon > 1 and (terms.control_share or terms.stopping):
        worst = terms.control_share and terms.analysis.missing == "worst"
        counts = f', and missing = "worst" counts {terms.horizon} for the control' if worst else ""
        notes.append(
            f"note: the largest return is {terms.horizon}, 1 for each step: if only one step can "
            f"have a reward, intervals at any time are wider than needed{counts}"
        )
    return notes


def conclude(
    state: State,
    combined: Mapping[str, Any],
    not_at_the_end: str | None,
    not_reported: int,
    at_any_time: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the conclusion in words, with the margin of the first revision.

    `at_any_time` has the comparison with an interval valid at any time, by the count of missing
    outcomes: from reports alone, and as the protocol says.
    """
    rule, stopped = superiority_rule(state.revisions[0]), state.stopped
    margin = rule.margin if rule is not None else 0.0
    kind = f"Non-inferiority by {-margin:g}" if margin < 0.0 else "Superiority over the control"
    if (
        rule is not None
        and stopped is not None
        and same_person(stopped.actor, ENGINE)
        and stopped.payload.get("rule") == rule.name
    ):
        if _amended(state):
            return f"Nothing is concluded: an amendment changed the rule {rule.name}."
        if not state.revisions[0].intake.assigned:
            return f"Nothing is concluded: {why_not_at_the_end(state, 0)}."
        return (
            f"{kind} was shown at a look, with {rule.confidence:g} confidence, from reported "
            f"outcomes alone: {stopped.reason.partition(': ')[2]}."
            f"{_with_all_reports(at_any_time, margin, not_reported)}"
        )
    if not_at_the_end is not None:
        return (
            f"Nothing is concluded at the end, since {not_at_the_end}; only the interval that is "
            "valid at any time holds."
        )
    low = combined["low"]
    if low is None:
        return "Nothing is concluded: there are too few outcomes, or all are equal."
    open_ = f" {_unreported(not_reported, combined['missing'])}." if not_reported else ""
    if low > margin:
        return f"{kind} is shown at the end: the difference is at least {low:.4g}.{open_}"
    return (
        f"{kind} is not shown: the interval of the difference, from {low:.4g} to "
        f"{combined['high']:.4g}, is not above {margin:g}.{open_}"
    )


def _with_all_reports(
    at_any_time: Mapping[str, Mapping[str, Any]], margin: float, not_reported: int
) -> str:
    """Describe the intervals after a claim at a look; the protocol's may not support the claim."""
    said = ""
    for way, row in at_any_time.items():
        low, high = row["any_time_low"], row["any_time_high"]
        if low is None:
            continue
        ends = f"from {low:.4g} to {high:.4g}"
        if way == "reported":
            said += (
                f" With all reports since, the interval valid at any time is {ends}, with "
                f"{row['any_time_confidence']:g} confidence."
            )
        else:
            counts = "0" if way == "zero" else "the worst"
            but = " This does not support the claim." if low <= margin else ""
            said += f" With missing outcomes as {counts}, as the protocol counts them, it is {ends}"
            said += f" ({plural(not_reported, 'assigned episode')} without a report).{but}"
    return said


def _unreported(number: int, missing: str) -> str:
    """Describe how assigned episodes without a report count.

    >>> _unreported(1, "zero")
    '1 assigned episode has no report, and counts as 0'
    >>> _unreported(3, "reported")
    '3 assigned episodes have no report, and are left out'
    """
    one = number == 1
    count = "counts" if one else "count"
    left = {"reported": f"{'is' if one else 'are'} left out", "zero": f"{count} as 0"}
    counted = left.get(missing, f"{count} as the worst")
    return (
        f"{plural(number, 'assigned episode')} {'has' if one else 'have'} no report, and {counted}"
    )
