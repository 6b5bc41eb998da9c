import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from trajectory_strategies import assert_same, logs

from rareswitch.trajectories import Trajectory, parquet, read_log, write_log


def trajectory(value=0.0, **change):
    steps = {
        "observations": [[value, 1.0]] * 3, "actions": [0, 1], "rewards": [value, 0.5],
        "terminated": True,
    }  # fmt: skip
    return Trajectory(**steps | change)


@given(log=logs())
def test_what_is_written_is_read_to_the_last_bit(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    assert write_log(folder / "log.parquet", log) == len(log)
    write_log(folder / "log.jsonl", log)
    read = [list(read_log(folder / name)) for name in ("log.parquet", "log.jsonl")]
    for ours, of_parquet, of_lines in zip(log, *read, strict=True):
        assert_same(of_parquet, ours)
        assert_same(of_lines, of_parquet)


def test_logs_are_written_and_read_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_STEPS", 6)
    monkeypatch.setattr(parquet, "READ_ROWS", 2)
    path, log = tmp_path / "log.parquet", [trajectory(float(k)) for k in range(8)]
    asked = []

    def played():
        for each in log:
            asked.append(each)
            yield each

    assert write_log(path, played()) == len(asked) == 8
    assert pq.ParquetFile(path).num_row_groups == 3  # of 3, 3 and 2 episodes
    assert list(read_log(path)) == log


def test_a_large_log_is_never_whole_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_STEPS", 2**12)
    rng = np.random.default_rng(0)
    path = tmp_path / "log.parquet"

    def played(count):
        for _ in range(count):
            yield trajectory(observations=rng.random((513, 8)), actions=np.zeros(512, int),
                             rewards=np.zeros(512))  # fmt: skip

    before = pa.total_allocated_bytes()
    write_log(path, played(250))
    size, most = 250 * 513 * 8 * 8, 0
    assert path.stat().st_size > size / 2
    for each in read_log(path):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(each) == 512
    assert most < size / 2


def test_a_file_is_there_once_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_STEPS", 1)
    path = tmp_path / "log.parquet"

    def played():
        yield trajectory()
        yield trajectory()
        assert not path.exists()
        assert len(list(tmp_path.iterdir())) == 1  # what is written so far
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_log(path, played())
    assert list(tmp_path.iterdir()) == []
    write_log(path, [])
    assert list(read_log(path)) == []
    assert [each.name for each in tmp_path.iterdir()] == ["log.parquet"]


def test_the_order_of_the_parts_of_an_observation_does_not_matter(tmp_path):
    path = tmp_path / "log.parquet"
    log = [
        trajectory(observations=[{"a": 1, "b": 0.5}] * 3),
        trajectory(observations=[{"b": 0.5, "a": 2}] * 3),
    ]
    write_log(path, log)
    assert list(read_log(path)) == log


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            trajectory(observations=[[1, 2]] * 3),
            r"trajectory 1 has \[\[1, 2\].*JSON lines take all",
        ),
        (trajectory(observations=[1.0, 2.0, 3.0]), "trajectory 1 has .1.0, 2.0, 3.0"),
        (trajectory(observations=["a", "b", "c"]), "observations must all be of the type list"),
        (trajectory(key=3), "key must all be of the type string, .* trajectory 1 has 3"),
    ],
)
def test_observations_of_another_type_are_refused_and_not_turned(
    tmp_path, monkeypatch, second, message
):
    monkeypatch.setattr(parquet, "GROUP_STEPS", 1)
    path = tmp_path / "log.parquet"
    with pytest.raises(ValueError, match=message):
        write_log(path, [trajectory(key="a"), second])
    assert not path.exists()


def test_observations_of_two_types_in_one_episode_are_refused(tmp_path):
    for parts in ([(1, 2), (1, 2), (1.5, 2)], [{"a": 1}, {"a": 1}, {"b": 1}], [1, "a", 2]):
        with pytest.raises(ValueError, match=r"observations must all be .*trajectory 0|convert"):
            write_log(tmp_path / "log.parquet", [trajectory(observations=parts)])
        assert list(tmp_path.iterdir()) == []


def test_a_key_too_large_for_a_column_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"key must all be of the type int64.*0 has 18446"):
        write_log(tmp_path / "log.parquet", [trajectory(key=2**64)])


def frame(**change):
    columns = {
        "observations": [[[0.0, 1.0]] * 3, [[0.5, 1.0]] * 2], "actions": [[0, 1], [1]],
        "rewards": [[0.0, 0.5], [1.0]], "terminated": [True, False],
    }  # fmt: skip
    return columns | change


def test_databases_have_0_and_1(tmp_path):
    pl.DataFrame(frame(terminated=[1, 0])).write_parquet(tmp_path / "a.parquet")
    assert [each.terminated for each in read_log(tmp_path / "a.parquet")] == [True, False]


def test_files_that_others_wrote_are_read(tmp_path):
    """Of other widths of numbers, lists of fixed size, and any of the optional fields."""
    schema = {"observations": pl.List(pl.Array(pl.Float32, 2)), "actions": pl.List(pl.UInt8)}
    pl.DataFrame(frame(key=[7, None]), schema_overrides=schema).write_parquet(
        tmp_path / "a.parquet"
    )
    first, second = read_log(tmp_path / "a.parquet")
    assert (first.key, second.key, second.terminated) == (7, None, False)
    np.testing.assert_array_equal(second.observations, [[0.5, 1.0]] * 2)
    assert first.observations.dtype == np.float64
    assert first.actions.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [[0.0, 0.5], [float("nan")]]}, "row 1: rewards must be finite"),
        ({"rewards": [[0.0, 0.5], [None]]}, "row 1: rewards must be an array of real numbers"),
        ({"rewards": [[0.0, 0.5], None]}, "row 1: rewards must be there"),
        ({"actions": [[0, 1], []]}, "row 1: actions must"),
        ({"actions": [[0, 1], [0, 1]]}, "row 1: observations must be 3 for 2 actions"),
        ({"observations": [[[0.0]] * 3, [[0.5], None]]}, "row 1: observations"),
        ({"propensities": [None, [1.5]]}, "row 1: propensities must be above 0"),
        ({"terminated": [True, None]}, "row 1: terminated must be there"),
        ({"terminated": [2, 0]}, "row 0: terminated must be True or False; got 2"),
        ({"propensity": [1.0, None]}, "row 0: propensity is no field of an episode"),
        ({"propensity": [None, None]}, "row 0: propensity is no field of an episode"),
    ],
)
def test_what_is_wrong_names_file_row_and_field(tmp_path, change, message):
    path = tmp_path / "log.parquet"
    pl.DataFrame(frame(**change)).write_parquet(path)
    with pytest.raises(ValueError, match=message) as caught:
        list(read_log(path))
    assert str(caught.value).startswith(f"{path}, row ")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"text" * 100])
def test_a_file_that_is_no_parquet_is_named(tmp_path, data):
    path = tmp_path / "log.parquet"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"log\.parquet must be a readable Parquet file"):
        next(read_log(path))


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "log.parquet"
    rng = np.random.default_rng(0)
    write_log(path, [trajectory(observations=rng.random((3, 50))) for _ in range(50)])
    data = bytearray(path.read_bytes())
    data[200:4000] = b"\0" * 3800
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"log\.parquet"):
        list(read_log(path))
