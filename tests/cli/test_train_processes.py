"""`rareswitch train` as a process of its own that is killed, interrupted and started again."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from cli.terminal import PATIENCE, output_of_all, refused, started, wait_until
from cli.test_train_command import contents

TESTS = Path(__file__).parent.parent
PATHS = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
EPISODES = 500
OPTIONS = (
    "train", "cli.walk:Walk", "--env-arg", "pause=0.002", "--episodes", EPISODES, "--horizon", 10,
    "--rewards", 0, 1, "--evaluate", 20,
)  # fmt: skip


def running(here, out="out", options=OPTIONS):
    return started(*options, "--out", out, cwd=here, environment={"PYTHONPATH": PATHS})


def lines(here):
    log = here / "out" / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def completed(here, out="out"):
    """Run the same command to its end, and return what it printed and the files it wrote."""
    with running(here, out) as process:
        told, err = output_of_all(process)
    assert process.returncode == 0, err
    return told, contents(here / out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the files of a training that nothing interrupted."""
    return completed(tmp_path_factory.mktemp("whole"))[1]


def test_after_kill_9_the_same_command_gives_the_same_bytes_as_if_nothing_had_happened(
    tmp_path, whole
):
    state = tmp_path / "out" / "learner.bin"
    with running(tmp_path) as process:
        wait_until(lambda: lines(tmp_path) > 10, process)
        os.killpg(process.pid, signal.SIGKILL)  # before any state was kept
        output_of_all(process)
    assert process.returncode == -signal.SIGKILL
    assert not state.exists()
    with running(tmp_path) as process:
        wait_until(state.exists, process)
        known = lines(tmp_path)
        wait_until(lambda: lines(tmp_path) > known + 5, process)  # and episodes after it
        os.killpg(process.pid, signal.SIGKILL)
        output_of_all(process)
    assert lines(tmp_path) < EPISODES
    with open(tmp_path / "out" / "log.jsonl", "ab") as log:
        log.write(b'{"observations":[2,')  # as a crash may leave it
    told, files = completed(tmp_path)
    went_on = int(re.search(r"continues after episode (\d+), from out", told)[1])
    assert 0 < went_on <= known + 1
    assert files == whole


def test_ctrl_c_finishes_the_episode_keeps_everything_and_can_be_gone_on_with(tmp_path, whole):
    with running(tmp_path) as process:
        wait_until(lambda: lines(tmp_path) > 10, process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = output_of_all(process)
    assert process.returncode == 130
    assert "Traceback" not in err
    played = lines(tmp_path)
    assert 10 < played < EPISODES
    message = f"interrupted: {played} of {EPISODES} episodes are kept in out; the same command"
    assert message in err
    told, files = completed(tmp_path)
    assert f"continues after episode {played}, from out" in told
    assert files == whole


def test_ctrl_c_while_fresh_episodes_are_played_keeps_all_that_was_learnt(tmp_path):
    options = (*OPTIONS[:4], "--episodes", 20, *OPTIONS[6:-1], 100_000)
    with running(tmp_path, options=options) as process:
        wait_until(lambda: lines(tmp_path) == 20, process)
        wait_until((tmp_path / "out" / "picture.png").exists, process)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        _, err = output_of_all(process)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted: 20 of 20 episodes are kept in out" in err
    assert (tmp_path / "out" / "agent.bin").exists()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["finished"] is False


def test_two_processes_do_not_write_to_one_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with running(tmp_path) as process:
        wait_until(lambda: lines(tmp_path) > 10, process)
        assert "another process writes to out" in refused(*OPTIONS, "--out", "out")
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        output_of_all(process)


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_a_live_line_that_fits(tmp_path, columns):
    program = Path(sysconfig.get_path("scripts")) / "rareswitch"
    ours, theirs = pty.openpty()
    environment = {"PYTHONPATH": PATHS, "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen(
        [str(program), *map(str, OPTIONS), "--out", "out"],
        cwd=tmp_path,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        start_new_session=True,
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
    told, _ = process.communicate(timeout=PATIENCE)
    os.close(ours)
    assert process.returncode == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    live = [line.strip("\r") for line in re.split(r"[\r\n]+", plain)]
    assert any(re.search(r"episodes .*version \d+, return [\d.]+", line) for line in live)
    assert max(map(len, live)) <= columns
    assert max(map(len, told.splitlines())) <= columns
