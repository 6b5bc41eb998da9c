import json

import numpy as np
import pytest
from hypothesis import given
from trajectory_strategies import assert_same, logs

from rareswitch.trajectories import Trajectory, json_lines, read_log, write_log
from rareswitch.trajectories.trajectory import trajectory_at

ONE = Trajectory(observations=[0, 1], actions=[0], rewards=[0.1], terminated=True, key="a")
TWO = Trajectory(observations=[1, 0], actions=[1], rewards=[1 / 3], terminated=False, key="b")


@given(logs())
def test_what_is_written_is_read_to_the_last_bit(log):
    for trajectory in log:
        line = json_lines.line_of(trajectory)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        values = json_lines._values(line)
        assert_same(trajectory_at("line 1", values), trajectory)
        assert json_lines.line_of(trajectory_at("line 1", values)) == line


def test_a_file_is_read_as_it_is_asked_for(tmp_path):
    path = tmp_path / "log.jsonl"
    assert write_log(path, iter([ONE, TWO])) == 2
    with open(path, "a") as file:
        file.write("not an episode\n")
    read = read_log(path)
    assert (next(read), next(read)) == (ONE, TWO)
    with pytest.raises(ValueError, match=r"log\.jsonl, line 3: must be an episode in JSON"):
        next(read)


def test_each_line_is_on_disk_before_the_next_episode_is_asked_for(tmp_path):
    path = tmp_path / "log.jsonl"

    def played():
        yield ONE
        assert list(read_log(path)) == [ONE]
        yield TWO
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_log(path, played())
    assert list(read_log(path)) == [ONE, TWO]
    assert write_log(path, [ONE], append=True) == 1
    assert list(read_log(path)) == [ONE, TWO, ONE]


@pytest.mark.parametrize("keep", [1, 10, -2])
def test_a_torn_last_line_is_named_and_dropped_on_request(tmp_path, keep):
    path = tmp_path / "log.jsonl"
    whole, torn = json_lines.line_of(ONE), json_lines.line_of(TWO)[:keep]
    path.write_bytes(whole + torn)
    message = rf"log\.jsonl: line 2, the last, is torn: {len(torn)} bytes.*drop_torn=True"
    with pytest.raises(ValueError, match=message):
        list(read_log(path))
    assert list(read_log(path, drop_torn=True)) == [ONE]
    with pytest.raises(ValueError, match=r"log\.jsonl: its last line is torn"):
        write_log(path, [TWO], append=True)
    assert path.read_bytes() == whole + torn
    write_log(path, [TWO], append=True, drop_torn=True)
    assert list(read_log(path)) == [ONE, TWO]


def test_a_whole_last_line_needs_no_end_of_line(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes((json_lines.line_of(ONE) + json_lines.line_of(TWO)).rstrip(b"\n"))
    assert list(read_log(path)) == [ONE, TWO]
    write_log(path, [ONE], append=True)
    assert list(read_log(path)) == [ONE, TWO, ONE]


def test_only_the_last_line_can_be_torn(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(json_lines.line_of(ONE)[:-5] + b"\n" + json_lines.line_of(TWO))
    with pytest.raises(ValueError, match=r"line 1: must be an episode in JSON"):
        list(read_log(path, drop_torn=True))


@pytest.mark.parametrize("size", [1, 7, 10**4, 2**16, 2**16 + 1])
def test_the_last_line_is_found_however_long_it_is(tmp_path, size):
    path = tmp_path / "log.jsonl"
    first = json_lines.line_of(ONE)
    path.write_bytes(first + b"x" * size)
    with open(path, "rb") as file:
        assert json_lines._last_line(file, len(first) + size) == len(first)
        assert json_lines._last_line(file, len(first)) == 0
        assert json_lines._last_line(file, 0) == 0
    write_log(path, [TWO], append=True, drop_torn=True)
    assert list(read_log(path)) == [ONE, TWO]


def test_appending_begins_a_log_that_is_not_there(tmp_path):
    path = tmp_path / "log.ndjson"
    for trajectory in (ONE, TWO):
        write_log(path, [trajectory], append=True)
    assert list(read_log(path)) == [ONE, TWO]
    path.write_bytes(b"")
    assert list(read_log(path)) == []
    write_log(path, [ONE], append=True)
    assert list(read_log(path)) == [ONE]


GOOD = {"observations": [0, 1], "actions": [0], "rewards": [0.5], "terminated": True}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2]", "must be an episode in JSON; it is not an object"),
        ("", "must be an episode in JSON"),
        ("{", "must be an episode in JSON"),
        ("[" * 100_000, "must be an episode in JSON"),
        (json.dumps(GOOD)[:-1] + ', "rewards": [1.0]}', "it holds 'rewards' twice"),
        (json.dumps(GOOD | {"rewards": [float("nan")]}), "it holds NaN, which is not a number"),
        (
            json.dumps(GOOD | {"rewards": [float("inf")]}),
            "it holds Infinity, which is not a number",
        ),
        (json.dumps(GOOD).replace("0.5", "1e999"), "rewards must be finite; got inf"),
        (json.dumps(GOOD | {"rewards": None}), "rewards must be there; got observations"),
        (json.dumps(GOOD | {"propensity": [1.0]}), "propensity is no field of an episode; the"),
        (json.dumps(GOOD | {"actions": [0, 1]}), "observations must be 3 for 2 actions"),
        (json.dumps(GOOD | {"propensities": [1.5]}), "propensities must be above 0 and at most 1"),
        (json.dumps(GOOD | {"observations": {"0": 1}}), "observations must be a list or an array"),
        (json.dumps(GOOD | {"observations": [{"(1)": 1}] * 2}), r"observations\[0\]\[0\] must be"),
        (
            json.dumps(GOOD | {"observations": [{"(0)": 1, "a": 2}] * 2}),
            "must have nonempty texts as keys",
        ),
        (json.dumps(GOOD | {"observations": 3}), "observations must be a list or an array; got 3"),
        (json.dumps(GOOD | {"terminated": "yes"}), "terminated must be True or False; got 'yes'"),
        (json.dumps(GOOD | {"actions": "0"}), "actions must be a list of whole numbers"),
    ],
)
def test_what_is_wrong_names_file_line_and_field(tmp_path, line, message):
    path = tmp_path / "log.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{line}\n")
    with pytest.raises(ValueError, match=message) as caught:
        list(read_log(path))
    assert str(caught.value).startswith(f"{path}, line 2: ")


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match="line 1: must be an episode in JSON"):
        list(read_log(path))


def test_texts_of_any_characters_survive(tmp_path):
    odd = Trajectory(
        observations=["ä\n\u2028\x00", "\ud800"], actions=[0], rewards=[np.pi], terminated=True
    )
    write_log(tmp_path / "log.jsonl", [odd])
    assert list(read_log(tmp_path / "log.jsonl")) == [odd]
