import json
import platform

import numpy as np
import pytest

import rareswitch
from experiments.miniature import EVERY, RANDOM, computed, experiment
from rareswitch.experiments.run import find_versions
from rareswitch.experiments.store import Computed, Store, cut_into_pieces, open_folder


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


def test_a_piece_keeps_its_cpu_time_and_versions_beside_its_numbers(tmp_path):
    (piece,) = cut_into_pieces(experiment(arms=RANDOM))
    store = Store(tmp_path)
    assert not store.has(piece)
    each = np.zeros((3, 24))
    arrays = {"regret": each, "deployed": each > 0, "switched": each > 0, "radius": np.zeros(3)}
    store.save(piece, Computed(arrays, 1.23456, find_versions()))
    assert store.has(piece)
    assert store.load(piece)[1:] == (1.235, find_versions())
    record = tmp_path / f"{piece.key}.json"
    assert json.loads(record.read_text()) == {"cpu_seconds": 1.235, "versions": find_versions()}
    np.testing.assert_array_equal(store.load(piece).arrays["regret"], each)
    for wrong in (
        {name: array for name, array in arrays.items() if name != "switched"},
        arrays | {"regret": each[:2]},
        arrays | {"regret": each[:, :5]},
        arrays | {"regret": np.full((3, 24), np.nan)},
        arrays | {"radius": np.zeros(2)},
    ):
        store.save(piece, Computed(wrong, 1.0, find_versions()))
        with pytest.raises(ValueError, match=r"npz must be a piece of 3 rounds.*move it away"):
            store.load(piece)
    store.save(piece, Computed(arrays, 1.0, find_versions()))
    record.write_text('{"cpu_seconds": NaN, "versions": {}}')
    with pytest.raises(ValueError, match="does not hold the time and versions of a piece"):
        store.load(piece)


def test_the_versions_are_those_of_this_process():
    found = find_versions()
    assert found["rareswitch"] == rareswitch.__version__
    assert found["numpy"] == np.__version__
    assert found["python"] == platform.python_version()
    assert {"blas", "machine"} < found.keys()


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"cpu_seconds": 1}', '{"cpu_seconds": "x", "versions": {}}', "\x00"]
)
def test_a_damaged_record_is_an_error_that_names_its_file_and_the_remedy(tmp_path, text):
    spec = experiment(arms=RANDOM)
    computed(spec, tmp_path)
    (record,) = tmp_path.glob("*.json")
    record.write_text(text)
    with pytest.raises(ValueError, match="move it away to compute the piece again") as caught:
        computed(spec, tmp_path)
    assert str(record) in str(caught.value)
    record.unlink()
    assert computed(spec, tmp_path).regret.shape == (1, 3, 24)
    assert record.exists()


@pytest.mark.parametrize("text", ['{"format": 1}', '{"format": 3}', "{}"])
def test_a_folder_of_another_format_is_refused_and_left_alone(tmp_path, text):
    (tmp_path / "rareswitch.json").write_text(text)
    with pytest.raises(ValueError, match=r"holds results in .*, and this .* format 2; choose"):
        open_folder(tmp_path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("rareswitch.json", text)]


@pytest.mark.parametrize("text", ["", "[]", "words"])
def test_a_damaged_marker_is_named(tmp_path, text):
    (tmp_path / "rareswitch.json").write_text(text)
    with pytest.raises(ValueError, match=r"rareswitch\.json is damaged"):
        open_folder(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("words")
    with pytest.raises(ValueError, match="file exists and is not a results folder"):
        open_folder(file)
    with pytest.raises(ValueError, match="cannot be written to"):
        open_folder(file / "below")
    assert file.read_text() == "words"


def test_an_empty_folder_and_one_of_results_are_entered(tmp_path):
    open_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    store = open_folder(tmp_path)
    assert not store.has(cut_into_pieces(experiment(arms=EVERY))[0])
    assert {p.name for p in tmp_path.iterdir()} == {"rareswitch.json", "notes.txt"}
