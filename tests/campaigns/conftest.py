"""A fresh store of each kind, and access to it."""

import pytest

from access_builders import with_administrator
from loaded_verifier import loaded_verifier
from rareswitch.campaigns import open_store

CREATING = ("test_campaign_schema", "test_campaign_store", "test_campaign_races")


@pytest.fixture(autouse=True)
def cheap_stores(request):
    """Copy new stores, except where a test is about creating and migrating them."""
    if request.path.stem not in CREATING:
        request.getfixturevalue("copied_files")


@pytest.fixture
def store(store_url):
    """Open a fresh store."""
    with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def access(store, cheap_passwords):
    """Return the access to a fresh store in which Ana is administrator; its clock stands still."""
    return with_administrator(store)


@pytest.fixture
def file_access(tmp_path, cheap_passwords):
    """Return the same in a file, for tests whose outcome does not depend on the kind of store."""
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield with_administrator(opened)


@pytest.fixture(scope="session")
def run_verifier():
    """Return what runs the built verifier with arguments."""
    with loaded_verifier() as run:
        yield run
