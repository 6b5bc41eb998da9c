"""Many processes at once: one of them wins where one may, and nothing is lost where all may."""

import sqlite3

import pytest

from campaign_builders import chain, check_chains, create, propose
from campaign_processes import MANY, decide, nursery, open_and_write
from rareswitch.campaigns import Approval, Campaign, open_store

DEPLOYERS = 16
WRITERS = 8
EACH = 25
PATIENCE = 120.0
PROPOSAL = {"seq": 0, "evidence": {"triggers": []}, "by": "x", "reason": "race"}


def together(work, count, *arguments):
    """Run a function in many processes from one moment on; return what each of them tells."""
    context = nursery()
    barrier = context.Barrier(count)
    pipes, processes = [], []
    for number in range(count):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=work, args=(arguments[0], theirs, barrier, *arguments[1](number)), daemon=True
        )
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    said = [[] for _ in pipes]
    for heard, pipe in zip(said, pipes, strict=True):
        try:
            while pipe.poll(PATIENCE):
                heard.append(pipe.recv())
        except EOFError:
            continue
    for process in processes:
        process.join(PATIENCE)
    return said


def flat(said):
    return [one for heard in said for one in heard]


def test_sixteen_who_propose_for_the_same_version(store, store_url):
    campaign = create(store)
    for version in (1, 2):
        told = {
            "seq": 0,
            "evidence": {"triggers": []},
            "expected": version,
            "by": "x",
            "reason": "race",
        }
        said = together(
            decide, DEPLOYERS, store_url, lambda n, told=told: ("propose", told | {"seed": n})
        )
        assert sorted(flat(said)) == ["MovedError"] * (DEPLOYERS - 1) + ["won"]
        assert campaign.version == version + 1
    assert [entry.kind for entry in campaign.entries[2:]] == ["candidate", "deployed"] * 2
    check_chains(campaign)


def test_sixteen_who_propose_with_one_deployment_left(store, store_url):
    campaign = create(store, budget=1)
    told = PROPOSAL | {"expected": 1}
    together(decide, DEPLOYERS, store_url, lambda n: ("propose", told | {"seed": n}))
    assert (campaign.version, campaign.state.left) == (2, 0)


def test_sixteen_who_approve_the_same_candidate(store, store_url):
    campaign = create(store, approval=Approval(by="second-person"))
    candidate = propose(campaign)
    said = together(
        decide,
        DEPLOYERS,
        store_url,
        lambda n: (
            "approve",
            {"number": candidate.number, "by": f"person {n}", "reason": "race"},
        ),
    )
    assert sorted(flat(said)) == ["NotAllowedError"] * (DEPLOYERS - 1) + ["won"]
    assert campaign.version == 2
    assert [entry.kind for entry in campaign.entries[2:]] == ["candidate", "approved", "deployed"]


@pytest.mark.parametrize("again", [False, True])
def test_eight_who_make_the_store_and_write_lose_nothing(store_url, again):
    """They also open the store at the same moment, when it is not there yet or already is."""
    if again:
        with open_store(store_url, create=True) as store:
            create(store, **MANY)
    said = together(open_and_write, WRITERS, store_url, lambda number: (number, EACH))
    assert [heard[-1] for heard in said] == ["done"] * WRITERS
    acknowledged = dict(one for heard in said for one in heard[:-1])
    with open_store(store_url) as store:
        campaign = Campaign(store, "trial")
        check_chains(campaign)
        rows = {row.episode_id: row.seq for row in chain(campaign, "episodes")}
        assert len(campaign.entries) == 2
    assert rows == acknowledged
    assert sorted(rows.values()) == list(range(1, WRITERS * EACH + 1))


def test_a_new_file_that_others_switch_to_the_log_is_waited_for(tmp_path, monkeypatch):
    """SQLite refuses at once if two processes switch a file to the write-ahead log."""
    asked = []

    class Contended(sqlite3.Connection):
        def execute(self, statement, *arguments):
            if "journal_mode" in statement and len(asked) < 3:
                asked.append(statement)
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return super().execute(statement, *arguments)

    connect = sqlite3.connect
    monkeypatch.setattr(
        "sqlite3.connect", lambda *given, **named: connect(*given, **named, factory=Contended)
    )
    with open_store(tmp_path / "store.db", create=True) as store:
        create(store)
    assert len(asked) == 3
