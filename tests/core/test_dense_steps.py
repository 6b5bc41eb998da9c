"""Steps of episodes end to end are those of the episodes, one by one."""

import numpy as np
import pytest

from rareswitch import Episode
from rareswitch.core.dense_steps import DenseSteps
from rareswitch.core.pools import Pools

HORIZON, DIM = 3, 2


def episodes():
    rng = np.random.default_rng(0)
    for steps, following in ((3, 2), (1, 0), (2, 2)):  # whole, ended early, cut off
        yield Episode(
            features=rng.random((steps, DIM)),
            rewards=rng.random(steps),
            next_features=[rng.random((2, DIM)) for _ in range(following)],
        )


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_sums_by_pool_are_those_of_each_episode(stages):
    pools, given = Pools(HORIZON, stages), list(episodes())
    found = DenseSteps(given, pools).by_pool()
    for episode, sums in zip(given, found, strict=True):
        by_stage = np.zeros((2, HORIZON, DIM + 2))
        for h, (feature, reward) in enumerate(zip(episode.features, episode.rewards, strict=True)):
            row = np.array([*feature, 1.0, reward])
            by_stage[:, h] = row, reward * row
        np.testing.assert_array_equal(sums, pools.summed(by_stage))


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_steps_lead_to_the_states_after_them(stages):
    pools, given = Pools(HORIZON, stages), list(episodes())
    steps = DenseSteps(given, pools)
    ended, led = 0, 0
    for pool in range(pools.count - 1):
        rows, states = steps.leading_on(pool)
        assert len(rows) == len(states)
        ended += states.count(b"")
        led += len(states)
    assert led == 5  # all steps but the one of the last stage
    assert ended == 1  # of the episode that ended after its first step
