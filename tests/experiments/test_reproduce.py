import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import EVERY, RANDOM, Inline, experiment, small_paper
from rareswitch.experiments import figures, reproduce
from rareswitch.experiments.results import load_runs
from rareswitch.experiments.run import pieces_of


@pytest.fixture
def undrawn(monkeypatch):
    """Save no pictures: a moment for each format."""
    monkeypatch.setattr(figures, "save_figure", lambda figure, folder: None)


def schedule_of(arm, episodes):
    rule = arm.schedule
    if arm.name == "lsvi-ucb":
        return rs.EveryEpisode()
    if arm.name.startswith("batch"):
        return rs.UniformGrid(episodes=episodes, batches=rule.batches)
    return rs.DeterminantGrowth(eta=rule.eta)


def test_figure_1_is_what_simulate_gives_on_the_same_worlds_one_by_one(tmp_path, undrawn):
    (spec,) = small_paper("figure1", rounds=3)
    spec = spec.model_copy(update={"seed": 17})
    runs = reproduce.run([spec], tmp_path, Inline())["figure1"]
    means = {}
    for arm in spec.arms[:-1]:
        alone = []
        for round_ in range(3):
            seed = (17, round_)
            world = rs.instances.hard_to_learn(d=6, horizon=4, delta=0.35, seed=seed)
            rule = schedule_of(arm, spec.episodes)
            alone.append(rs.simulate(world, rule, episodes=spec.episodes, seed=seed))
        means[arm.name] = np.mean([run.average_regret for run in alone], axis=0)
        switches = np.mean([run.switches for run in alone])
        assert runs.switches[spec.arms.index(arm)].mean() == switches
    assert len(means) == 11
    rows = [row for row in runs.summary() if row["arm"] != "random"]
    assert len(rows) == 11 * 54
    for row in rows:
        assert row["mean"] == pytest.approx(means[row["arm"]][row["episode"] - 1], rel=1e-12)


def test_a_run_writes_a_folder_for_each_experiment(tmp_path):
    specs = [experiment(name="one", arms=EVERY), experiment(name="two", arms=RANDOM)]
    results = reproduce.run(specs, tmp_path / "new" / "out", Inline())
    assert list(results) == ["one", "two"]
    out = tmp_path / "new" / "out"
    assert {p.name for p in out.iterdir()} == {"rareswitch.json", "pieces", "one", "two"}
    for name in ("one", "two"):
        assert {p.name for p in (out / name).iterdir()} == {
            "manifest.json", "runs.npz", "summary.csv",
            "figure.png", "figure.pdf", "figure.svg",
        }  # fmt: skip
        np.testing.assert_array_equal(load_runs(out / name).regret, results[name].regret)


def test_progress_tells_the_pieces_done_of_all_that_differ(tmp_path, undrawn):
    specs = [
        experiment(name="one", arms=EVERY, rounds=12),
        experiment(name="two", arms=EVERY + RANDOM, rounds=12),
    ]
    seen = []
    reproduce.run(specs, tmp_path, Inline(), lambda *args: seen.append(args[:2]))
    assert seen == [(done, 4) for done in range(5)]
    seen.clear()
    reproduce.run(specs, tmp_path, Inline(), lambda *args: seen.append(args[:2]))
    assert seen == [(4, 4)]


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.txt").write_text("words")
    executor = Inline()
    with pytest.raises(ValueError, match="thesis exists and is not a results folder"):
        reproduce.run([experiment(arms=EVERY)], foreign, executor)
    assert [p.name for p in foreign.iterdir()] == ["chapter1.txt"]
    assert executor.submitted == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("words")
    with pytest.raises(ValueError, match="file exists and is not a results folder"):
        reproduce.open_folder(file)
    with pytest.raises(ValueError, match="cannot be written to"):
        reproduce.open_folder(file / "below")
    assert file.read_text() == "words"


def test_an_empty_folder_and_one_of_results_are_entered(tmp_path):
    reproduce.open_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    store = reproduce.open_folder(tmp_path)
    assert not store.has(pieces_of(experiment(arms=EVERY))[0])
    assert {p.name for p in tmp_path.iterdir()} == {"rareswitch.json", "notes.txt"}
