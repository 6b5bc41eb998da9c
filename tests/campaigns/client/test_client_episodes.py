"""Episodes at a site: actions, rewards, overrides, claims, interruptions, and their reports."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from contract_server import ACTIONS, TOKEN, deploy
from rareswitch.campaigns import (
    AnalysisTerms,
    CampaignError,
    ConflictError,
    DamagedError,
    Intake,
    NotAllowedError,
    Report,
    Subgroups,
    episodes,
)
from rareswitch.campaigns.client import Client, durable
from rareswitch.campaigns.client.journal import read_lines

CONTROLLED = rs.Recipe(
    exploration=rs.Ensemble(members=4), seed=3, control=rs.Control(1, share=0.3), floor=0.3
)
ROWS = np.eye(3)


def play(client, episode_id, *severities, rewards=None, **claims):
    with client.episode(episode_id, **claims) as episode:
        for t, severity in enumerate(severities):
            episode.act({"severity": severity})
            episode.reward(0.5 if rewards is None else rewards[t])
    return episode


def rows_of(server):
    return {one["episode_id"]: one for one in episodes(server.campaign, limit=1000)}


@pytest.mark.parametrize("concealed", [True, False])
@pytest.mark.parametrize("recipe", [rs.Recipe(seed=5), CONTROLLED])
def test_a_client_acts_exactly_as_the_server_would(make_server, make_client, recipe, concealed):
    server = make_server(recipe=recipe, intake=Intake(assigned=concealed, concealed=concealed))
    client = make_client(server)
    rng = np.random.default_rng(0)
    for number in range(40):
        name, seen = f"berlin:{number}", [{"severity": int(one)} for one in rng.integers(5, size=2)]
        with client.episode(name) as episode:
            earlier = []
            for observation in seen:
                action = episode.act(observation)
                if concealed:
                    act = server.campaign.act(name, observation, earlier=earlier)
                    told = (act.version, act.member, act.action, act.probability)
                    assert told == (episode.version, episode.member, action, episode.probability)
                earlier.append((observation, action))
                episode.reward(0.5)
    assert client.flush() == (40, 0, 0, None)
    recorded = rows_of(server)
    # The rulebook attributes each episode again, and counts actions that its member does not take.
    assert len(recorded) == 40
    assert {one["deviations"] for one in recorded.values()} == {0}
    assert {one["assigned"] for one in recorded.values()} == {concealed}
    if recipe is CONTROLLED:
        assert {one["member"] for one in recorded.values()} > {4, 5}  # the control, and the floor


def test_rows_of_features_in_place_of_observations(make_server, make_client):
    server = make_server(task=rs.Task(dim=3, horizon=2, episodes=99), features=None)
    client = make_client(server)
    with client.episode("berlin:1") as episode:
        first = episode.act(ROWS)
        episode.reward(1.0)
        second = episode.act((0.5 * ROWS).tolist())
        episode.reward(0.0)
        assert first in (0, 1, 2)
    assert client.flush().recorded == 1
    report = rows_of(server)["berlin:1"]["report"]
    assert report["features"] == [ROWS[first].tolist(), (0.5 * ROWS[second]).tolist()]
    assert report["first_features"] == ROWS.tolist()
    assert report["actions"] == [first, second]
    assert rows_of(server)["berlin:1"]["deviations"] == 0
    with client.episode("berlin:2") as episode, pytest.raises(NotAllowedError, match="no columns"):
        episode.act({"severity": 1})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.eye(4), r"features must have shape \(n, 3\)"),
        (2.0 * ROWS, "features must be no longer than 1; got 2"),
        (np.empty((0, 3)), "features must be 2 to 3 rows, one for each action; got 0"),
        (ROWS[:1], "features must be 2 to 3 rows, one for each action; got 1"),
        (np.vstack([ROWS, ROWS]), "features must be 2 to 3 rows, one for each action; got 6"),
        (np.full((3, 3), np.nan), "features must be finite"),
    ],
)
def test_rows_that_the_server_would_refuse_are_refused_before_anyone_acts(
    make_server, make_client, rows, said
):
    task = rs.Task(dim=3, horizon=2, episodes=99)
    server = make_server(task=task, features=None, recipe=CONTROLLED)
    client = make_client(server)
    with client.episode("berlin:1") as episode:
        with pytest.raises(ValueError, match=said):
            episode.act(rows)
        assert episode.stage == 0
    assert client.unfinished() == []


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda e: e.reward(0.5), "act must be called first: no action waits"),
        (lambda e: e.take("low"), "take must be called after act"),
        (lambda e: e.action, "act must be called first"),
        (lambda e: e.probability, "act must be called first"),
        (lambda e: e.act({"severity": 9}), "severity must be a whole number from 0 to 4"),
        (lambda e: e.act({"age": 9}), "severity is missing"),
        (lambda e: (e.act({"severity": 0}), e.act({"severity": 1})), "reward must be called for"),
        (lambda e: (e.act({"severity": 0}), e.reward(1.5)), "reward must be"),
        (lambda e: (e.act({"severity": 0}), e.reward(float("nan"))), "reward must be"),
        (lambda e: (e.act({"severity": 0}), e.take("none")), "action must be one of low, middle"),
        (lambda e: e.cut_off(), "observation must be the state in which"),
        (lambda e: e.cut_off({"severity": 0}), "cut_off needs a step with a reward"),
        (lambda e: (e.act({"severity": 0}), e.finish()), "must be called for the last action"),
        (lambda e: e.tell(colour="red"), "claims must be site, began, ended, subgroup, events or"),
        (lambda e: e.tell(subgroup="mild"), "subgroup must not be told"),
    ],
)  # fmt: skip
def test_mistakes_are_told_at_once_and_change_nothing(client, use, said):
    with client.episode("berlin:1") as episode:
        with pytest.raises((ValueError, TypeError), match=said):
            use(episode)
        if not episode.waits and not episode.stage:
            episode.act({"severity": 0})
        episode.reward(0.5)
    assert client.flush().recorded == 1


def test_beyond_the_horizon_nobody_acts(client):
    with client.episode("berlin:1") as episode:
        for _ in range(2):
            episode.act({"severity": 0})
            episode.reward(0.5)
        with pytest.raises(ValueError, match="act must be called at most 2 times, the horizon"):
            episode.act({"severity": 0})
    assert client.flush().recorded == 1
    with pytest.raises(ValueError, match="the episode is closed"):
        episode.act({"severity": 0})


def test_an_override_is_reported_beside_the_recommendation(client, server):
    with client.episode("berlin:1") as episode:
        recommended = episode.act({"severity": 3})
        other = next(name for name in ACTIONS if name != recommended)
        episode.take(other)
        assert episode.action == other
        episode.reward(1.0)
    client.flush()
    row = rows_of(server)["berlin:1"]
    assert row["deviations"] == 1
    assert row["report"]["actions"] == [ACTIONS.index(other)]
    assert row["report"]["recommended"] == [ACTIONS.index(recommended)]


def test_claims_reach_the_record_and_a_name_does_not_reach_the_log(make_server, make_client, time):
    analysis = AnalysisTerms(
        events=["nausea", "serious"], subgroups=Subgroups(names=["mild", "severe"])
    )
    server = make_server(analysis=analysis)
    client = make_client(server)
    with client.episode("berlin:1", site="berlin", participant="Ada") as episode:
        episode.act({"severity": 4})
        time.seconds += 86_400.0
        episode.reward(1.0)
        with pytest.raises(ValueError, match="subgroup must be one of mild, severe"):
            episode.tell(subgroup="other")
        with pytest.raises(ValueError, match="events must be of the kinds nausea, serious"):
            episode.tell(events={"nausae": 0})
        episode.tell(subgroup="severe", events={"nausea": 2, "serious": 0})
    client.flush()
    report = rows_of(server)["berlin:1"]["report"]
    told = {name: report[name] for name in ("site", "subgroup", "events", "began", "ended")}
    assert told == {
        "site": "berlin", "subgroup": "severe", "events": {"nausea": 2},
        "began": "second 1000", "ended": "second 87400",
    }  # fmt: skip
    assert server.campaign.forget("Ada", by="ana", reason="asked") == 1


# Interruptions


def test_a_reward_may_come_days_later_and_in_another_process(client, make_client, server):
    with client.episode("berlin:1", site="berlin") as episode:
        action = episode.act({"severity": 2})
    assert client.unfinished() == ["berlin:1"]
    assert client.status().waiting == 0
    deploy(server.campaign)
    again = make_client(server)
    again.refresh()
    with again.episode("berlin:1") as episode:
        assert (episode.version, episode.stage, episode.action) == (1, 1, action)
        assert episode.waits
        episode.reward(1.0)
    assert again.flush().recorded == 1
    row = rows_of(server)["berlin:1"]
    assert (row["version"], row["late"], row["deviations"]) == (1, True, 0)
    assert again.unfinished() == []


def test_an_exception_leaves_the_episode_in_progress(client, server):
    def fail():
        with client.episode("berlin:1") as episode:
            episode.act({"severity": 2})
            episode.reward(1.0)
            raise RuntimeError("a device failed")

    with pytest.raises(RuntimeError, match="a device failed"):
        fail()
    assert client.unfinished() == ["berlin:1"]
    with client.episode("berlin:1") as episode:
        assert episode.stage == 1
        episode.cut_off({"severity": 3})
    client.flush()
    report = rows_of(server)["berlin:1"]["report"]
    assert len(report["rewards"]) == len(report["next_features"]) == 1


def test_an_episode_is_cut_off_where_an_action_has_no_reward(client, server):
    with client.episode("berlin:1") as episode:
        episode.act({"severity": 2})
        episode.reward(1.0)
        episode.act({"severity": 4})
        with pytest.raises(ValueError, match="reward must be called for"):
            episode.cut_off({"severity": 3})
        episode.cut_off()
    client.flush()
    report = rows_of(server)["berlin:1"]["report"]
    assert report["rewards"] == [1.0]
    assert report["next_features"] == [[12, 13, 14]]  # severity 4


def test_an_episode_without_an_action_leaves_nothing(client):
    with client.episode("berlin:1"):
        pass
    assert client.unfinished() == []
    assert client.status().waiting == 0


def test_the_same_episode_is_not_in_progress_twice(client, make_client, server):
    episode = client.episode("berlin:1")
    episode.act({"severity": 1})
    with pytest.raises(ConflictError, match="in progress in another process"):
        client.episode("berlin:1")
    with pytest.raises(ConflictError, match="in progress in another process"):
        make_client(server).episode("berlin:1")
    del episode  # its lock goes with it
    client.episode("berlin:1").reward(1.0)


def test_an_episode_that_is_over_does_not_begin_again(client):
    play(client, "berlin:1", 0)
    with pytest.raises(ConflictError, match="its report waits in the outbox"):
        client.episode("berlin:1")


def journal_of(client):
    (name,) = client._site.folder.names("episodes")
    return client._site.folder / f"episodes/{name}"


def test_a_journal_cut_at_any_byte_is_continued_from_its_last_whole_line(client, without_flushes):
    with client.episode("berlin:1") as episode:
        first = episode.act({"severity": 1})
        episode.reward(0.25)
        second = episode.act({"severity": 3})
    data = journal_of(client).read_bytes()
    ends = [end + 1 for end, byte in enumerate(data) if byte == ord("\n")]
    for length in range(ends[0], len(data)):
        journal_of(client).write_bytes(data[:length])
        with client.episode("berlin:1") as episode:
            whole = sum(end <= length for end in ends)
            assert (episode.stage, episode.waits) == [(0, False), (1, True), (1, False)][whole - 1]
            if not episode.stage:
                assert episode.act({"severity": 1}) == first
            if episode.waits:
                episode.reward(0.25)
            assert episode.act({"severity": 3}) == second
        assert len(read_lines(journal_of(client).read_bytes())[0]) == 4
    for length in range(ends[0]):  # the first line is written at once, with the file's name
        journal_of(client).write_bytes(data[:length])
        with pytest.raises(DamagedError, match="the journal of episode berlin:1 is damaged"):
            client.episode("berlin:1")
        with client.episode("berlin:1") as episode:
            episode.act({"severity": 1})
    assert client.status().damaged == ends[0]


@given(st.data())
def test_a_damaged_line_is_noticed_wherever_it_is(data):
    lines = [durable.sealed({"place": number, "act": {"severity": 1}}) for number in range(3)]
    text = bytearray(b"".join(lines))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= 1 << data.draw(st.integers(0, 7))
    last = len(text) - len(lines[2])
    if place < last - 1 or text[place] in b"\n\r":
        with pytest.raises(DamagedError):
            read_lines(bytes(text))
    else:  # the last line, or the end of the line before, as after a crash: it is cut
        whole = lines[: 2 if place >= last else 1]
        assert read_lines(bytes(text)) == ([*map(durable.unsealed, whole)], len(b"".join(whole)))


CRASH = """
import os, sys
sys.path.insert(0, {tests!r})
from rareswitch.campaigns.client import Client
from rareswitch.campaigns.client.outbox import Outbox
client = Client({url!r}, "doors", token={token!r}, folder={folder!r}, background=False)
if {at!r} == "report":
    Outbox.put = lambda self, report: os.kill(os.getpid(), 9)
episode = client.episode("berlin:1")
episode.act({{"severity": 2}})
if {at!r} == "reward":
    os.kill(os.getpid(), 9)
episode.reward(0.75)
if {at!r} == "end":
    os.kill(os.getpid(), 9)
episode.finish()
"""


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("at", ["reward", "end", "report"])
def test_an_episode_survives_the_death_of_its_process(server, tmp_path, at, background):
    settings = {"token": TOKEN, "folder": str(tmp_path / "site"), "tests": "tests", "at": at}
    with server.listening() as url:
        done = subprocess.run([sys.executable, "-c", CRASH.format(url=url, **settings)])
        assert done.returncode == -9
        client = Client(url, "doors", token=TOKEN, folder=tmp_path / "site", background=background)
        with client:
            if at == "report":  # the report was made: it is in the outbox at the next start
                assert client.unfinished() == []
            else:
                with client.episode("berlin:1") as episode:
                    assert episode.waits == (at == "reward")
                    if episode.waits:
                        episode.reward(0.75)
            assert client.flush(wait=60.0).waiting == 0
    row = rows_of(server)["berlin:1"]
    assert (row["total"], row["deviations"]) == (0.75, 0)


def test_a_report_of_an_episode_that_was_played_elsewhere(client, server):
    client.refresh()
    client.report(
        {"id": "a", "observations": [{"severity": 1}], "actions": ["low"], "rewards": [1]}
    )
    episode = rs.Episode(features=[3], rewards=[0.5], next_features=[])
    client.report(Report(id="b", episode=episode, participant="Ada"))
    assert client.flush().recorded == 2
    assert set(rows_of(server)) == {"a", "b"}
    for wrong, said in [
        ({"id": "c", "features": [3], "rewards": [7.0]}, r"rewards must lie in \[0, 1\]"),
        ({"id": "c", "features": [99], "rewards": [1.0]}, "features must be positions"),
        ({"id": "c", "features": [1, 1, 1], "rewards": [1.0] * 3, "next_features": [[1], [1]]},
         "rewards must be at most 2, the horizon"),
        ({"id": "../c", "features": [3], "rewards": [1.0]}, "id must be"),
        ({"id": "c", "features": [3], "rewards": [1.0], "events": {"ill": 1}}, "events must not"),
        ({"id": "c", "features": [3], "rewards": [1.0], "who": "Ada"}, "a report may have only"),
        ("c", "report must be a Report or its fields"),
    ]:  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=said):
            client.report(wrong)
    assert client.status().waiting == 0


def test_names_of_episodes_are_checked_before_they_reach_a_file(client):
    for wrong in ("../up", "", "a/b", 7, "x" * 201):
        with pytest.raises((ValueError, TypeError), match="episode_id must be"):
            client.episode(wrong)


def test_cancelling_an_episode_that_never_began(make_server, make_client):
    server = make_server(intake=Intake(assigned=True))
    client = make_client(server)
    client.reserve(["berlin:1"])
    with client.episode("berlin:2") as episode:
        episode.act({"severity": 1})
    for name in ("berlin:1", "berlin:2"):
        client.cancel(name, "the visit did not take place")
    assert (client.reserved(), client.unfinished()) == ([], [])
    with pytest.raises(CampaignError, match="was cancelled"):
        client.episode("berlin:2")


def test_a_drawn_episode_is_given_up_without_the_server(client, server):
    with client.episode("berlin:1") as episode:
        episode.act({"severity": 1})
    server.online = False
    client.cancel("berlin:1", "the visit did not take place")
    assert client.unfinished() == []
