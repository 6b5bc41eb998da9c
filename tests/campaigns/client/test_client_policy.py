"""The policy of a client: fetched, verified, cached on disk, and never used by halves."""

import json

import httpx
import pytest

from contract_server import TOKEN, deploy, other_policy, problem
from rareswitch.campaigns import CampaignError, DamagedError
from rareswitch.campaigns.client import Client, DeniedError, OfflineError
from rareswitch.campaigns.client.exchange import Answer, Request, is_temporary
from rareswitch.core.policy import Policy

HTML = httpx.Response(200, html="<h1>Welcome to our network</h1>")


def files(client, part):
    return client._site.folder.names(part)


def test_the_first_refresh_fetches_everything_and_the_next_only_what_changed(client, server):
    assert client.refresh()
    assert client.policy.digest == server.campaign.policy().digest
    assert [path for _, path in server.asked] == ["", "/protocol", "/features", "/policy"]
    server.asked.clear()
    assert not client.refresh()
    assert [path for _, path in server.asked] == ["", "/policy"]
    deploy(server.campaign)
    assert client.refresh()
    assert client.policy.digest == server.campaign.policy().digest
    assert client.status().version == 2


def test_a_policy_that_is_known_is_answered_without_its_bytes(client, server):
    client.refresh()
    answers = []
    server.on_answer = lambda request, answer: answers.append((request.url.path, answer))
    client.refresh()
    (answer,) = [answer for path, answer in answers if path.endswith("/policy")]
    assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize("told", [True, False])
def test_a_rollback_gives_known_bytes_a_new_version(client, server, told):
    client.refresh()
    deploy(server.campaign)
    server.campaign.rollback(1, by="ana", reason="a test")
    assert server.campaign.version == 3

    def forget_version(request, answer):
        if answer.status_code == 304 and not told:
            del answer.headers["x-version"]

    server.on_answer = forget_version
    assert client.refresh()
    assert client.status().version == 3
    with client.episode("berlin:1") as episode:
        episode.act({"severity": 2})
        episode.reward(1.0)
    client.flush()
    assert client.refused() == []


def test_everything_is_there_after_a_restart_without_a_line(client, make_client, server):
    client.refresh()
    server.online = False
    again = make_client(server)
    assert again.policy.to_bytes() == client.policy.to_bytes()
    with again.episode("berlin:1") as episode:
        assert episode.act({"severity": 2}) in ("low", "middle", "high")
        episode.reward(0.5)
    assert again.status().waiting == 1


def test_without_any_policy_an_offline_client_says_so(client, server):
    server.online = False
    for use in (lambda: client.policy, lambda: client.report({"id": "a", "rewards": [1.0]})):
        with pytest.raises(OfflineError, match=r"never fetched into this folder; call refresh\(\)"):
            use()
    with pytest.raises(OfflineError, match="cannot be reached"):
        client.episode("berlin:1")


@pytest.mark.parametrize("path", ["/policy", "/features"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data + b"x", lambda _: b""]
)
def test_bytes_that_do_not_match_their_digest_are_never_used(client, server, path, damage):
    def alter(request, answer):
        if request.url.path.endswith(path):
            answer._content = damage(answer.content)

    server.on_answer = alter
    with pytest.raises(OfflineError, match="must have the SHA-256"):
        client.refresh()
    with pytest.raises(OfflineError):
        client.policy  # noqa: B018
    assert len(files(client, "artifacts")) == (path == "/policy")  # the map came before
    server.on_answer = None
    assert client.refresh()
    assert client.policy.digest == server.campaign.policy().digest


def test_a_protocol_that_does_not_match_its_digest_is_never_used(client, server):
    def alter(request, answer):
        if request.url.path.endswith("/protocol"):
            answer._content = answer.content.replace(b'"middle"', b'"middel"')

    server.on_answer = alter
    with pytest.raises(OfflineError, match="the protocol must have the SHA-256"):
        client.refresh()
    assert client.status().version is None


def test_a_bad_download_leaves_the_last_policy_in_use(client, server, time):
    client.refresh()
    first = client.policy.digest
    deploy(server.campaign)

    def alter(request, answer):
        if request.url.path.endswith("/policy"):
            answer._content = answer.content[:100]

    server.on_answer = alter
    time.seconds += 61.0
    with client.episode("berlin:1") as episode:
        episode.act({"severity": 1})
        episode.reward(1.0)
        assert episode.version == 1
    assert client.policy.digest == first


@pytest.mark.parametrize("cut", [1, 500])
def test_a_download_that_is_cut_in_the_middle_is_not_used(server, tmp_path, cut):
    def cut_off(request, answer):
        if request.url.path.endswith("/policy"):
            answer.headers["x-cut"] = str(cut)

    settings = {"token": TOKEN, "folder": tmp_path / "c", "background": False}
    with server.listening() as url, Client(url, "doors", **settings) as client:
        server.on_answer = cut_off
        with pytest.raises(OfflineError, match="cannot be reached"):
            client.refresh()
        assert client.status().version is None
        server.on_answer = None
        assert client.refresh()
        assert client.policy.digest == server.campaign.policy().digest


def test_a_policy_of_another_task_is_refused(client, server):
    wrong = Policy(weights=other_policy(server.campaign, 1).member(0).weights[:1], one_hot=True)

    def swap(request, answer):
        if request.url.path.endswith("/policy"):
            answer._content = wrong.to_bytes()
            answer.headers["etag"] = f'"{wrong.digest}"'

    server.on_answer = swap
    with pytest.raises(DamagedError, match="the protocol's horizon, dim and one_hot"):
        client.refresh()
    assert client.status().version is None


@pytest.mark.parametrize("part", ["artifacts", "campaign.json"])
def test_a_damaged_file_of_the_cache_is_put_aside_and_fetched_again(
    client, make_client, server, part
):
    client.refresh()
    folder = client._site.folder
    names = [f"artifacts/{name}" for name in files(client, part)] if part == "artifacts" else [part]
    for name in names:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(data)
    again = make_client(server)
    with pytest.raises(OfflineError):
        again.policy  # noqa: B018
    again.refresh()
    assert again.policy.digest == server.campaign.policy().digest
    assert again.status().damaged == (1 if part == "campaign.json" else len(names))


@pytest.mark.parametrize(
    "answer",
    [
        HTML,
        httpx.Response(302, headers={"location": "https://portal.example/"}),
        httpx.Response(502, html="<h1>Bad gateway</h1>"),
        httpx.Response(404, html="<h1>Not here</h1>"),
        httpx.Response(200, json=["no", "campaign"]),
        httpx.Response(200, content=b"{", headers={"content-type": "application/json"}),
        httpx.ReadTimeout("too slow"),
    ],
)
def test_an_answer_that_is_not_of_the_service_changes_nothing(client, server, answer):
    client.refresh()
    before = client.status()
    server.faults = [answer]
    with pytest.raises(OfflineError):
        client.refresh()
    assert client.status()[:4] == before[:4]
    assert client.status().failures == 1


def test_a_wrong_token_is_named_and_never_shown(server, make_client, capsys, monkeypatch):
    secret = "rsw_thisisasecret"
    client = make_client(server, token=secret)
    with pytest.raises(DeniedError, match="sign in first") as caught:
        client.refresh()
    shown = f"{caught.value} {caught.value.plain} {client!r} {client.status()} {vars(client)}"
    assert secret not in shown + capsys.readouterr().out
    for path in client._site.folder.path.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()
    monkeypatch.setenv("RARESWITCH_TOKEN", TOKEN)
    assert make_client(server, token=None).refresh()
    monkeypatch.delenv("RARESWITCH_TOKEN")
    with pytest.raises(ValueError, match="token must be given, or be in the environment as RARES"):
        make_client(server, token=None)
    for wrong in (f"{secret}\n{secret}", f"{secret} x", f"{secret}é"):
        with pytest.raises(ValueError, match="token must be visible ASCII") as refused:
            make_client(server, token=wrong)
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://trial.example.org", "ftp://trial.example.org", "trial", "https://a:b@c", 3]
)
def test_an_address_must_keep_the_token_secret(url, tmp_path):
    with pytest.raises(ValueError, match="url must"):
        Client(url, "doors", token=TOKEN, folder=tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "https://trial.example.org"},
        {"url": "http://localhost:8000"},
        {"url": "http://[::1]:8000/"},
        {"url": "http://trial.local", "insecure": True},
    ],
)
def test_addresses_that_do(settings, tmp_path):
    Client(**settings, campaign="doors", token=TOKEN, folder=tmp_path).close()


def test_only_the_owner_may_read_the_folder(client):
    client.refresh()
    for path in [client._site.folder.path, *client._site.folder.path.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_policy_is_asked_for_again_when_it_is_old(client, server, time):
    for number, pause in enumerate([0.0, 59.0, 2.0]):
        time.seconds += pause
        with client.episode(f"berlin:{number}") as episode:
            episode.act({"severity": 0})
            episode.reward(0.0)
    assert [path for _, path in server.asked].count("/policy") == 2


def test_an_offline_client_does_not_wait_for_the_line_at_every_episode(client, server, time):
    client.refresh()
    server.online = False
    time.seconds += 100.0
    server.asked.clear()
    for number in range(20):
        with client.episode(f"berlin:{number}") as episode:
            episode.act({"severity": 0})
            episode.reward(0.0)
        time.seconds += 0.01
    assert len(server.asked) == 1


def test_a_stopped_campaign_begins_no_episode(client, server):
    server.campaign.stop(by="ana", reason="a test")
    client.refresh()
    assert client.status().stopped
    with pytest.raises(CampaignError, match="the campaign has stopped; no episode may begin"):
        client.episode("berlin:1")


@pytest.mark.parametrize(
    ("status", "told", "temporary"),
    [
        (400, {}, False), (401, {}, True), (403, {}, True), (403, {"field": "id"}, False),
        (404, {"field": "campaign"}, True), (409, {}, False), (413, {}, False), (422, {}, False),
        (429, {}, True), (500, {}, True), (503, {}, True), (507, {}, True), (400, None, True),
        (413, None, False), (403, None, True), (302, None, True),
    ],
)  # fmt: skip
def test_which_answers_may_change_by_themselves(status, told, temporary):
    assert is_temporary(told, status) == temporary


def test_requests_and_answers_are_read_by_the_letter():
    assert Request(known="ab").headers["If-None-Match"] == '"ab"'
    answer = Answer(status=429, headers={"retry-after": "7", "etag": 'W/"ab"'}, body=b"")
    assert (answer.retry_after, answer.etag, answer.values) == (7.0, "ab", None)
    dated = Answer(status=503, headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, body=b"")
    assert dated.retry_after is None
    told = problem(422, "rewards must lie in [0, 1]", "refused")
    seen = Answer(status=422, headers=dict(told.headers), body=told.content)
    assert seen.problem == json.loads(told.content)
