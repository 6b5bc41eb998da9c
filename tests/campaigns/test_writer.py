"""The thread that writes: futures, one commit for many callers, and for each its own answer."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from campaign_builders import chain, check_chains, create, fill, report
from rareswitch.campaigns import Campaign, ConflictError, RefusedError, UnavailableError, open_store
from rareswitch.campaigns.recording import Work
from rareswitch.campaigns.store.writer import MOST_TOGETHER, Writer


@pytest.fixture
def writer():
    made = Writer()
    yield made
    made.close()


class Gate:
    """A commit whose first group waits until it is let go; it keeps all groups."""

    def __init__(self, answer=lambda work: work):
        self.groups, self.entered, self.free, self.answer = (
            [],
            threading.Event(),
            threading.Event(),
            answer,
        )

    def commit(self, group):
        self.groups.append(list(group))
        self.entered.set()
        assert self.free.wait(30)
        return [self.answer(work) for work in group]


def behind_a_gate(writer, gate, works):
    """Submit work while another commit is under way; return the futures."""
    first = writer.submit(gate.commit, "first")
    assert gate.entered.wait(30)
    futures = [writer.submit(gate.commit, work) for work in works]
    assert not any(future.done() for future in [first, *futures])
    gate.free.set()
    return futures


def test_one_commit_serves_all_who_wait(writer):
    gate = Gate(lambda work: f"{work}!")
    futures = behind_a_gate(writer, gate, range(200))
    assert [future.result(30) for future in futures] == [f"{k}!" for k in range(200)]
    assert gate.groups == [["first"], list(range(200))]


def test_a_group_has_an_end(writer):
    gate = Gate()
    futures = behind_a_gate(writer, gate, range(MOST_TOGETHER + 10))
    assert [future.result(30) for future in futures] == list(range(MOST_TOGETHER + 10))
    assert list(map(len, gate.groups[1:])) == [MOST_TOGETHER, 10]


def test_work_of_another_campaign_has_a_commit_of_its_own(writer):
    one, other = Gate(), Gate()
    other.free.set()
    first = writer.submit(one.commit, 0)
    assert one.entered.wait(30)
    futures = [writer.submit((one, other)[k % 2].commit, k) for k in range(10)]
    one.free.set()
    assert [future.result(30) for future in [first, *futures]] == [0, *range(10)]
    assert (one.groups, other.groups) == ([[0], [0, 2, 4, 6, 8]], [[1, 3, 5, 7, 9]])


@pytest.mark.parametrize("kind", [ConflictError, ValueError])
def test_an_error_for_one_is_not_one_for_others(writer, kind):
    gate = Gate(lambda work: kind(str(work)) if work != "first" and work % 2 else work)
    for k, future in enumerate(behind_a_gate(writer, gate, range(20))):
        if k % 2:
            with pytest.raises(kind, match=str(k)):
                future.result(30)
        else:
            assert future.result(30) == k


@pytest.mark.parametrize(
    "error", [UnavailableError("no room", full=True), ConflictError("so", seq=3), OSError("disk")]
)
def test_a_commit_that_fails_gives_each_caller_an_error_of_its_own(writer, error):
    def answer(work):
        if work != "first":
            raise error
        return work

    gate = Gate(answer)
    futures = behind_a_gate(writer, gate, range(5))
    found = [future.exception(30) for future in futures]
    assert len(set(map(id, [error, *found]))) == 6
    for one in found:
        if isinstance(error, OSError):
            assert isinstance(one, UnavailableError)
            assert "OSError: disk" in str(one)
        else:
            assert (type(one), one.plain) == (type(error), error.plain)
            assert getattr(one, "full", None) == getattr(error, "full", None)
    gate.answer = lambda work: work
    assert writer.submit(gate.commit, 7).result(30) == 7


def test_work_that_is_cancelled_while_it_waits_is_not_done(writer):
    """As asyncio does when a caller has waited too long; the others are answered."""
    gate = Gate()
    first = writer.submit(gate.commit, "first")
    assert gate.entered.wait(30)
    futures = [writer.submit(gate.commit, k) for k in range(3)]
    assert futures[1].cancel()
    assert not first.cancel()  # its commit is under way
    gate.free.set()
    assert [futures[k].result(30) for k in (0, 2)] == [0, 2]
    assert gate.groups == [["first"], [0, 2]]
    alone = [writer.submit(gate.commit, "x") for _ in range(2)]
    for future in alone:
        future.cancel()
    assert writer.submit(gate.commit, 5).result(30) == 5


def test_closing_answers_all_who_wait_and_then_nobody():
    writer, gate = Writer(), Gate()
    first = writer.submit(gate.commit, "first")
    assert gate.entered.wait(30)
    futures = [writer.submit(gate.commit, k) for k in range(3)]
    closing = threading.Thread(target=writer.close)
    closing.start()
    gate.free.set()
    closing.join(30)
    assert [future.result(0) for future in [first, *futures]] == ["first", 0, 1, 2]
    with pytest.raises(UnavailableError, match="the store is closed"):
        writer.submit(gate.commit, 9)
    writer.close()


def answer_of_child(work):
    """Return the answer of a function that a forked child calls, a number from 0 to 98."""
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException:
            os._exit(99)
        os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kind", ["closed file", "server"])
def test_a_forked_child_writes_by_itself(request, tmp_path, kind):
    """The child has neither the connections and the thread of its parent nor its waiting work."""
    server = kind == "server"
    url = request.getfixturevalue("postgres").create_database() if server else tmp_path / "a.db"
    with open_store(url, create=True) as store:
        campaign = create(store)
        fill(campaign, range(3))
        if not server:
            store.engine.dispose()
        assert answer_of_child(lambda: campaign.record(report(3)).seq) == 4
        assert campaign.record(report(4)).seq == 5
        check_chains(campaign)


@pytest.mark.parametrize("again", [False, True])
def test_a_forked_child_does_not_write_to_a_file_that_its_parent_has_open(tmp_path, again):
    """It would write into a log that its parent may delete: acknowledged rows would be lost."""
    path = tmp_path / "store.db"
    with open_store(path, create=True) as store:
        campaign = create(store)
        fill(campaign, range(3))

        def write():
            try:
                mine = Campaign(open_store(path), campaign.name) if again else campaign
                return mine.record(report(3)).seq
            except UnavailableError as error:
                return 0 if "when this process was forked" in str(error) else 98

        assert answer_of_child(write) == 0
        assert campaign.record(report(4)).seq == 4
        check_chains(campaign)


# With a store


def commits(store):
    """Return a list that grows with every commit of a store."""
    made = []
    sa.event.listen(store.engine, "commit", made.append)
    return made


def held_up(campaign, made, works):
    """Submit works while the writer is busy; return their futures when all are done."""
    entered, free = threading.Event(), threading.Event()

    def wait(transaction):
        entered.set()
        assert free.wait(30)

    first = campaign.submit(Work(wait))
    assert entered.wait(30)
    futures = [campaign.submit(work) for work in works]
    free.set()
    first.result(30)
    made.clear()
    for future in futures:
        future.exception(30)
    return futures


def test_many_reports_and_refusals_are_one_commit(store):
    campaign = create(store)
    made = commits(store)
    told = [report(k, version=9 if k % 3 == 2 else None) for k in range(30)]
    futures = held_up(campaign, made, map(campaign.work_of, told))
    assert len(made) <= 1  # the commit that holds all of them; the first may be counted before
    assert [isinstance(future.exception(), RefusedError) for future in futures] == [
        k % 3 == 2 for k in range(30)
    ]
    errors = [future.exception() for future in futures if future.exception()]
    assert [error.fields["refusal"] for error in errors] == list(range(1, 11))
    assert len(set(map(id, errors))) == 10
    assert (len(chain(campaign, "episodes")), len(chain(campaign, "refusals"))) == (20, 10)
    check_chains(campaign)


@pytest.mark.parametrize("version", [None, 9])
def test_a_report_is_one_commit_also_if_it_is_refused(store, version):
    campaign = create(store)
    made = commits(store)
    try:
        campaign.record(report(0, version=version))
    except RefusedError:
        assert version == 9
    assert len(made) == 1


def test_an_import_is_a_commit_for_a_thousand(store):
    campaign = create(store, episodes=3000)
    made = commits(store)
    assert len(list(campaign.record_all(report(k) for k in range(1001)))) == 1001
    assert len(made) == 2


def test_callers_that_come_together_share_commits(store):
    campaign = create(store, episodes=3000)
    made = commits(store)
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(campaign.record, map(report, range(640))))
    assert sorted(one.seq for one in answers) == list(range(1, 641))
    assert len(made) < 320


def test_a_work_that_raises_changes_nothing_for_the_others(store):
    campaign = create(store)
    made = commits(store)

    def wrong(transaction):
        raise ValueError("not so")

    works = [campaign.work_of(report(0)), Work(wrong), campaign.work_of(report(1))]
    first, second, third = held_up(campaign, made, works)
    assert (first.result().seq, third.result().seq) == (1, 2)
    with pytest.raises(ValueError, match="not so"):
        second.result()
    check_chains(campaign)


def test_a_work_that_fails_half_way_takes_its_group_with_it(store):
    campaign = create(store)

    def half(transaction):
        transaction.enter("stopped", {}, by="ana", reason="half")
        raise ValueError("the other half is missing")

    works = [campaign.work_of(report(0)), Work(half)]
    for future in held_up(campaign, [], works):
        with pytest.raises(UnavailableError, match="the other half is missing"):
            future.result()
    assert (len(campaign.entries), chain(campaign, "episodes")) == (2, [])
    assert campaign.record(report(0)).seq == 1
    check_chains(campaign)


def test_a_closed_store_is_not_written(store, store_url):
    campaign = create(store)
    future = campaign.submit(campaign.work_of(report(0)))
    store.close()
    assert future.result(0).seq == 1
    with pytest.raises(UnavailableError, match="the store is closed"):
        campaign.record(report(1))
    with open_store(store_url) as again:
        assert len(chain(Campaign(again, "trial"), "episodes")) == 1
