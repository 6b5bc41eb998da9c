"""The field over HTTP: assignments, treatments and reports."""

import json

import pytest

from rareswitch.campaigns import AnalysisTerms, refusals, verify
from running_service import report_of, run_service, study

ROOT = "/v1/campaigns/doors"


def test_an_episode_is_assigned_acted_and_recorded(running_anywhere):
    running = running_anywhere
    body = {"id": "berlin:0001", "observation": {"severity": 2}}
    acted = running.ask("POST", f"{ROOT}/act", "site", body)
    assert acted.status_code == 200, acted.text
    told = acted.json()
    assert told["action"] in ("low", "high")
    assert told["probability"] > 0.0
    assert running.ask("POST", f"{ROOT}/act", "site", body).json() == told
    assigned = running.ask("POST", f"{ROOT}/assignments", "site", {"id": "berlin:0001"}).json()
    assert (assigned["version"], assigned["member"]) == (told["version"], told["member"])
    assert not assigned["new"]
    assert "role" not in assigned
    report = report_of(1, actions=[told["action"]])
    first = running.ask("POST", f"{ROOT}/episodes", "site", report)
    again = running.ask("POST", f"{ROOT}/episodes", "site", report)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["seq"] == again.json()["seq"] == 1
    other = running.ask("POST", f"{ROOT}/episodes", "site", {**report, "rewards": [0.25]})
    assert other.status_code == 409
    assert other.json()["code"] == "conflict"
    assert verify(running.service.find_campaign("doors")).ok


def test_many_reports_are_answered_in_their_order(running):
    reports = [report_of(1), {"id": "berlin:2"}, report_of(3, rewards=[2.0]), report_of(4)]
    answer = running.ask("POST", f"{ROOT}/episodes", "site", reports).json()
    assert [one.get("seq") for one in answer] == [1, None, None, 2]
    assert [one.get("status") for one in answer] == [None, 400, 422, None]
    lines = b"\n".join(json.dumps(report_of(n)).encode() for n in (5, 6)) + b"\n{broken\n"
    headers = {"Content-Type": "application/x-ndjson"}
    answer = running.ask("POST", f"{ROOT}/episodes", "site", lines, headers=headers).json()
    assert [one.get("seq") for one in answer] == [3, 4, None]


def test_a_form_that_counts_an_event_as_0_is_recorded_without_it(store):
    running = run_service(store)
    running.create(*study(analysis=AnalysisTerms(events=["nausea", "serious"])))
    form = report_of(1, events={"nausea": 0, "serious": 1})
    assert running.ask("POST", f"{ROOT}/episodes", "site", form).status_code == 201
    again = report_of(1, events={"serious": 1})
    assert running.ask("POST", f"{ROOT}/episodes", "site", again).status_code == 200
    assert verify(running.service.find_campaign("doors")).ok


def test_a_refused_report_names_its_field_and_is_in_the_register(running):
    answer = running.ask("POST", f"{ROOT}/episodes", "site", report_of(1, rewards=[2.0]))
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["field"] == "rewards"
    assert told["refusal"] == 1
    assert told["code"] == "refused"
    assert len(refusals(running.service.find_campaign("doors"))) == 1


HOSTILE = {
    "not JSON": (b"{", 400),
    "empty": (b"", 400),
    "an array of numbers": (b"[1, 2]", 200),
    "a text": (b'"hello"', 400),
    "null": (b"null", 400),
    "NaN": (b'{"id": "berlin:1", "rewards": [NaN]}', 400),
    "infinity": (b'{"id": "berlin:1", "rewards": [1e400]}', 422),
    "a key twice": (b'{"id": "berlin:1", "id": "berlin:2", "rewards": [1]}', 400),
    "deep": (b"[" * 100_000, 400),
    "deep objects": (b'{"rewards":' * 50_000, 400),
    "bytes that are no text": (b"\xff\xfe\x00", 400),
    "a NUL": (b'{"id": "berlin:\\u0000", "rewards": [1]}', 422),
    "a path": (b'{"id": "berlin:../../etc", "rewards": [1]}', 422),
    "a number as id": (b'{"id": 7, "rewards": [1]}', 422),
    "a surrogate": (b'{"id": "berlin:\\ud800", "rewards": [1]}', 422),
    "booleans": (b'{"id": "berlin:1", "features": [true], "rewards": [true]}', 422),
    "texts": (b'{"id": "berlin:1", "features": ["1"], "rewards": ["1"]}', 422),
    "a huge whole number": (
        b'{"id": "berlin:1", "version": 1' + b"0" * 400 + b', "features": [1], "rewards": [1]}',
        422,
    ),
    "a version beyond": (
        b'{"id": "berlin:1", "version": 99, "features": [1], "rewards": [1]}', 422,
    ),
    "unknown fields": (b'{"id": "berlin:1", "rewards": [1], "name": "Ada Lovelace"}', 422),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_problems(running, name):
    body, status = HOSTILE[name]
    answer = running.ask("POST", f"{ROOT}/episodes", "site", body)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.json()["status"] == status
        assert answer.json()["detail"]
    assert "Lovelace" not in answer.text


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("route", ["act", "assignments"])
def test_hostile_bodies_assign_nothing(running, route, name):
    answer = running.ask("POST", f"{ROOT}/{route}", "site", HOSTILE[name][0])
    assert answer.status_code in (400, 403, 422), answer.text
    assert running.ask("GET", ROOT, "site").json()["assigned"] == 0


def test_large_bodies_are_not_read(running):
    answer = running.ask("POST", f"{ROOT}/episodes", "site", b" " * (17 * 2**20))
    assert answer.status_code == 413
    answer = running.ask("POST", f"{ROOT}/act", "site", b" " * (2 * 2**20))
    assert answer.status_code == 413
    chunks = (b" " * 2**20 for _ in range(40))
    headers = {"Content-Type": "application/json"}
    answer = running.ask("POST", f"{ROOT}/episodes", "site", headers=headers, content=chunks)
    assert answer.status_code == 413
    many = [report_of(number) for number in range(1001)]
    answer = running.ask("POST", f"{ROOT}/episodes", "site", many)
    assert answer.status_code == 413
    assert running.ask("GET", ROOT, "site").json()["recorded"] == 0


def test_another_media_type_is_refused(running):
    headers = {"Content-Type": "text/plain"}
    for route in ("episodes", "act"):
        answer = running.ask("POST", f"{ROOT}/{route}", "site", b"{}", headers=headers)
        assert answer.status_code == 415


def test_a_site_uses_its_own_episodes_only(running):
    for route, body in {
        "assignments": {"id": "lima:1"},
        "act": {"id": "lima:1", "observation": {"severity": 1}},
        "episodes": report_of(1, site="lima"),
    }.items():
        answer = running.ask("POST", f"{ROOT}/{route}", "site", body)
        assert answer.status_code == 403, route
        assert answer.json()["field"] == "id", route
    answer = running.ask("POST", f"{ROOT}/assignments", "site", {"ids": ["berlin:1", "lima:1"]})
    assert answer.status_code == 403
    answer = running.ask("POST", f"{ROOT}/episodes", "site", report_of(1) | {"site": "lima"})
    assert answer.status_code == 403
    assert answer.json()["field"] == "site"
    mixed = [report_of(1), report_of(1, site="lima")]
    first, second = running.ask("POST", f"{ROOT}/episodes", "site", mixed).json()
    assert first["seq"] == 1
    assert second["status"] == 403
    rows = running.ask("GET", f"{ROOT}/episodes", "auditor").json()
    assert [row["report"]["site"] for row in rows] == ["berlin"]


def test_a_site_sees_its_own_open_episodes(running):
    lima = running.token("site", site="lima")
    running.tokens["lima"] = lima
    running.ask("POST", f"{ROOT}/assignments", "lima", {"ids": [f"lima:{n}" for n in range(5)]})
    running.ask("POST", f"{ROOT}/assignments", "site", {"ids": ["berlin:1", "berlin:2"]})
    found = running.ask("GET", f"{ROOT}/assignments?limit=1", "site").json()
    assert [one["episode_id"] for one in found] == ["berlin:1"]
    found = running.ask("GET", f"{ROOT}/assignments", "lima").json()
    assert [one["episode_id"] for one in found] == [f"lima:{n}" for n in range(5)]


def test_rows_of_features_are_acted_on(store):
    running = run_service(store)
    import rareswitch as rs

    protocol, _ = study(
        features=None, actions=(), task=rs.Task(dim=2, horizon=2, episodes=50),
    )  # fmt: skip
    running.create(protocol)
    rows = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.1]]
    first = running.ask("POST", f"{ROOT}/act", "site", {"id": "berlin:1", "features": rows}).json()
    assert (first["stage"], first["action"]) == (0, str(first["place"]))
    body = {"id": "berlin:1", "features": rows, "earlier": [[rows, first["place"]]]}
    second = running.ask("POST", f"{ROOT}/act", "site", body).json()
    assert second["stage"] == 1
    assert second["member"] == first["member"]
    wrong = {
        "long": {"features": [[3.0, 4.0]]},
        "wide": {"features": [[0.1, 0.2, 0.3]]},
        "empty": {"features": []},
        "mixed": {"features": [[0.1, 0.2], [0.3]]},
        "texts": {"features": [["a", "b"]]},
        "late": {"features": rows, "earlier": [[rows, 0], [rows, 0]]},
        "both": {"features": rows, "observation": {"severity": 1}},
        "neither": {},
        "action": {"features": rows, "earlier": [[rows, 7]]},
    }
    for name, body in wrong.items():
        answer = running.ask("POST", f"{ROOT}/act", "site", {"id": "berlin:2", **body})
        assert answer.status_code == 422, (name, answer.text)
    assert running.ask("GET", ROOT, "site").json()["assigned"] == 1


def test_corrections_are_signed_by_a_person(running):
    running.ask("POST", f"{ROOT}/episodes", "site", report_of(1))
    body = {"report": report_of(1, rewards=[0.5]), "reason": "typed wrongly"}
    path = f"{ROOT}/episodes/berlin:0001/correction"
    assert running.ask("POST", path, "site", body).status_code == 403
    answer = running.ask("POST", path, "administrator", body)
    assert answer.status_code == 200
    assert answer.json()["seq"] == 2
    answer = running.ask(
        "POST", f"{ROOT}/episodes/berlin:0001/withdrawal", "administrator", {"reason": "consent"}
    )
    assert answer.status_code == 200
    running.ask("POST", f"{ROOT}/assignments", "site", {"id": "berlin:0002"})
    path = f"{ROOT}/episodes/berlin:0002/cancellation"
    assert running.ask("POST", path, "administrator", {"reason": "no show"}).json()["new"]
    assert not running.ask("POST", path, "administrator", {"reason": "no show"}).json()["new"]
    kinds = [one["kind"] for one in running.ask("GET", f"{ROOT}/ledger", "auditor").json()]
    assert kinds == ["created", "deployed", "corrected", "corrected", "cancelled"]


def test_a_name_is_forgotten(running):
    running.ask("POST", f"{ROOT}/episodes", "site", report_of(1, participant="Ada Lovelace"))
    body = {"participant": "Ada Lovelace", "reason": "asked to"}
    assert running.ask("POST", f"{ROOT}/forgetting", "site", body).status_code == 403
    answer = running.ask("POST", f"{ROOT}/forgetting", "administrator", body)
    assert answer.json() == {"episodes": 1}
