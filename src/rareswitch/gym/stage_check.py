"""Do the episodes of a training speak against stages that share?"""

from collections.abc import Iterable
from itertools import islice

from rareswitch.evaluation.sharing import LEAST_EPISODES, Sharing, check_sharing
from rareswitch.gym.setting import Setting
from rareswitch.trajectories import Trajectory, episode_of

# Episodes that are looked at; fewer where stages on their own would take long to fit.
MOST_EPISODES = 1000
MOST_NUMBERS = 5 * 10**8  # H·d² of every episode


def sharing_found(setting: Setting, log: Iterable[Trajectory], episodes: int) -> Sharing | None:
    """Check the log of so many episodes; None where stages do not share, or there is too little.

    Of a long log, episodes at equal distances are looked at.
    """
    features, horizon = setting.features, setting.horizon
    most = MOST_EPISODES
    if not features.one_hot:
        most = min(most, max(LEAST_EPISODES, MOST_NUMBERS // (horizon * features.dim**2)))
    if setting.stages != "shared" or horizon < 2 or episodes < LEAST_EPISODES:
        return None
    some = islice(log, 0, None, -(-episodes // most))
    return check_sharing(
        [episode_of(one, features, setting.rewards, horizon) for one in some], setting.task()
    )
