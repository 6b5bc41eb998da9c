"""The asynchronous client: the same conversations and files, and an event loop that never waits."""

import asyncio
import time as clock

import httpx
import pytest

from contract_server import TOKEN, URL, problem
from rareswitch.campaigns import ConflictError, Intake, episodes
from rareswitch.campaigns.client import AsyncClient, Client, OfflineError
from rareswitch.campaigns.client.async_client import AsyncEpisode, in_thread
from rareswitch.campaigns.client.episode import Episode


def recorded(server):
    return {one["episode_id"]: one for one in episodes(server.campaign, limit=1000)}


async def play(client, name):
    async with client.episode(name) as episode:
        action = await episode.act({"severity": 2})
        assert episode.action == action
        assert 0.0 < episode.probability <= 1.0
        await episode.reward(0.5)
    return episode


def run(work):
    return asyncio.run(work)


def test_episodes_are_played_and_reported(server, make_async_client):
    async def work():
        async with make_async_client(server) as client:
            done = await asyncio.gather(*(play(client, f"berlin:{n}") for n in range(10)))
            assert {one.version for one in done} == {1}
            assert (await client.status()).waiting == 10
            assert await client.flush() == (10, 0, 0, None)
            assert client.policy.digest == server.campaign.policy().digest
            assert not await client.refresh()

    run(work())
    assert len(recorded(server)) == 10
    assert {one["deviations"] for one in recorded(server).values()} == {0}


def test_both_clients_share_files_and_answers(server, make_client, make_async_client):
    async def begin():
        async with make_async_client(server) as client:
            episode = await client.episode("berlin:1", site="berlin")
            assert isinstance(episode, AsyncEpisode)
            await episode.act({"severity": 2})
            with pytest.raises(ConflictError, match="in progress"):
                await client.episode("berlin:1")
            await episode.suspend()
            assert await client.unfinished() == ["berlin:1"]
            assert (episode.id, episode.stage, episode.waits) == ("berlin:1", 1, True)
            return episode.member

    member = run(begin())
    client = make_client(server)
    with client.episode("berlin:1") as episode:
        assert (episode.member, episode.waits) == (member, True)
        episode.reward(1.0)
    assert client.flush().recorded == 1


def test_every_verb_of_the_client_has_its_twin():
    def verbs(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    assert verbs(Client) == verbs(AsyncClient)
    assert verbs(Episode) - verbs(AsyncEpisode) == {"is_over", "discard"}


def test_overrides_claims_cuts_and_cancellations(make_server, make_async_client):
    server = make_server(intake=Intake(assigned=True))

    async def work():
        async with make_async_client(server) as client:
            await client.reserve(["berlin:1", "berlin:2", "berlin:3"])
            assert sorted(await client.reserved()) == ["berlin:1", "berlin:2", "berlin:3"]
            server.online = False
            async with client.episode("berlin:1") as episode:
                await episode.act({"severity": 2})
                await episode.take("high")
                await episode.reward(1.0)
                await episode.tell(site="berlin")
                await episode.cut_off({"severity": 0})
            episode = await client.episode("berlin:2")
            await episode.act({"severity": 2})
            await episode.reward(1.0)
            await episode.finish()
            with pytest.raises(OfflineError, match="must assign it"):
                async with client.episode("berlin:9"):
                    pass
            server.online = True
            await client.cancel("berlin:3", "no visit")
            told = {"observations": [{"severity": 1}], "actions": ["low"], "rewards": [1.0]}
            await client.report({"id": "berlin:4", **told})  # it was not assigned
            assert await client.flush() == (2, 1, 0, None)
            (refused,) = await client.refused()
            assert "was not assigned" in refused.problem["detail"]

    run(work())
    assert recorded(server)["berlin:1"]["report"]["site"] == "berlin"


def test_the_background_task_sends_by_itself_and_ends(server, tmp_path):
    settings = {"token": TOKEN, "folder": tmp_path / "site", "transport": server.transport}

    async def work():
        async with AsyncClient(URL, "doors", **settings) as client:
            server.faults = [None] * 4 + [problem(503, "not yet", "unavailable")]
            await play(client, "berlin:1")
            for _ in range(300):
                if "berlin:1" in recorded(server):
                    break
                await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) == 1

    run(work())
    assert set(recorded(server)) == {"berlin:1"}


def test_flushing_waits_and_tries_again(server, tmp_path):
    settings = {"token": TOKEN, "folder": tmp_path / "site", "transport": server.transport}

    async def work():
        async with AsyncClient(URL, "doors", background=False, **settings) as client:
            await play(client, "berlin:1")
            server.faults = [httpx.ConnectError("no route")]
            assert (await client.flush()).waiting == 1
            server.faults = [httpx.ConnectError("no route")]
            assert await client.flush(wait=30.0) == (1, 0, 0, None)

    run(work())


def test_a_cancelled_caller_leaves_whole_files_and_no_lock(server, make_async_client):
    async def work():
        async with make_async_client(server) as client:
            await client.refresh()
            for number in range(20):
                task = asyncio.create_task(play(client, f"berlin:{number}"))
                await asyncio.sleep(0.001 * number)
                task.cancel()
                await asyncio.wait([task])
                del task
            for name in await client.unfinished():
                async with client.episode(name) as episode:
                    if episode.waits:
                        await episode.reward(0.5)
                    elif not episode.stage:
                        await episode.act({"severity": 1})
                        await episode.reward(0.5)
            assert (await client.flush()).error is None
            assert (await client.status())[5:9] == (0, 0, 0, 0)

    run(work())


def test_a_cancelled_flush_lets_the_next_one_send(server, make_async_client):
    started = asyncio.Event()

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            if request.method == "POST":
                started.set()
                await asyncio.sleep(0 if started.is_set() and Slow.fast else 60)
            return await server.transport.handle_async_request(request)

    Slow.fast = False

    async def work():
        async with make_async_client(server, transport=Slow()) as client:
            await play(client, "berlin:1")
            task = asyncio.create_task(client.flush())
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            Slow.fast = True
            assert await client.flush() == (1, 0, 0, None)

    run(work())


def test_files_do_not_hold_up_the_loop():
    async def work():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        await in_thread(clock.sleep, 0.3)
        ticking.cancel()
        return ticks

    assert run(work()) > 5


def test_an_episode_must_begin_first(server, make_async_client):
    async def work():
        async with make_async_client(server) as client:
            with pytest.raises(ValueError, match="the episode must begin first"):
                await client.episode("berlin:1").act({"severity": 1})

    run(work())
