"""A demonstration: a study with three simulated sites that use the API like real sites.

The campaign is a rehearsal, and every page shows this.
"""

import json
import logging
import random
import secrets
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rareswitch.campaigns.access import Access, Grant, operator
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.observations import packed_features
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.rulebook.decisions import SIMULATION
from rareswitch.campaigns.rulebook.rows import canonical
from rareswitch.campaigns.store import Store, open_store
from rareswitch.features import OneHot
from rareswitch.service.app import Service
from rareswitch.service.server import ServerSettings, serve

NAME = "doses"
SITES = ("berlin", "lima", "osaka")
PEOPLE = {
    "ana": ("administrator", "statistician"),
    "ben": ("approver",),
    "mia": ("monitor",),
}
SEVERITIES, DOSES = ("mild", "moderate", "severe"), ("usual care", "low dose", "high dose")
# The probability of recovery, by severity and dose: no dose is best for all.
RECOVERY = ((0.80, 0.70, 0.45), (0.50, 0.75, 0.60), (0.25, 0.40, 0.75))
EPISODES = 3000
PAUSE = 0.4  # seconds between two participants of a site
WAITING_PAUSE = 5.0  # the same while a candidate waits, so that the user has time
FIRST = 50  # participants of each site at the beginning, without a pause


def demo_protocol() -> tuple[Protocol, bytes]:
    """Return the protocol of the study and the bytes of its feature map."""
    features, data = packed_features(OneHot(states=3, actions=3), ["severity"])
    plain = {
        "name": NAME,
        "task": {
            "dim": 9,
            "horizon": 1,
            "episodes": EPISODES,
            "one_hot": True,
            "actions": list(DOSES),
        },
        "recipe": {
            "exploration": {"kind": "ensemble", "members": 16},
            "control": {"plays": DOSES[0], "share": 0.2},
            "floor": 0.1,
            "burn_in": True,
        },
        "features": {
            "name": features.name,
            "digest": features.digest,
            "columns": list(features.columns),
        },
        "schedule": {
            "kind": "waiting",
            "schedule": {"kind": "spread-budget", "switches": 4},
            "first": 120,
            "apart": 120,
        },
        "budget": {"deployments": 4},
        "approval": {"by": "second-person"},
        "intake": {"assigned": True},
        "stopping": [{"rule": "control-harm", "margin": 0.1}],
        "analysis": {
            "subgroups": {"names": list(SEVERITIES), "column": "severity", "cuts": [1.0, 2.0]}
        },
    }
    return Protocol.from_plain(json.loads(canonical(plain))), data


def serve_demo(settings: ServerSettings, *, tell: Callable[[str], None] = print) -> None:
    """Serve the study from a temporary store until Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="rareswitch-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'demo.db'}"
        with open_store(url, create=True) as store:
            tokens, password = prepare(store)
        site, token = next(iter(tokens.items()))
        told = [
            "A study with three simulated sites. Nobody is treated, and no data are kept.",
            *(
                f"  {name:<4} {', '.join(roles):<28} password {password}"
                for name, roles in PEOPLE.items()
            ),
            f"Sign in at {settings.service.public_url}/sign-in",
            f"Or be the site {site}, with the API:",
            f"  RARESWITCH_URL={settings.service.public_url} RARESWITCH_TOKEN={token} \\",
            f"    examples/service/curl.sh {site}:me-1 2 1",
            "While a candidate waits, participants come slowly. Ctrl-C ends the study.",
        ]

        def play(service: Service, stopping: threading.Event) -> None:
            address = f"http://{settings.host}:{settings.port}"
            threads = [
                threading.Thread(target=play_site, args=(address, site, token, stopping))
                for site, token in tokens.items()
            ]
            for thread in threads:
                thread.daemon = True
                thread.start()
            stopping.wait()

        quiet = replace(settings, store=url, log_level=logging.WARNING)
        # `serve` calls `tell` once it listens; the passwords are useless before.
        serve(quiet, tell=lambda _: tell("\n".join(told)), beside=[play])


def prepare(store: Store) -> tuple[dict[str, str], str]:
    """Create the study and its accounts; return the sites' tokens and the common password."""
    protocol, features = demo_protocol()
    Campaign.create(store, protocol, by=SIMULATION, features=features, rehearsal=True)
    access, password = Access(store), f"demo-{secrets.token_hex(4)}"
    first = operator("demo")
    for name, roles in PEOPLE.items():
        access.accept(access.invite(name, [Grant("*", role) for role in roles], by=first), password)
    tokens = {
        site: access.issue_token(f"{site}'s gateway", [Grant(NAME, "site", site)], by="ana")[1]
        for site in SITES
    }
    return tokens, password


def play_site(address: str, site: str, token: str, stopping: threading.Event) -> None:
    """Treat participants of one site through the API, until the study or the service ends."""
    drawn, number = random.Random(site), 0
    while not stopping.is_set():
        number += 1
        try:
            treat(address, f"{site}:{number:04d}", token, drawn)
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code == 409:  # the study has ended
                return
            stopping.wait(1.0)
        except OSError:  # the service is starting
            number -= 1
            stopping.wait(0.2)
            continue
        if number >= FIRST:
            pause = WAITING_PAUSE if is_waiting(address, token) else PAUSE
            stopping.wait(pause * drawn.uniform(0.5, 1.5))


def is_waiting(address: str, token: str) -> bool:
    """Return whether a candidate waits for a signature."""
    request = urllib.request.Request(
        f"{address}/v1/campaigns/{NAME}", headers={"Authorization": f"Bearer {token}"}
    )
    with suppress(OSError), urllib.request.urlopen(request, timeout=30) as answer:
        return bool(json.load(answer)["waiting"])
    return False


def treat(address: str, episode_id: str, token: str, drawn: random.Random) -> None:
    """Get the treatment of a participant, and report the outcome."""
    severity = drawn.randrange(3)
    seen = {"severity": severity}
    acted = send(address, "act", token, {"id": episode_id, "observation": seen})
    recovered = drawn.random() < RECOVERY[severity][acted["place"]]
    report = {
        "id": episode_id,
        "observations": [seen],
        "actions": [acted["action"]],
        "rewards": [float(recovered)],
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    send(address, "episodes", token, report)


def send(address: str, route: str, token: str, body: dict[str, Any]) -> Any:
    """Post a body to a route of the study; return the answer."""
    request = urllib.request.Request(
        f"{address}/v1/campaigns/{NAME}/{route}",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
