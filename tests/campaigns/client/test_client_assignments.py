"""Assignments: asked of the server where the protocol demands it, reserved ahead, or drawn here."""

import httpx
import pytest

from contract_server import deploy, problem
from rareswitch.campaigns import CampaignError, DamagedError, Intake, episodes
from rareswitch.campaigns.client import DeniedError, NoCampaignError, OfflineError

CONCEALED = Intake(assigned=True, concealed=True)


def play(client, episode_id):
    with client.episode(episode_id) as episode:
        episode.act({"severity": 2})
        episode.reward(1.0)
    return episode


def rows_of(server):
    return {one["episode_id"]: one for one in episodes(server.campaign, limit=1000)}


def test_an_episode_that_is_not_assigned_gets_the_member_that_the_server_attributes(client, server):
    client.refresh()
    server.online = False
    members = {f"berlin:{n}": play(client, f"berlin:{n}").member for n in range(30)}
    assert len({*members.values()}) > 1
    server.online = True
    assert client.flush().recorded == 30
    assert {name: one["member"] for name, one in rows_of(server).items()} == members
    assert ("POST", "/assignments") not in server.asked


def test_offline_for_days_the_version_that_acted_is_reported(make_server, make_client, time):
    server = make_server(intake=Intake(grace=3))
    client = make_client(server)
    client.refresh()
    server.online = False
    for day in range(5):
        time.seconds += 86_400.0
        play(client, f"berlin:{day}")
    deploy(server.campaign)
    server.online = True
    assert client.flush()[:3] == (4, 1, 0)  # the grace is over after three more episodes
    assert {one["version"] for one in rows_of(server).values()} == {1}
    assert {one["late"] for one in rows_of(server).values()} == {True}
    (refused,) = client.refused()
    assert "the grace is 3" in refused.problem["detail"]
    assert refused.report["version"] == 1
    assert play(client, "berlin:9").version == 2


@pytest.mark.parametrize("intake", [Intake(assigned=True), CONCEALED])
def test_where_the_protocol_demands_it_the_server_assigns(make_server, make_client, intake):
    server = make_server(intake=intake)
    client = make_client(server)
    play(client, "berlin:1")
    assert ("POST", "/assignments") in server.asked
    server.online = False
    said = (
        r"episode berlin:2 cannot begin offline, the server must assign it: the protocol demands "
        r"it \(\[intake\] assigned\)\. Reserve assignments"
    )
    with pytest.raises(OfflineError, match=said):
        client.episode("berlin:2")
    assert client.unfinished() == []
    server.online = True
    play(client, "berlin:2")
    client.flush()
    assert {one["assigned"] for one in rows_of(server).values()} == {True}


def test_reserved_assignments_carry_a_concealed_trial_through_days_offline(
    make_server, make_client, time
):
    server = make_server(intake=CONCEALED)
    client = make_client(server)
    ids = [f"berlin:{number}" for number in range(250)]
    found = client.reserve(ids)
    assert [one.episode_id for one in found] == ids
    assert sorted(client.reserved()) == sorted(ids)
    assert client.status().reserved == 250
    deploy(server.campaign)  # the assignments are of version 1
    server.online = False
    time.seconds += 3 * 86_400.0
    again = make_client(server)
    for name in ids[:20]:
        play(again, name)
    server.online = True
    again.refresh()
    assert play(again, ids[20]).version == 1
    assert again.flush() == (21, 0, 0, None)
    recorded = rows_of(server)
    assert {one["version"] for one in recorded.values()} == {1}
    assert {one["deviations"] for one in recorded.values()} == {0}
    assert again.status().reserved == 229
    members = {one.episode_id: one.member for one in found}
    assert all(one["member"] == members[name] for name, one in recorded.items())
    assert play(again, "berlin:x").version == 2


def test_reserving_again_is_the_same(make_server, make_client):
    server = make_server(intake=CONCEALED)
    client = make_client(server)
    assert client.reserve(["berlin:1", "berlin:2"]) == client.reserve(["berlin:1", "berlin:2"])
    with pytest.raises(TypeError, match="ids must be a list of episode ids"):
        client.reserve("berlin:1")


def test_the_policy_of_an_assignment_is_fetched_and_verified(make_server, make_client):
    server = make_server(intake=CONCEALED)
    client = make_client(server)
    client.refresh()
    deploy(server.campaign)
    assert play(client, "berlin:1").version == 2  # the client knew version 1

    def alter(request, answer):
        if "/policies/" in request.url.path:
            answer._content = answer.content[:-1]

    deploy(server.campaign, seed=9)
    server.on_answer = alter
    with pytest.raises(OfflineError, match="must have the SHA-256"):
        client.episode("berlin:2")
    server.on_answer = None
    assert play(client, "berlin:2").version == 3


@pytest.mark.parametrize("lost", ["before", "after"])
def test_an_answer_that_was_lost_is_never_replaced_by_a_draw(server, make_client, lost):
    client = make_client(server, assign=True)
    client.refresh()
    timeout = httpx.ReadTimeout("too slow")

    def lose(request):
        if lost == "after":
            server.answer(request, "/assignments")
        return timeout

    server.faults = [lose]
    with pytest.raises(OfflineError, match=r"this client always asks \(assign=True\)"):
        client.episode("berlin:1")
    deploy(server.campaign)
    # The server may have assigned version 1: a draw by version 2 would be refused later.
    other = make_client(server)
    server.online = False
    with pytest.raises(OfflineError, match="the server was asked before, and its answer was lost"):
        other.episode("berlin:1")
    server.online = True
    other.refresh()
    episode = play(other, "berlin:1")
    assert episode.version == (1 if lost == "after" else 2)
    assert other.flush() == (1, 0, 0, None)


@pytest.mark.parametrize(
    "alter",
    [
        lambda row: row | {"member": (row["member"] + 1) % 8},
        lambda row: row | {"key": "another"},
    ],
)
def test_an_assignment_must_follow_from_its_key(make_server, make_client, alter):
    server = make_server(intake=CONCEALED)
    client = make_client(server)

    def change(request):
        row = server._assignment("berlin:1")
        changed = alter(row)
        member = server.campaign.policy().allocate(changed["key"])
        assert member != changed["member"] or changed["key"] == "another"
        return httpx.Response(200, json=changed | {"member": 8 if member == row["member"] else 0})

    client.refresh()
    server.faults = [change]
    with pytest.raises(DamagedError, match="its key draws member"):
        client.episode("berlin:1")
    play(client, "berlin:1")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, json={"episode_id": "berlin:7"}),
        httpx.Response(200, json=[]),
        httpx.Response(200, html="Welcome"),
        problem(429, "slow down", "too-many"),
    ],
)
def test_an_answer_that_is_no_assignment_begins_nothing(make_server, make_client, answer):
    server = make_server(intake=CONCEALED)
    client = make_client(server)
    client.refresh()
    server.faults = [answer]
    with pytest.raises(OfflineError):
        client.episode("berlin:7")
    assert client.unfinished() == []
    server.faults = [problem(403, "your role does not allow this", "forbidden")]
    with pytest.raises(DeniedError, match="your role does not allow this"):
        client.episode("berlin:7")
    server.faults = [problem(404, "there is no campaign doors", "not-found", field="campaign")]
    with pytest.raises(NoCampaignError, match=r"^there is no campaign doors$"):
        client.episode("berlin:7")
    server.faults = [problem(409, "all 5 planned episodes have begun", "not-allowed")]
    with pytest.raises(CampaignError, match="planned episodes have begun") as caught:
        client.episode("berlin:7")
    assert caught.value.code == "not-allowed"
