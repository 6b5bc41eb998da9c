import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import (
    EVERY,
    GRID,
    RANDOM,
    WORLD,
    Inline,
    computed,
    experiment,
    small_paper,
)
from rareswitch.compute.local import local_pool
from rareswitch.experiments import load, worlds
from rareswitch.experiments import run as running
from rareswitch.experiments import store as pieces
from rareswitch.experiments.load import paper_specs, parse_spec
from rareswitch.experiments.results import assemble, load_results, save_results
from rareswitch.experiments.run import find_versions, run, run_pieces
from rareswitch.experiments.store import Store, cut_into_pieces
from rareswitch.support import drawing


@pytest.fixture
def undrawn(monkeypatch):
    """Save no pictures: a moment for each format."""
    monkeypatch.setattr(drawing, "save_figure", lambda figure, folder: None)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def schedule_of(arm):
    rule = arm.schedule
    if arm.name == "lsvi-ucb":
        return rs.EveryEpisode()
    if arm.name.startswith("batch"):
        return rs.UniformGrid(batches=rule["batches"])
    return rs.DeterminantGrowth(eta=rule["eta"])


def test_the_exploration_of_the_page_runs(tmp_path, undrawn, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "experiments" / "own-experiments.md"
    blocks = re.findall(r"```(\w+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    code, arms = (
        next(text for kind, text in blocks if kind == language and "HeavyTails" in text)
        for language in ("python", "toml")
    )
    first = next(text for kind, text in blocks if kind == "toml")
    monkeypatch.setitem(sys.modules, "my_explorations", None)
    del sys.modules["my_explorations"]
    (tmp_path / "my_explorations.py").write_text(code)
    (tmp_path / "my.toml").write_text(first + arms)
    scale = {"rounds": 1, "episodes": 40}
    spec = load.load_spec(tmp_path / "my.toml", scale, allow=["my_explorations"])
    spec = replace(spec, arms=spec.arms[-2:])
    assert [arm.name for arm in spec.arms] == ["heavy-3.0", "heavy-10.0"]
    assert [arm.recipe.exploration.freedom for arm in spec.arms] == [3.0, 10.0]
    found = run([spec], tmp_path / "out", Inline())["small"]
    assert (found.deployments == 10).all()


def test_figure_1_is_what_simulate_gives_on_the_same_worlds_one_by_one(tmp_path, undrawn):
    (spec,) = small_paper("figure1", rounds=3)
    spec = replace(spec, seed=17)
    runs = run([spec], tmp_path, Inline())["figure1"]
    means = {}
    for arm in spec.arms[:-1]:
        alone = []
        for round_ in range(3):
            seed = (17, round_)
            world = rs.worlds.hard_to_learn(d=6, horizon=4, delta=0.35, seed=seed)
            recipe = rs.Recipe.paper(1.0)
            alone.append(
                rs.simulate(world, schedule_of(arm), recipe, episodes=spec.episodes, seed=seed)
            )
        means[arm.name] = np.mean([one.average_regret for one in alone], axis=0)
        switches = np.mean([one.switches for one in alone])
        assert runs.switches[spec.arms.index(arm)].mean() == switches
    assert len(means) == 11
    rows = [row for row in runs.summary() if row["arm"] != "random"]
    assert len(rows) == 11 * 54
    for row in rows:
        assert row["mean"] == pytest.approx(means[row["arm"]][row["episode"] - 1], rel=1e-12)


def test_a_run_writes_a_folder_for_each_experiment(tmp_path):
    specs = [experiment(name="one", arms=EVERY), experiment(name="two", arms=RANDOM)]
    results = run(specs, tmp_path / "new" / "out", Inline())
    assert list(results) == ["one", "two"]
    out = tmp_path / "new" / "out"
    assert {p.name for p in out.iterdir()} == {"rareswitch.json", "pieces", "one", "two"}
    for name in ("one", "two"):
        assert {p.name for p in (out / name).iterdir()} == {
            "manifest.json", "runs.npz", "summary.csv",
            "figure.png", "figure.pdf", "figure.svg",
        }  # fmt: skip
        np.testing.assert_array_equal(load_results(out / name).regret, results[name].regret)


def test_progress_tells_the_pieces_done_of_all_that_differ(tmp_path, undrawn):
    specs = [
        experiment(name="one", arms=EVERY, rounds=12),
        experiment(name="two", arms=EVERY + RANDOM, rounds=12),
    ]
    seen = []
    run(specs, tmp_path, Inline(), lambda *args: seen.append(args[:2]))
    assert seen == [(done, 4) for done in range(5)]
    seen.clear()
    run(specs, tmp_path, Inline(), lambda *args: seen.append(args[:2]))
    assert seen == [(4, 4)]


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.txt").write_text("words")
    executor = Inline()
    with pytest.raises(ValueError, match="thesis exists and is not a results folder"):
        run([experiment(arms=EVERY)], foreign, executor)
    assert [p.name for p in foreign.iterdir()] == ["chapter1.txt"]
    assert executor.submitted == []


OWN_RULE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Weekly:
    every: int = 7

    def due(self, clock):
        return clock.episode - clock.deployed_at >= self.every
"""


def test_a_rule_of_your_own_runs_from_toml_to_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_rules.py").write_text(OWN_RULE)
    arms = EVERY.replace("lsvi-ucb", "weekly-{every}").replace(
        '"every-episode"', '"own_rules:Weekly", every = [7, 12]'
    )
    spec = experiment(arms=arms + EVERY, figure="pareto")
    with local_pool(1) as pool:
        results = run([spec], tmp_path / "out", pool)["mini"]
    for i, every in enumerate((7, 12)):
        dates = np.arange(1, 25, every) - 1
        expected = np.isin(np.arange(24), dates)
        assert (results.deployed[i] == expected).all()
    assert [arm.family.label for arm in spec.arms] == ["Weekly", "Weekly", "LSVI-UCB"]
    spelled = experiment(arms=arms.replace("every = [7, 12]", "every = 7").replace("{every}", "7"))
    plain = experiment(arms=arms.replace(", every = [7, 12]", "").replace("{every}", "7"))
    assert plain.digest == spelled.digest
    assert (tmp_path / "out" / "mini" / "figure.svg").exists()


def test_results_of_the_paper_are_not_replaced_by_those_of_a_namesake(tmp_path, undrawn):
    scale = {"rounds": 1, "episodes": 36}
    text = paper_specs()["lower-bound"].replace("36, 72, 144, 360, 720", "36")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "paper_specs", lambda: {"lower-bound": text})
        paper = parse_spec(text, source="paper", overrides=scale)
        mine = parse_spec(text.replace("[18, 36]", "[18, 30]"), source="mine", overrides=scale)
        run([paper], tmp_path, Inline())
        before = files(tmp_path / "lower-bound")
        with pytest.raises(ValueError, match=r"holds the package's experiment .* another name or"):
            run([mine], tmp_path, executor := Inline())
        assert executor.submitted == []
        assert files(tmp_path / "lower-bound") == before
        run([replace(paper, rounds=2)], tmp_path, Inline())
        run([mine], tmp_path / "elsewhere", Inline())
        run([replace(mine, seed=1)], tmp_path / "elsewhere", Inline())


def test_a_manifest_lists_all_versions_found_in_the_pieces(tmp_path, undrawn):
    spec = experiment(arms=EVERY + RANDOM)
    run([spec], tmp_path, Inline())
    assert load_results(tmp_path / "mini").versions == (find_versions(),)
    record = next((tmp_path / "pieces").glob("*.json"))
    found = json.loads(record.read_text())
    found["versions"]["numpy"] = "1.0"
    record.write_text(json.dumps(found))
    run([spec], tmp_path, Inline())
    both = load_results(tmp_path / "mini").versions
    assert {each["numpy"] for each in both} == {"1.0", np.__version__}


def test_one_worker_two_workers_and_this_process_give_the_same_bytes(tmp_path):
    spec = experiment(rounds=11)
    for name, workers in (("inline", 0), ("one", 1), ("two", 2)):
        store = Store(tmp_path / name)
        if workers:
            with local_pool(workers) as pool:
                run_pieces(cut_into_pieces(spec), store, pool)
        else:
            run_pieces(cut_into_pieces(spec), store, Inline())
        save_results(assemble(spec, cut_into_pieces(spec), store), tmp_path / f"{name}-results")
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
    run_pieces(cut_into_pieces(spec), store, first)
    before = files(tmp_path)
    run_pieces(cut_into_pieces(spec), store, second)
    assert {p.key for p in first.submitted} == {p.key for p in cut_into_pieces(spec)}
    assert second.submitted == []
    assert files(tmp_path) == before


def test_more_rounds_reuse_the_full_pieces(tmp_path):
    store, again = Store(tmp_path), Inline()
    run_pieces(cut_into_pieces(experiment(arms=EVERY, rounds=12)), store, Inline())
    longer = experiment(arms=EVERY, rounds=15)
    run_pieces(cut_into_pieces(longer), store, again)
    assert [(piece.first, piece.last) for piece in again.submitted] == [(10, 15)]
    apart = computed(longer, tmp_path / "apart")
    np.testing.assert_array_equal(
        assemble(longer, cut_into_pieces(longer), store).regret, apart.regret
    )
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
    run_pieces(cut_into_pieces(experiment(arms=EVERY)), store, Inline())
    run_pieces(cut_into_pieces(experiment(**{"arms": EVERY} | changes)), store, again)
    assert len(again.submitted) == 1


def test_experiments_compute_what_they_share_once(tmp_path):
    executor, store = Inline(), Store(tmp_path)
    one = experiment(name="one", arms=EVERY + GRID)
    two = experiment(name="two", arms=GRID + RANDOM)
    run_pieces([*cut_into_pieces(one), *cut_into_pieces(two)], store, executor)
    assert sorted(piece.arm.name for piece in executor.submitted) == [
        "batch-4", "batch-8", "lsvi-ucb", "random",
    ]  # fmt: skip
    first, second = (assemble(spec, cut_into_pieces(spec), store) for spec in (one, two))
    np.testing.assert_array_equal(first.regret[1:], second.regret[:2])


def test_the_longest_pieces_start_first(tmp_path):
    executor = Inline()
    run_pieces(cut_into_pieces(experiment(arms=RANDOM + GRID + EVERY)), Store(tmp_path), executor)
    names = [piece.arm.name for piece in executor.submitted]
    assert names == ["lsvi-ucb", "batch-8", "batch-4", "random"]


def test_progress_counts_what_was_there_and_what_is_new(tmp_path):
    spec, seen = experiment(arms=EVERY, rounds=12), []
    store = Store(tmp_path)
    run_pieces(cut_into_pieces(experiment(arms=EVERY, rounds=10)), store, Inline())
    run_pieces(
        cut_into_pieces(spec),
        store,
        Inline(),
        lambda done, total, piece: seen.append((done, piece)),
    )
    assert [(done, piece and piece.first) for done, piece in seen] == [(1, None), (2, 10)]


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
        run_pieces(
            cut_into_pieces(spec), Store(tmp_path), Failing(), lambda *told: seen.append(told[-1])
        )
    kept = {path.stem for path in tmp_path.glob("*.npz")}
    assert kept == {piece.key for piece in seen if piece}
    again = Inline()
    run_pieces(cut_into_pieces(spec), Store(tmp_path), again)
    assert {piece.key for piece in again.submitted} == {p.key for p in cut_into_pieces(spec)} - kept


@pytest.fixture
def counted(monkeypatch):
    """Count the calls of a function of a module."""
    counts = {}

    def count(module, name):
        function = getattr(module, name)

        def call(*args, **kwargs):
            counts[name] = counts.get(name, 0) + 1
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    return count, counts


def test_worlds_are_built_once_and_pieces_are_cut_and_hashed_once(tmp_path, undrawn, counted):
    count, counts = counted
    worlds.build_world.cache_clear()
    count(worlds.worlds, "hard_to_learn")
    count(running, "cut_into_pieces")
    count(pieces, "own_code")  # once for each key
    count(load, "read_experiment")
    spec = experiment(rounds=2)
    run([spec], tmp_path, Inline())
    load_results(tmp_path / "mini").switch_limit(spec.arms[3])
    assert len(spec.arms) == 6
    assert counts == {
        "hard_to_learn": 2, "cut_into_pieces": 1, "own_code": 6, "read_experiment": 1,
    }  # fmt: skip


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Return the folder of a copy of the package, in which digests of its code are computed."""
    package = Path(rs.__file__).parent
    copy = shutil.copytree(package, tmp_path / "copy", ignore=lambda *_: {"__pycache__"})
    monkeypatch.setattr(rs, "__file__", str(copy / "__init__.py"))
    pieces.code_digest.cache_clear()
    yield copy
    pieces.code_digest.cache_clear()


def edit(path):
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    pieces.code_digest.cache_clear()


def test_results_of_other_code_are_not_used(tmp_path, undrawn, code):
    spec = experiment(arms=EVERY)
    first, same, other = Inline(), Inline(), Inline()
    run([spec], tmp_path / "out", first)
    pieces.code_digest.cache_clear()
    run([spec], tmp_path / "out", same)
    edit(code / "core" / "gram.py")
    run([spec], tmp_path / "out", other)
    assert [len(executor.submitted) for executor in (first, same, other)] == [1, 0, 1]
    store = Store(tmp_path / "out" / "pieces")
    both = [store.load(executor.submitted[0]) for executor in (first, other)]
    assert len({found.versions["code"] for found in both}) == 2


def test_a_worker_with_other_code_is_refused(code):
    (piece,) = cut_into_pieces(experiment(arms=EVERY))
    edit(code / "sim" / "tally.py")
    with pytest.raises(BrokenExecutor, match=r"worker .* runs other code of rareswitch 0\.1\.0"):
        running.compute(piece)


def test_the_digest_of_the_code_covers_every_file_of_the_package(code):
    digests, some = [pieces.code_digest()], sorted(code.rglob("*.py"))[::10]
    for path in some:
        edit(path)
        digests.append(pieces.code_digest())
    (code / "core" / "gram.py").rename(code / "core" / "gran.py")  # in the same place of the order
    pieces.code_digest.cache_clear()
    digests.append(pieces.code_digest())
    assert len(set(digests)) == len(digests) > 10


def test_experiments_run_from_a_source_tree_that_is_not_installed(tmp_path):
    code = """
import importlib.metadata

def refuse(name):
    raise importlib.metadata.PackageNotFoundError(name)

importlib.metadata.version = importlib.metadata.distribution = refuse
from experiments.test_run import *
results = run([experiment(arms=EVERY)], Path("out"), Inline())["mini"]
assert results.versions[0]["rareswitch"] == rs.__version__
"""
    paths = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(rs.__file__).parents[1])])
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
    )
    assert (tmp_path / "out" / "mini" / "figure.svg").exists()
