from math import ceil, log

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.sim import FiniteMDP, baselines, simulate_random
from rareswitch.sim.baselines import mvp, ucb2_hoeffding
from rareswitch.sim.baselines.least_squares import Sums
from rareswitch.sim.baselines.play import Regrets, Table, play
from rareswitch.sim.baselines.tabular import _ucb2_triggers
from rareswitch.sim.baselines.variance_weighted import Weighted, _radii
from sim import literal_baselines as literal
from sim.literal_baselines import LINEAR, TABULAR, assert_same, chances, literally

SEED = (5, 1)
UNIFORM = {"seed": SEED, "initial_state": "uniform"}


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.3, 3.0])
@pytest.mark.parametrize("world", TABULAR.values(), ids=TABULAR)
@pytest.mark.parametrize("name", ["ucb2", "mvp", "eqo"])
def test_an_optimistic_baseline_plays_its_description(name, world, scale):
    play = {"ucb2": ucb2_hoeffding}.get(name) or getattr(baselines, name)
    K = 80 if name == "eqo" else 250
    expected = literally(world, getattr(literal, name)(world, K, scale), K=K, seed=SEED)
    assert_same(play(world, episodes=K, scale=scale, seed=SEED), expected)


@pytest.mark.parametrize("prior", [0.3, 2.0])
@pytest.mark.parametrize("batches", [None, 7])
@pytest.mark.parametrize("samples", ["batch", "episode"])
@pytest.mark.parametrize("world", TABULAR.values(), ids=TABULAR)
def test_posterior_sampling_plays_its_description(world, samples, batches, prior):
    K = 60
    redraw = samples == "episode" and batches is not None
    made = literal.psrl(world, K, SEED, prior, batches)
    expected = literally(world, made, K=K, redraw=redraw, **UNIFORM)
    settings = {"prior": prior, "batches": batches, "samples": samples}
    run = baselines.psrl(world, episodes=K, **settings, **UNIFORM)
    assert_same(run, expected, switches=not redraw)
    if redraw:  # every deployment changes the mixture wherever there is a choice
        choices = int((world.feasible.sum(axis=1) > 1).sum())
        assert list(run.switch_episodes) == expected["deployment_episodes"][1:]
        assert run.local_switches == run.switches * world.horizon * choices
        assert len(expected["switch_episodes"]) > run.switches  # draws differ within a batch too


PLUS_PLUS = [
    (1.0, 1.0, True),
    (0.03, 0.0, True),
    (0.001, 0.0, False),
    (0.0, 0.0001, True),
    (0.01, 0.0001, False),
    (0.001, 0.001, True),
]


@pytest.mark.parametrize(("scale", "inflation", "monotone"), PLUS_PLUS)
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_lsvi_ucb_plus_plus_plays_its_description(world, scale, inflation, monotone):
    K = 24
    policy, learn = literal.lsvi_ucb_plus_plus(world, K, scale, inflation, monotone)
    expected = literally(world, (policy, learn), K=K, **UNIFORM)
    settings = {"scale": scale, "inflation": inflation, "monotone": monotone}
    run = baselines.lsvi_ucb_plus_plus(world, episodes=K, **settings, **UNIFORM)
    assert_same(run, expected)
    assert (run.deployments == 1) == (inflation == 1.0)  # the published weights learn nothing
    radii = scale * _radii(world.dim, world.horizon, K)
    learner = Weighted(world, radii, inflation, monotone=monotone)
    for k, (path, actions) in enumerate(zip(run.states, run.actions, strict=True), 1):
        learner.learn(k, path, actions)
    high, low, logdet = learn.state()
    rows = np.s_[:, learner.states, world.space.actions]
    np.testing.assert_allclose(learner.high, high[rows], atol=1e-8)
    np.testing.assert_allclose(learner.low, low[rows], atol=1e-8)
    np.testing.assert_allclose(learner.gram.logdet, logdet, atol=1e-8)


def test_the_radii_of_lsvi_ucb_plus_plus_are_those_of_its_theorem():
    d, H, K, ridge, delta = 3, 2, 5, 1 / 4, 0.05
    wanted = [
        H * np.sqrt(d * ridge) + np.sqrt(d * np.log(1 + d * K * H / (delta * ridge)) ** 2),
        H * np.sqrt(d * ridge) + np.sqrt(d**3 * H**2 * np.log(d * H * K / (delta * ridge)) ** 2),
        H**2 * np.sqrt(d * ridge) + np.sqrt(d**3 * H**4 * np.log(d * H * K / (delta * ridge)) ** 2),
    ]
    np.testing.assert_allclose(_radii(d, H, K), wanted, rtol=1e-12)


@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_a_fit_has_the_values_of_the_raw_history(world):
    random = simulate_random(world, episodes=12, **UNIFORM)
    history = list(zip(random.states, random.actions, strict=True))
    sums = Sums(world, 0.01)
    for path, actions in history:
        sums.add(path, actions)
    found = sums.fit()
    for (h, s, a), value in literal.least_squares(world, history, 0.01).items():
        distinct = world.space.actions[sums.states == s]
        if a in distinct:
            assert found[h, s, a] == pytest.approx(value, abs=1e-8)
    assert (found[:, ~world.feasible] == -np.inf).all()


@pytest.mark.parametrize(("epsilon", "batches"), [(0.0, None), (0.2, None), (0.3, 7), (1.0, 5)])
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_epsilon_greedy_plays_its_description(world, epsilon, batches):
    made = literal.epsilon_greedy(world, 60, epsilon, 0.3, batches)
    expected = literally(world, made, K=60, **UNIFORM)
    settings = {"epsilon": epsilon, "ridge": 0.3, "batches": batches}
    assert_same(baselines.epsilon_greedy(world, episodes=60, **settings, **UNIFORM), expected)


@pytest.mark.parametrize("explore", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_explore_then_commit_plays_its_description(world, explore):
    made = literal.explore_then_commit(world, 60, explore, 0.3)
    expected = literally(world, made, K=60, **UNIFORM)
    run = baselines.explore_then_commit(world, episodes=60, explore=explore, ridge=0.3, **UNIFORM)
    assert_same(run, expected)
    assert (run.deployments, run.switches) == ((1, 0) if explore == 1.0 else (2, 1))


@pytest.mark.parametrize(
    ("batches", "scale", "accuracy"),
    [(7, 0.01, 1.0), (12, 0.003, 1.0), (12, 0.0003, 0.5), (12, 0.1, 0.1), (1, 0.01, 1.0)],
)
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_layer_by_layer_plays_its_description(world, batches, scale, accuracy):
    made = literal.layer_by_layer(world, 60, batches, scale, accuracy)
    expected = literally(world, made, K=60, **UNIFORM)
    settings = {"batches": batches, "scale": scale, "accuracy": accuracy}
    assert_same(baselines.layer_by_layer(world, episodes=60, **settings, **UNIFORM), expected)


@pytest.mark.parametrize("batches", [1, 6, 60])
@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_greedy_least_squares_is_lsvi_ucb_batch_without_its_bonus(world, batches):
    run = baselines.epsilon_greedy(world, episodes=60, epsilon=0, batches=batches, **UNIFORM)
    recipe = rs.Recipe.paper(beta=0.0, ties="lowest")
    same = rs.simulate(world, rs.UniformGrid(batches=batches), recipe, episodes=60, **UNIFORM)
    np.testing.assert_array_equal(run.actions, same.actions)
    np.testing.assert_allclose(run.regret, same.regret, atol=1e-9)
    assert list(run.switch_episodes) == list(same.switch_episodes)
    assert run.local_switches == same.local_switches


@pytest.mark.parametrize("world", LINEAR.values(), ids=LINEAR)
def test_all_exploration_is_random_play(world):
    random = simulate_random(world, episodes=50, **UNIFORM)
    for run in (
        baselines.epsilon_greedy(world, episodes=50, epsilon=1.0, **UNIFORM),
        baselines.explore_then_commit(world, episodes=50, explore=1.0, **UNIFORM),
    ):
        np.testing.assert_array_equal(run.states, random.states)
        np.testing.assert_array_equal(run.actions, random.actions)
        np.testing.assert_allclose(run.regret, random.regret, atol=1e-12)


def test_one_sample_for_every_batch_of_one_episode_is_one_for_every_episode():
    runs = [
        baselines.psrl(TABULAR["tabular"], episodes=40, seed=2, samples=samples)
        for samples in ("batch", "episode")
    ]
    np.testing.assert_array_equal(runs[0].actions, runs[1].actions)
    assert runs[0].local_switches == runs[1].local_switches


def test_samples_of_their_own_explore_more_than_one_sample_for_a_batch():
    world = rs.worlds.tabular(states=4, actions=3, horizon=4, seed=6)
    total = {"batch": 0.0, "episode": 0.0}
    for seed in range(8):
        for samples in total:
            settings = {"episodes": 400, "batches": 5, "samples": samples}
            total[samples] += baselines.psrl(world, seed=seed, **settings).regret.sum()
    assert total["episode"] < total["batch"] / 2


PLAYERS = {
    "ucb2_hoeffding": {"scale": 0.01},
    "mvp": {"scale": 0.01},
    "eqo": {"scale": 0.05},
    "psrl": {"prior": 0.5},
    "psrl-batch": {"batches": 30},
    "psrl-episode": {"batches": 15, "samples": "episode"},
    "lsvi_ucb_plus_plus": {"scale": 0.01},
    "epsilon_greedy": {"epsilon": 0.1, "ridge": 0.01},
    "explore_then_commit": {"explore": 0.1, "ridge": 0.01},
    "layer_by_layer": {"batches": 60, "scale": 0.0001},
    "redrawn_mixture": {"batches": 15, "members": 4},
}
every_baseline = pytest.mark.parametrize(("name", "settings"), PLAYERS.items(), ids=PLAYERS)


def player(name):
    return getattr(baselines, name.partition("-")[0])


def test_every_baseline_is_tested():
    assert {name.partition("-")[0] for name in PLAYERS} == set(baselines.__all__)


@every_baseline
def test_baselines_never_take_a_barred_action(name, settings):
    world = TABULAR["masked"]
    for given in (settings, {key: settings[key] for key in settings if key == "batches"}):
        run = player(name)(world, episodes=150, **given, seed=4, initial_state="uniform")
        assert len(set(run.states[:, 0])) == world.states
        assert world.feasible[run.states[:, :-1], run.actions].all()


def visit_counts(run):
    """Return the count (K, H) that each visit brought its pair to."""
    counts, seen = np.zeros(run.actions.shape, int), {}
    for k, h in np.ndindex(*run.actions.shape):
        pair = (h, run.states[k, h], run.actions[k, h])
        counts[k, h] = seen[pair] = seen.get(pair, 0) + 1
    return counts


def test_mvp_plans_anew_exactly_when_a_count_is_a_power_of_two():
    run = mvp(TABULAR["tabular"], episodes=600, seed=2)
    doubled = np.isin(visit_counts(run), 2 ** np.arange(12)).any(axis=1)
    assert list(run.deployment_episodes) == [1, *(np.flatnonzero(doubled[:-1]) + 2)]
    assert set(run.switch_episodes) <= set(run.deployment_episodes[1:])


def test_ucb2_follows_its_estimates_exactly_at_triggering_counts():
    world = TABULAR["one-stage"]
    run = ucb2_hoeffding(world, episodes=600, seed=2)
    triggers = _ucb2_triggers(0.25, ceil(log(10) / log(1.25)), 600)
    triggered = np.isin(visit_counts(run), sorted(triggers)).any(axis=1)
    assert not triggered.all()
    assert list(run.deployment_episodes) == [1, *(np.flatnonzero(triggered[:-1]) + 2)]


@pytest.mark.parametrize("most", [1, 5, 12, 1000])
def test_the_triggering_counts_are_dense_and_then_geometric(most):
    dense = set(range(1, 14))  # (1 + 1/4)^11 = 11.6 and (1 + 1/4)^12 = 14.6
    sparse = {ceil(1.25**r) for r in range(12, 60)}
    wanted = {t for t in set(range(1, 13)) | sparse if t <= most}
    assert _ucb2_triggers(0.25, 11, most) == wanted
    assert wanted <= dense | sparse


@every_baseline
def test_baselines_learn(name, settings):
    world = rs.worlds.tabular(states=3, actions=3, horizon=3, seed=6)
    random = simulate_random(world, episodes=1500, seed=0).regret.mean()
    run = player(name)(world, episodes=1500, **settings, seed=0)
    assert run.regret[-300:].mean() < random / 3
    assert (run.regret >= 0.0).all()


def test_rare_updates_make_few_switches():
    world = rs.worlds.tabular(states=3, actions=3, horizon=3, seed=6)
    run = mvp(world, episodes=1500, seed=0)
    assert run.switches < 27 * (1 + ceil(np.log2(1500))) / 2


def test_lsvi_ucb_plus_plus_deploys_at_most_once_for_each_doubling_of_a_determinant():
    world = rs.worlds.hard_to_learn(d=5, horizon=4)
    run = baselines.lsvi_ucb_plus_plus(world, episodes=2000, seed=0)
    ridge = 1 / world.horizon**2  # and σ̄² is at least H
    largest = ridge + 2000 * world.feature_norm**2 / world.horizon / world.dim
    doublings = world.horizon * world.dim * np.log2(largest / ridge)
    assert 10 < run.deployments - 1 <= doublings < 2000


def test_batches_deploy_at_the_starts_of_a_uniform_grid():
    world, K, B = TABULAR["tabular"], 67, 8
    starts = list(rs.UniformGrid(batches=B).starts(world.task(episodes=K)))
    for of in (baselines.epsilon_greedy, baselines.psrl):
        assert list(of(world, episodes=K, batches=B).deployment_episodes) == starts
    careful = baselines.layer_by_layer(world, episodes=K, batches=B, scale=1.0)
    assert list(careful.deployment_episodes) == starts


@every_baseline
def test_the_same_seed_is_the_same_run(name, settings):
    runs = [player(name)(TABULAR["tabular"], episodes=60, **settings, seed=s) for s in (1, 1, 2)]
    for part in ("states", "actions", "regret", "deployment_episodes", "switch_episodes"):
        np.testing.assert_array_equal(getattr(runs[0], part), getattr(runs[1], part))
    assert (runs[0].states != runs[2].states).any()


@every_baseline
def test_bad_episodes_and_starts_are_refused(name, settings):
    world = TABULAR["one-stage"]
    batches = {"batches": 2} if "batches" in settings else {}
    with pytest.raises(ValueError, match="episodes must be at least 1; got 0"):
        player(name)(world, episodes=0, **batches)
    with pytest.raises(ValueError, match="initial_state must be from 0 to 1"):
        player(name)(world, episodes=5, initial_state=2, **batches)
    with pytest.raises(TypeError, match="world must be a FiniteMDP; got 3"):
        player(name)(3, episodes=5, **batches)


@pytest.mark.parametrize(
    ("name", "argument", "value", "message"),
    [
        *(
            (name, "scale", -1.0, "scale must be a finite number at least 0")
            for name in (
                "ucb2_hoeffding",
                "mvp",
                "eqo",
                "lsvi_ucb_plus_plus",
                "layer_by_layer",
            )
        ),
        ("lsvi_ucb_plus_plus", "inflation", -1.0, "inflation must be a finite number at least 0"),
        ("lsvi_ucb_plus_plus", "monotone", 1, "monotone must be True or False; got 1"),
        ("psrl", "prior", 0.0, "prior must be a finite number at least 1e-06"),
        ("psrl", "samples", "step", "samples must be one of 'batch', 'episode'; got 'step'"),
        ("psrl", "batches", 6, "batches must be from 1 to 5; got 6"),
        ("epsilon_greedy", "batches", 0, "batches must be at least 1; got 0"),
        ("epsilon_greedy", "epsilon", 1.1, "epsilon must be .* at most 1; got 1.1"),
        ("epsilon_greedy", "ridge", 0.0, "ridge must be"),
        ("explore_then_commit", "explore", -0.1, "explore must be .* at most 1; got -0.1"),
        ("explore_then_commit", "ridge", -1.0, "ridge must be"),
        ("layer_by_layer", "batches", 6, "batches must be from 1 to 5; got 6"),
        ("layer_by_layer", "accuracy", 0.0, "accuracy must be .* above 0 and at most 1; got 0.0"),
    ],
)
def test_a_bad_argument_of_a_baseline_is_refused(name, argument, value, message):
    given = {"batches": 2} if name == "layer_by_layer" else {}
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(baselines, name)(TABULAR["one-stage"], episodes=5, **given | {argument: value})


def test_a_random_policy_is_charged_its_expectation():
    world = TABULAR["masked"]
    rng = np.random.default_rng(3)
    menus = [np.flatnonzero(row) for row in world.feasible]
    actions = np.array([[rng.choice(menu) for menu in menus] for _ in range(world.horizon)])
    table = Table(actions, rng.random(world.horizon))
    probabilities = chances(world, *table)
    value = np.zeros(world.states)
    for h in reversed(range(world.horizon)):
        q_values = world.rewards[h] + world.transitions[h] @ value
        value = (probabilities[h] * q_values).sum(axis=1)
    lost = world.optimal_values()[0] - value
    np.testing.assert_allclose(Regrets(world).of(table), lost, atol=1e-12)
    K = 20_000
    run = play(
        world, lambda: table, lambda k, path, taken: False, episodes=K, seed=1, initial_state=1
    )
    assert (run.regret == run.regret[0]).all()
    earned = world.rewards[np.arange(world.horizon), run.states[:, :-1], run.actions].sum(axis=1)
    assert abs(earned.mean() - value[1]) < 5 * earned.std() / np.sqrt(K)
    frequency = np.bincount(run.actions[:, 0], minlength=3) / K
    np.testing.assert_allclose(frequency, probabilities[0, 1], atol=5 / np.sqrt(K))


def test_a_policy_that_changes_only_unused_actions_is_no_switch():
    world = TABULAR["tabular"]
    shape = (world.horizon, world.states)
    tables = iter(
        [
            Table(np.zeros(shape, int), np.ones(world.horizon)),
            Table(np.ones(shape, int), np.ones(world.horizon)),
            Table(np.ones(shape, int), np.full(world.horizon, 0.5)),
            Table(np.zeros(shape, int), np.full(world.horizon, 0.5)),
        ]
    )
    run = play(
        world,
        lambda: next(tables),
        lambda k, path, actions: True,
        episodes=4,
        seed=1,
        initial_state=0,
    )
    assert list(run.deployment_episodes) == [1, 2, 3, 4]
    assert list(run.switch_episodes) == [3, 4]
    assert run.local_switches == 2 * shape[0] * shape[1]


def test_a_state_without_a_choice_never_switches():
    world = FiniteMDP(
        features=np.eye(4).reshape(2, 2, 4),
        transitions=np.full((1, 2, 2, 2), 0.5),
        rewards=np.full((1, 2, 2), 0.5),
        feasible=np.array([[True, True], [True, False]]),
    )
    run = baselines.explore_then_commit(world, episodes=4)
    assert (run.switches, run.local_switches) == (1, 1)
    run = baselines.psrl(world, episodes=4, batches=2, samples="episode")
    assert (run.switches, run.local_switches) == (1, 1)
