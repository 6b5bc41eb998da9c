"""Processes that work on one campaign at once, made to be killed.

They are forked from a server that has everything imported, so that a test can start hundreds.
"""

import itertools
import multiprocessing
import os
import threading
import time
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

import pytest

from campaign_builders import create, report, some_policy
from rareswitch.campaigns import Campaign, Learning, MovedError, NotAllowedError, open_store

HERE = str(Path(__file__).parent)
MANY = {"episodes": 1_000_000, "batches": 1, "budget": 1_000_000}


def nursery():
    """Return a context of processes that start quickly and share nothing with the tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["campaign_processes"])
    path = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patched:  # the server knows nothing of pytest's path
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, [HERE, path])))
        forkserver.ensure_running()
    return context


@contextmanager
def running(context, work, *arguments):
    """Run a function in a process of its own, killed at the end if need be."""
    process = context.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def write(url, told, ended, writer, first):
    """Record from two threads, and deploy now and then; tell what was acknowledged."""
    campaign = Campaign(open_store(url), "trial")
    telling = threading.Lock()

    def tell(*what):
        with telling:
            told.send(what)

    def record(thread):
        for number in itertools.count(first.get(thread, 0)):
            if ended.is_set():
                return
            identifier = f"w{writer}-{thread}-{number}"
            campaign.assign(identifier)
            place = campaign.record(report(number, id=identifier))
            tell("recorded", thread, number, identifier, place.seq)
            if number % 5 == 4:
                deploy(number)

    def deploy(number):
        try:
            made = campaign.propose(
                some_policy(number % 3),
                seq=campaign.state.in_force.seq,
                evidence={"triggers": [], "writer": writer},
                expected=campaign.version,
                by="schedule",
                reason="a test",
            )
        except MovedError:
            return
        tell("deployed", made.version, made.digest)

    threads = [threading.Thread(target=record, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.send(("ended",))


def open_and_write(url, told, barrier, writer, count):
    """Create the store and the campaign, unless another was quicker, and record into it."""
    try:
        barrier.wait(60)
        with open_store(url, create=True) as store:
            campaign = create(store, **MANY)
            for number in range(count):
                place = campaign.record(report(number, id=f"w{writer}-{number}"))
                told.send((f"w{writer}-{number}", place.seq))
        told.send("done")
    except BaseException as error:
        told.send(f"{type(error).__name__}: {error}")


def decide(url, told, barrier, what, arguments):
    """Decide at the same moment as others; tell what came of it."""
    with open_store(url) as store:
        campaign = Campaign(store, "trial")
        barrier.wait(60)
        try:
            if what == "propose":
                arguments["policy"] = some_policy(arguments.pop("seed"))
                campaign.propose(arguments.pop("policy"), **arguments)
            else:
                campaign.approve(**arguments)
            told.send("won")
        except NotAllowedError as error:
            told.send(type(error).__name__)


def learn(url, told):
    """Be the learner for as long as one lives."""
    campaign = Campaign(open_store(url), "trial")
    while True:
        try:
            with Learning(campaign) as learning:
                told.send("learning")
                while True:
                    learning.step()
                    time.sleep(0.002)
        except NotAllowedError:  # the one before is not quite dead
            continue
