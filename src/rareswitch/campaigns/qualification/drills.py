"""Drills: killed processes, a full disk, and a backup during writes."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import rareswitch
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import UnavailableError
from rareswitch.campaigns.proof.checks import Check
from rareswitch.campaigns.proof.stored import backup, restore, verify
from rareswitch.campaigns.qualification import recorder
from rareswitch.campaigns.qualification.golden import golden_protocol, golden_report
from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.rows import digest_of
from rareswitch.campaigns.status import heads
from rareswitch.campaigns.store import Store, open_store
from rareswitch.campaigns.store.rows import rows_of
from rareswitch.core.task import Task

KILLS = 10
ANSWERS = 5  # least number of answers before a process is killed
PATIENCE = 30.0  # seconds to wait for them
DURABLE = {"journal_mode": "wal", "synchronous": 2}  # of SQLite; 2 is FULL
SERVER = {"fsync": "on", "full_page_writes": "on"}  # of PostgreSQL


def create_drill(store: Store) -> Campaign:
    """Create the campaign for the drills."""
    return Campaign.create(
        store,
        golden_protocol(
            recorder.NAME,
            task=Task(dim=3, horizon=2, episodes=1_000_000),
            approval=Approval(by="schedule"),
            stopping=(),
        ),
        by="qualification",
    )


def check_crashes(store: Store, address: str, *, kills: int = KILLS) -> Check:
    """Kill -9 a recording process repeatedly; every acknowledged row must be kept exactly once."""
    check = Check(name="crash drill")
    campaign = create_drill(store)
    chance, acknowledged, first = random.Random(kills), dict[int, int](), 0
    for _ in range(kills):
        for number, seq in _killed(address, first, chance.uniform(0.0, 0.05)):
            if acknowledged.setdefault(number, seq) != seq:
                before = acknowledged[number]
                check.fail(f"episode p{number} was answered with row {before}, then row {seq}")
        first = max(acknowledged, default=0)  # send it again; the next was in progress
    check.rows = len(acknowledged)
    check.problems += lost_or_twice(campaign, acknowledged)
    check.problems += _not_durable(store)
    check.remarks.append(f"{kills} processes killed, {len(acknowledged)} episodes acknowledged")
    return check


def _killed(address: str, first: int, wait: float) -> Iterator[tuple[int, int]]:
    """Start a recording process, kill it, and yield the acknowledged episodes."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", recorder.__name__, str(first)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(address),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    try:
        lines = [process.stdout.readline() for _ in range(ANSWERS)]
        time.sleep(wait)
        process.kill()
        lines += process.stdout.readlines()
        said = process.stderr.read().decode(errors="replace")
    finally:
        late.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    if not lines[ANSWERS - 1]:
        told = _last_line(said) or f"nothing within {PATIENCE:g} s"
        raise RuntimeError(f"the process that records gave no {ANSWERS} answers: {told}")
    for line in lines:
        if line.endswith(b"\n"):  # else the process died while writing the answer
            number, seq = line.split()
            yield int(number), int(seq)


def lost_or_twice(campaign: Campaign, acknowledged: Mapping[int, int]) -> list[str]:
    """Return the lost, moved and duplicate acknowledged episodes, and gaps in the log."""
    with campaign.store.reading() as connection:
        rows = list(rows_of(connection, "episodes", campaign.name, columns=["episode_id"]))
    places = {row.episode_id: row.seq for row in rows}
    problems = [
        f"episode p{number} was acknowledged as row {seq}, and is "
        + (f"row {places[f'p{number}']}" if f"p{number}" in places else "lost")
        for number, seq in acknowledged.items()
        if places.get(f"p{number}") != seq
    ]
    times = Counter(row.episode_id for row in rows)
    problems += [f"episode {name} is recorded {n} times" for name, n in times.items() if n > 1]
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)):
        problems.append("the rows of the log are not numbered from 1 without a gap")
    return problems + [f"verify: {problem}" for problem in verify(campaign).problems]


def _not_durable(store: Store) -> Iterator[str]:
    """Yield settings that make commits not durable, which kill -9 cannot show."""
    with store.reading() as connection:
        for name, due in (DURABLE if store.is_sqlite else SERVER).items():
            told = "PRAGMA" if store.is_sqlite else "SHOW"
            found = connection.exec_driver_sql(f"{told} {name}").scalar()
            if found != due:
                yield f"{name} must be {due}; got {found}"


def check_room(folder: Path) -> Check:
    """Limit the size of files; reports must be refused as a whole, and work later."""
    check = Check(name="no room on disk")
    path = folder / "room.db"
    with open_store(path, create=True) as store:
        create_drill(store)
    done = subprocess.run(
        [sys.executable, "-P", "-m", recorder.__name__, "room"],
        capture_output=True, text=True, env=_environment(str(path)), timeout=2 * PATIENCE,
    )  # fmt: skip
    if done.returncode:
        check.fail(f"the process that records ended with {_last_line(done.stderr)}")
        return check
    said = json.loads(done.stdout)
    acknowledged = dict(map(tuple, said["acknowledged"]))
    check.rows = len(acknowledged)
    if not said["refused"]:
        check.fail("no report was refused, although the files were not allowed to grow")
    elif said["again"] != 1:
        check.fail(f"without room, episode p0 was answered with row {said['again']}, not row 1")
    check.remarks.append(f"refused: {said['refused']}")
    with open_store(path) as store:
        check.problems += lost_or_twice(Campaign(store, recorder.NAME), acknowledged)
    return check


def check_backup(store: Store, folder: Path) -> Check:
    """Back up a store during writes, restore the backup, and compare the heads."""
    check = Check(name="backup and restore")
    campaign = Campaign(store, recorder.NAME)
    with _writing(campaign):
        before = heads(campaign)["episodes"].length
        backup(store, folder / "writing.db")
        after = heads(campaign)["episodes"].length
    with open_store(folder / "writing.db", read_only=True) as kept:
        copy = Campaign(kept, recorder.NAME)
        check.rows = length = heads(copy)["episodes"].length
        if not before <= length <= after:
            check.fail(f"the backup has {length} rows; the store had from {before} to {after}")
        # The store must contain everything in the backup, link by link up to its heads.
        found = verify(campaign, anchors=[heads(copy)])
        check.problems += [f"the store against the backup: {one}" for one in found.problems]
    check.remarks.append(f"backup while writing: rows {before} to {after}, copied {length}")
    file = folder / "quiet.db"
    backup(store, file)
    digest = digest_of(file.read_bytes())
    with open_store(folder / "restored.db", create=True) as target:
        restore(file, target)
        restored = Campaign(target, recorder.NAME)
        if heads(restored) != heads(campaign):
            check.fail("the restored store has other heads than the store that was copied")
        check.problems += [f"the restored store: {one}" for one in verify(restored).problems]
    with open_store(file, read_only=True) as kept:
        verify(Campaign(kept, recorder.NAME))
        try:
            Campaign(kept, recorder.NAME).record(golden_report(0))
            check.fail("a store that was opened only for reading was written")
        except UnavailableError:
            check.remarks.append("verify of the backup changes no byte, and nothing is recorded")
    if digest_of(file.read_bytes()) != digest:
        check.fail("reading the backup changed its bytes")
    return check


@contextmanager
def _writing(campaign: Campaign) -> Iterator[None]:
    """Record episodes in another thread; raise its error, if any, at the end."""
    ended, errors = threading.Event(), list[Exception]()
    begin = heads(campaign)["episodes"].length

    def write() -> None:
        number = 10_000_000
        while not ended.is_set():
            try:
                campaign.record(golden_report(number, id=f"backup-{number}"))
            except Exception as error:
                errors.append(error)
                return
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        end = time.monotonic() + PATIENCE
        while heads(campaign)["episodes"].length < begin + ANSWERS and not errors:
            if time.monotonic() > end:
                raise TimeoutError(f"no {ANSWERS} episodes were recorded in {PATIENCE:g} s")
            time.sleep(0.01)
        yield
    finally:
        ended.set()
        writer.join()
    if errors:
        raise errors[0]


def _last_line(text: str) -> str:
    """Return the last line of a traceback: the error itself."""
    return text.strip().rpartition("\n")[2]


def _environment(address: str) -> dict[str, str]:
    """Return a child's environment: the path of the qualified package, and the store."""
    folder = str(Path(rareswitch.__file__).parents[1])
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), recorder.STORE: address}
