"""A running service on a fresh store of each kind, and a study in it."""

import pytest

from rareswitch.campaigns import learn, open_store
from running_service import report_of, run_service, study


@pytest.fixture(autouse=True)
def cheap(cheap_passwords, copied_files):
    """Hash passwords with little work, and copy new stores, in every test of the service."""


@pytest.fixture
def store(tmp_path, migrated):
    """Open a fresh store in a file."""
    copy_file, _ = migrated
    copy_file(tmp_path / "store.db")
    with open_store(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def running_anywhere(request, tmp_path, migrated):
    """Run a service on a store of each kind, with a study."""
    copy_file, copy_database = migrated
    if request.param == "postgresql":
        url = copy_database(request.getfixturevalue("postgres"))
    else:
        url = f"sqlite:///{tmp_path / 'anywhere.db'}"
        copy_file(tmp_path / "anywhere.db")
    with open_store(url) as opened:
        found = run_service(opened)
        found.create(*study())
        yield found


@pytest.fixture
def running(store):
    """Run a service with a study, in which nothing has happened."""
    found = run_service(store)
    found.create(*study())
    return found


@pytest.fixture
def waiting(running):
    """Run a service whose study has a candidate that waits; return both."""
    reports = [report_of(number) for number in range(101)]
    answer = running.ask("POST", "/v1/campaigns/doors/episodes", "site", reports)
    assert answer.status_code == 200, answer.text
    campaign = running.service.find_campaign("doors")
    (candidate,) = learn(campaign)
    return running, candidate
