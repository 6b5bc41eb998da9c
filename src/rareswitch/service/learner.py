"""The learner's process: it processes the logs of all campaigns of a store and proposes policies.

It is separate from the process that answers requests. If it is killed, the next learner continues
from the log with the same result.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from rareswitch.campaigns.campaign import Campaign, list_campaigns
from rareswitch.campaigns.errors import CampaignError, NotAllowedError, UnavailableError
from rareswitch.campaigns.learning.learning import Learning
from rareswitch.campaigns.learning.requests import answer_request
from rareswitch.campaigns.store import Store, open_store
from rareswitch.service.notices import beat
from rareswitch.service.telemetry import begin_log, logger

LONGEST_PAUSE = 30.0  # seconds between two tries to reach a store
BEAT_EVERY = 10.0  # seconds between two heartbeats
TRY_AGAIN = 2.0  # seconds between two tries to lock a campaign that another process learns


def run_learner(
    url: str, allow: Sequence[str], rehearsal: bool, every: float, log_format: str, parent: int
) -> None:
    """Learn until SIGTERM, or until the parent process has ended."""
    begin_log(as_json=log_format == "json")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops us
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    pause = every
    while not stopping.is_set():
        try:
            with (
                open_store(url) as store,
                beating(store),
                Learners(store, allow, rehearsal=rehearsal) as learners,
            ):
                while not stopping.is_set():
                    learners.step(stopping.is_set)
                    pause = every
                    stopping.wait(every)
        except (UnavailableError, FileNotFoundError) as error:
            logger.warning("store unavailable", extra={"told": {"why": str(error)}})
            pause = min(2 * pause, LONGEST_PAUSE)
            stopping.wait(pause)


@contextmanager
def beating(store: Store) -> Iterator[None]:
    """Send heartbeats from a thread, so that a long fit does not look like a dead learner."""
    ended = threading.Event()

    def follow() -> None:
        while not ended.is_set():
            with suppress(UnavailableError):  # the learner itself logs it
                beat(store)
            ended.wait(BEAT_EVERY)

    thread = threading.Thread(target=follow, name="rareswitch-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _end_with(parent: int) -> None:
    """End this process at once when its parent has ended."""
    while os.getppid() == parent:
        threading.Event().wait(0.5)
    os._exit(0)


class Learners:
    """The learners of all campaigns of a store; a context manager that holds their locks."""

    def __init__(self, store: Store, allow: Sequence[str], *, rehearsal: bool) -> None:
        self._store, self._allow, self._rehearsal = store, tuple(allow), rehearsal
        self._held: dict[str, tuple[Learning, ExitStack]] = {}
        self._after: dict[str, float] = {}  # when a campaign is tried again
        self._told: dict[str, str] = {}  # the last error of a campaign

    def __enter__(self) -> "Learners":
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._held.values():
            with suppress(CampaignError):
                held[1].close()
        self._held.clear()

    def step(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Process the new episodes and requests of each campaign."""
        for name in list_campaigns(self._store):
            if stopping():
                return
            try:
                learning = self._learning(name)
                if learning is None:
                    continue
                answer_request(learning)
                while not stopping() and (found := learning.step()) is not None:
                    told = {"campaign": name, "candidate": found.number, "status": found.status}
                    logger.info("candidate", extra={"told": told})
                self._told.pop(name, None)
            except UnavailableError:
                raise
            except (CampaignError, TypeError, ValueError, LookupError, ArithmeticError) as error:
                self._tell(name, error)

    def _learning(self, name: str) -> Learning | None:
        """Return the learner of a campaign; None while another process is its learner."""
        if name in self._held:
            return self._held[name][0]
        if time.monotonic() < self._after.get(name, 0.0):
            return None
        stack = ExitStack()
        try:
            # A lock on a database server keeps a connection.
            store = stack.enter_context(open_store(self._store.engine.url.render_as_string(False)))
            campaign = Campaign(store, name, allow=self._allow, rehearsal=self._rehearsal)
            learning = stack.enter_context(Learning(campaign, wait=0.0))
        except NotAllowedError:
            stack.close()
            self._after[name] = time.monotonic() + TRY_AGAIN
            return None
        except BaseException:
            stack.close()
            raise
        self._held[name] = learning, stack
        return learning

    def _tell(self, name: str, error: Exception) -> None:
        """Log an error of a campaign, unless it is the same as the last."""
        text = f"{type(error).__name__}: {error}"
        if self._told.get(name) != text:
            self._told[name] = text
            logger.error("learner refused", extra={"told": {"campaign": name, "why": text}})
