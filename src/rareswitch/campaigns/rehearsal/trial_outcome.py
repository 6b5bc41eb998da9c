"""The outcome of one simulated trial, for statistics over trials."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.campaigns.analysis import add_missing
from rareswitch.campaigns.conclusion import superiority_rule
from rareswitch.campaigns.rehearsal.trial import Trial
from rareswitch.campaigns.rehearsal.world import EQUAL_VALUES, World, play
from rareswitch.campaigns.rulebook.comparison import difference_at_the_end
from rareswitch.campaigns.rulebook.stopping import (
    EPISODES,
    ControlFutility,
    ControlHarm,
    ControlSuperiority,
    Futility,
    Harm,
)
from rareswitch.core.control import CONTROL, Control
from rareswitch.core.policy import FIELDS, Policy

HARM = (Harm.name, ControlHarm.name)
FUTILITY = (Futility.name, ControlFutility.name)
LOOK, END = "look", "end"
# A world without policy values plays this number of new episodes instead.
NEW_EPISODES = 400


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """The outcome of one trial; None marks values that its protocol or world does not provide.

    `claim` is "look" if the superiority rule stopped the trial, "end" if the interval at the end is
    above the margin, and "" if nothing is claimed. `begun`, `recorded` and `elapsed` are those at
    the stop. `difference` is the estimate at the end, `truth` its value in the world. Returns are
    expected returns of the episodes that began, if the world provides them. `best` is the share of
    steps with a best action. `beats` is whether the recommended policy is worth more than the
    control in the world. `evidence` is the largest log evidence at a look.
    """

    stop: str
    claim: str | None
    begun: int
    recorded: int
    elapsed: float
    deployments: int
    difference: float | None
    truth: float | None
    mean_return: float
    control_return: float | None
    best: float | None
    beats: bool | None
    evidence: float | None = None


def outcome_of(trial: Trial) -> TrialOutcome:
    """Return the outcome of a finished trial."""
    stop, compares = trial.stop, bool(trial.terms.control_share)
    assert stop is not None
    returns = {True: list[float](), False: list[float]()}
    best, steps = list[int | None](), 0
    for given, done in zip(trial.assignments, trial.episodes, strict=True):
        told = math.fsum(done.rewards) if done.expected is None else done.expected
        returns[given.role == CONTROL].append(told)
        best.append(done.best)
        steps += len(done.places)
    known = [count for count in best if count is not None]
    every = [*returns[True], *returns[False]]
    difference = truth = beats = None
    if compares:
        difference, truth = _differences(trial)
        beats = _beats_control(trial)
    return TrialOutcome(
        stop=stop.rule,
        claim=_claim(trial) if compares else None,
        begun=stop.begun,
        recorded=stop.recorded,
        elapsed=trial.elapsed,
        deployments=trial.deployments,
        difference=difference,
        truth=truth,
        mean_return=math.fsum(every) / len(every),
        control_return=math.fsum(returns[True]) / len(returns[True]) if returns[True] else None,
        best=sum(known) / steps if len(known) == len(best) else None,
        beats=beats,
        evidence=trial.evidence if math.isfinite(trial.evidence) else None,
    )


def _claim(trial: Trial) -> str:
    """Return when superiority over the control is claimed, like `campaign analyse`."""
    assert trial.stop is not None
    if not trial.terms.intake.assigned:
        return ""  # roles can be chosen, so nothing is concluded
    if trial.stop.rule == ControlSuperiority.name:
        return LOOK
    if trial.stop.rule not in ("", EPISODES):
        return ""
    plan, rule = trial.terms.analysis, superiority_rule(trial.terms)
    strata = add_missing(trial.cohorts.strata, _unreported(trial), plan.missing)
    low = difference_at_the_end(strata, plan.confidence).low
    margin = rule.margin if rule is not None else 0.0
    return END if low is not None and low * trial.cohorts.horizon > margin else ""


def _unreported(trial: Trial) -> Counter[tuple[int, str]]:
    """Count the unreported episodes by version and role."""
    begun = Counter((one.version, one.role) for one in trial.assignments)
    return begun - trial.reported


def _differences(trial: Trial) -> tuple[float | None, float | None]:
    """Return the estimated difference from the control, and its value in the world.

    The second uses the weights of the first and the true values of the learned members.
    """
    strata, horizon = trial.cohorts.strata, trial.cohorts.horizon
    used = {version: one for version, one in strata.items() if one.compares}
    found = difference_at_the_end([used[version] for version in sorted(used)], 0.95)
    if found.value is None:
        return None, None
    value = getattr(trial.world, "value", None)
    if value is None:
        return horizon * found.value, None
    control = value(_control_of(trial))
    weights = [one.episodes / found.episodes for one in used.values()]
    policies = [trial.versions[version - 1].policy.learned for version in used]
    gains = [value(policy) - control for policy in policies]
    truth = math.fsum(map(math.prod, zip(weights, gains, strict=True)))
    return horizon * found.value, truth


def _beats_control(trial: Trial) -> bool:
    """Return whether the recommended policy is worth more than the control.

    If the world does not provide values, both play the same new episodes, and the difference must
    exceed two standard errors.
    """
    recommended, control = trial.recommended, _control_of(trial)
    value = getattr(trial.world, "value", None)
    if value is not None:
        return bool(value(recommended) > value(control) + EQUAL_VALUES)
    first = trial.terms.episodes + 1
    numbers = range(first, first + NEW_EPISODES)
    gains = _returns(trial.world, recommended, numbers) - _returns(trial.world, control, numbers)
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return bool(gains.mean() > 2.0 * error + EQUAL_VALUES)


def _returns(world: World, policy: Policy, numbers: range) -> Any:
    played = [play(world, policy.draw(number), number) for number in numbers]
    told = [math.fsum(one.rewards) if one.expected is None else one.expected for one in played]
    return np.array(told)


def _control_of(trial: Trial) -> Policy:
    """Return the policy of the control."""
    control = trial.protocol.recipe.control
    assert control is not None
    if control.action is None:
        return Policy.from_bytes(control.plays)  # type: ignore[arg-type]
    first = trial.versions[0].policy
    fields = {name: getattr(first, name) for name in FIELDS}
    always = Control(control.action, share=1.0)
    return Policy.trusted(**fields | {"control": always, "floor": 0.0, "allocation": 0})
