import io
import re
import sys
import time

import pytest

from rareswitch.cli.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """Return a list whose last entry is the time."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[-1])
    return now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_quiet_progress_says_nothing(capsys, clock):
    with progress("pieces", 3, quiet=True) as report:
        clock.append(200.0)
        report(1)
        report(3, "all")
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_there_is_at_most_one_line_in_ten_seconds(capsys, clock):
    with progress("pieces", 9) as report:
        for done, now in enumerate((105.0, 110.0, 119.0, 130.0), start=1):
            clock.append(now)
            report(done, "lsvi-ucb, rounds 0–9" if now == 130.0 else "")
        clock.append(140.0)
        report(9)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "pieces: 2 of 9, 10 s, about 70 s left",
        "pieces: 4 of 9, 30 s, about 50 s left lsvi-ucb, rounds 0–9",
        "pieces: 9 of 9, 40 s",
    ]


def test_the_remaining_time_counts_only_steps_of_this_run(capsys, clock):
    with progress("pieces", 0) as report:
        report(40, total=100)  # kept by an earlier run
        clock.append(110.0)
        report(40, total=100)
        clock.append(400.0)
        report(50, total=100)
    assert capsys.readouterr().err.splitlines() == [
        "pieces: 40 of 100, 10 s",
        "pieces: 50 of 100, 300 s, about 25 min left",
    ]


def test_a_few_slow_first_steps_give_no_estimate(capsys, clock):
    with progress("pieces", 400) as report:
        for done, now in ((0, 100.0), (1, 110.0), (12, 121.0)):
            clock.append(now)
            report(done)
    assert capsys.readouterr().err.splitlines() == [
        "pieces: 1 of 400, 10 s",
        "pieces: 12 of 400, 21 s, about 11 min left",
    ]
    with progress("pieces", 400) as report:
        report(0)
        clock.append(clock[-1] + 60.0)
        report(1)
    assert capsys.readouterr().err.splitlines() == ["pieces: 1 of 400, 60 s, about 6.7 h left"]


@pytest.mark.parametrize(("done", "known"), [((0, 1, 3), False), ((0, 1, 200), True)])
def test_a_live_line_waits_for_its_estimate_too(monkeypatch, done, known):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("pieces", 400) as report:
        for each in done:
            time.sleep(0.01)
            report(each, total=400)
    assert bool(re.search(r"\d:\d\d:\d\d", terminal.getvalue())) == known


def test_a_terminal_shows_a_live_line_that_is_wiped_at_the_end(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("pieces", 9) as report:
        report(4, "lsvi-ucb")
    shown = terminal.getvalue()
    assert "pieces" in shown
    assert "/9" in shown
    assert shown.rstrip().endswith("\x1b[2K")
