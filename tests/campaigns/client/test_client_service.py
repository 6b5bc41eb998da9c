"""Clients of a real service, a process of its own: played, killed, blinded, and the examples."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from contract_server import observed_protocol
from rareswitch.campaigns import Campaign, Intake, episodes, open_store, refusals, verify
from rareswitch.campaigns.access import Access, operator
from rareswitch.campaigns.client import AsyncClient, Client, DeniedError
from rareswitch.service.demo import demo_protocol
from service_process import ServiceProcess, tokens_of_sites, wait_until

EXAMPLES = Path(__file__).parents[3] / "examples" / "service"


@pytest.fixture
def serve(tmp_path):
    """Serve a campaign with these changes of its protocol; return service and tokens."""
    running = []

    def start(protocol, features, sites=("berlin", "lima")):
        url = f"sqlite:///{tmp_path / 'store.db'}"
        tokens = tokens_of_sites(url, sites, protocol, features)
        service = ServiceProcess(url, tmp_path, "--no-learner")
        running.append(service)
        return service.start(), tokens

    yield start
    for service in running:
        service.__exit__()


def client_of(service, token, folder, *, campaign="doors", kind=Client, **more):
    url = f"http://127.0.0.1:{service.port}"
    return kind(url, campaign, token=token, folder=folder, **more)


def recorded(service, name="doors"):
    with open_store(service.url) as store:
        campaign = Campaign(store, name)
        assert verify(campaign).ok
        return {one["episode_id"]: one for one in episodes(campaign, limit=1000)}


def play(client, name, *, reward=0.5):
    with client.episode(name) as episode:
        for stage in range(2):
            episode.act({"severity": (len(name) + stage) % 5})
            episode.reward(reward)
    return episode


@pytest.mark.parametrize("intake", [Intake(), Intake(assigned=True, concealed=True)])
def test_a_site_acts_reports_and_is_verified(serve, tmp_path, intake):
    service, tokens = serve(*observed_protocol(intake=intake))
    with client_of(service, tokens["berlin"], tmp_path / "b", background=False) as client:
        for number in range(5):
            play(client, f"berlin:{number}")
        assert client.flush() == (5, 0, 0, None)
        play(client, "berlin:5")
        assert client.flush() == (1, 0, 0, None)
        assert not client.refresh()
    rows = recorded(service)
    assert {one["deviations"] for one in rows.values()} == {0}
    assert {one["assigned"] for one in rows.values()} == {intake.assigned}
    assert {json.loads(one["claims"])["site"] for one in rows.values()} == {"berlin"}


def test_the_asynchronous_client_does_the_same(serve, tmp_path):
    service, tokens = serve(*observed_protocol(intake=Intake(assigned=True, concealed=True)))

    async def work():
        settings = {"kind": AsyncClient, "background": False}
        async with client_of(service, tokens["lima"], tmp_path / "l", **settings) as client:
            await client.reserve([f"lima:{number}" for number in range(8)])
            for number in range(8):
                async with client.episode(f"lima:{number}") as episode:
                    await episode.act({"severity": number % 5})
                    await episode.reward(1.0)
            await client.reserve(["lima:x"])
            with pytest.raises(DeniedError, match="the token of an account"):
                await client.cancel("lima:x", "no visit")  # the ledger names a person
            assert await client.reserved() == ["lima:x"]
            assert await client.flush() == (8, 0, 0, None)

    asyncio.run(work())
    assert {one["deviations"] for one in recorded(service).values()} == {0}


def test_an_episode_of_another_site_is_refused_and_kept(serve, tmp_path):
    service, tokens = serve(*observed_protocol())
    with client_of(service, tokens["berlin"], tmp_path / "b", background=False) as client:
        play(client, "lima:1")
        play(client, "berlin:1")
        assert client.flush() == (1, 1, 0, None)
        (refused,) = client.refused()
        assert refused.problem["code"] == "another-site"
        play(client, "lima:2")
        assert client.flush() == (0, 1, 0, None)
    assert set(recorded(service)) == {"berlin:1"}


def test_with_a_token_that_was_revoked_reports_wait_for_a_new_one(serve, tmp_path):
    service, tokens = serve(*observed_protocol())
    with client_of(service, tokens["berlin"], tmp_path / "b", background=False) as client:
        client.refresh()
        with open_store(service.url) as store:
            access = Access(store)
            (mine,) = [one for one in access.tokens() if one.label == "berlin"]
            access.revoke_token(mine.id, by=operator("ops"))
            _, fresh = access.issue_token("new", mine.grants, by=operator("ops"))
        play(client, "berlin:1")

        def is_denied():
            try:
                client.refresh()
            except DeniedError:
                return True
            return False

        wait_until(is_denied, "the token is still accepted")  # a service caches tokens for a second
        assert client.flush().waiting == 1
        play(client, "berlin:2")
        assert client.status()[5:7] == (2, 0)
    with client_of(service, fresh, tmp_path / "b", background=False) as client:
        assert client.flush() == (2, 0, 0, None)


def test_a_service_that_is_killed_under_clients_loses_and_doubles_nothing(serve, tmp_path):
    service, tokens = serve(*observed_protocol())
    ending, played = threading.Event(), {site: [] for site in tokens}

    def act(site):
        with client_of(service, tokens[site], tmp_path / site, timeout=5.0) as client:
            while not ending.is_set():
                name = f"{site}:{len(played[site])}"
                play(client, name)
                played[site].append(name)
                ending.wait(0.05)
            client.flush(wait=120.0)
            assert client.status().waiting == 0

    with client_of(service, tokens["berlin"], tmp_path / "berlin", background=False) as first:
        first.refresh()
    shutil.copytree(tmp_path / "berlin", tmp_path / "lima")
    threads = [threading.Thread(target=act, args=(site,)) for site in tokens]
    for thread in threads:
        thread.start()
    for _ in range(3):
        ending.wait(0.7)
        service.kill()
        ending.wait(0.3)
        service.start()
    ending.set()
    for thread in threads:
        thread.join()
    rows = recorded(service)
    assert set(rows) == {name for names in played.values() for name in names}
    assert {one["deviations"] for one in rows.values()} == {0}
    with open_store(service.url) as store:
        assert refusals(Campaign(store, "doors")) == []


# The examples


def environment(service, token):
    own = {"RARESWITCH_URL": f"http://127.0.0.1:{service.port}", "RARESWITCH_TOKEN": token}
    return os.environ | own


def run(command, service, token, folder):
    done = subprocess.run(
        command, env=environment(service, token), cwd=folder, capture_output=True, text=True
    )
    assert token not in done.stdout + done.stderr
    return done


def test_the_examples_of_a_site_by_curl_in_javascript_and_in_python(serve, tmp_path):
    service, tokens = serve(*demo_protocol())
    token = tokens["berlin"]
    curl = [str(EXAMPLES / "curl.sh"), "berlin:curl", "2", "0.5"]
    first, again = (run(curl, service, token, tmp_path) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert "policy version 1 verified" in first.stdout
    assert '"new":true' in first.stdout
    assert '"new":false' in again.stdout
    refused = run([*curl[:2], "7", "0.5"], service, token, tmp_path)
    assert refused.returncode != 0
    assert "severity" in refused.stderr
    script = ["node", str(EXAMPLES / "client.js"), "berlin:js", "1", "1"]
    done = run(script, service, token, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "recorded as row 2" in done.stdout
    refused = run([*script[:-1], "7"], service, token, tmp_path)
    assert refused.returncode == 1
    assert "rewards must lie in [0, 1]" in refused.stderr
    site = [sys.executable, str(EXAMPLES / "site.py"), "--participants", "5"]
    done = run([*site, "--folder", str(tmp_path / "site")], service, token, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 reports wait, 0 were refused" in done.stdout
    rows = recorded(service, "doses")
    assert len(rows) == 7
    assert {one["deviations"] for one in rows.values()} == {0}


def test_the_javascript_waits_for_a_service_that_comes_later(serve, tmp_path):
    service, tokens = serve(*demo_protocol())
    service.stop()
    script = ["node", str(EXAMPLES / "client.js"), "berlin:1", "1", "1"]
    process = subprocess.Popen(
        script, env=environment(service, tokens["berlin"]), stdout=subprocess.PIPE, text=True
    )
    service.start()
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "recorded as row 1" in said
