import csv
import json
import pickle
import sys

import numpy as np
import pytest

from experiments.miniature import EVERY, GRID, RANDOM, computed, experiment, handmade
from rareswitch.experiments.results import (
    COLUMNS,
    MEASURED,
    assemble,
    load_results,
    save_results,
)
from rareswitch.experiments.run import find_versions
from rareswitch.experiments.spec import canonical_json
from rareswitch.experiments.store import Store, cut_into_pieces
from rareswitch.support.archive import load_archive, save_archive
from rareswitch.support.streams import Stream, generator


@pytest.fixture
def saved(tmp_path):
    runs = computed(experiment(seed=4), tmp_path / "pieces")
    save_results(runs, tmp_path / "out")
    return runs, tmp_path / "out"


def spread(spec, seed=0):
    """Return runs with independent numbers everywhere."""
    rng = np.random.default_rng(seed)
    shape = (len(spec.arms), spec.rounds, spec.episodes)
    runs = handmade(spec, rng.random(shape))
    runs.deployed[:] = rng.random(shape) < 0.5
    runs.switched[:] = runs.deployed & (rng.random(shape) < 0.5)
    return runs


def altered(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_saved_runs_load_as_they_were(saved):
    runs, folder = saved
    loaded = load_results(folder)
    assert loaded.experiment == runs.experiment
    for name in MEASURED:
        one, other = getattr(loaded, name), getattr(runs, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
        assert one.dtype == other.dtype
    assert loaded.logdet_growth.keys() == runs.logdet_growth.keys()
    for name, growth in runs.logdet_growth.items():
        np.testing.assert_array_equal(loaded.logdet_growth[name], growth)
    np.testing.assert_allclose(loaded.cpu_seconds, runs.cpu_seconds, atol=1e-3)
    assert loaded.summary() == runs.summary()


def test_the_same_results_are_the_same_bytes(saved, tmp_path):
    runs, folder = saved
    save_results(load_results(folder), tmp_path / "again")
    again = computed(runs.experiment, tmp_path / "other-pieces")
    save_results(again, tmp_path / "anew")
    for name in ("runs.npz", "summary.csv"):
        first = (folder / name).read_bytes()
        assert (tmp_path / "again" / name).read_bytes() == first
        assert (tmp_path / "anew" / name).read_bytes() == first


def test_arms_of_other_horizons_keep_their_own_growth(tmp_path):
    arms = EVERY + RANDOM + "world = { horizon = 5 }"
    save_results(computed(experiment(arms=arms), tmp_path), tmp_path)
    growth = load_results(tmp_path).logdet_growth
    assert {name: array.shape for name, array in growth.items()} == {
        "lsvi-ucb": (3, 3),
        "random": (3, 5),
    }


def test_average_final_switches_and_deployments_are_sums_of_what_was_recorded():
    runs = spread(experiment(rounds=5))
    np.testing.assert_allclose(runs.final, runs.regret.mean(axis=-1))
    np.testing.assert_allclose(runs.average[..., 9], runs.regret[..., :10].mean(axis=-1))
    np.testing.assert_array_equal(runs.switches, runs.switched.sum(axis=-1))
    np.testing.assert_array_equal(runs.deployments, runs.deployed.sum(axis=-1))


@pytest.mark.parametrize("episodes", [24, 250, 1001])
def test_the_summary_is_what_numpy_computes(episodes):
    spec = experiment(arms=GRID, rounds=6, episodes=episodes, seed=8)
    runs = spread(spec)
    rows = runs.summary()
    assert list(rows[0]) == list(COLUMNS)
    drawn = generator(8, Stream.BOOTSTRAP).integers(0, 6, (2000, 6))
    step = max(1, episodes // 250)
    points = sorted({*range(step, episodes + 1, step), episodes})
    assert [(row["arm"], row["episode"]) for row in rows] == [
        (arm.name, k) for arm in spec.arms for k in points
    ]
    for row in rows[:: len(points) // 7]:
        i, k = spec.arms.index(next(a for a in spec.arms if a.name == row["arm"])), row["episode"]
        values = runs.regret[i, :, :k].mean(axis=-1)
        assert row["mean"] == pytest.approx(values.mean())
        low, high = np.percentile(values, [20, 80])
        assert (row["q20"], row["q80"]) == (pytest.approx(low), pytest.approx(high))
        means = values[drawn].mean(axis=1)
        low, high = np.percentile(means, [2.5, 97.5])
        assert (row["ci_low"], row["ci_high"]) == (pytest.approx(low), pytest.approx(high))
        assert row["q20"] < row["q80"]
        assert row["ci_low"] < row["mean"] < row["ci_high"]
        assert row["deployments"] == pytest.approx(runs.deployed[i, :, :k].sum() / 6)
        assert row["switches"] == pytest.approx(runs.switched[i, :, :k].sum() / 6)


def test_summary_csv_holds_the_summary_exactly(saved):
    runs, folder = saved
    with open(folder / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "arm", "episode", "mean", "q20", "q80", "ci_low", "ci_high", "deployments", "switches",
    ]  # fmt: skip
    read = [{k: v if k == "arm" else float(v) for k, v in row.items()} for row in rows]
    assert read == runs.summary()
    assert b"\r" not in (folder / "summary.csv").read_bytes()


def test_the_summary_becomes_a_data_frame_of_pandas_or_polars(saved):
    runs, _ = saved
    rows = runs.summary()
    pandas, polars = runs.to_pandas(), runs.to_polars()
    assert tuple(pandas.columns) == tuple(polars.columns) == COLUMNS
    assert pandas.to_dict("records") == rows
    assert polars.to_dicts() == rows


def test_the_manifest_tells_what_was_run_with_what(saved):
    runs, folder = saved
    manifest = json.loads((folder / "manifest.json").read_text())
    spec = runs.experiment
    assert manifest["experiment"] == "mini"
    assert manifest["digest"] == spec.digest
    assert manifest["spec"] == json.loads(canonical_json(spec.words))
    assert manifest["format"] == 2
    assert manifest["versions"] == [find_versions()]
    assert manifest["seeds"] == {
        "root": 4,
        "rounds": 3,
        "streams": {stream.name: int(stream) for stream in Stream},
    }
    seconds = manifest["timings"]["cpu_seconds"]
    assert list(seconds) == [arm.name for arm in spec.arms]
    assert all(value >= 0.0 for value in seconds.values())


def test_the_cpu_time_of_an_arm_is_that_of_its_pieces(tmp_path):
    spec = experiment(arms=EVERY + RANDOM, rounds=12)
    computed(spec, tmp_path)
    pieces = cut_into_pieces(spec)
    for i, piece in enumerate(pieces):
        (tmp_path / f"{piece.key}.json").write_text(
            json.dumps({"cpu_seconds": 10.0**i, "versions": {}})
        )
    runs = assemble(spec, pieces, Store(tmp_path))
    assert runs.cpu_seconds.tolist() == [11.0, 1100.0]
    save_results(runs, tmp_path)
    assert load_results(tmp_path).cpu_seconds.tolist() == [11.0, 1100.0]


def test_the_slope_is_over_the_last_four_fifths_of_the_episodes():
    spec = experiment(arms=EVERY, episodes=200)
    k = np.arange(1, 201)
    average = np.where(k < 40, 5.0, 5.0 * (k / 40.0) ** -0.5)
    regret = np.diff(average * k, prepend=0.0)
    np.testing.assert_allclose(handmade(spec, [regret]).slope(0), -0.5, atol=1e-9)


def test_arms_are_found_by_their_family():
    runs = spread(experiment())
    assert [(i, arm.name) for i, arm in runs.arms_of("determinant-growth")] == [
        (3, "rareswitch-2"),
        (4, "rareswitch-8"),
    ]
    assert runs.arms_of("capped") == []


def test_the_bootstrap_depends_on_the_seed_of_the_experiment_alone():
    one, same, other = (spread(experiment(seed=s), seed=t) for s, t in ((1, 0), (1, 5), (2, 0)))
    np.testing.assert_array_equal(one.weights, same.weights)
    assert (one.weights != other.weights).any()


def test_a_folder_without_results_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ValueError, match=r"holds no results: it has no manifest\.json") as it:
            load_results(folder)
        assert str(folder) in str(it.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "in an older format"),
        ('{"format": 1, "spec": {}}', "in format 1"),
        ("[]", "is damaged"),
        ("no json", "is damaged"),
        ('{"format": 2, "spec": {}}', "is not the manifest of an experiment"),
        ('{"format": 2, "spec": 3, "digest": "x"}', "is not the manifest of an experiment"),
    ],
)
def test_a_manifest_of_something_else_is_refused(tmp_path, text, words):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        load_results(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_manifest_without_the_time_of_an_arm_is_refused(saved):
    _, folder = saved
    altered(folder, timings={"cpu_seconds": {}})
    with pytest.raises(ValueError, match="timings must hold the cpu_seconds of every arm"):
        load_results(folder)


def test_an_altered_spec_or_digest_is_refused(saved):
    runs, folder = saved
    spec = runs.experiment.words
    altered(folder, spec=spec | {"seed": 5})
    with pytest.raises(ValueError, match="digest does not match the spec"):
        load_results(folder)
    altered(folder, spec=spec, digest="0" * 64)
    with pytest.raises(ValueError, match=r"manifest\.json .*digest does not match"):
        load_results(folder)


def test_missing_or_damaged_numbers_are_refused(saved):
    _, folder = saved
    path = folder / "runs.npz"
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match="is not a readable result file") as caught:
        load_results(folder)
    assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(ValueError, match=r"it has no runs\.npz"):
        load_results(folder)


def test_numbers_of_another_shape_are_refused(saved):
    _, folder = saved
    path = folder / "runs.npz"
    arrays = load_archive(path)
    save_archive(path, arrays | {"regret": arrays["regret"][:, :2]})
    with pytest.raises(ValueError, match=r"'regret': \(6, 3, 24\).*got .*'regret': \(6, 2, 24\)"):
        load_results(folder)
    for name in arrays.keys() - {"digest"}:
        save_archive(path, {key: array for key, array in arrays.items() if key != name})
        with pytest.raises(ValueError, match=r"runs\.npz must hold arrays of the shapes"):
            load_results(folder)


def test_numbers_of_another_spec_are_refused(saved):
    _, folder = saved
    path = folder / "runs.npz"
    save_archive(path, load_archive(path) | {"digest": np.array("0" * 64)})
    with pytest.raises(
        ValueError, match=r"runs\.npz belongs to another spec than .*manifest\.json"
    ):
        load_results(folder)


def test_an_arm_is_compared_with_the_only_lsvi_ucb_or_the_first_arm():
    runs = spread(experiment(arms=GRID + EVERY + RANDOM, rounds=6))
    assert runs.arms[runs.baseline].name == "lsvi-ucb"
    rows = runs.compare()
    assert [row["name"] for row in rows] == ["batch-4", "batch-8", "lsvi-ucb", "random"]
    assert rows[2]["difference"] is None
    drawn = generator(0, Stream.BOOTSTRAP).integers(0, 6, (2000, 6))
    for i, base, row in [(0, 2, rows[0]), (3, 0, runs.compare(baseline="batch-4")[3])]:
        difference = runs.regret[i].mean(axis=-1) - runs.regret[base].mean(axis=-1)
        low, high = np.percentile(difference[drawn].mean(axis=1), [2.5, 97.5])
        assert row["difference"] == pytest.approx((difference.mean(), low, high))
    mixture = EVERY.replace("lsvi-ucb", "mixture") + 'exploration = { kind = "ensemble" }\n'
    for arms, name in [
        (GRID, "batch-4"),
        (GRID + EVERY + EVERY.replace("lsvi-ucb", "another"), "batch-4"),
        (GRID + mixture + EVERY, "lsvi-ucb"),
        (GRID + mixture, "batch-4"),
    ]:
        runs = spread(experiment(arms=arms))
        assert runs.arms[runs.baseline].name == name
    with pytest.raises(ValueError, match=r"baseline must be one of 'batch-4', 'batch-8'.*got 'x'"):
        runs.compare(baseline="x")


def test_arms_on_another_world_have_no_difference():
    runs = spread(experiment(arms=EVERY + GRID + "world = { zeta = 0.1 }"))
    assert [row["difference"] is None for row in runs.compare()] == [True, True, True]


def test_results_are_shown_in_less_than_a_screen(saved):
    runs, _ = saved
    means = runs.final.mean(axis=1)
    least, most = (runs.arms[i].name for i in (means.argmin(), means.argmax()))
    assert repr(runs) == (
        f"Results(mini: 6 arms, 3 rounds of 24 episodes; average regret {means.min():.4g} "
        f"({least}) to {means.max():.4g} ({most}))"
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_the_command_that_installs_it(saved, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"{library} must be installed: pip install {library}"):
        getattr(saved[0], f"to_{library}")()


def test_reading_results_imports_no_code_that_they_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    code = "class Never:\n    def due(self, clock):\n        return False\n"
    (tmp_path / "rule_of_results.py").write_text(code)
    within = 'capped", switches = 2, schedule = { kind = "rule_of_results:Never" }, x = "'
    arms = EVERY + "".join(
        EVERY.replace("lsvi-ucb", name).replace('"LSVI-UCB"', f'"{name}"').replace(kind, other)
        for name, kind, other in (
            ("own", "every-episode", "rule_of_results:Never"),
            ("within", '"every-episode"', f'"{within}"'.replace(', x = ""', "")),
        )
    )
    runs = computed(experiment(arms=arms), tmp_path / "pieces")
    save_results(runs, tmp_path / "out")
    del sys.modules["rule_of_results"]
    (tmp_path / "rule_of_results.py").write_text("raise AssertionError('imported')")
    loaded = load_results(tmp_path / "out")
    assert "rule_of_results" not in sys.modules
    assert loaded.experiment == runs.experiment
    assert [arm.family.label for arm in loaded.arms] == ["LSVI-UCB", "Never", "capped"]
    assert [loaded.switch_limit(arm) for arm in loaded.arms] == [23, 23, 23]
    assert loaded.summary() == runs.summary()
    assert pickle.loads(pickle.dumps(loaded.experiment)) == runs.experiment
    assert "rule_of_results" not in sys.modules
