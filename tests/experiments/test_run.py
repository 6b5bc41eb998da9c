import json
import os
from concurrent.futures import Future

import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import EVERY, GRID, GROWTH, RANDOM, WORLD, Inline, computed, experiment
from rareswitch.experiments.results import assemble, save_runs
from rareswitch.experiments.run import (
    Piece,
    Store,
    compute,
    local_pool,
    pieces_of,
    run_pieces,
)
from rareswitch.sim.anchors import mvp, ucb2_hoeffding

ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
LINEAR = '\n[world]\nkind = "random-linear"\nstates = 4\nactions = 3\nd = 3\nhorizon = 3\n'
TABULAR = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'


def without_horizon(sizes):
    return {key: value for key, value in sizes.items() if key != "horizon"}


def cuts(spec):
    return [(piece.arm.name, piece.first, piece.last) for piece in pieces_of(spec)]


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
        experiment(arms=EVERY + "perturbation = { sigma = 1 }", seed=1),
        experiment(arms=EVERY, world=WORLD + "delta = 0.2", seed=1),
        experiment(arms=RANDOM, seed=1),
    ]
    keys = [pieces_of(each)[0].key for each in (spec, *others)]
    keys.append(pieces_of(experiment(arms=EVERY, seed=1, rounds=13))[1].key)
    assert len(set(keys)) == len(keys)


def test_the_key_of_a_piece_does_not_depend_on_names():
    one = experiment(arms=EVERY)
    other = experiment(
        name="other", title="Other", arms=EVERY.replace("lsvi-ucb", "x").replace("LSVI", "Y")
    )
    assert [p.key for p in pieces_of(one)] == [p.key for p in pieces_of(other)]


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
        (WORLD, EVERY + "perturbation = { sigma = 0.3, draws = 2 }"),
        (WORLD, EVERY.replace('every-episode"', 'budget", rule = "adaptive", switches = 6')),
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
        "mvp",
        "ucb2",
    ],
)
def test_a_round_does_not_depend_on_its_companions(world, arms):
    (piece,) = pieces_of(experiment(world=world, arms=arms, rounds=10, seed=5))
    together, _ = compute(piece)
    for first in range(10):
        alone, _ = compute(Piece(piece.arm, piece.episodes, piece.seed, first, first + 1))
        assert set(alone) == set(together)
        for name, rows in alone.items():
            np.testing.assert_array_equal(rows[0], together[name][first], err_msg=name)


def test_rows_have_the_shapes_and_types_of_their_names():
    spec = experiment(arms=EVERY, rounds=2)
    arrays, seconds = compute(pieces_of(spec)[0])
    assert {name: array.shape for name, array in arrays.items()} == {
        "regret": (2, 24),
        "updated": (2, 24),
        "switched": (2, 24),
        "local_switches": (2,),
        "optimistic": (2,),
        "radius": (2,),
        "logdet_growth": (2, 3),
    }
    assert arrays["updated"].all()
    assert not arrays["switched"][:, 0].any()
    assert seconds >= 0.0


@pytest.mark.parametrize(
    "arms", [EVERY, GRID, GROWTH, RANDOM], ids=["every", "grid", "growth", "random"]
)
def test_a_piece_holds_what_simulate_gives_round_by_round(arms):
    spec = experiment(arms=arms, rounds=4, seed=3, episodes=40)
    for piece in pieces_of(spec):
        arrays, _ = compute(piece)
        for round_ in range(4):
            seed = (3, round_)
            world = rs.instances.hard_to_learn(d=5, horizon=3, seed=seed)
            schedule = {
                "every-episode": lambda _: rs.EveryEpisode(),
                "uniform-grid": lambda s: rs.UniformGrid(episodes=40, batches=s.batches),
                "determinant-growth": lambda s: rs.DeterminantGrowth(eta=s.eta),
                "random-policy": lambda _: None,
            }[piece.arm.schedule.kind](piece.arm.schedule)
            run = (
                rs.simulate(world, schedule, episodes=40, seed=seed)
                if schedule
                else rs.simulate_random(world, episodes=40, seed=seed)
            )
            np.testing.assert_array_equal(arrays["regret"][round_], run.regret)
            for name, at in (("updated", run.update_episodes), ("switched", run.switch_episodes)):
                np.testing.assert_array_equal(np.flatnonzero(arrays[name][round_]) + 1, at)
            assert arrays["local_switches"][round_] == run.local_switches


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("beta = 0.2", {"beta": 0.2}),
        ("ridge = 3", {"ridge": 3.0}),
        ('ties = "lowest"', {"ties": "lowest"}),
        ("initial_state = 1", {"initial_state": 1}),
        ('initial_state = "uniform"', {"initial_state": "uniform"}),
        ("perturbation = { sigma = 0.5, draws = 3 }", {"optimism": rs.Perturbation(0.5, 3)}),
    ],
)
def test_every_setting_of_an_arm_reaches_the_simulation(line, settings):
    rows, _ = compute(pieces_of(experiment(arms=EVERY + line, rounds=2, episodes=60))[0])
    plain, _ = compute(pieces_of(experiment(arms=EVERY, rounds=2, episodes=60))[0])
    assert (rows["regret"] != plain["regret"]).any()
    for round_ in range(2):
        seed = (0, round_)
        world = rs.instances.hard_to_learn(d=5, horizon=3, seed=seed)
        run = rs.simulate(world, rs.EveryEpisode(), episodes=60, seed=seed, **settings)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)


@pytest.mark.parametrize(
    ("rule", "build"),
    [
        ("adaptive", lambda **sizes: rs.AdaptiveBudget(switches=6, **without_horizon(sizes))),
        ("total-growth", lambda **sizes: rs.TotalGrowth.for_budget(switches=6, **sizes)),
        ("any-stage", lambda **sizes: rs.DeterminantGrowth.for_budget(switches=6, **sizes)),
        ("uniform-grid", lambda **_: rs.UniformGrid(episodes=60, batches=7)),
        ("geometric-grid", lambda **_: rs.EpisodeGrid.geometric(episodes=60, batches=7)),
    ],
)
def test_a_budget_is_spent_by_the_rule_of_its_name_and_kept(rule, build):
    text = EVERY.replace('every-episode"', f'budget", rule = "{rule}", switches = 6') + "ridge = 2"
    rows, _ = compute(pieces_of(experiment(arms=text, rounds=2, episodes=60))[0])
    assert rows["switched"].sum(axis=1).max() <= 6
    for round_ in range(2):
        seed = (0, round_)
        world = rs.instances.hard_to_learn(d=5, horizon=3, seed=seed)
        schedule = build(dim=5, horizon=3, episodes=60, feature_norm=world.feature_norm, ridge=2.0)
        run = rs.simulate(world, schedule, episodes=60, ridge=2.0, seed=seed)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)


@pytest.mark.parametrize(("kind", "play"), [("mvp", mvp), ("ucb2-hoeffding", ucb2_hoeffding)])
def test_a_tabular_algorithm_plays_with_its_constant(kind, play):
    text = EVERY.replace('every-episode"', f'{kind}", scale = 0.3') + "initial_state = 1"
    rows, _ = compute(pieces_of(experiment(world=TABULAR, arms=text, rounds=2, episodes=60))[0])
    for round_ in range(2):
        seed = (0, round_)
        world = rs.instances.tabular(states=3, actions=2, horizon=2, seed=seed)
        run = play(world, episodes=60, scale=0.3, seed=seed, initial_state=1)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)
        assert rows["local_switches"][round_] == run.local_switches


@pytest.mark.parametrize("reading", ["completed", "compact"])
def test_every_round_corrupts_its_own_world_by_zeta(reading):
    world = WORLD + f'zeta = 0.4\ndelta = 0.2\nreading = "{reading}"\n'
    rows, _ = compute(pieces_of(experiment(world=world, arms=EVERY, rounds=3))[0])
    for round_ in range(3):
        seed = (0, round_)
        exact = rs.instances.hard_to_learn(d=5, horizon=3, delta=0.2, reading=reading, seed=seed)
        corrupted = rs.instances.misspecified(exact, zeta=0.4, seed=seed)
        run = rs.simulate(corrupted, rs.EveryEpisode(), episodes=24, seed=seed)
        np.testing.assert_array_equal(rows["regret"][round_], run.regret)


def test_the_measurements_of_a_plan_agree_with_the_world():
    text = EVERY + "measure_radius = true\nbeta = 0.3\nridge = 2"
    arrays, _ = compute(pieces_of(experiment(arms=text, rounds=2))[0])
    for round_ in range(2):
        seed = (0, round_)
        world = rs.instances.hard_to_learn(d=5, horizon=3, seed=seed)
        run = rs.simulate(world, rs.EveryEpisode(), episodes=24, beta=0.3, ridge=2.0, seed=seed)
        best = world.optimal_values()[0, 0]
        optimistic = np.mean(run.plan_values >= best - 1e-9)
        assert arrays["optimistic"][round_] == pytest.approx(optimistic)
        rows = world.features[run.states[:, :-1], run.actions]  # (K, H, d)
        for h in range(3):
            gram = 2.0 * np.eye(world.dim) + rows[:, h].T @ rows[:, h]
            growth = np.linalg.slogdet(gram / 2.0)[1]
            assert arrays["logdet_growth"][round_, h] == pytest.approx(growth)
    assert (arrays["radius"] > 0.0).all()


def test_the_radius_is_zero_where_it_is_not_measured_and_nan_where_no_one_plans():
    arrays, _ = compute(pieces_of(experiment(arms=EVERY))[0])
    assert (arrays["radius"] == 0.0).all()
    arrays, _ = compute(pieces_of(experiment(arms=RANDOM))[0])
    for name in ("optimistic", "radius", "logdet_growth"):
        assert np.isnan(arrays[name]).all()
    assert not arrays["updated"].any()


@pytest.mark.parametrize(
    ("line", "learning", "normalized"),
    [
        ("", {}, False),
        ('ties = "lowest"\nbeta = 3', {"ties": "lowest", "beta": 3.0}, False),
        ("beta = 0", {"beta": 0.0}, False),
        ("ridge = 5", {"ridge": 5.0}, False),
        ("world = { normalized = true }", {}, True),
    ],
)
def test_an_adversary_piece_is_the_duel_itself(line, learning, normalized):
    arms = GRID.replace("[4, 8]", "8") + line
    spec = experiment(world=ADVERSARY, arms=arms, rounds=1, seed=2)
    arrays, _ = compute(pieces_of(spec)[0])
    grid = rs.UniformGrid(episodes=24, batches=8)
    learner = rs.Learner(dim=5, horizon=3, schedule=grid, seed=(2, 0), **learning)
    duel = rs.play_adversary(
        learner,
        states=2,
        horizon=3,
        episodes=24,
        starts=grid.starts,
        normalized=normalized,
    )
    np.testing.assert_array_equal(arrays["regret"][0], duel.regret)
    assert tuple(np.flatnonzero(arrays["updated"][0]) + 1) == grid.starts
    changes = (duel.policies[1:] != duel.policies[:-1]).sum(axis=(1, 2))
    switched = tuple(np.flatnonzero(arrays["switched"][0]) + 1)
    assert switched == tuple(np.array(grid.starts[1:])[changes > 0])
    assert arrays["local_switches"][0] == changes.sum()


def test_one_worker_two_workers_and_this_process_give_the_same_bytes(tmp_path):
    spec = experiment(rounds=11)
    for name, workers in (("inline", 0), ("one", 1), ("two", 2)):
        store = Store(tmp_path / name)
        if workers:
            with local_pool(workers) as pool:
                run_pieces(pieces_of(spec), store, pool)
        else:
            run_pieces(pieces_of(spec), store, Inline())
        save_runs(assemble(spec, store), tmp_path / f"{name}-results")
    for name in ("runs.npz", "summary.csv"):
        inline, one, two = (
            (tmp_path / f"{each}-results" / name).read_bytes() for each in ("inline", "one", "two")
        )
        assert inline == one == two
    pieces = [
        {n: data for n, data in files(tmp_path / each).items() if n.endswith(".npz")}
        for each in ("inline", "one", "two")
    ]
    assert pieces[0] == pieces[1] == pieces[2]
    assert len(pieces[0]) == 12


def test_a_second_run_computes_nothing(tmp_path):
    spec, store = experiment(rounds=12), Store(tmp_path)
    first, second = Inline(), Inline()
    run_pieces(pieces_of(spec), store, first)
    before = files(tmp_path)
    run_pieces(pieces_of(spec), store, second)
    assert {p.key for p in first.submitted} == {p.key for p in pieces_of(spec)}
    assert second.submitted == []
    assert files(tmp_path) == before


def test_more_rounds_reuse_the_full_pieces(tmp_path):
    store, again = Store(tmp_path), Inline()
    run_pieces(pieces_of(experiment(arms=EVERY, rounds=12)), store, Inline())
    longer = experiment(arms=EVERY, rounds=15)
    run_pieces(pieces_of(longer), store, again)
    assert [(piece.first, piece.last) for piece in again.submitted] == [(10, 15)]
    apart = computed(longer, tmp_path / "apart")
    np.testing.assert_array_equal(assemble(longer, store).regret, apart.regret)
    np.testing.assert_array_equal(
        apart.regret[:, :12], computed(experiment(arms=EVERY, rounds=12), tmp_path).regret
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"episodes": 25},
        {"arms": EVERY + "beta = 2"},
        {"arms": EVERY + "measure_radius = true"},
        {"world": WORLD + "delta = 0.3"},
        {"world": WORLD + "zeta = 0.1"},
        {"world": WORLD + 'reading = "compact"'},
    ],
)
def test_a_changed_spec_reuses_nothing(tmp_path, changes):
    store, again = Store(tmp_path), Inline()
    run_pieces(pieces_of(experiment(arms=EVERY)), store, Inline())
    run_pieces(pieces_of(experiment(**{"arms": EVERY} | changes)), store, again)
    assert len(again.submitted) == 1


def test_experiments_compute_what_they_share_once(tmp_path):
    executor, store = Inline(), Store(tmp_path)
    one = experiment(name="one", arms=EVERY + GRID)
    two = experiment(name="two", arms=GRID + RANDOM)
    run_pieces([*pieces_of(one), *pieces_of(two)], store, executor)
    assert sorted(piece.arm.name for piece in executor.submitted) == [
        "batch-4", "batch-8", "lsvi-ucb", "random",
    ]  # fmt: skip
    shared = assemble(one, store).regret[1:], assemble(two, store).regret[:2]
    np.testing.assert_array_equal(*shared)


def test_the_longest_pieces_start_first(tmp_path):
    executor = Inline()
    run_pieces(pieces_of(experiment(arms=RANDOM + GRID + EVERY)), Store(tmp_path), executor)
    names = [piece.arm.name for piece in executor.submitted]
    assert names == ["lsvi-ucb", "batch-8", "batch-4", "random"]


def test_progress_counts_what_was_there_and_what_is_new(tmp_path):
    spec, seen = experiment(arms=EVERY, rounds=12), []
    store = Store(tmp_path)
    run_pieces(pieces_of(experiment(arms=EVERY, rounds=10)), store, Inline())
    run_pieces(pieces_of(spec), store, Inline(), lambda done, piece: seen.append((done, piece)))
    assert [(done, piece and piece.first) for done, piece in seen] == [(1, None), (2, 10)]


def test_a_damaged_piece_is_an_error_that_names_its_file(tmp_path):
    spec = experiment(arms=EVERY)
    computed(spec, tmp_path)
    (path,) = tmp_path.glob("*.npz")
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="is not a readable result file") as caught:
        computed(spec, tmp_path)
    assert str(path) in str(caught.value)
    path.unlink()
    assert computed(spec, tmp_path).regret.shape == (1, 3, 24)


def test_what_was_finished_before_a_failure_is_kept(tmp_path):
    spec = experiment(arms=GRID + RANDOM)

    class Failing(Inline):
        def submit(self, fn, /, *args, **kwargs):
            if args[0].arm.name != "random":
                return super().submit(fn, *args, **kwargs)
            future = Future()
            future.set_exception(RuntimeError("lost"))
            return future

    seen = []
    with pytest.raises(RuntimeError, match="lost"):
        run_pieces(pieces_of(spec), Store(tmp_path), Failing(), lambda d, p: seen.append(p))
    kept = {path.stem for path in tmp_path.glob("*.npz")}
    assert kept == {piece.key for piece in seen if piece}
    again = Inline()
    run_pieces(pieces_of(spec), Store(tmp_path), again)
    assert {piece.key for piece in again.submitted} == {p.key for p in pieces_of(spec)} - kept


def test_a_piece_keeps_its_cpu_time_beside_its_numbers(tmp_path):
    (piece,) = pieces_of(experiment(arms=RANDOM))
    store = Store(tmp_path)
    store.save(piece, {"regret": np.zeros(2)}, 1.23456)
    assert store.cpu_seconds(piece) == 1.235
    assert json.loads((tmp_path / f"{piece.key}.json").read_text()) == {"cpu_seconds": 1.235}
    np.testing.assert_array_equal(store.load(piece)["regret"], np.zeros(2))
    (tmp_path / f"{piece.key}.json").unlink()
    assert store.cpu_seconds(piece) == 0.0


def test_the_pool_gives_the_environment_back(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with local_pool(1):
        assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
    with pytest.raises(ZeroDivisionError), local_pool(1):
        raise ZeroDivisionError
    assert os.environ["OMP_NUM_THREADS"] == "7"
