"""The cost of durable records, and the speed of imports, proofs and status.

Episodes have 1.6 kB (H = 5, four actions, d = 6). The baseline of recording is a bare group commit:
the same number of callers hands in the same prepared bodies, and one caller inserts all waiting
bodies into an SQLite table with an index on the id, with the same settings of durability. In a
second baseline the callers pack the bodies themselves, without checks, because only bytes can be
inserted. Optuna's SQLite storage, in its own environment, is an example of a library that stores
studies: a trial is asked for and its value told. All take turns of a few hundred episodes, so a
busy machine slows all of them equally. Times are wall-clock times, because recording waits for the
disk.
"""

import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from bare_commit import GroupCommit

import rareswitch as rs
from rareswitch.campaigns import Campaign, Learning, Protocol, Report, open_store, status, verify
from rareswitch.support import codec

HORIZON, ACTIONS, DIM = 5, 4, 6
CALLERS, TURN, TURNS = 32, 640, 15
IMPORTED, AGAIN, SHOWN = 20_000, 5, 1_000_000
OPTUNA = Path(__file__).with_name("optuna_trials.py")


def protocol(planned: int) -> Protocol:
    return Protocol(
        name="bench",
        task=rs.Task(dim=DIM, horizon=HORIZON, episodes=planned),
        schedule=rs.SpreadBudget(switches=5),
        budget=5,
    )


def episodes(seed: int) -> Iterator[tuple[rs.Episode, dict[str, Any]]]:
    """Yield episodes with the other fields of their reports."""
    rng = np.random.default_rng(seed)
    while True:
        offered = rng.random((HORIZON, ACTIONS, DIM)) / DIM
        taken = rng.integers(ACTIONS, size=HORIZON)
        episode = rs.Episode(
            features=offered[np.arange(HORIZON), taken],
            rewards=rng.random(HORIZON),
            next_features=list(offered[1:]),
        )
        yield episode, {"first_features": offered[0], "actions": taken}


class Bare:
    """A table of bodies, in which one caller inserts for all waiting callers."""

    def __init__(self, path: Path) -> None:
        self._store = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for line in (
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=FULL",
            "CREATE TABLE episodes (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, body BLOB)",
        ):
            self._store.execute(line)
        self._together: GroupCommit[tuple[str, bytes], None] = GroupCommit(self._insert)

    def record(self, turn: int, told: list[tuple[rs.Episode, dict[str, Any]]]) -> float:
        bodies = [Report(id="one", episode=e, **more).body for e, more in told]
        return _called(lambda i: self._together.ask((f"{turn}-{i}", bodies[i])), len(bodies))

    def pack_and_record(self, turn: int, told: list[tuple[rs.Episode, dict[str, Any]]]) -> float:
        def call(i: int) -> None:
            episode, more = told[i]
            arrays = {
                "features": episode.features,
                "rewards": episode.rewards,
                "next_features": episode.next_rows,
                "lengths": np.array(list(map(len, episode.next_features))),
                **more,
            }
            self._together.ask((f"{turn}-{i}", codec.pack("report", {}, arrays)))

        return _called(call, len(told))

    def _insert(self, rows: list[tuple[str, bytes]]) -> list[BaseException | None]:
        self._store.execute("BEGIN IMMEDIATE")
        self._store.executemany("INSERT INTO episodes (id, body) VALUES (?, ?)", rows)
        self._store.execute("COMMIT")
        return [None] * len(rows)


class Ours:
    """A campaign with the same number of callers, each with its own episodes."""

    def __init__(self, url: str, *, planned: int = 10**7) -> None:
        store = open_store(url, create=True)
        self.campaign = Campaign.create(store, protocol(planned), by="bench")

    def record(self, turn: int, told: list[tuple[rs.Episode, dict[str, Any]]]) -> float:
        def call(i: int) -> None:
            episode, more = told[i]
            self.campaign.record(f"{turn}-{i}", episode, **more)

        return _called(call, len(told))


class Optuna:
    """Trials of an Optuna study, in a process with its own environment."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(OPTUNA), str(folder / "optuna.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def record(self, count: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def run(optuna: Path) -> dict[str, Any]:
    from against_rlberry import environment

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = _recording(folder, environment(optuna, ("optuna",)))
        return results | _importing(folder) | _showing(folder)


def _recording(folder: Path, python: Path) -> dict[str, Any]:
    source = episodes(seed=0)
    bare, packing = Bare(folder / "bare.db"), Bare(folder / "packing.db")
    ours, theirs = Ours(str(folder / "ours.db")), Optuna(folder, python)
    rates: list[list[float]] = []
    for turn in range(TURNS + 1):
        told = [next(source) for _ in range(TURN)]
        seconds = bare.record(turn, told), packing.pack_and_record(turn, told)
        rates.append([TURN / one for one in (*seconds, ours.record(turn, told))])
        rates[-1].append(TURN // 32 / theirs.record(TURN // 32))
    theirs.close()
    found = np.array(rates[1:])  # the first turn warms up
    middle = np.median(found, axis=0)
    ready, packed, beside = (found[:, 2] / found[:, other] for other in (0, 1, 3))
    return {
        "bare group commit of ready bodies, 32 callers": f"{middle[0]:.0f} episodes/s",
        "the same, each caller packs its own": f"{middle[1]:.0f} episodes/s",
        "record, 32 callers": f"{middle[2]:.0f} episodes/s: {_share(ready)} of bare, "
        f"{_share(packed)} of bare with packing",
        "Optuna's SQLite storage, ask and tell": f"{middle[3]:.0f} trials/s; record is "
        f"{np.median(beside):.0f} times as fast [{beside.min():.0f}, {beside.max():.0f}]",
    }


def _share(ratios: Any) -> str:
    """Return the median and the quartiles of ratios."""
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return f"{middle:.0%} [{low:.0%}, {high:.0%}]"


def _importing(folder: Path) -> dict[str, Any]:
    source = episodes(seed=1)
    lines = [
        json.dumps(Report(id=f"p{i}", episode=e, **more).plain)
        for i, (e, more) in zip(range(IMPORTED), source, strict=False)
    ]
    seconds: list[tuple[float, float, float]] = []
    for again in range(AGAIN):
        campaign = Ours(str(folder / f"imported-{again}.db"), planned=2 * IMPORTED).campaign
        imported = _timed(lambda to=campaign: sum(1 for _ in to.record_all(lines)))
        with Learning(campaign) as learning:
            learnt = _timed(lambda by=learning: sum(1 for _ in iter(by.step, None)))
        seconds.append((imported, learnt, _timed(lambda of=campaign: verify(of))))
    imports, learners, proofs = (_rates(column) for column in zip(*seconds, strict=True))
    versions = f"{campaign.version - 1} versions"
    return {
        f"import of {IMPORTED} reports in JSON": imports,
        f"a learner that is behind, with {versions}": learners,
        f"verify: chains, rules, stops, and {versions} fitted again": proofs,
    }


def _rates(seconds: Sequence[float]) -> str:
    """Return the median, the lowest and the highest rate of imports."""
    low, middle, high = (IMPORTED / np.quantile(seconds, q) for q in (1.0, 0.5, 0.0))
    return f"{middle:.0f} episodes/s [{low:.0f}, {high:.0f}]"


def _showing(folder: Path) -> dict[str, Any]:
    campaign = Ours(str(folder / "shown.db")).campaign
    source = episodes(seed=2)
    few = [next(source) for _ in range(1000)]
    reports = (
        Report(id=f"p{i}", episode=few[i % 1000][0], **few[i % 1000][1]) for i in range(SHOWN)
    )
    loaded = _timed(lambda: sum(1 for _ in campaign.record_all(reports)))
    opened = Campaign(open_store(str(folder / "shown.db")), "bench")
    return {
        f"recording {SHOWN} episodes from memory": f"{SHOWN / loaded:.0f} episodes/s",
        f"status of {SHOWN} episodes": f"{_timed(lambda: status(opened)):.2f} s",
    }


def _called(call: Callable[[int], object], count: int) -> float:
    """Return the seconds that 32 callers need for `count` calls."""

    def go(caller: int) -> None:
        for i in range(caller, count, CALLERS):
            call(i)

    callers = [threading.Thread(target=go, args=(i,)) for i in range(CALLERS)]
    began = perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return perf_counter() - began


def _timed(work: Callable[[], Any]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


if __name__ == "__main__":
    for name, value in run(Path(sys.argv[1] if len(sys.argv) > 1 else ".venv-optuna")).items():
        print(f"| {name} | {value} |", flush=True)
