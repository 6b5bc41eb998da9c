"""One hypothesis profile, small pieces of experiments, fresh stores, and warm commands."""

import gc
import os
import shutil
import sysconfig
import threading
from contextlib import suppress

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, database=None, max_examples=25, print_blob=True)
settings.load_profile("suite")


def pytest_collection_finish():
    """Keep thousands of tests and modules, which live to the end, out of garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def pieces_of_ten_rounds(monkeypatch):
    """Cut experiments finer than usual, so that small ones have several pieces."""
    monkeypatch.setattr("rareswitch.experiments.store.ROUNDS_PER_PIECE", 10)


@pytest.fixture(scope="session")
def postgres():
    """Run one server, or one in each of xdist's workers, from the first test that asks for it."""
    from postgres_server import running_postgres

    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    """Return functions that copy a store with the newest schema: migrating takes longer."""
    from rareswitch.campaigns import open_store

    file, databases = tmp_path_factory.mktemp("migrated") / "store.db", []

    def copy_file(path):
        if not file.exists():
            open_store(file, create=True).close()
        shutil.copyfile(file, path)

    def copy_database(server):
        if not databases:
            databases.append(server.create_database())
            open_store(databases[0], create=True).close()
        return server.create_database(template=databases[0].rpartition("/")[2])

    return copy_file, copy_database


@pytest.fixture
def copied_files(migrated, monkeypatch, tmp_path_factory):
    """Let `open_store` begin a new file as a copy with the newest schema, without migrating."""
    from rareswitch.campaigns.store import opening

    copy_file, _ = migrated
    create_file = opening._create_file
    folder = tmp_path_factory.getbasetemp()

    def copy(path):
        if not path.exists():
            made = folder / f"copied-{threading.get_ident()}.db"
            copy_file(made)
            made.chmod(0o600)
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError, OSError):  # another was quicker, or it is another disk
                os.link(made, path)
            made.unlink()
        create_file(path)

    copy_file(folder / "first.db")  # made before the files are copies
    (folder / "first.db").unlink()
    monkeypatch.setattr(opening, "_create_file", copy)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path, migrated):
    """Return the address of a store that is not there yet: a file, or an empty database.

    For a test that asks for an open store as well, it has the newest schema.
    """
    copy_file, copy_database = migrated
    is_open = "store" in request.fixturenames
    if request.param == "sqlite":
        if is_open:
            copy_file(tmp_path / "store.db")
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server = request.getfixturevalue("postgres")
    url = copy_database(server) if is_open else server.create_database()
    yield url
    if server.running:
        server.drop_database(url)


@pytest.fixture
def cheap_passwords(monkeypatch):
    """Hash passwords with little work; what is hashed and compared stays the same."""
    from argon2 import PasswordHasher, Type

    from rareswitch.campaigns.access import passwords

    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1, type=Type.ID)
    monkeypatch.setattr(passwords, "_hasher", lambda: hasher)
    passwords._decoy.cache_clear()
    yield hasher
    passwords._decoy.cache_clear()


@pytest.fixture(scope="session")
def warm_path():
    """Return a PATH whose `rareswitch` starts without the time of imports."""
    from warm_commands import warm_commands

    with warm_commands() as folder:
        yield os.pathsep.join([str(folder), sysconfig.get_path("scripts"), os.environ["PATH"]])


@pytest.fixture(scope="session")
def warm_script():
    """Return a program that runs a Python script without the time of importing libraries."""
    from warm_commands import warm_commands

    with warm_commands("script") as folder:
        yield folder / "script"
