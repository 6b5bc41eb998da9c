"""A small server that follows the HTTP contract of a campaign, with faults on demand.

Behind it is a real campaign, so every report is judged by the rulebook.
"""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

import rareswitch as rs
from rareswitch.campaigns import (
    Campaign,
    CampaignError,
    ConflictError,
    Intake,
    NotAllowedError,
    Protocol,
    RefusedError,
    UnreadableError,
    open_store,
    packed_features,
)
from rareswitch.campaigns.store.rows import StoredRecord
from rareswitch.features import OneHot
from rareswitch.features.spaces import Digits

TOKEN = "rsw_0123456789abcdef"
URL = "http://127.0.0.1:9"  # nothing listens there
STATUSES = {
    UnreadableError: 400, ConflictError: 409, NotAllowedError: 409, RefusedError: 422,
}  # fmt: skip
ACTIONS = ("low", "middle", "high")
MAP = OneHot(states=5, actions=3, space=Digits(counts=(5,), starts=(0,)))


def observed_protocol(*, horizon=2, intake=None, **more):
    """Return a protocol with one column, severity from 0 to 4, and three actions."""
    terms, data = packed_features(MAP, ["severity"])
    task = rs.Task(dim=MAP.dim, horizon=horizon, episodes=500, one_hot=True)
    settings = {
        "name": "doors",
        "task": task,
        "schedule": rs.SpreadBudget(switches=3),
        "budget": 3,
        "actions": ACTIONS,
        "features": terms,
        "intake": intake or Intake(),
        "recipe": rs.Recipe(exploration=rs.Ensemble(members=8), seed=7),
    }
    return Protocol(**settings | more), data


def make_campaign(path, **protocol):
    """Return a campaign in a new store, with its feature map if it has columns."""
    store = open_store(path / "store.db", create=True)
    agreed, data = observed_protocol(**protocol)
    kept = data if agreed.features is not None else None
    return Campaign.create(store, agreed, by="ana", features=kept)


def deploy(campaign, seed=1):
    """Put another policy in force; return its version."""
    policy = other_policy(campaign, seed)
    with campaign.store.reading() as connection:
        seq = StoredRecord(connection, campaign.name).heads["episodes"].length
    candidate = campaign.propose(
        policy,
        seq=seq,
        evidence={"triggers": []},
        expected=campaign.version,
        by="ben",
        reason="a test",
        planned=False,
    )
    if campaign.version == candidate.version - 1:
        campaign.approve(candidate.number, by="ana", reason="a test")
    return campaign.version


def other_policy(campaign, seed):
    task = campaign.protocol.task
    recipe = rs.Recipe(exploration=rs.Ensemble(members=8), seed=seed)
    return rs.Learner(task, rs.EveryEpisode(), recipe).policy


class ContractServer:
    """Answers requests about one campaign; `faults` are answers that come first, one by one.

    A fault is a response, an exception, or a function of the request; None lets a request through.
    """

    def __init__(self, campaign):
        self.campaign = campaign
        self.faults = []
        self.online = True
        self.asked = []  # method and path of each request
        self.on_answer = None  # called after the campaign has done its work

    def __call__(self, request):
        path = request.url.path.removeprefix(f"/v1/campaigns/{self.campaign.name}")
        self.asked.append((request.method, path))
        fault = self.faults.pop(0) if self.faults else None
        if not self.online:
            raise httpx.ConnectError("no route to host")
        if callable(fault):
            fault = fault(request)
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return fault
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "sign in first", "sign-in")
        try:
            answer = self.answer(request, path)
        except CampaignError as error:
            status = STATUSES[type(error)]
            answer = problem(status, str(error), error.code)
        if self.on_answer is not None:
            self.on_answer(request, answer)
        return answer

    def answer(self, request, path):
        campaign, body = self.campaign, json.loads(request.content or b"null")
        if request.method == "GET":
            return self._read(path, request)
        if path == "/assignments":
            ids = body.get("ids", [body.get("id")])
            found = [self._assignment(one) for one in ids]
            return httpx.Response(200, json=found if "ids" in body else found[0])
        if path == "/episodes":
            if isinstance(body, dict):
                found = campaign.record(body)
                return httpx.Response(201 if found.new else 200, json=found._asdict())
            return httpx.Response(200, json=[row(one) for one in campaign.record_all(body)])
        if path.endswith("/cancellation"):
            name = path.split("/")[2]
            return httpx.Response(
                200, json={"new": campaign.cancel(name, by="berlin", reason=body["reason"])}
            )
        return problem(404, "there is nothing here", "not-found")

    def _read(self, path, request):
        campaign, state = self.campaign, self.campaign.state
        if path == "":
            summary = {
                "name": campaign.name, "protocol": state.terms.digest, "version": campaign.version,
                "stopped": state.stopped is not None,
            }  # fmt: skip
            return httpx.Response(200, json=summary)
        if path == "/protocol":
            return httpx.Response(200, json=state.terms.plain)
        if path == "/features":
            with campaign.store.reading() as connection:
                data = StoredRecord(connection, campaign.name).artifact(state.terms.features)
            return _bytes(request, data, state.terms.features)
        if path == "/policy" or path.startswith("/policies/"):
            version = None if path == "/policy" else int(path.split("/")[2])
            found = campaign.policy_bytes(version)
            return _bytes(request, found.data, found.digest, **{"X-Version": str(found.version)})
        return problem(404, "there is nothing here", "not-found")

    def _assignment(self, episode_id):
        plain = self.campaign.assign(episode_id)._asdict()
        del plain["role"]
        return plain

    @property
    def transport(self):
        return httpx.MockTransport(self)

    @contextmanager
    def listening(self):
        """Answer on a port of this machine; yield the address."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self):
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                request = httpx.Request(
                    self.command, f"http://test{self.path}", headers=dict(self.headers),
                    content=body,
                )  # fmt: skip
                try:
                    answer = server(request)
                except httpx.HTTPError:
                    self.close_connection = True
                    return
                cut = answer.headers.pop("x-cut", None)
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name != "content-length":
                        self.send_header(name, value)
                if answer.status_code != 304:
                    self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content[: int(cut)] if cut else answer.content)
                self.close_connection = cut is not None

            do_GET = do_POST = do  # noqa: N815

            def log_message(self, *_):
                pass

        listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            listening.server_close()
            thread.join()


def problem(status, detail, code, **more):
    plain = {"type": "about:blank", "title": "No", "status": status, "detail": detail, "code": code}
    return httpx.Response(
        status, json=plain | more, headers={"content-type": "application/problem+json"}
    )


def row(found):
    if isinstance(found, CampaignError):
        return json.loads(problem(STATUSES[type(found)], str(found), found.code).content)
    return found._asdict()


def _bytes(request, data, digest, **headers):
    headers |= {"ETag": f'"{digest}"', "Content-Type": "application/octet-stream"}
    if request.headers.get("if-none-match") == f'"{digest}"':
        return httpx.Response(304, headers=headers)
    return httpx.Response(200, headers=headers, content=data)
