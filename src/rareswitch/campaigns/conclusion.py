"""The conclusion from a comparison with the control, and its error.

The interval at the end, and a claim, are valid only under conditions that the record shows. This
module has a sentence for each broken condition.
"""

from collections.abc import Mapping
from typing import Any

from rareswitch.campaigns.rulebook.names import ENGINE, same_person
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.stopping import EPISODES, ControlSuperiority
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.support.words import plural


def why_not_at_the_end(state: State, assigned: int) -> str | None:
    """Return why the interval of a study of planned length is invalid; None if it is valid."""
    stopped, first = state.stopped, state.revisions[0]
    if stopped is None:
        return "the study has not ended"
    if not first.intake.assigned:
        return "episodes need not be assigned before they begin, so roles can be chosen"
    if any(terms.episodes != first.episodes for terms in state.revisions):
        return "an amendment changed the number of planned episodes"
    if _amended(state):
        return f"an amendment changed the rule {ControlSuperiority.name}"
    if same_person(stopped.actor, ENGINE):
        rule = stopped.payload.get("rule")
        early = f"the rule {rule} ended the study before its planned end"
        return None if rule == EPISODES else early
    if assigned < first.episodes:
        return f"{stopped.actor} ended the study before its planned end"
    return None


def cost_of_amendment(state: State, amendment: Entry) -> str | None:
    """Return the conclusion that a study loses by an amendment; None if it loses none.

    The first revision of the protocol planned the conclusion.
    """
    first, after = state.revisions[0], Terms.of(amendment.payload["protocol"])
    lost = []
    if first.control_share and after.episodes != first.episodes:
        lost.append("another number of episodes: nothing is concluded at the planned end")
    if superiority_rule(first) != superiority_rule(after):
        lost.append(f"another rule {ControlSuperiority.name}: nothing is concluded from it")
    if not lost:
        return None
    return f"{', and '.join(lost)}; the interval valid at any time still holds"


def _amended(state: State) -> bool:
    """Return whether the superiority rule differs from that of the first revision."""
    return any(
        superiority_rule(terms) != superiority_rule(state.revisions[0]) for terms in state.revisions
    )


def superiority_rule(terms: Terms) -> ControlSuperiority | None:
    """Return the rule that may claim superiority at a look, if the protocol has one."""
    rules = [rule for rule in terms.stopping if isinstance(rule, ControlSuperiority)]
    return rules[0] if rules else None


def describe_error(terms: Terms) -> str:
    """Describe how the error of a claim is split between the looks and the end."""
    rule, end = superiority_rule(terms), (1.0 - terms.analysis.confidence) / 2.0
    looks = 1.0 - rule.confidence if rule is not None else 0.0
    margin = rule.margin if rule is not None else 0.0
    more = f" {'plus' if margin > 0.0 else 'minus'} {abs(margin):g}" if margin else ""
    parts = f"about {end:.3g} at the end"
    if rule is not None:
        parts = (
            f"at most {looks:.3g} at the looks of {rule.name}, all versions together, and {parts}"
        )
    if rule is not None and rule.calibrated is not None:
        parts = (
            f"{rule.calibrated:.3g} at the looks of {rule.name}, by the simulation that the "
            f"protocol attaches (the bound alone guarantees {looks:.3g}), and about {end:.3g} at "
            "the end"
        )
        looks = rule.calibrated
    claimed = "non-inferiority" if margin < 0.0 else "superiority"
    return (
        f"If learned members return no more than the control{more}, {claimed} is claimed with "
        f"probability {looks + end:.3g}: {parts}."
    )


def error_sum(terms: Terms) -> str | None:
    """Return the sum of the errors at the looks and at the end; None if only one of them exists."""
    rule = superiority_rule(terms)
    if rule is None or not terms.control_share:
        return None
    looks = 1.0 - rule.confidence if rule.calibrated is None else rule.calibrated
    end = (1.0 - terms.analysis.confidence) / 2.0
    return (
        f"error of a claim: {looks:.3g} at the looks plus {end:.3g} at the end, "
        f"{looks + end:.3g} together"
    )


def conclude(
    state: State, combined: Mapping[str, Any], not_at_the_end: str | None, not_reported: int
) -> str:
    """Return the conclusion in words, with the margin of the first revision."""
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
        now = "."
        if combined["any_time_low"] is not None:
            low, high = combined["any_time_low"], combined["any_time_high"]
            now = (
                f". With all reports since, the interval valid at any time is from {low:.4g} to "
                f"{high:.4g}, with {combined['any_time_confidence']:g} confidence."
            )
        return (
            f"{kind} was shown at a look, with {rule.confidence:g} confidence: "
            f"{stopped.reason.partition(': ')[2]}{now}"
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
