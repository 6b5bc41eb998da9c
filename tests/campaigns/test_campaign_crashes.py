"""Kill -9 at random points: what was acknowledged is there, in one order, and goes on."""

import random
import time
from contextlib import closing

import pytest

from campaign_builders import chain, check_chains, create, report
from campaign_processes import MANY, learn, nursery, running, write
from postgres_server import connect
from rareswitch.campaigns import (
    Campaign,
    Learning,
    NotAllowedError,
    UnavailableError,
    open_store,
)
from rareswitch.campaigns.store.tables import snapshots

KILLS = 12  # with each store
WRITERS = 3
PATIENCE = 60.0  # seconds within which a process must say something


class Writer:
    """A process that writes until it is killed, and all that its incarnations were told."""

    def __init__(self, context, url, ended, number):
        self.context, self.url, self.ended, self.number = context, url, ended, number
        self.acknowledged, self.next = [], {}

    def start(self):
        mine, theirs = self.context.Pipe(duplex=False)
        self.pipe = mine
        self.process = self.context.Process(
            target=write, args=(self.url, theirs, self.ended, self.number, dict(self.next))
        )
        self.process.start()
        theirs.close()

    def hear(self):
        """Take in all that was said; return whether the process ended by itself."""
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                if said[0] == "ended":
                    return True
                if said[0] == "recorded":
                    self.next[said[1]] = said[2] + 1
                self.acknowledged.append(said)
        except EOFError:
            pass
        return False

    def kill(self):
        self.process.kill()
        self.process.join()
        self.hear()


def test_what_was_acknowledged_survives_kills_at_random_points(store, store_url):
    campaign = create(store, **MANY)
    context = nursery()
    ended = context.Event()
    chance = random.Random(7)
    writers = [Writer(context, store_url, ended, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    wait_for(lambda: all(heard_since(writer, 0) for writer in writers))
    ledgers = []
    for _ in range(KILLS):
        victim = chance.choice(writers)
        before = len(victim.acknowledged)
        wait_for(lambda victim=victim, before=before: heard_since(victim, before))
        time.sleep(chance.uniform(0.0, 0.05))
        victim.kill()
        ledgers.append([entry.link for entry in campaign.entries])
        victim.start()
    ended.set()
    for writer in writers:
        wait_for(writer.hear)
        writer.process.join()
    store.close()

    with open_store(store_url) as again:
        campaign = Campaign(again, "trial")
        check_chains(campaign)
        rows = {row.episode_id: row.seq for row in chain(campaign, "episodes")}
        said = [one for writer in writers for one in writer.acknowledged]
        recorded = [one for one in said if one[0] == "recorded"]
        deployed = [one for one in said if one[0] == "deployed"]
        assert len(recorded) > KILLS
        assert len(deployed) > KILLS / 10
        assert [one for one in recorded if rows.get(one[3]) != one[4]] == []
        assert sorted(rows.values()) == list(range(1, len(rows) + 1))
        assert len(chain(campaign, "assignments")) >= len(rows)
        digests = [version.digest for version in campaign.state.versions]
        assert [one for one in deployed if digests[one[1] - 1] != one[2]] == []
        links = [entry.link for entry in campaign.entries]
        assert all(links[: len(ledger)] == ledger for ledger in ledgers)


def heard_since(writer, before):
    writer.hear()
    return len(writer.acknowledged) > before


def wait_for(done):
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, "nothing was heard any more"
        time.sleep(0.001)


def test_a_learner_that_is_killed_again_and_again_changes_nothing(store, store_url):
    """Ten learners are killed while episodes come in; the next one always goes on."""
    campaign = create(store, budget=20, batches=20)
    context, chance = nursery(), random.Random(3)
    kills = 10
    for first in range(0, 60, 60 // kills):
        mine, theirs = context.Pipe(duplex=False)
        with running(context, learn, store_url, theirs):
            for k in range(first, min(first + 60 // kills, 59)):
                campaign.record(report(k))
            assert mine.poll(PATIENCE)
            time.sleep(chance.uniform(0.0, 0.08))
        if chance.random() < 0.3:
            with store.writing("trial") as connection:
                connection.execute(snapshots.delete())
    with Learning(campaign) as learning:
        while learning.step():
            pass
    learner = campaign.protocol.learner()
    told = [(k + 1, learner.policy.digest) for k in range(59) if learner.observe(report(k).episode)]
    assert [(version.seq, version.digest) for version in campaign.state.versions[1:]] == told
    assert len(told) == 19
    check_chains(campaign)


def test_a_server_that_is_killed_under_writers(postgres):
    """Writers are told that the store is unavailable, try again, and lose nothing."""
    url = postgres.create_database()
    with open_store(url, create=True) as store:
        campaign = create(store, **MANY)
        acknowledged, errors = {}, []
        for number in range(60):
            if number in (10, 40):
                postgres.kill()
            while True:
                try:
                    acknowledged[f"p{number}"] = campaign.record(report(number)).seq
                    break
                except UnavailableError as error:
                    errors.append(error)
                    if not postgres.running:
                        postgres.start()
        assert len(errors) >= 2
        assert not any(error.full for error in errors)
        rows = {row.episode_id: row.seq for row in chain(campaign, "episodes")}
        assert rows == acknowledged
        assert sorted(rows.values()) == list(range(1, 61))
        check_chains(campaign)


def test_a_learner_outlives_the_server(postgres):
    url = postgres.create_database()
    with open_store(url, create=True) as store:
        campaign = create(store)
        with Learning(campaign) as learning:
            for k in range(15):
                campaign.record(report(k))
            postgres.kill()
            with pytest.raises(UnavailableError, match="cannot be read"):
                learning.step()
            postgres.start()
            assert learning.step().seq == 10
            postgres.kill()
        with pytest.raises(UnavailableError), Learning(campaign):
            pass
        postgres.start()
        with Learning(campaign) as another:
            assert another.step() is None


def test_a_learner_whose_lock_the_server_gave_up(postgres):
    """Another process may be the learner then: the first one ends or waits, and never learns on."""
    url = postgres.create_database()
    with (
        open_store(url, create=True) as store,
        open_store(url) as elsewhere,
        closing(connect(url, autocommit=True)) as admin,
    ):
        campaign = create(store)
        for k in range(30):
            campaign.record(report(k))
        with Learning(campaign, wait=0.0) as first:
            assert first.step().seq == 10
            ended = admin.execute(
                "select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory'"
            )
            assert ended.fetchall() == [(True,)]
            with Learning(Campaign(elsewhere, "trial"), wait=0.0) as second:
                with pytest.raises(NotAllowedError, match="another process is the learner"):
                    first.step()
                with pytest.raises(NotAllowedError, match="another process is the learner"):
                    first.propose_early(by="ana", reason="a test")
                assert second.step().seq == 20
            assert first.step().seq == 30
            with (
                pytest.raises(NotAllowedError, match="another process is the learner"),
                Learning(Campaign(elsewhere, "trial"), wait=0.0),
            ):
                pass
