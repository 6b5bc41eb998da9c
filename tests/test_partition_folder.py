import json
import shutil

import numpy as np
import pytest

from oracles import ragged_episode
from rareswitch.core.log import LocalPartitions, LogPartition, LogStatistics
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe
from rareswitch.partition_folder import open_partition, save_partition

HORIZON, DIM = 3, 4
ARRAYS = ("features", "rewards", "lengths", "next_features")
FILES = ["steps.npy", *(f"stage-{h}/{name}.npy" for h in range(HORIZON) for name in ARRAYS)]


def some_episodes(count=20, *, longest=HORIZON):
    rng = np.random.default_rng(0)
    short = [ragged_episode(rng, horizon=longest, dim=DIM) for _ in range(count - 1)]
    return [*short, ragged_episode(rng, horizon=longest, dim=DIM, steps=longest)]


@pytest.fixture
def saved(tmp_path):
    """Save a partition and return its folder."""
    partition = LogPartition.from_episodes(some_episodes(), horizon=HORIZON)
    save_partition(partition, tmp_path / "part")
    return tmp_path / "part"


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
@pytest.mark.parametrize("longest", [1, HORIZON], ids=["stages without steps", "all stages"])
def test_a_partition_comes_back_as_it_was_saved(tmp_path, kind, longest):
    partition = LogPartition.from_episodes(some_episodes(longest=longest), horizon=HORIZON)
    folder = kind(tmp_path / "new" / "part")
    save_partition(partition, folder)
    opened = open_partition(folder)
    assert list(opened) == list(partition)
    assert (opened.horizon, opened.dim) == (HORIZON, DIM)
    assert isinstance(opened.stages[0].features, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        opened.stages[0].features[0] = 0.0
    recipe = Recipe.of(beta=0.5, exploration=None)
    fits = [fit(LogStatistics(LocalPartitions([p])), recipe, 1) for p in (partition, opened)]
    assert fits[0].to_bytes() == fits[1].to_bytes()
    save_partition(opened, tmp_path / "again")
    for name in ("partition.json", *FILES):
        again, first = (tmp_path / "again" / name, tmp_path / "new" / "part" / name)
        assert again.read_bytes() == first.read_bytes()


def test_a_partition_is_written_to_a_new_folder_only(saved):
    with pytest.raises(ValueError, match="folder must not exist yet"):
        save_partition(open_partition(saved), saved)


def refused(folder, message):
    with pytest.raises(ValueError, match=message) as caught:
        open_partition(folder)
    assert str(folder) in str(caught.value)


def test_a_folder_without_a_partition_is_named(tmp_path):
    refused(tmp_path, "it has no partition.json")
    refused(tmp_path / "absent", "it has no partition.json")


@pytest.mark.parametrize("name", FILES)
def test_a_partition_that_lost_an_array_names_it(saved, name):
    (saved / name).unlink()
    refused(saved, f"{name} cannot be read .*No such file")


@pytest.mark.parametrize("h", range(HORIZON))
def test_a_partition_that_lost_a_stage_names_it(saved, h):
    shutil.rmtree(saved / f"stage-{h}")
    refused(saved, f"stage-{h}/lengths.npy cannot be read")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "partition.json must be of format 1; got 2, written by another version"),
        ({"format": None}, "must be of format 1; got None"),
        ({"horizon": HORIZON - 1}, "steps.npy must count steps from 1 to the horizon 2"),
        ({"horizon": HORIZON + 1}, "stage-3/lengths.npy cannot be read"),
        ({"horizon": 10**9}, "stage-3/lengths.npy cannot be read"),
        ({"horizon": 0}, "partition.json is not that of a partition .horizon must be at least 1"),
        ({"horizon": "3"}, "partition.json is not .*horizon must be a whole number.*; got '3'"),
        ({"horizon": None}, "horizon must be a whole number"),
        ({"dim": DIM + 1}, r"features.npy must be float64 of shape \(\d+, 5\); got .*\(\d+, 4\)"),
        ({"dim": 10**9}, "features.npy must be float64 of shape"),
        ({"dim": -1}, "dim must be at least 1; got -1"),
    ],
)
def test_a_partition_that_says_another_thing_of_itself_is_refused(saved, change, message):
    about = saved / "partition.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | change))
    refused(saved, message)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"3", b"null", b"\xff", b"[" * 100_000])
def test_a_partition_json_that_is_none_is_named(saved, text):
    (saved / "partition.json").write_bytes(text)
    refused(saved, r"partition\.json is not that of a partition")


def test_a_stage_too_many_is_refused(tmp_path):
    partition = LogPartition.from_episodes(some_episodes(longest=2), horizon=HORIZON)
    save_partition(partition, tmp_path / "part")
    about = {"format": 1, "horizon": 2, "dim": DIM}
    (tmp_path / "part" / "partition.json").write_text(json.dumps(about))
    refused(tmp_path / "part", "must have the 2 stages of its partition.json; got more")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.astype(np.float32),
        lambda a: a.astype(a.dtype.newbyteorder()),
        lambda a: a.astype(str),
        lambda a: a[..., None],
        lambda a: np.concatenate([a, np.ones((1, *a.shape[1:]), a.dtype)]),
    ],
    ids=["float32", "other endian", "text", "an axis more", "a row more"],
)
def test_an_array_of_another_kind_or_shape_is_refused_before_it_is_used(saved, name, change):
    np.save(saved / name, change(np.load(saved / name)))
    refused(saved, r"\.npy must (be|count)")


@pytest.mark.parametrize("steps", [[0, 3], [-1, 3], [1, 4], []])
def test_steps_out_of_range_are_refused(saved, steps):
    np.save(saved / "steps.npy", np.array(steps, np.int64))
    refused(saved, "steps.npy must count steps from 1 to the horizon 3")


@pytest.mark.parametrize("value", [-1, 0])
def test_a_next_state_without_actions_is_refused(saved, value):
    path = saved / "stage-0" / "lengths.npy"
    lengths = np.load(path)
    lengths[-1] = value  # the last episode goes on
    np.save(path, lengths)
    refused(saved, "lengths.npy must count the actions after every step")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (2305843009213693952,)}",
        f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({10**40},)}}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': 20}",
        "{'descr': '<i8', 'fortran_order': True, 'shape': (20,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (20,)}",
        "{'descr': 'nothing', 'fortran_order': False, 'shape': (20,)}",
        "{}",
        "(" * 5000,
        "\N{NULL}" * 40,
    ],
)
def test_a_hostile_header_is_refused_before_memory_is_taken(saved, header):
    text = header.encode("latin1")
    magic = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    (saved / "steps.npy").write_bytes(magic + text + b"\1" * 160)
    refused(saved, "steps.npy (cannot be read|must be int64|must hold)")


@pytest.mark.parametrize("name", FILES)
def test_a_cut_array_is_refused(saved, name):
    (saved / name).write_bytes((saved / name).read_bytes()[:-1])
    refused(saved, rf"{name} (must hold|cannot be read)")


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"PK\x03\x04", b"text"])
def test_a_file_that_is_no_array_is_named(saved, data):
    (saved / "stage-1" / "rewards.npy").write_bytes(data)
    refused(saved, "stage-1/rewards.npy cannot be read")
