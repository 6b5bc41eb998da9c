"""A campaign behind a server of the contract, and clients of it."""

import pytest

from contract_server import TOKEN, URL, ContractServer, make_campaign
from rareswitch.campaigns.client import AsyncClient, Client, Timing


class FakeTime:
    """A clock that moves only when somebody sleeps."""

    def __init__(self):
        self.seconds, self.slept = 1000.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds

    @property
    def timing(self):
        return Timing(
            clock=lambda: self.seconds,
            now=lambda: f"second {self.seconds:.0f}",
            chance=lambda: 0.5,
            sleep=self.sleep,
        )


@pytest.fixture
def without_flushes(monkeypatch):
    """Leave files to the system's cache, in tests that write thousands of them."""
    monkeypatch.setattr("os.fsync", lambda file: None)


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def make_server(tmp_path):
    """Make a server whose campaign has these changes of its protocol."""
    stores = []

    def make(**protocol):
        campaign = make_campaign(tmp_path, **protocol)
        stores.append(campaign.store)
        return ContractServer(campaign)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture
def make_client(tmp_path, time):
    """Make a client of a server, in one folder for all."""
    clients = []

    def make(server, **more):
        settings = {
            "token": TOKEN, "folder": tmp_path / "site", "background": False,
            "transport": server.transport, "timing": time.timing,
        }  # fmt: skip
        client = Client(URL, "doors", **settings | more)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def make_async_client(tmp_path, time):
    def make(server, **more):
        settings = {
            "token": TOKEN, "folder": tmp_path / "site", "background": False,
            "transport": server.transport, "timing": time.timing,
        }  # fmt: skip
        return AsyncClient(URL, "doors", **settings | more)

    return make


@pytest.fixture
def client(server, make_client):
    return make_client(server)
