import signal

import pytest

from rareswitch.cli.interrupt import interruptible


def test_ctrl_c_is_a_request_and_pressed_twice_an_order():
    before = signal.getsignal(signal.SIGINT)
    with interruptible() as pressed:
        assert not pressed()
        signal.raise_signal(signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_is_given_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), interruptible():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before
