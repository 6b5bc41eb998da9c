"""Small campaigns for tests: a protocol of three actions and two stages, and actors that play."""

import hashlib
import json

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.campaigns import Campaign, Protocol, Report
from rareswitch.campaigns.rulebook.rows import NUMBERS
from rareswitch.campaigns.store.rows import heads_of, rows_of
from rareswitch.core.task import Task

ROWS = np.eye(3)
CHANCES = (0.2, 0.5, 0.8)  # of a reward, by the action taken


def mostly_in_files(names, values, *on_a_server):
    """Return a mark: each value with a store in a file, and these with one on a server too.

    It is for tests whose cases differ in what is decided or computed, not in how it is stored.
    """
    several = "," in names
    cases = [("sqlite", one) for one in values] + [("postgresql", one) for one in on_a_server]
    listed = [(kind, *one) if several else (kind, one) for kind, one in cases]
    return pytest.mark.parametrize(f"store_url, {names}", listed, indirect=["store_url"])


def protocol(*, episodes=60, batches=6, budget=5, **changes):
    """Return a protocol that asks for a new policy at the start of each of equal batches."""
    settings = {
        "name": "trial",
        "task": Task(dim=3, horizon=2, episodes=episodes),
        "schedule": rs.UniformGrid(batches=batches),
        "budget": budget,
    }
    return Protocol(**settings | changes)


def report(number, *, actions=None, rewards=None, **told):
    """Return the report of an episode that its number determines."""
    rng = np.random.default_rng([11, number])
    taken = rng.integers(3, size=2) if actions is None else np.array(actions)
    drawn = (rng.random(2) < np.array(CHANCES)[taken]).astype(float)
    episode = rs.Episode(
        features=ROWS[taken],
        rewards=drawn if rewards is None else rewards,
        next_features=[ROWS],
    )
    told = {"id": f"p{number}", "first_features": ROWS, "actions": taken} | told
    return Report(episode=episode, **told)


def played(policy, episode_id, number):
    """Return the report of an episode in which a policy decided."""
    member = policy.draw(episode_id)
    actions = [member.act(stage, ROWS) for stage in range(2)]
    return report(number, actions=actions, id=episode_id)


def plain(number, **changes):
    """Return a report's fields as JSON has them; those changed to None are left out."""
    fields = report(number).plain | changes
    return {name: value for name, value in fields.items() if value is not None}


def create(store, *, by="ana", **changes):
    return Campaign.create(store, protocol(**changes), by=by)


def fill(campaign, numbers):
    """Record the episodes of these numbers; return their places."""
    return [campaign.record(report(number)) for number in numbers]


def propose(campaign, *, seq=None, by="schedule", planned=True, seed=0, evidence=None):
    """Propose some policy for the next version."""
    state = campaign.state
    with campaign.store.reading() as connection:
        head = len(rows(connection, "episodes", campaign.name))
    return campaign.propose(
        some_policy(seed),
        seq=head if seq is None else seq,
        evidence={"triggers": []} | (evidence or {}),
        expected=state.in_force.version,
        by=by,
        reason="a test",
        planned=planned,
    )


def some_policy(seed):
    """Return a policy that differs from those of other seeds."""
    task = Task(dim=3, horizon=2, episodes=60)
    return rs.Learner(task, rs.EveryEpisode(), rs.Recipe(seed=seed)).policy


def rows(connection, chain, campaign):
    """Return all rows of a chain, in the order of their numbers."""
    return list(rows_of(connection, chain, campaign))


def chain(campaign, name):
    """Return all rows of one of the chains of a campaign."""
    with campaign.store.reading() as connection:
        return rows(connection, name, campaign.name)


def check_chains(campaign):
    """Follow every chain from its beginning: no gap, every link, and the heads at their ends.

    Links are written out here as the record defines them, not as the library computes them.
    """
    with campaign.store.reading() as connection:
        heads = heads_of(connection, campaign.name)
        for name, number in NUMBERS.items():
            link, found = "0" * 64, rows(connection, name, campaign.name)
            for place, row in enumerate(found, start=1):
                assert getattr(row, number) == place
                values = row._asdict()
                del values["link"]
                for optional in ("deviations", "salt"):
                    if values.get(optional, 0) is None:
                        del values[optional]
                if values.get("body") is not None:
                    values["body"] = hashlib.sha256(values["body"]).hexdigest()
                text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                link = hashlib.sha256((link + text).encode()).hexdigest()
                assert row.link == link, f"{name} {place}"
            assert heads[name] == (len(found), link)
