"""Golden results: small learners and a campaign that every installation must reproduce.

All numbers in their logs are exact in binary. `golden/` holds the policies, the campaign's store
and `golden.json` with their digests; `python -m rareswitch.campaigns.qualification.golden FOLDER`
makes them again.
"""

import gzip
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch import __version__
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import RefusedError
from rareswitch.campaigns.learning.learning import Learning
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.qualification.numerics import numerics
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.rows import digest_of
from rareswitch.campaigns.rulebook.stopping import Harm
from rareswitch.campaigns.rulebook.terms import AnalysisTerms, Intake, Subgroups
from rareswitch.campaigns.status import heads
from rareswitch.campaigns.store import Store, open_store
from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Ensemble
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.learning.learner import Learner
from rareswitch.rules.budget import SpreadBudget
from rareswitch.rules.paper import DeterminantGrowth, UniformGrid

FOLDER = Path(__file__).parent / "golden"
ROWS = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 0.0]])
ACTIONS = np.eye(3)
EPISODES = 48  # of the campaign
STORE = "campaign.db.gz"


def golden_results() -> dict[str, Any]:
    """Return the stored digests and heads, and the numerics of the machine that made them."""
    found: dict[str, Any] = json.loads((FOLDER / "golden.json").read_text(encoding="utf-8"))
    return found


def golden_policies() -> Iterator[tuple[str, Policy]]:
    """Fit each golden learner; yield its name and its policy."""
    dense = Task(dim=3, horizon=2, episodes=60, feature_norm=1.25)
    learners = {
        "paper": Learner(dense, DeterminantGrowth(eta=1.5), Recipe.paper(beta=0.75)),
        "ensemble": Learner(
            dense,
            SpreadBudget(switches=4),
            Recipe(exploration=Ensemble(members=8), ridge=0.5, seed=(3, 4)),
        ),
        "floor": Learner(
            dense,
            UniformGrid(batches=5),
            Recipe(exploration=Ensemble(members=4), floor=0.125, seed=5),
        ),
        "one-hot": Learner(
            Task(dim=6, horizon=3, episodes=60, stages="shared", one_hot=True, end_reward=0.25),
            SpreadBudget(switches=4),
            Recipe(exploration=Ensemble(members=4), ridge=0.5, seed=(3, 4)),
        ),
    }
    for name, learner in learners.items():
        for number in range(40):
            learner.observe(_positions(number) if learner.task.one_hot else _rows(number))
        yield name, learner.fit()


def _rows(k: int) -> Episode:
    steps = 1 + k % 2
    following = [np.roll(ROWS, k, axis=0)[: 1 + j] for j in range(steps - 1 + (k % 3 == 0))]
    rewards = np.full(steps, 0.25 * (k % 4))
    return Episode(features=ROWS[[k % 3] * steps], rewards=rewards, next_features=following)


def _positions(k: int) -> Episode:
    steps = 1 + k % 3
    path = [(k * (t + 1) // 2) % 2 for t in range(steps + 1)]
    return Episode(
        features=np.array([3 * s + (k + t) % 3 for t, s in enumerate(path[:-1])]),
        rewards=np.array([0.125 * ((k + t) % 8) for t in range(steps)]),
        next_features=[3 * s + np.arange(1 + (k + s) % 3) for s in path[1 : steps + (k % 4 == 0)]],
    )


def golden_protocol(name: str = "golden", **changes: Any) -> Protocol:
    """Return the protocol of the golden campaign."""
    told: dict[str, Any] = {
        "task": Task(dim=3, horizon=2, episodes=EPISODES),
        "schedule": UniformGrid(batches=6),
        "budget": 5,
        "recipe": Recipe(exploration=Ensemble(members=4), seed=(1, 2)),
        "approval": Approval(by="second-person", retry_after=2),
        "intake": Intake(grace=30),
        "stopping": (Harm(below=0.05),),
        "analysis": AnalysisTerms(
            events=("serious",), subgroups=Subgroups(names=("mild", "severe"))
        ),
    }
    return Protocol(name=name, **told | changes)


def golden_report(number: int, *, id: str | None = None, **told: Any) -> Report:
    """Return the report of an episode, determined by its number."""
    taken = [(number * 7 + 3 + stage * (number // 3)) % 3 for stage in range(2)]
    rewards = np.array([((number * 5 + 2 * action) % 8) / 8 for action in taken])
    episode = Episode(features=ACTIONS[taken], rewards=rewards, next_features=[ACTIONS])
    whole: dict[str, Any] = {"first_features": ACTIONS, "actions": taken} | told
    return Report(id=id or f"p{number}", episode=episode, **whole)


def play_golden_campaign(store: Store) -> Campaign:
    """Play a campaign with every kind of event, by a clock that does not depend on the machine."""
    ticks = count()
    campaign = Campaign.create(
        store,
        golden_protocol(),
        by="ana",
        clock=lambda: f"2026-03-01T{(n := next(ticks)) // 60:02d}:{n % 60:02d}:00+00:00",
    )
    with Learning(campaign) as learning:
        for k in range(EPISODES - 4):
            if k % 2:
                campaign.assign(f"p{k}")
            group, events = ("mild", "severe")[k % 2], {"serious": 1} if k % 5 == 0 else None
            told: dict[str, Any] = {"site": f"{k % 3}", "subgroup": group, "events": events}
            campaign.record(golden_report(k, participant=f"person {k % 4}", **told))
            _happens(campaign, k)
            if candidate := learning.step():
                decide = campaign.reject if candidate.version == 3 else campaign.approve
                decide(candidate.number, by="ben", reason="after a look")
    campaign.assign("open")
    campaign.stop(by="ana", reason="enough for a check")
    return campaign


def _happens(campaign: Campaign, k: int) -> None:
    """Make the other events of a campaign, each after its episode."""
    if k == 9:
        campaign.correct(golden_report(3, subgroup="mild"), by="ana", reason="typing error")
    if k == 14:
        campaign.forget("person 2", by="ana", reason="as asked")
    if k == 20:
        campaign.rollback(1, by="cyd", reason="harm at site 2")
    if k == 23:
        with suppress(RefusedError):
            campaign.record({"id": "x", "features": [[1.0, 0.0, 0.0]], "rewards": [7.0]})
    if k == 25:
        waiting = campaign.amend({"intake": {"grace": 40}}, by="ana", reason="slow post")
        campaign.approve(waiting.number, by="ben", reason="agreed")
    if k == 27:
        campaign.assign("never")
        campaign.cancel("never", by="ana", reason="did not come")
    if k == 30:
        campaign.withdraw("p5", by="ana", reason="consent withdrawn")


def unpack_golden_store(path: Path) -> None:
    """Write the stored golden store to a new file."""
    with open(path, "xb") as file:
        file.write(gzip.decompress((FOLDER / STORE).read_bytes()))


def make(folder: Path) -> None:
    """Write all golden results of this installation into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"rareswitch": __version__, "numerics": numerics(), "policies": {}}
    for name, policy in golden_policies():
        (folder / f"{name}.policy").write_bytes(policy.to_bytes())
        results["policies"][name] = policy.digest
    path = folder / "campaign.db"
    with open_store(path, create=True) as store:
        campaign = play_golden_campaign(store)
        results["heads"] = {chain: list(head) for chain, head in heads(campaign).items()}
        results["versions"] = campaign.version
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    data = gzip.compress(path.read_bytes(), mtime=0)
    (folder / STORE).write_bytes(data)
    results["store"] = digest_of(data)
    for left in folder.glob("campaign.db*"):
        if left.name != STORE:
            left.unlink()
    text = json.dumps(results, indent=2) + "\n"
    (folder / "golden.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
