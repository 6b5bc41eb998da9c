"""One-step decisions with the shapes of Azure Personalizer 1.0."""

import pytest

from rareswitch.campaigns import open_store, verify
from rareswitch.campaigns.store.tables import ranked
from running_service import run_service, study

ROOT = "/v1/campaigns/doors/personalizer/v1.0"


def rank_body(**changes):
    return {
        "contextFeatures": [{"patient": {"severity": 2}}],
        "actions": [{"id": "low", "features": [{"dose": 1}]}, {"id": "high", "features": []}],
        "eventId": "berlin:7",
    } | changes


def test_rank_and_reward_record_an_episode(running):
    answer = running.ask("POST", f"{ROOT}/rank", "site", rank_body())
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert told["eventId"] == "berlin:7"
    assert told["ranking"][0]["id"] == told["rewardActionId"]
    assert sum(one["probability"] for one in told["ranking"]) == pytest.approx(1.0)
    assert running.ask("POST", f"{ROOT}/rank", "site", rank_body()).json() == told
    path = f"{ROOT}/events/berlin:7/reward"
    assert running.ask("POST", path, "site", {"value": 0.75}).status_code == 204
    assert running.ask("POST", path, "site", {"value": 0.75}).status_code == 204
    assert running.ask("POST", path, "site", {"value": 0.5}).status_code == 409
    (row,) = running.ask("GET", "/v1/campaigns/doors/episodes", "auditor").json()
    assert row["report"]["rewards"] == [0.75]
    assert row["assigned"]
    assert verify(running.service.find_campaign("doors")).ok


def test_the_key_of_personalizer_is_a_token_and_an_event_gets_an_id(running):
    secret = running.token("site")
    headers = {"Ocp-Apim-Subscription-Key": secret}
    body = rank_body(eventId=None)
    answer = running.ask("POST", f"{ROOT}/rank", None, body, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.json()["eventId"].startswith("berlin:")


def test_a_deferred_event_counts_when_it_is_activated(running):
    running.ask("POST", f"{ROOT}/rank", "site", rank_body(deferActivation=True))
    path = f"{ROOT}/events/berlin:7"
    assert running.ask("POST", f"{path}/reward", "site", {"value": 1}).status_code == 409
    assert running.ask("POST", f"{path}/activate", "site").status_code == 204
    assert running.ask("POST", f"{path}/activate", "site").status_code == 204
    assert running.ask("POST", f"{path}/reward", "site", {"value": 1}).status_code == 204


WRONG = {
    "excluded": ({"excludedActions": ["low"]}, "excludedActions"),
    "fewer": ({"actions": [{"id": "low"}]}, "actions"),
    "another": ({"actions": [{"id": "low"}, {"id": "none"}]}, "actions"),
    "twice": ({"contextFeatures": [{"severity": 1}, {"severity": 2}]}, "contextFeatures"),
    "no column": ({"contextFeatures": []}, None),
    "a text": ({"contextFeatures": [{"severity": "2"}]}, "severity"),
    "a state beyond": ({"contextFeatures": [{"severity": 9}]}, "severity"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rank_assigns_nothing(running, name):
    changes, field = WRONG[name]
    answer = running.ask("POST", f"{ROOT}/rank", "site", rank_body(**changes))
    assert answer.status_code == 422, answer.text
    assert answer.json().get("field") == field
    assert running.ask("GET", "/v1/campaigns/doors", "site").json()["assigned"] == 0


@pytest.mark.parametrize("value", [-0.1, 1.1, "1", None, True])
def test_a_wrong_reward_is_refused(running, value):
    running.ask("POST", f"{ROOT}/rank", "site", rank_body())
    path = f"{ROOT}/events/berlin:7/reward"
    assert running.ask("POST", path, "site", {"value": value}).status_code == 422
    assert running.ask("POST", f"{ROOT}/events/berlin:8/reward", "site", {"value": 1}).status_code \
        == 409  # fmt: skip


def test_an_observation_is_erased_with_a_cancellation(running):
    running.ask("POST", f"{ROOT}/rank", "site", rank_body())
    path = "/v1/campaigns/doors/episodes/berlin:7/cancellation"
    assert running.ask("POST", path, "administrator", {"reason": "left"}).status_code == 200
    with running.service.store.reading() as connection:
        assert connection.execute(ranked.select()).all() == []


def test_an_observation_is_erased_with_its_reward(tmp_path):
    """Also if the service died between the record and the erasure."""
    path = tmp_path / "ranked.db"
    with open_store(f"sqlite:///{path}", create=True) as store:
        running = run_service(store)
        running.create(*study())
        running.ask("POST", f"{ROOT}/rank", "site", rank_body())
        campaign = running.service.find_campaign("doors")
        acted = campaign.act("berlin:7", {"severity": 2})
        report = {"id": "berlin:7", "observations": [{"severity": 2}], "actions": [acted.place],
                  "rewards": [1.0]}  # fmt: skip
        campaign.record(report)  # and then the service died
        answer = running.ask("POST", f"{ROOT}/events/berlin:7/reward", "site", {"value": 1.0})
        assert answer.status_code == 204, answer.text
        with store.reading() as connection:
            (row,) = connection.execute(ranked.select()).all()
        assert (row.observation, row.reward) == ("", 1.0)
