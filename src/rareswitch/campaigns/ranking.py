"""One-step decisions with the verbs of a ranking service: rank, activate, reward.

The store keeps the observation of a ranked episode until its reward arrives, then erases it.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from rareswitch.campaigns.acting import acting_on_observation
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import ConflictError, NotAllowedError
from rareswitch.campaigns.rulebook.names import checked_name
from rareswitch.campaigns.rulebook.rows import canonical
from rareswitch.campaigns.store.tables import ranked
from rareswitch.support.arguments import real


class Ranking(NamedTuple):
    """The action to take, and the probabilities of all actions, the action to take first."""

    episode_id: str
    action: str
    ranking: list[tuple[str, float]]


def rank(
    campaign: Campaign, episode_id: str, observation: Mapping[str, Any], *, active: bool = True
) -> Ranking:
    """Assign an episode of one step and rank its actions; this call is idempotent.

    An episode that is not `active` must be activated before its reward.
    """
    observer = campaign.observer
    if observer.task.horizon != 1:
        raise NotAllowedError(
            f"a ranking needs episodes of one step; the horizon is {observer.task.horizon}"
        )
    name = checked_name("eventId", episode_id)
    step = acting_on_observation(observer, observation, ())
    told = canonical({key: observation[key] for key in observer.features.columns})
    kept = {"campaign": campaign.name, "episode_id": name, "observation": told, "active": active}
    assigned = campaign.assign(name)
    with campaign.store.writing(campaign.name) as connection:
        before = connection.execute(_of(campaign, name)).first()
        if before is None:
            connection.execute(ranked.insert().values(**kept, reward=None))
        elif before.reward is not None:
            raise ConflictError(f"eventId {name} has its reward already")
        elif before.observation != told:
            raise ConflictError(f"eventId {name} was ranked with other features already")
        elif active and not before.active:
            connection.execute(_change(campaign, name).values(active=True))
    policy = campaign.artifact(assigned.digest)
    chosen = step.choose(policy, assigned)
    chances = policy.propensities(0, step.rows[0])
    others = [place for place in range(len(observer.actions)) if place != chosen.place]
    others.sort(key=lambda place: (-float(chances[place]), place))
    places = [chosen.place, *others]
    return Ranking(
        name, chosen.action, [(observer.actions[one], float(chances[one])) for one in places]
    )


def activate(campaign: Campaign, episode_id: str) -> None:
    """Activate a ranked episode, because its action was shown; this call is idempotent."""
    with campaign.store.writing(campaign.name) as connection:
        _known(connection.execute(_of(campaign, episode_id)).first(), episode_id)
        connection.execute(_change(campaign, episode_id).values(active=True))


def reward(campaign: Campaign, episode_id: str, value: float) -> None:
    """Record a ranked episode with its reward, and erase its observation."""
    earned = real("value", value, least=0.0, most=1.0)
    with campaign.store.reading() as connection:
        found = _known(connection.execute(_of(campaign, episode_id)).first(), episode_id)
    if not found.active:
        raise NotAllowedError(f"event {episode_id} was not activated")
    if found.reward is not None:
        if found.reward != earned:
            raise ConflictError(f"event {episode_id} has the reward {found.reward:g} already")
        return
    observation = json.loads(found.observation)
    done = campaign.act(episode_id, observation)
    campaign.record(
        {
            "id": episode_id,
            "observations": [observation],
            "actions": [done.place],
            "rewards": [earned],
        }
    )
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(_change(campaign, episode_id).values(observation="", reward=earned))


def erase_observation(campaign: Campaign, episode_id: str) -> None:
    """Erase the observation of a cancelled ranked episode."""
    mine = (ranked.c.campaign == campaign.name, ranked.c.episode_id == episode_id)
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(ranked.delete().where(*mine))


def _of(campaign: Campaign, episode_id: str) -> sa.Select[Any]:
    return sa.select(ranked).where(
        ranked.c.campaign == campaign.name, ranked.c.episode_id == episode_id
    )


def _change(campaign: Campaign, episode_id: str) -> sa.Update:
    mine = (ranked.c.campaign == campaign.name, ranked.c.episode_id == episode_id)
    return ranked.update().where(*mine)


def _known(found: Any, episode_id: str) -> Any:
    if found is None:
        raise NotAllowedError(f"event {episode_id} was not ranked")
    return found
