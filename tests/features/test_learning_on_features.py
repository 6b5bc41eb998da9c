"""Maps in front of a learner, as a loop of one's own uses them."""

import numpy as np

import rareswitch as rs
from rareswitch.features import ActionBlocks, Masked, OneHot, Polynomial, Scaling


def learned(features, outcome, states, episodes=60):
    """Let a learner play one-step episodes, and return what it recommends in each state."""
    task = rs.Task(
        dim=features.dim, horizon=1, feature_norm=features.norm, one_hot=features.one_hot
    )
    learner = rs.Learner(task, rs.EveryEpisode())
    rng = np.random.default_rng(0)

    def choose(policy, state):
        mask = features.feasible(state)
        allowed = np.arange(features.actions) if mask is None else np.flatnonzero(mask)
        rows = features(state)[allowed]
        place = policy.act(0, rows)
        return int(allowed[place]), rows[place]

    for k in range(episodes):
        state = states[rng.integers(len(states))]
        action, row = choose(learner.policy.draw(k), state)
        learner.observe(
            rs.Episode(features=np.array([row]), rewards=[outcome(state, action)], next_features=[])
        )
    return [choose(learner.recommend(), state)[0] for state in states]


def test_blocks_learn_what_is_best_in_each_region():
    scaled = Scaling.between([-2.0], [2.0]).then(Polynomial(inputs=1, degree=1))
    features = ActionBlocks(scaled, actions=2)
    states = [[-2.0], [-1.0], [1.0], [2.0]]
    best = learned(features, lambda s, a: 0.5 + s[0] * (a - 0.5) / 2, states)
    assert best == [0, 0, 1, 1]


def test_a_masked_table_learns_the_best_feasible_action():
    allowed = [[True, True, False], [True, True, True], [False, True, False]]
    table = OneHot(states=3, actions=3)
    for inner in (table, table.dense()):
        features = Masked(inner, lambda state: allowed[state])
        assert learned(features, lambda s, a: a / 2, [0, 1, 2]) == [1, 2, 1]
