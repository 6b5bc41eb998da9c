import pytest

from rareswitch.core.undo import all_or_nothing, take_back


def test_what_succeeds_stays():
    done = []
    with all_or_nothing() as undo:
        undo.append(lambda: done.append("taken back"))
    assert done == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_is_taken_back_the_last_first(error):
    done = []

    def fail():
        with all_or_nothing() as undo:
            undo.append(lambda: done.append(1))
            undo.append(lambda: done.append(2))
            raise error

    with pytest.raises(error):
        fail()
    assert done == [2, 1]


def test_steps_may_be_taken_back_later():
    done = []
    take_back([lambda: done.append(1), lambda: done.append(2)])
    assert done == [2, 1]


def test_what_was_taken_back_is_not_taken_back_again():
    done, steps = [], [lambda: done.append(1)]
    take_back(steps)
    take_back(steps)
    assert (done, steps) == ([1], [])


def test_steps_that_were_not_reached_can_still_be_taken_back():
    done, failures = [], [KeyboardInterrupt()]

    def fail_once():
        if failures:
            raise failures.pop()
        done.append(2)

    steps = [lambda: done.append(1), fail_once, lambda: done.append(3)]
    with pytest.raises(KeyboardInterrupt):
        take_back(steps)
    take_back(steps)
    assert done == [3, 2, 1]
