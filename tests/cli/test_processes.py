"""`rareswitch run` as a process of its own that is killed, interrupted and started again."""

import os
import re
import signal

import pytest

from cli.terminal import output_of_all, started, wait_until
from experiments.miniature import EVERY, GROWTH, RANDOM, WORLD, Inline, toml
from rareswitch.experiments.load import parse_spec
from rareswitch.experiments.run import run

TEXT = toml(
    world=WORLD.replace("d = 5", "d = 6").replace("horizon = 3", "horizon = 4"),
    arms=EVERY + GROWTH.replace("[2, 8]", "2"),
    rounds=100,
    episodes=150,
)
FILES = ("runs.npz", "summary.csv", "figure.png", "figure.pdf", "figure.svg")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the files of a run that nothing interrupted, in this process."""
    out = tmp_path_factory.mktemp("whole")
    run([parse_spec(TEXT, source="my.toml")], out, Inline())
    return {name: (out / "mini" / name).read_bytes() for name in FILES}


@pytest.fixture
def here(tmp_path):
    (tmp_path / "my.toml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def pieces(folder):
    return {
        path.name: path.stat().st_mtime_ns for path in (folder / "out" / "pieces").glob("*.npz")
    }


def running(here, workers):
    return started("run", "my.toml", "--out", "out", "--workers", workers, cwd=here)


def completed(here):
    """Run the same command to its end and return the files it wrote."""
    with started("run", "my.toml", "--out", "out", "--workers", 2, cwd=here) as process:
        out, err = output_of_all(process)
    assert process.returncode == 0, err
    assert "results" in out
    return {name: (here / "out" / "mini" / name).read_bytes() for name in FILES}


def test_after_kill_9_the_same_command_gives_the_same_bytes_as_if_nothing_had_happened(here, whole):
    with running(here, 1) as process:
        wait_until(lambda: pieces(here), process)
        os.killpg(process.pid, signal.SIGKILL)
        output_of_all(process)
    kept = pieces(here)
    assert process.returncode == -signal.SIGKILL
    assert 1 <= len(kept) < 8
    assert not (here / "out" / "mini").exists()
    assert completed(here) == whole
    after = pieces(here)
    assert len(after) == 8
    assert {name: after[name] for name in kept} == kept


def test_ctrl_c_says_what_is_kept_leaves_no_process_behind_and_can_be_resumed(here, whole):
    with running(here, 1) as process:
        wait_until(lambda: pieces(here), process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = output_of_all(process)
    assert process.returncode == 130
    assert "Traceback" not in err
    kept = pieces(here)
    assert 1 <= len(kept) < 8
    told = re.search(r"interrupted: (\d+) of 8 pieces are kept in out", err)
    assert len(kept) - 1 <= int(told[1]) <= len(kept)  # one may have been saved but not yet counted
    assert "the same command continues" in " ".join(err.split())
    assert completed(here) == whole


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_long_piece_ends_with_the_parent_however_that_ends(here, number, code):
    long = toml(arms=EVERY + RANDOM, rounds=1, episodes=500_000)
    (here / "my.toml").write_text(long, encoding="utf-8")
    with running(here, 2) as process:
        wait_until(lambda: pieces(here), process)
        process.send_signal(number)
        output_of_all(process)
    assert process.returncode == code
    assert len(pieces(here)) == 1
