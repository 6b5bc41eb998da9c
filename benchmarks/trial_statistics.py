"""The coverage of the intervals of a study: `python benchmarks/trial_statistics.py`.

Studies of 600 participants with usual care and two treatments learn for whom each treatment is
best. Outcomes depend far more on severity than on treatment. Each study is analysed in four ways:
by the interval at the end, by the evidence at every look, by comparing each action with usual care
using the known probabilities, and by a plain comparison of participants by action.
"""

import argparse
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import rareswitch as rs
from rareswitch.campaigns import Circumstances, OneStep, Protocol, Step, Trial
from rareswitch.campaigns.action_comparison import Choices, compare_actions
from rareswitch.campaigns.rehearsal.trial_outcome import outcome_of
from rareswitch.campaigns.rulebook.comparison import bounds_at_any_time, difference_at_the_end
from rareswitch.campaigns.rulebook.stopping import ControlSuperiority
from rareswitch.compute.local import local_pool
from rareswitch.core.task import Task

EPISODES, ACTIONS = 600, 3
CONFIDENCE = 0.95
PROTOCOL = Protocol(
    name="study",
    task=Task(dim=2 * ACTIONS, horizon=1, episodes=EPISODES),
    schedule=rs.rules.Waiting(rs.SpreadBudget(switches=4), first=100, apart=80),
    budget=4,
    recipe=rs.Recipe(
        exploration=rs.Ensemble(members=16),
        control=rs.Control(0, share=0.25),
        floor=0.1,
        burn_in=True,
    ),
)


class Scenario(NamedTuple):
    """The effect of the first treatment, the drift of outcomes, and the fields of Circumstances."""

    effect: float = 0.0
    drift: float = 0.0
    field: dict[str, float] = {}  # noqa: RUF012 of Circumstances; never changed


SCENARIOS = {
    "null": Scenario(),
    "effect": Scenario(effect=0.15),
    "drift": Scenario(effect=0.15, drift=0.4),
    "null with drift": Scenario(drift=0.4),
    "delay of 200": Scenario(effect=0.15, field={"delay": 200.0}),
    "20% missing": Scenario(effect=0.15, field={"missing": 0.2}),
}


class DriftingWorld:
    """Participants of one step whose success probability rises with their number."""

    horizon = 1

    def __init__(self, scenario: Scenario, seed: Any) -> None:
        self._drift, self._inner = scenario.drift, OneStep(_participant(scenario), seed=seed)
        self._rise = 0.0

    def begin(self, number: int) -> Any:
        self._rise = self._drift * min(number, EPISODES) / EPISODES
        return self._inner.begin(number)

    def step(self, place: int) -> Step:
        _, means, uniform, _ = self._inner._known[self._inner._number]
        mean = means[place] + self._rise
        return Step(float(uniform < mean), None, True, mean)

    def value(self, policy: Any) -> float:
        """Return the value without the drift, which is equal for all actions."""
        return self._inner.value(policy)


def _participant(scenario: Scenario) -> Any:
    def participant(rng: np.random.Generator) -> tuple[Any, Any]:
        severe = float(rng.random() < 0.5)
        rows = np.zeros((ACTIONS, 2 * ACTIONS))
        for action in range(ACTIONS):
            rows[action, 2 * action : 2 * action + 2] = np.array([1.0, severe]) / np.sqrt(2.0)
        usual = 0.1 + 0.3 * (1.0 - severe) + (0.1 if scenario.drift == 0.0 else 0.0)
        return rows, np.array([usual, usual + scenario.effect, usual])

    return participant


def analysed(name: str, seed: int) -> dict[str, bool]:
    """Return the results of one study."""
    scenario = SCENARIOS[name]
    are = replace(Circumstances.calm(), **scenario.field)
    world, rule = DriftingWorld(scenario, seed), ControlSuperiority(confidence=0.975)
    protocol = replace(PROTOCOL, recipe=replace(PROTOCOL.recipe, seed=seed))
    trial = Trial(protocol, world, are, seed=seed, measures=rule).run()
    truth = outcome_of(trial).truth
    assert truth is not None
    strata = [trial.cohorts.strata[version] for version in sorted(trial.cohorts.strata)]
    end = difference_at_the_end(strata, CONFIDENCE)
    low, high = bounds_at_any_time(strata, trial.cohorts.control, CONFIDENCE)
    assert end.low is not None
    assert end.high is not None
    choices = _choices(trial)
    return {
        "end covers": end.low <= truth <= end.high,
        "any time covers at the end": low <= truth <= high,
        "claims at a look": trial.evidence > -np.log(1.0 - rule.confidence),
        "claims at the end": end.low > 0.0,
        "plain comparison rejects": _plain(choices),
        "by known probabilities rejects": _weighted(choices),
        "by known probabilities covers": _weighted(choices, scenario.effect),
    }


def _choices(trial: Trial) -> Choices:
    """Return the reported episodes with the probabilities of their actions."""
    policies = [one.policy for one in trial.versions]
    versions, values, taken, chances = [], [], [], []
    for given, done in zip(trial.assignments, trial.episodes, strict=True):
        versions.append(given.version)
        values.append(done.rewards[0])
        taken.append(done.places[0])
        chances.append(policies[given.version - 1].propensities(0, done.offered[0]))
    return Choices(np.array(versions), np.array(values), np.array(taken), np.array(chances))


def _plain(seen: Choices) -> bool:
    """Return whether a t-test finds a difference for any action, at a total level of 5%."""
    groups = [seen.values[seen.taken == action] for action in range(ACTIONS)]
    tests = [
        stats.ttest_ind(group, groups[0], equal_var=False).pvalue
        for group in groups[1:]
        if len(group) > 1
    ]
    return bool(min(tests) < (1.0 - CONFIDENCE) / len(tests))


def _weighted(seen: Choices, truth: float = 0.0) -> bool:
    """Return whether an interval excludes 0, or, with a truth, whether both contain the truth."""
    each = 1.0 - (1.0 - CONFIDENCE) / (ACTIONS - 1)
    held = []
    for action, effect in ((1, truth), (2, 0.0)):
        found, *_ = compare_actions(seen, action, 0, each)
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= effect <= found.high)
    return all(held) if truth else not all(held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    given = parser.parse_args()
    found: dict[str, list[dict[str, bool]]] = {name: [] for name in given.scenarios}
    pool: ProcessPoolExecutor
    with local_pool(given.workers) as pool:
        jobs = {
            pool.submit(analysed, name, seed): name
            for name in given.scenarios
            for seed in range(given.rounds)
        }
        for number, job in enumerate(as_completed(jobs), start=1):
            found[jobs[job]].append(job.result())
            if number % 100 == 0:
                print(f"{number} of {len(jobs)} studies", flush=True)
    columns = list(next(iter(found.values()))[0])
    print("| scenario | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for name, answers in found.items():
        shares = [np.mean([one[column] for one in answers]) for column in columns]
        # In a null scenario the last column repeats the previous column.
        last = "–" if not SCENARIOS[name].effect else f"{shares[-1]:.1%}"
        print(f"| {name} | " + " | ".join([*(f"{s:.1%}" for s in shares[:-1]), last]) + " |")
    print(f"\n{given.rounds} studies of each scenario; {CONFIDENCE:.0%} confidence.")


if __name__ == "__main__":
    main()
