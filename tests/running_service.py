"""A service on a store in the test's own process, and people and sites who use it."""

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

import rareswitch as rs
from rareswitch.campaigns import Campaign, Protocol, packed_features
from rareswitch.campaigns.access import Grant, operator
from rareswitch.features import OneHot
from rareswitch.service.app import Service, Settings
from rareswitch.service.server import make_service

PASSWORD = "a horse, a battery and a staple"
ROLES = ("administrator", "statistician", "approver", "monitor", "auditor", "site")
ACTIONS = ("low", "high")


def study(name="doors", **changes) -> tuple[Protocol, bytes]:
    """Return a protocol with raw observations, two persons and a control, and its feature map."""
    features, data = packed_features(OneHot(states=3, actions=2), ["severity"])
    told = {
        "name": name,
        "task": rs.Task(dim=6, horizon=1, episodes=300, one_hot=True),
        "schedule": rs.UniformGrid(batches=3),
        "budget": 2,
        "actions": ACTIONS,
        "features": features,
        "approval": rs.campaigns.Approval(by="second-person"),
    }
    return Protocol(**(told | changes)), data


@dataclass
class Running:
    """A service, its client, and the secrets of its tokens by role."""

    service: Service
    app: Any
    client: TestClient
    tokens: dict[str, str] = field(default_factory=dict)

    def create(self, protocol: Protocol, features: bytes | None = None) -> Campaign:
        Campaign.create(self.service.store, protocol, by="ana", features=features)
        return self.service.find_campaign(protocol.name)

    def token(self, role: str, campaign: str = "*", site: str = "", **more: Any) -> str:
        """Return the secret of a new token: of a person's account, or of a site's device."""
        grant = Grant(campaign, role, site or ("berlin" if role == "site" else ""))
        access = self.service.access
        if role == "site" and not more:
            return access.issue_token("gateway", [grant], by=operator("ops"))[1]
        name = more.pop("name", f"the {role}")
        if name not in {one.name for one in access.accounts()}:
            access.accept(access.invite(name, [grant], by=operator("ops")), PASSWORD)
        return access.issue_token("own", [grant], by=operator("ops"), account=name, **more)[1]

    def ask(self, method: str, path: str, role: str | None = None, body: Any = None, **more: Any):
        """Send a request with the token of a role; a token is made at the first."""
        headers = more.pop("headers", {})
        if role is not None:
            if role not in self.tokens:
                self.tokens[role] = self.token(role) if role in ROLES else role
            headers = {"Authorization": f"Bearer {self.tokens[role]}", **headers}
        if body is not None:
            more["content"] = body if isinstance(body, bytes) else json.dumps(body)
            headers = {"Content-Type": "application/json", **headers}
        return self.client.request(method, path, headers=headers, **more)


def run_service(store, **settings) -> Running:
    """Return a running service of a store."""
    told = {"rate": 1e9, "attempts": 1e9} | settings
    service, app = make_service(store, Settings(**told))
    client = TestClient(app, base_url="http://localhost:8000", raise_server_exceptions=False,
                        follow_redirects=False)  # fmt: skip
    return Running(service, app, client)


def report_of(number: int, *, site="berlin", **changes) -> dict[str, Any]:
    """Return a report of the study with raw observations."""
    return {
        "id": f"{site}:{number:04d}",
        "observations": [{"severity": number % 3}],
        "actions": [ACTIONS[number % 2]],
        "rewards": [float(number % 2)],
    } | changes


def signed(reason="reviewed", **more) -> dict[str, Any]:
    """Return the body of a decision that is signed by password."""
    return {"reason": reason, "signature": {"password": PASSWORD}} | more
