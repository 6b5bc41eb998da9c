from dataclasses import dataclass, replace

import numpy as np
import pytest
from listed_worlds import Player, exact_value, joined, mixture, small_world, tables_of

import rareswitch as rs
from rareswitch.evaluation import Method, compare, evaluate
from rareswitch.evaluation.estimators import ESTIMATORS
from rareswitch.trajectories import Trajectory, write_log

ENDED = Trajectory(
    observations=[0, 1, 0], actions=[1, 0], rewards=[1.0, 2.0], terminated=True,
    propensities=[0.5, 0.5],
)  # fmt: skip


@pytest.fixture(scope="module")
def scene():
    """Return a world, a good policy, a random one, and a log of a mixture of both and others."""
    world = small_world(4, states=4, ends=False)
    rng = np.random.default_rng(4)
    good, poor = mixture(world, rng, 4, towards=9.0), mixture(world, rng, 4)
    player = Player(world, joined(good, poor, mixture(world, rng, 16)))
    return world, good, poor, player, player.play(rng, 1500)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_better_policy_is_found_to_gain(scene, estimator):
    world, good, poor, player, log = scene
    found = compare(
        good, log, against=poor, features=player.features, method=Method(estimator=estimator)
    )
    truth = exact_value(world, good) - exact_value(world, poor)
    assert truth > 0.2
    assert found.gain.value == pytest.approx(
        found.candidate.value.value - found.against.value.value
    )
    assert found.gain.low < truth < found.gain.high
    assert found.verdict == f"gain {found.gain}"
    assert found.warnings == ()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_candidate_brings_the_policy_in_force_and_the_gain_of_its_model(scene, estimator):
    _, good, poor, player, log = scene
    rows = player.features(log[0].observations[0])
    clock = rs.Learner(rs.Task(dim=good.dim, horizon=good.horizon), rs.EveryEpisode()).clock
    given = {"clock": clock, "policy": good, "in_force": poor}
    with_paths = rs.rules.Candidate(**given, paths=[(rows,), (rows,)])
    settings = {"features": player.features, "method": Method(estimator=estimator)}
    found = compare(with_paths, log, **settings)
    plain = compare(good, log, against=poor, **settings)
    assert (found.gain, found.verdict, plain.modelled) == (plain.gain, plain.verdict, None)
    assert found.modelled == with_paths.gain
    assert (found.against_name, plain.against_name) == ("the policy in force", "the other policy")
    assert f"in force   {found.against.value}" in str(found)
    assert f"the model  gain {with_paths.gain.mean:.3g}, standard error" in str(found)
    assert compare(rs.rules.Candidate(**given, paths=[]), log, **settings).modelled is None
    with pytest.raises(TypeError, match="against must be left out: the candidate includes"):
        compare(with_paths, log, against=poor, **settings)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_turned_around_it_is_a_loss_of_the_same_size(scene, estimator):
    _, good, poor, player, log = scene
    method = Method(estimator=estimator)
    gain, loss = (
        compare(pair[0], log, against=pair[1], features=player.features, method=method).gain
        for pair in ((good, poor), (poor, good))
    )
    assert loss == pytest.approx((-gain.value, -gain.high, -gain.low))
    verdict = compare(poor, log, against=good, features=player.features, method=method).verdict
    assert verdict == f"loss {gain}"


def test_pairing_by_episode_tells_more_than_two_intervals(scene):
    _, good, poor, player, log = scene
    found = compare(good, log, against=poor, features=player.features)
    apart = np.hypot(*(s.value.high - s.value.low for s in (found.candidate, found.against)))
    assert found.gain.high - found.gain.low < 0.95 * apart


def test_the_log_itself_has_its_mean_return(scene):
    _, good, poor, player, log = scene
    logged = compare(good, log, against=poor, features=player.features).logged
    returns = [trajectory.total for trajectory in log]
    assert logged.value == pytest.approx(np.mean(returns))
    error = 1.96 * np.std(returns) / np.sqrt(len(returns))
    assert logged.high - logged.low == pytest.approx(2 * error, rel=0.1)


def test_policies_that_do_not_differ_cannot_be_told_apart(scene):
    _, good, _, player, log = scene
    found = compare(good, log, against=good, features=player.features)
    assert found.gain == (0.0, 0.0, 0.0)
    assert found.verdict == "no difference: the candidate is the other policy"
    twin = rs.Policy(weights=2.0 * good.weights, clip=False, allocation=1)
    assert (
        compare(twin, log, against=good, features=player.features).verdict
        == "cannot tell: gain 0 [0, 0]"
    )


def test_the_other_policy_has_the_name_that_is_given(scene):
    _, good, poor, player, log = scene
    agent = Agent(good, player.features)
    for given, same in (({}, agent), ({"against_name": "version 1"}, good)):
        found = compare(same, log, against=same, features=player.features, **given)
        name = given.get("against_name", "the other policy")
        assert found.verdict == f"no difference: the candidate is {name}"
        assert f"\n{name.removeprefix('the ').removesuffix(' policy'):10} " in str(found)
        assert "in force" not in f"{found} {found!r}"
    told = []
    compare(
        good, log[:50], against=poor, features=player.features, against_name="version 1",
        progress=lambda work, done, total: told.append(work),
    )  # fmt: skip
    assert told[-1] == "model of version 1"


def test_rounding_errors_are_no_gain():
    log = [
        Trajectory(
            observations=[0, 0], actions=[k % 2], rewards=[1e6 + 1e-8 * (k % 2)], terminated=True,
            propensities=[0.5],
        )
        for k in range(200)
    ]  # fmt: skip
    found = compare(lambda state, stage: [0.0, 1.0], log)
    assert found.gain == (0.0, 0.0, 0.0)
    assert found.verdict == "cannot tell: gain 0 [0, 0]"


def test_few_episodes_cannot_tell(scene):
    _, good, _, player, log = scene
    near = rs.Policy(weights=good.weights[::-1][:3], clip=False, allocation=1)
    for pair in ((near, good), (good, near)):
        found = compare(pair[0], log[:150], against=pair[1], features=player.features)
        assert found.gain.low < 0.0 < found.gain.high
        assert found.verdict == f"cannot tell: gain {found.gain}"


def test_where_the_log_shows_too_little_there_is_no_verdict():
    world = small_world(4, horizon=6, actions=4, ends=False)
    rng = np.random.default_rng(0)
    acted, other = mixture(world, rng, 3), mixture(world, rng, 1)
    player = Player(world, acted)
    log = player.play(rng, 400)
    found = compare(other, log, against=acted, features=player.features)
    reach = found.candidate.weights.reach
    beyond = f" beyond stage {reach} of 6" if reach else ""
    assert found.verdict == f"the log says nothing about the candidate{beyond}"
    turned = compare(acted, log, against=other, features=player.features)
    assert turned.verdict == f"the log says nothing about the other policy{beyond}"
    assert found.warnings == found.candidate.warnings != ()
    # No interval is shown that the log does not support; the supported side keeps its own.
    assert not found.gain.known
    assert not found.candidate.value.known
    assert found.against.value.known
    assert f"candidate  {found.candidate.value.value:.3g} [–]" in str(found)


def test_where_some_of_it_could_not_happen_there_is_no_verdict_either():
    world = small_world(4, states=4, actions=6, ends=False)
    rng = np.random.default_rng(1)
    acted, strange = mixture(world, rng, 8), mixture(world, rng, 1)
    half = joined(acted, *[strange] * 8)
    player = Player(world, acted)
    found = compare(half, player.play(rng, 1000), against=acted, features=player.features)
    weights = found.candidate.weights
    assert weights.reach == 3
    assert 0.2 < weights.missing < 0.55
    assert found.verdict == (
        f"the log says nothing about {weights.missing:.0%} of what the candidate does"
    )


def test_where_large_weights_hardly_happened_there_is_no_verdict():
    told = {"observations": [0, 0], "rewards": [1.0], "terminated": True}
    log = [Trajectory(actions=[0], propensities=[0.99], **told) for _ in range(100)]
    found = compare(lambda state, stage: [0.96, 0.04], log)
    assert found.verdict == "cannot tell: the candidate takes actions that are too rare in the log"
    assert found.warnings == found.candidate.weights.warnings("the candidate")
    assert "weights up to 4" in found.warnings[-1]


def test_the_result_is_shown_in_a_few_lines(scene):
    _, good, poor, player, log = scene
    found = compare(good, log, against=poor, features=player.features)
    assert str(found).splitlines() == [
        found.verdict,
        f"candidate  {found.candidate.value}",
        f"other      {found.against.value}",
        f"the log    {found.logged}",
        found.candidate.evidence,
    ]
    weights = found.candidate.weights
    assert found.candidate.evidence == (
        f"1500 episodes, {weights.effective[-1]:.0f} effective, largest possible weight "
        f"{weights.possible:.3g}"
    )
    assert repr(found) == (
        f"Comparison({found.verdict}; candidate {found.candidate.value}, other "
        f"{found.against.value}, log {found.logged}, {found.candidate.evidence})"
    )


@dataclass
class Agent:
    policy: object
    features: object


def test_agents_bring_their_own_features(scene):
    _, good, poor, player, log = scene
    bare = compare(good, log, against=poor, features=player.features)
    agents = compare(Agent(good, player.features), log, against=Agent(poor, player.features))
    assert agents.gain == bare.gain
    # A bare policy sees through the features of the other side.
    assert compare(Agent(good, player.features), log, against=poor).gain == bare.gain
    assert compare(good, log, against=Agent(poor, player.features)).gain == bare.gain
    # Two agents with features of their own: of another length, here, and the same behaviour.
    double = rs.Policy(weights=np.repeat(poor.weights, 2, axis=-1), clip=False, allocation=0)
    wide = Agent(double, lambda state: np.repeat(player.features(state), 2, axis=-1))
    other = compare(Agent(good, player.features), log, against=wide)
    assert other.candidate.value == agents.candidate.value
    assert other.against.weights.mean == agents.against.weights.mean


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_another_policy_the_log_itself_is_the_yardstick(scene, estimator):
    world, good, _, player, log = scene
    found = compare(Agent(good, player.features), log, method=Method(estimator=estimator))
    truth = exact_value(world, good) - exact_value(world, player.policy)
    assert found.against is None
    assert found.gain.value == pytest.approx(found.candidate.value.value - found.logged.value)
    assert found.gain.low < truth < found.gain.high
    assert found.verdict == f"gain {found.gain}"
    assert "in force" not in str(found) + repr(found)
    # The policy that wrote the log gains nothing.
    own = compare(Agent(player.policy, player.features), log, method=Method(estimator=estimator))
    assert own.gain.low <= 0.0 <= own.gain.high


def shares(world, policy):
    """Return the function of probabilities that plays each step with a member drawn anew."""
    table = tables_of(world, policy)
    return lambda state, stage: np.bincount(table[:, stage, state], minlength=2) / len(table)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_function_of_probabilities_is_judged_like_a_policy(scene, estimator):
    world, good, _, player, log = scene
    method = Method(estimator=estimator)
    one = rs.Policy(weights=good.weights[0], clip=False)
    function = shares(world, one)
    by_policy = compare(one, log, features=player.features, method=method)
    by_function = compare(function, log, features=player.features, method=method)
    assert by_function.candidate.value == pytest.approx(by_policy.candidate.value)
    assert by_function.gain == pytest.approx(by_policy.gain)
    assert by_function.candidate.weights.mean == by_policy.candidate.weights.mean
    both = compare(function, log, against=one, features=player.features, method=method)
    assert both.gain == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_two_functions_are_told_apart(scene):
    world, good, poor, player, log = scene
    one, other = (shares(world, rs.Policy(weights=p.weights[0], clip=False)) for p in (good, poor))
    found = compare(one, log, against=other, features=player.features)
    assert found.against.value == evaluate(other, log, features=player.features).value
    assert found.gain.value != 0.0


def value_of(world, function):
    """Return the expected return of a function of probabilities from state 0."""
    value = np.zeros(world.states)
    for h in reversed(range(world.horizon)):
        chances = np.array([function(s, h) for s in range(world.states)])
        value = (chances * (world.rewards[h] + world.transitions[h] @ value)).sum(axis=1)
    return value[0]


def test_intervals_for_a_random_function_hold_its_value():
    world = small_world(2, states=3, ends=False)
    chances = np.random.default_rng(0).dirichlet([1.0, 1.0], (3, 3))
    truth, held = value_of(world, lambda s, h: chances[h, s]), 0
    player = Player(world, mixture(world, np.random.default_rng(1), 24))
    for seed in range(60):
        log = player.play(np.random.default_rng(seed), 150)
        found = evaluate(lambda s, h: chances[h, s], log)  # no features: a model of actions alone
        held += found.value.low <= truth <= found.value.high
    # At 93%, fewer than 50 of 60 hold with probability 0.004.
    assert held >= 50, held


def test_a_function_sees_only_feasible_actions():
    masks = [[True, False, True], [True, True, True]]
    log = [
        Trajectory(observations=[0, 0], actions=[2 * (k % 2)], rewards=[k % 2], terminated=True,
                   propensities=[0.5], masks=masks)
        for k in range(100)
    ]  # fmt: skip
    found = evaluate(
        lambda state, stage: [0.1, 0.6, 0.3], log, method=Method(estimator="trajectory")
    )
    assert found.value.value == pytest.approx(0.75)  # of 0.4 left, 0.3 on the action that earns 1
    with pytest.raises(ValueError, match="must give some feasible action a probability above 0"):
        evaluate(lambda state, stage: [0.0, 1.0, 0.0], log)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5, 0.6], r"at least 0 and sum to 1; got \[0.5, 0.6\] for .*0.* at stage 0"),
        ([-0.5, 1.5], "probabilities, which are at least 0 and sum to 1"),
        ([1.0], "actions must be among the offered actions; got 1"),
        ("left", "the probabilities that a function returns must be an array"),
    ],
)
def test_what_is_no_probability_is_named(answer, message):
    told = {"observations": [0, 0], "rewards": [0.0], "terminated": True, "propensities": [0.5]}
    log = [Trajectory(actions=[a], **told) for a in (1, 0)]
    with pytest.raises((TypeError, ValueError), match=message):
        evaluate(lambda state, stage: answer, log)


def test_the_episode_with_an_unknown_action_is_named():
    told = {"observations": [0, 0], "rewards": [0.0], "terminated": True, "propensities": [0.5]}
    log = [Trajectory(actions=[a], key=f"week {a}", **told) for a in (0, 7)]
    words = r"trajectory 1 of the log: .* got 7 at step 0 of Trajectory\(1 step, .* key 'week 7'"
    with pytest.raises(ValueError, match=words):
        evaluate(lambda state, stage: [0.5, 0.5], log)


def test_probabilities_must_fit_the_features(scene):
    _, _, _, player, log = scene
    with pytest.raises(ValueError, match="the probability of each of 2 actions; got 3 for "):
        evaluate(lambda state, stage: [0.5, 0.25, 0.25], log, features=player.features)


def test_steps_after_the_horizon_do_not_count(scene):
    _, good, _, player, log = scene
    short = Agent(rs.Policy(weights=good.weights[:, :2], clip=False, allocation=0), player.features)
    found = compare(short, log)
    assert found.logged.value == pytest.approx(np.mean([t.rewards[:2].sum() for t in log]))
    assert found.warnings[-1] == (
        "1500 episodes have more than 2 steps, the horizon: later rewards do not count"
    )


def test_progress_is_told(scene):
    _, good, poor, player, log = scene
    told = []
    compare(
        good, log[:50], against=poor, features=player.features,
        progress=lambda work, done, total: told.append((work, done, total)),
    )  # fmt: skip
    assert told == [
        *[("episodes for the candidate", k, 50) for k in range(1, 51)],
        *[("model of the candidate", k, 5) for k in range(1, 6)],
        *[("model of the other policy", k, 5) for k in range(1, 6)],
    ]


def test_policies_of_other_horizons_are_refused(scene):
    world, good, _, player, log = scene
    short = rs.Policy(weights=np.zeros((2, world.dim)))
    with pytest.raises(ValueError, match="must have one horizon; got 2 and 3"):
        compare(short, log, against=good, features=player.features)
    with pytest.raises(TypeError, match="against must be an agent, a Policy, or a function"):
        compare(good, log, against=7, features=player.features)
    with pytest.raises(TypeError, match="method must be a Method"):
        compare(good, log, against=good, features=player.features, method={})


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (7, "log must be a file, a table of steps or a list of Trajectories; got 7"),
        (ENDED, "log must be a file, .* or a list of Trajectories; got Trajectory"),
        ([ENDED, 7], "log must be Trajectories; got 7"),
        ([ENDED], "log must hold at least two trajectories; got 1"),
        ([], "log must hold at least two trajectories; got 0"),
        (
            [ENDED, replace(ENDED, propensities=None)],
            "log must have propensities; trajectory 1 has none.*conditional_propensities",
        ),
    ],
)
def test_what_is_no_log_is_named(log, message):
    with pytest.raises((TypeError, ValueError), match=message):
        evaluate(lambda state, stage: [0.5, 0.5], log)


def test_a_log_may_be_a_file_or_a_table_of_steps(scene, tmp_path):
    _, good, _, player, log = scene
    agent = Agent(good, player.features)
    expected = compare(agent, log[:60])
    write_log(tmp_path / "log.parquet", log[:60])
    assert compare(agent, tmp_path / "log.parquet").gain == expected.gain
    steps = {
        name: [value for each in log[:60] for value in column(each)]
        for name, column in {
            "observation": lambda each: each.observations[:-1],
            "next_observation": lambda each: each.observations[1:],
            "action": lambda each: each.actions,
            "reward": lambda each: each.rewards,
            "propensity": lambda each: each.propensities,
        }.items()
    }
    steps["episode"] = [k for k, each in enumerate(log[:60]) for _ in range(len(each))]
    steps["terminated"] = [0] * len(steps["episode"])
    assert compare(agent, steps).gain == expected.gain
