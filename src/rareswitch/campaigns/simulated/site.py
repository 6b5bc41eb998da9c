"""What happens at a site of a simulated campaign: an episode is played, and a report is written."""

import json
from dataclasses import replace

import numpy as np

from rareswitch.campaigns.report import Report
from rareswitch.campaigns.simulated.circumstances import EpisodeFate
from rareswitch.campaigns.simulated.world import World
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import Rows

DAMAGES = ("cut", "reward", "word")


def played(
    world: World, policy: Policy, number: int, *, episode_id: str, fate: EpisodeFate
) -> Report:
    """Let one member of a policy play an episode; return what is to be reported of it.

    Where people decide otherwise the report tells what was recommended, and nobody knows how likely
    what they did was.
    """
    offered: list[Rows] = [world.begin(number)]
    rewards: list[float] = []
    places: list[int] = []
    recommended: list[int] = []
    for h in range(policy.horizon):
        rows = offered[-1]
        recommended.append(policy.act(h, rows))
        instead = int(fate.choices[h] * len(rows))
        places.append(instead if fate.overridden[h] else recommended[-1])
        answer = world.step(places[-1])
        rewards.append(answer.reward)
        if answer.offered is not None and h + 1 < policy.horizon:
            offered.append(answer.offered)
        if answer.over:
            break
    episode = Episode(
        features=np.array([rows[place] for rows, place in zip(offered, places, strict=False)]),
        rewards=np.array(rewards),
        next_features=offered[1:],
    )
    return Report(
        id=episode_id,
        episode=episode,
        first_features=offered[0],
        actions=np.array(places),
        recommended=np.array(recommended) if fate.overridden.any() else None,
        site=fate.site,
    )


def mistaken(report: Report) -> Report:
    """Return the report as it was first entered: with the last reward turned round."""
    episode = report.episode
    rewards = episode.rewards.copy()
    rewards[-1] = 1.0 - rewards[-1]
    wrong = Episode(features=episode.features, rewards=rewards, next_features=episode.next_features)
    return replace(report, episode=wrong)


def damaged(report: Report, kind: int) -> str:
    """Return the report as a text that must be refused: cut, or with a reward that is none."""
    plain, how = report.plain, DAMAGES[kind % len(DAMAGES)]
    if how == "cut":
        text = json.dumps(plain)
        return text[: len(text) // 2]
    wrong = 7.0 if how == "reward" else "good"
    return json.dumps(plain | {"rewards": [wrong, *plain["rewards"][1:]]})
