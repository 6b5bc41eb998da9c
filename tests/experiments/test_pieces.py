from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import EVERY, GRID, GROWTH, RANDOM, WORLD, experiment
from rareswitch.experiments.run import compute, find_versions
from rareswitch.experiments.store import Piece, cut_into_pieces
from rareswitch.sim import play_adversary, simulate_random
from rareswitch.sim.baselines import mvp, ucb2_hoeffding

ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
LINEAR = '\n[world]\nkind = "random-linear"\nstates = 4\nactions = 3\nd = 3\nhorizon = 3\n'
TABULAR = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'


def cuts(spec):
    return [(piece.arm.name, piece.first, piece.last) for piece in cut_into_pieces(spec)]


def test_rounds_are_cut_into_tens_arm_by_arm():
    assert cuts(experiment(arms=EVERY + RANDOM, rounds=23)) == [
        (name, first, last)
        for name in ("lsvi-ucb", "random")
        for first, last in ((0, 10), (10, 20), (20, 23))
    ]
    assert cuts(experiment(arms=EVERY, rounds=10)) == [("lsvi-ucb", 0, 10)]
    assert cuts(experiment(arms=EVERY, rounds=1)) == [("lsvi-ucb", 0, 1)]


def test_the_key_of_a_piece_depends_on_all_that_determines_its_numbers():
    spec = experiment(arms=EVERY, seed=1)
    others = [
        experiment(arms=EVERY, seed=2),
        experiment(arms=EVERY, seed=1, episodes=25),
        experiment(arms=EVERY, seed=1, rounds=2),
        experiment(arms=EVERY + "beta = 2", seed=1),
        experiment(arms=EVERY + "ridge = 2", seed=1),
        experiment(arms=EVERY + 'ties = "lowest"', seed=1),
        experiment(arms=EVERY + "initial_state = 1", seed=1),
        experiment(arms=EVERY + 'exploration = { kind = "perturbation", scale = 1 }', seed=1),
        experiment(arms=EVERY, world=WORLD + "delta = 0.2", seed=1),
        experiment(arms=RANDOM, seed=1),
    ]
    keys = [cut_into_pieces(each)[0].key for each in (spec, *others)]
    keys.append(cut_into_pieces(experiment(arms=EVERY, seed=1, rounds=13))[1].key)
    assert len(set(keys)) == len(keys)


def test_the_key_of_a_piece_does_not_depend_on_names():
    one = experiment(arms=EVERY)
    other = experiment(
        name="other", title="Other", arms=EVERY.replace("lsvi-ucb", "x").replace("LSVI", "Y")
    )
    assert [p.key for p in cut_into_pieces(one)] == [p.key for p in cut_into_pieces(other)]


def test_the_key_of_a_rule_of_your_own_depends_on_its_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "keyed_rule.py"
    path.write_text("class Rule:\n    def due(self, clock):\n        return True\n")
    arms = EVERY.replace("every-episode", "keyed_rule:Rule")
    within = EVERY.replace(
        '"every-episode" }', '"capped", switches = 2, schedule = { kind = "keyed_rule:Rule" } }'
    )
    specs = [experiment(arms=text) for text in (arms, within)]
    before = [cut_into_pieces(spec)[0].key for spec in specs]
    assert [cut_into_pieces(spec)[0].key for spec in specs] == before
    path.write_text(path.read_text().replace("True", "False"))
    assert not {cut_into_pieces(spec)[0].key for spec in specs} & set(before)


@pytest.mark.parametrize(
    ("world", "arms"),
    [
        (WORLD, EVERY + "measure_radius = true"),
        (WORLD + "zeta = 0.3", GROWTH.replace("[2, 8]", "2")),
        (WORLD, GRID.replace("[4, 8]", "5") + 'initial_state = "uniform"'),
        (WORLD, RANDOM),
        (LINEAR, EVERY),
        (TABULAR, GROWTH.replace("[2, 8]", "2")),
        (ADVERSARY, GRID.replace("[4, 8]", "8")),
        (WORLD, EVERY + 'exploration = { kind = "perturbation", scale = 0.3, draws = 2 }'),
        (WORLD, EVERY.replace('every-episode"', 'adaptive-budget", switches = 6')),
        (WORLD, GRID.replace("[4, 8]", "5") + 'exploration = { kind = "ensemble", members = 3 }'),
        (
            LINEAR,
            EVERY.replace('every-episode"', 'spread-budget", switches = 4')
            + 'exploration = { kind = "ensemble", members = 3 }',
        ),
        (TABULAR, EVERY.replace("every-episode", "mvp")),
        (TABULAR, EVERY.replace("every-episode", "ucb2-hoeffding")),
    ],
    ids=[
        "radius",
        "misspecified",
        "uniform start",
        "random",
        "linear",
        "tabular",
        "adversary",
        "perturbation",
        "budget",
        "mixture",
        "mixture on a budget",
        "mvp",
        "ucb2",
    ],
)
def test_a_round_does_not_depend_on_its_companions(world, arms):
    (piece,) = cut_into_pieces(experiment(world=world, arms=arms, rounds=10, seed=5))
    together = compute(piece).arrays
    for first in range(10):
        alone = compute(Piece(piece.arm, piece.episodes, piece.seed, first, first + 1)).arrays
        assert set(alone) == set(together)
        for name, rows in alone.items():
            np.testing.assert_array_equal(rows[0], together[name][first], err_msg=name)


def test_rows_have_the_shapes_and_types_of_their_names():
    spec = experiment(arms=EVERY, rounds=2)
    arrays, seconds, made_with = compute(cut_into_pieces(spec)[0])
    assert {name: array.shape for name, array in arrays.items()} == {
        "regret": (2, 24),
        "deployed": (2, 24),
        "switched": (2, 24),
        "local_switches": (2,),
        "optimistic": (2,),
        "radius": (2,),
        "logdet_growth": (2, 3),
    }
    assert arrays["deployed"].all()
    assert not arrays["switched"][:, 0].any()
    assert seconds >= 0.0
    assert made_with == find_versions()


@pytest.mark.parametrize(
    "arms", [EVERY, GRID, GROWTH, RANDOM], ids=["every", "grid", "growth", "random"]
)
def test_a_piece_holds_what_simulate_gives_round_by_round(arms):
    spec = experiment(arms=arms, rounds=4, seed=3, episodes=40)
    for piece in cut_into_pieces(spec):
        arrays = compute(piece).arrays
        for round_ in range(4):
            seed = (3, round_)
            world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)
            chosen = piece.arm.schedule
            schedule = {
                "every-episode": lambda **_: rs.EveryEpisode(),
                "uniform-grid": lambda batches, **_: rs.UniformGrid(batches=batches),
                "determinant-growth": lambda eta, **_: rs.DeterminantGrowth(eta=eta),
                "random-policy": lambda **_: None,
            }[chosen["kind"]](**chosen)
            run = (
                rs.simulate(world, schedule, rs.Recipe.paper(1.0), episodes=40, seed=seed)
                if schedule
                else simulate_random(world, episodes=40, seed=seed)
            )
            np.testing.assert_array_equal(arrays["regret"][round_], run.regret)
            for name, at in (
                ("deployed", run.deployment_episodes),
                ("switched", run.switch_episodes),
            ):
                np.testing.assert_array_equal(np.flatnonzero(arrays[name][round_]) + 1, at)
            assert arrays["local_switches"][round_] == run.local_switches


@pytest.mark.parametrize(
    ("line", "recipe", "start"),
    [
        ("beta = 0.2", rs.Recipe.paper(0.2), 0),
        ("ridge = 3", rs.Recipe.paper(ridge=3.0), 0),
        ('ties = "lowest"', rs.Recipe.paper(ties="lowest"), 0),
        ("initial_state = 1", rs.Recipe.paper(), 1),
        ('initial_state = "uniform"', rs.Recipe.paper(), "uniform"),
        (
            'exploration = { kind = "perturbation", scale = 0.5, draws = 3 }',
            rs.Recipe(exploration=rs.Perturbation(0.5, 3)),
            0,
        ),
        ('exploration = { kind = "ensemble" }', rs.Recipe(), 0),
        (
            'exploration = { kind = "ensemble", members = 3, scale = 1, estimate = false }',
            rs.Recipe(exploration=rs.Ensemble(3, 1.0, estimate=False)),
            0,
        ),
        (
            'exploration = { kind = "bonus", beta = 0.3, members = 4, estimate = true }',
            rs.Recipe(exploration=rs.Bonus(0.3, 4, estimate=True)),
            0,
        ),
    ],
)
def test_every_setting_of_an_arm_reaches_the_simulation(line, recipe, start):
    rows = compute(cut_into_pieces(experiment(arms=EVERY + line, rounds=2, episodes=60))[0]).arrays
    plain = compute(cut_into_pieces(experiment(arms=EVERY, rounds=2, episodes=60))[0]).arrays
    assert (rows["regret"] != plain["regret"]).any()
    for round_ in range(2):
        seed = (0, round_)
        world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)
        run = rs.simulate(
            world, rs.EveryEpisode(), recipe, episodes=60, seed=seed, initial_state=start
        )
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("adaptive-budget", rs.rules.AdaptiveBudget),
        ("spread-budget", rs.SpreadBudget),
        ("total-growth", rs.rules.TotalGrowth),
        ("determinant-growth", rs.DeterminantGrowth),
        ("uniform-grid", rs.UniformGrid),
        ("geometric-grid", rs.rules.GeometricGrid),
    ],
)
def test_a_budget_is_spent_by_the_rule_of_its_name_and_kept(kind, rule):
    text = EVERY.replace('every-episode"', f'{kind}", switches = 6') + "ridge = 2"
    rows = compute(cut_into_pieces(experiment(arms=text, rounds=2, episodes=60))[0]).arrays
    assert rows["switched"].sum(axis=1).max() <= 6
    for round_ in range(2):
        seed = (0, round_)
        world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)
        schedule = rule.for_budget(world.task(episodes=60), switches=6, ridge=2.0)
        run = rs.simulate(world, schedule, rs.Recipe.paper(ridge=2.0), episodes=60, seed=seed)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)


@pytest.mark.parametrize(("kind", "play"), [("mvp", mvp), ("ucb2-hoeffding", ucb2_hoeffding)])
def test_a_tabular_algorithm_plays_with_its_constant(kind, play):
    text = EVERY.replace('every-episode"', f'{kind}", scale = 0.3') + "initial_state = 1"
    rows = compute(
        cut_into_pieces(experiment(world=TABULAR, arms=text, rounds=2, episodes=60))[0]
    ).arrays
    for round_ in range(2):
        seed = (0, round_)
        world = rs.worlds.tabular(states=3, actions=2, horizon=2, seed=seed)
        run = play(world, episodes=60, scale=0.3, seed=seed, initial_state=1)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)
        assert rows["local_switches"][round_] == run.local_switches


@pytest.mark.parametrize("reading", ["completed", "compact"])
def test_every_round_corrupts_its_own_world_by_zeta(reading):
    world = WORLD + f'zeta = 0.4\ndelta = 0.2\nreading = "{reading}"\n'
    rows = compute(cut_into_pieces(experiment(world=world, arms=EVERY, rounds=3))[0]).arrays
    for round_ in range(3):
        seed = (0, round_)
        exact = rs.worlds.hard_to_learn(d=5, horizon=3, delta=0.2, reading=reading, seed=seed)
        corrupted = rs.worlds.misspecified(exact, zeta=0.4, seed=seed)
        run = rs.simulate(corrupted, rs.EveryEpisode(), rs.Recipe.paper(), episodes=24, seed=seed)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)


def test_the_measurements_of_a_plan_agree_with_the_world():
    text = EVERY + "measure_radius = true\nbeta = 0.3\nridge = 2"
    arrays = compute(cut_into_pieces(experiment(arms=text, rounds=2))[0]).arrays
    for round_ in range(2):
        seed = (0, round_)
        world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)
        recipe = rs.Recipe.paper(0.3, ridge=2.0)
        run = rs.simulate(world, rs.EveryEpisode(), recipe, episodes=24, seed=seed)
        best = world.optimal_values()[0, 0]
        optimistic = np.mean(run.fitted_values >= best - 1e-9)
        assert arrays["optimistic"][round_] == pytest.approx(optimistic)
        rows = world.features[run.states[:, :-1], run.actions]  # (K, H, d)
        for h in range(3):
            gram = 2.0 * np.eye(world.dim) + rows[:, h].T @ rows[:, h]
            growth = np.linalg.slogdet(gram / 2.0)[1]
            assert arrays["logdet_growth"][round_, h] == pytest.approx(growth)
    assert (arrays["radius"] > 0.0).all()


def test_the_radius_is_zero_where_it_is_not_measured_and_nan_where_no_one_plans():
    arrays = compute(cut_into_pieces(experiment(arms=EVERY))[0]).arrays
    assert (arrays["radius"] == 0.0).all()
    arrays = compute(cut_into_pieces(experiment(arms=RANDOM))[0]).arrays
    for name in ("optimistic", "radius", "logdet_growth"):
        assert np.isnan(arrays[name]).all()
    assert not arrays["deployed"].any()


@pytest.mark.parametrize(
    ("line", "recipe", "normalized"),
    [
        ("", rs.Recipe.paper(), False),
        ('ties = "lowest"\nbeta = 3', rs.Recipe.paper(3.0, ties="lowest"), False),
        ("beta = 0", rs.Recipe.paper(0.0), False),
        ("ridge = 5", rs.Recipe.paper(ridge=5.0), False),
        ("world = { normalized = true }", rs.Recipe.paper(), True),
        (
            'exploration = { kind = "ensemble", members = 1 }',
            rs.Recipe(exploration=rs.Ensemble(1)),
            False,
        ),
    ],
)
def test_an_adversary_piece_is_the_duel_itself(line, recipe, normalized):
    arms = GRID.replace("[4, 8]", "8") + line
    spec = experiment(world=ADVERSARY, arms=arms, rounds=1, seed=2)
    arrays = compute(cut_into_pieces(spec)[0]).arrays
    grid, task = rs.UniformGrid(batches=8), rs.Task(dim=5, horizon=3, episodes=24, feature_norm=2.0)
    learner = rs.Learner(task, grid, replace(recipe, seed=(2, 0)))
    duel = play_adversary(
        learner,
        states=2,
        horizon=3,
        episodes=24,
        starts=grid.starts(task),
        normalized=normalized,
    )
    np.testing.assert_array_equal(arrays["regret"][0], duel.regret)
    assert tuple(np.flatnonzero(arrays["deployed"][0]) + 1) == tuple(grid.starts(task))
    changes = (duel.policies[1:] != duel.policies[:-1]).sum(axis=(1, 2))
    switched = tuple(np.flatnonzero(arrays["switched"][0]) + 1)
    assert switched == tuple(np.array(grid.starts(task)[1:])[changes > 0])
    assert arrays["local_switches"][0] == changes.sum()
