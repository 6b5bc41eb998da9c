"""Group commit: one commit for all who wait, and for each its own answer."""

import threading
import time

import pytest

from rareswitch.campaigns.record.group_commit import MOST_TOGETHER, GroupCommit


def asked_by_threads(together, values):
    """Ask from one thread each; return answers or errors in the order of the values."""
    found = [None] * len(values)

    def ask(place, value):
        try:
            found[place] = together.ask(value)
        except BaseException as error:
            found[place] = error

    threads = [threading.Thread(target=ask, args=pair) for pair in enumerate(values)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return found


def test_many_callers_share_commits_and_each_has_its_answer():
    groups, busy = [], threading.Lock()

    def commit(asked):
        assert busy.acquire(blocking=False), "two commits at once"
        groups.append(list(asked))
        time.sleep(0.01)
        busy.release()
        return [one * 10 for one in asked]

    values = list(range(200))
    assert asked_by_threads(GroupCommit(commit), values) == [one * 10 for one in values]
    assert sorted(one for group in groups for one in group) == values
    assert len(groups) < 100
    assert max(map(len, groups)) <= MOST_TOGETHER


def test_nobody_is_answered_before_the_commit():
    committed = threading.Event()
    entered = threading.Event()

    def commit(asked):
        entered.set()
        assert committed.wait(30)
        return asked

    together, answers = GroupCommit(commit), []
    thread = threading.Thread(target=lambda: answers.append(together.ask(1)))
    thread.start()
    assert entered.wait(30)
    time.sleep(0.05)
    assert answers == []
    committed.set()
    thread.join(30)
    assert answers == [1]


def test_an_error_for_one_is_not_one_for_others():
    def commit(asked):
        return [ValueError(one) if one % 2 else one for one in asked]

    found = asked_by_threads(GroupCommit(commit), list(range(20)))
    for value, answer in enumerate(found):
        assert isinstance(answer, ValueError) if value % 2 else answer == value


def test_a_commit_that_fails_fails_for_all_of_its_group_and_the_next_goes_on():
    calls = []

    def commit(asked):
        calls.append(asked)
        if len(calls) == 1:
            raise OSError("no room")
        return asked

    together = GroupCommit(commit)
    with pytest.raises(OSError, match="no room"):
        together.ask(1)
    assert together.ask(2) == 2


def test_an_interrupt_reaches_the_caller_and_leaves_nobody_waiting():
    calls = []

    def commit(asked):
        calls.append(asked)
        if len(calls) == 1:
            time.sleep(0.05)
            raise KeyboardInterrupt
        return asked

    together = GroupCommit(commit)
    found = asked_by_threads(together, list(range(8)))
    assert sum(isinstance(answer, KeyboardInterrupt) for answer in found) == 1
    assert all(
        answer == value or isinstance(answer, KeyboardInterrupt | InterruptedError)
        for value, answer in enumerate(found)
    )
    assert together.ask(99) == 99


@pytest.mark.parametrize("called", [False, True], ids=["waiting", "called to commit"])
def test_who_leaves_while_waiting_keeps_nobody_waiting(monkeypatch, called):
    busy, free = threading.Event(), threading.Event()

    def commit(asked):
        busy.set()
        assert free.wait(30)
        return asked

    together = GroupCommit(commit)
    first = threading.Thread(target=together.ask, args=(1,))
    first.start()
    assert busy.wait(30)
    wait = threading.Event.wait

    def interrupted(event, timeout=None):
        if threading.current_thread() is threading.main_thread() and timeout is None:
            if called:
                free.set()
                assert wait(event, 30)
            raise KeyboardInterrupt
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        together.ask(2)
    monkeypatch.undo()
    free.set()
    first.join(30)
    assert asked_by_threads(together, [3, 4]) == [3, 4]
