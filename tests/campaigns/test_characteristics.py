"""Operating characteristics: against a textbook, a literal trial, and themselves."""

import json
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.campaigns import (
    AnalysisTerms,
    Campaign,
    Circumstances,
    ControlSuperiority,
    FiniteWorld,
    Intake,
    NotAllowedError,
    OneStep,
    Protocol,
    Step,
    Trial,
    open_store,
)
from rareswitch.campaigns.rehearsal.characteristics import (
    TRIALS,
    Estimate,
    Piece,
    ScenarioError,
    _confidence_of,
    characteristics,
    play_piece,
)
from rareswitch.campaigns.rehearsal.study import Scenario, Study
from rareswitch.campaigns.rehearsal.trial_outcome import outcome_of
from rareswitch.compute.local import local_pool
from rareswitch.core.control import Control
from rareswitch.core.task import Task
from rareswitch.support.streams import KeyedStream, Stream

EPISODES = 100
CALM = Circumstances.calm()


def arms(seed, control=0.4, other=0.4):
    """Two arms without covariates; the rows are those of the arms."""
    return OneStep(lambda rng: (np.eye(2), np.array([control, other])), seed=seed)


def world_of(scenario, protocol, seed, study):
    return arms(seed, **scenario.arguments)


def broken_world(scenario, protocol, seed, study):
    raise LookupError("no such ward")


def two_arms(**changes):
    """A trial without adaptation: a control of half of the participants, and always arm 1.

    One member, no bonus and the lowest tie: version 1 takes the first row, so the control is the
    second.
    """
    given = {
        "name": "two-arms",
        "task": Task(dim=2, horizon=1, episodes=EPISODES),
        "schedule": rs.UniformGrid(batches=1),
        "budget": 0,
        "recipe": rs.Recipe(
            exploration=rs.Bonus(0.0), ties="lowest", control=Control(1, share=0.5)
        ),
        "intake": Intake(assigned=True),
    }
    return Protocol(**given | changes)


def study_of(designs=None, scenarios=None, **changes):
    scenarios = scenarios or {"null": {}, "gain": {"control": 0.6}}
    return Study(
        scenarios=tuple(
            Scenario(
                name=name,
                kind="simulator",
                world="tests:arms",
                arguments=arguments,
                circumstances=CALM,
                null=name == "null",
            )
            for name, arguments in scenarios.items()
        ),
        designs=designs or {"two-arms": two_arms()},
        **{"rounds": 80, "seed": 5} | changes,
    )


def run(study, executor=None, **more):
    return characteristics(study, executor, worlds=world_of, **more)


def test_power_without_adaptation_is_that_of_the_textbook():
    found = run(study_of())
    null, gain = found.cells
    p, q, half = 0.6, 0.4, EPISODES / 2
    error = math.sqrt(p * (1 - p) / half + q * (1 - q) / half)
    power = 1.0 - NormalDist().cdf(NormalDist().inv_cdf(0.975) - (p - q) / error)
    for cell, expected in ((null, 0.025), (gain, power)):
        claimed = cell.values["superiority"].value
        # Four standard errors of the simulation, and 1.5% for the normal approximation.
        allowed = 4.0 * math.sqrt(expected * (1 - expected) / 80) + 0.015
        assert claimed == pytest.approx(expected, abs=allowed)
        assert cell.values["begun"].value == EPISODES == cell.values["elapsed"].value
        assert cell.values["deployments"].value == 0.0
        assert cell.values["harm"].value == 0.0
    # The control arm has the arguments' second chance; the estimate is not biased.
    assert gain.values["control_return"].value == pytest.approx(0.4, abs=1e-12)
    assert gain.values["difference"].value == pytest.approx(0.2, abs=4 * error / math.sqrt(80))
    bias = gain.values["bias"]
    assert bias.low < 0.0 < bias.high or abs(bias.value) < 4 * error / math.sqrt(80)


def test_a_literal_trial_of_two_arms_has_the_same_allocation_and_counts():
    protocol = two_arms(recipe=replace(two_arms().recipe, seed=(3, 8)))
    trial = Trial(protocol, arms(11, 0.7, 0.3), CALM, seed=4).run()
    split, stream = protocol.learner().policy.split, KeyedStream(11, Stream.ENVIRONMENT)
    counts = {"learned": [0, 0.0], "control": [0, 0.0]}
    for number in range(1, EPISODES + 1):
        role = split.role(split.draw(f"site-01:{number:05d}"))
        chance = 0.7 if role == "learned" else 0.3
        reward = float(stream.at(2 * number).random() < chance)
        counts[role][0] += 1
        counts[role][1] += reward
    assert min(n for n, _ in counts.values()) > 30
    stratum = trial.cohorts.strata[1]
    assert list(stratum.learned[:2]) == counts["learned"]
    assert list(stratum.control[:2]) == counts["control"]
    outcome = outcome_of(trial)
    (n1, s1), (n0, s0) = counts["learned"], counts["control"]
    assert outcome.difference == pytest.approx(s1 / n1 - s0 / n0)
    assert outcome.truth == pytest.approx(0.4)
    variance = [n / (n - 1) * (s / n) * (1 - s / n) / n for n, s in counts.values()]
    assert (outcome.claim == "end") == (outcome.difference > 1.98 * math.sqrt(sum(variance)))
    assert outcome.best == pytest.approx(n1 / EPISODES)
    assert outcome.mean_return == pytest.approx((0.7 * n1 + 0.3 * n0) / EPISODES)
    assert (outcome.beats, outcome.begun, outcome.deployments) == (True, EPISODES, 0)


def test_missing_outcomes_count_as_the_analysis_says():
    lossy = replace(CALM, missing=0.5)
    claims = {}
    for way in ("reported", "worst"):
        protocol = two_arms(analysis=AnalysisTerms(missing=way))
        trial = Trial(protocol, arms(2, 0.8, 0.2), lossy, seed=1).run()
        assert trial.missing > 30
        claims[way] = outcome_of(trial).claim
    assert claims == {"reported": "end", "worst": ""}


class Silent:
    """A world that tells nothing but its rewards."""

    def __init__(self, inner):
        self._inner = inner

    def begin(self, number):
        return self._inner.begin(number)

    def step(self, place):
        return Step(*self._inner.step(place)[:3])


def test_a_world_that_does_not_tell_its_model_is_judged_by_new_episodes():
    for chances, beats in (((0.8, 0.3), True), ((0.4, 0.4), False)):
        outcomes = [
            outcome_of(Trial(two_arms(), made, CALM, seed=1).run())
            for made in (Silent(arms(6, *chances)), arms(6, *chances))
        ]
        assert [one.beats for one in outcomes] == [beats, beats]
        silent, telling = outcomes
        assert (silent.truth, silent.best) == (None, None)
        assert telling.truth is not None
        assert silent.difference == telling.difference


def test_a_finite_world_tells_values_and_best_actions():
    mdp = rs.worlds.tabular(states=3, actions=3, horizon=2, seed=5)
    world, best = FiniteWorld(mdp), mdp.optimal_actions()
    world.begin(1)
    assert world.step(int(best[0, 0])).best
    world.begin(1)
    assert not all(world.step(a).best for a in range(3) if world.begin(1) is not None)
    policy = rs.Learner(mdp.task(episodes=9), rs.EveryEpisode()).policy
    assert world.value(policy) + world.loss(policy) == pytest.approx(mdp.optimal_values()[0, 0])
    by_member = [world.value(policy.member(m)) for m in range(policy.members)]
    assert world.value(policy) == pytest.approx(np.mean(by_member))


SMALL = {"rounds": 6, "designs": {"two-arms": two_arms(task=Task(dim=2, horizon=1, episodes=30))}}


def test_rounds_are_kept_and_an_interrupted_run_goes_on(tmp_path):
    whole = run(study_of(**SMALL))

    def interrupt(done, total, seconds):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(study_of(**SMALL), out=tmp_path, progress=interrupt)
    kept = (tmp_path / TRIALS).read_text().splitlines()
    assert len(kept) - 1 == 5
    with (tmp_path / TRIALS).open("a") as file:
        file.write('{"scenario": 1, "rou')  # the machine went down
    steps = []
    again = run(study_of(**SMALL), out=tmp_path, progress=lambda *told: steps.append(told[:2]))
    assert steps[0] == (len(kept) - 1, 12)
    assert again.plain == whole.plain
    assert run(study_of(**SMALL), out=tmp_path).plain == whole.plain
    assert len((tmp_path / TRIALS).read_text().splitlines()) == 13
    for change in ({"seed": 6}, {"scenarios": {"null": {}, "gain": {"control": 0.7}}}):
        with pytest.raises(ValueError, match="holds trials of other scenarios"):
            run(study_of(**SMALL | change), out=tmp_path)


def test_designs_share_their_draws_and_workers_change_nothing():
    twins = {"one": two_arms(), "two": two_arms(name="other")}
    study = study_of(twins, rounds=3)
    found = run(study)
    values = {cell.design: cell.values for cell in found.cells if cell.scenario == "gain"}
    assert values["one"] == values["two"]
    assert values["one"]["difference"].low < values["one"]["difference"].high


def test_two_processes_find_what_one_finds():
    study = study_of(**SMALL)
    here = run(study)
    with local_pool(2) as pool:
        there = run(study, pool)
    assert there.plain == here.plain


def test_an_error_in_a_world_names_the_scenario():
    study = study_of(**SMALL)
    text = json.dumps(study.plain)
    with pytest.raises(ScenarioError, match="'gain', round 3: LookupError: no such ward"):
        play_piece(Piece(1, 3), text, (), "", broken_world)


def test_a_calibrated_rule_keeps_its_error_with_another_seed():
    error, rounds = 0.2, 80
    rule = ControlSuperiority(after=20, confidence=0.9)
    task = Task(dim=2, horizon=1, episodes=60)
    first = study_of({"plan": two_arms(task=task, stopping=[rule])}, rounds=rounds)
    (found,) = (made := run(first, calibrate=error)).calibrations
    assert 5 <= found.claims <= error * rounds
    assert made.protocols.keys() == {"plan", "plan-calibrated"}
    assert found.error.value <= error
    assert found.confidence.low <= found.confidence.value <= found.confidence.high
    assert found.power["gain"].value > 0.4
    assert found.confidence.value < 0.9  # the bound is careful: less confidence is enough
    calibrated = replace(rule, confidence=found.confidence.value)
    second = study_of(
        {"plan": two_arms(task=task, stopping=[calibrated])},
        {"null": {}},
        rounds=rounds,
        seed=77,
    )
    (cell,) = run(second).cells
    # Both runs have errors of their own.
    allowed = 4.0 * math.sqrt(2.0 * error * (1 - error) / rounds)
    assert cell.values["superiority_at_a_look"].value == pytest.approx(error, abs=allowed)


def test_calibration_needs_a_null_scenario_and_the_rule():
    rule = [ControlSuperiority()]
    with pytest.raises(ValueError, match="null = true"):
        run(study_of({"a": two_arms(stopping=rule)}, {"gain": {}}), calibrate=0.05)
    with pytest.raises(ValueError, match="control-superiority"):
        run(study_of(), calibrate=0.05)


@pytest.mark.parametrize(("hits", "rounds"), [(0, 50), (3, 50), (50, 50)])
def test_a_proportion_has_the_interval_of_wilson(hits, rounds):
    found = Estimate.of_share(hits, rounds)
    z = NormalDist().inv_cdf(0.975)
    for end in (found.low, found.high):
        if 0.0 < end < 1.0:  # where the score test is just rejected
            score = (found.value - end) / math.sqrt(end * (1 - end) / rounds)
            assert abs(score) == pytest.approx(z)
    assert found.low <= found.value <= found.high


def test_the_interval_of_a_mean_ends_at_the_possible_maximum():
    found = Estimate.of_mean([3.0, 4.0, 4.0, 4.0], most=4)
    assert found.value < found.high == 4.0
    assert Estimate.of_mean([3.0, 4.0, 4.0, 4.0]).high > 4.0
    for cell in run(study_of(**SMALL)).cells:
        design = study_of(**SMALL).designs[cell.design]
        assert cell.values["deployments"].high <= design.budget
        assert cell.values["begun"].high <= design.episodes


def test_a_campaign_takes_the_characteristics_of_its_design_only(tmp_path):
    found = run(study_of(**SMALL))
    report = json.dumps(found.plain).encode()
    design = found.study.designs["two-arms"]
    own_seed = replace(design, name="real", recipe=replace(design.recipe, seed=123))
    with open_store(tmp_path / "store.db", create=True) as store:
        signed = {"by": "ana", "reason": "as agreed", "simulation": report}
        made = Campaign.create(store, own_seed.with_simulation(report), **signed)
        assert made.terms.simulation
        changed = replace(design, name="changed", budget=3).with_simulation(report)
        with pytest.raises(NotAllowedError, match="all of them differ from it: two-arms"):
            Campaign.create(store, changed, **signed)


@pytest.mark.parametrize("evidence", [1.52648, 0.9, 3.0, 5.3])
def test_a_calibrated_confidence_is_never_rounded_to_a_larger_error(evidence):
    """The confidence that is printed stops at no less evidence than was calibrated."""
    confidence = _confidence_of(evidence)
    assert confidence == float(f"{confidence:.4f}")
    assert -math.log1p(-confidence) >= evidence
    assert confidence - (1.0 - math.exp(-evidence)) <= 1e-4
