"""The library against the paper's algorithms transcribed line by line."""

import numpy as np
import pytest

import rareswitch as rs
from literal import play

WORLDS = {
    "hard d=5 H=3": rs.instances.hard_to_learn(d=5, horizon=3, delta=0.3, seed=1),
    "hard d=6 H=5 padded": rs.instances.hard_to_learn(d=6, horizon=5, seed=2, reading="padded"),
    "hard d=7 H=2 compact": rs.instances.hard_to_learn(d=7, horizon=2, seed=3, reading="compact"),
    "hard normalized": rs.instances.hard_to_learn(d=6, horizon=4, seed=4, normalized=True),
    "random linear": rs.instances.random_linear(states=6, actions=4, d=5, horizon=4, seed=5),
    "tabular": rs.instances.tabular(states=3, actions=2, horizon=3, seed=6),
    "misspecified": rs.instances.misspecified(
        rs.instances.hard_to_learn(d=5, horizon=4, seed=7), zeta=0.3, seed=7
    ),
}
EPISODES = 60
RULES = {
    "lsvi-ucb": (rs.EveryEpisode(), {"batches": EPISODES}),
    "batch 7": (rs.UniformGrid(episodes=EPISODES, batches=7), {"batches": 7}),
    "rareswitch 1.3": (rs.DeterminantGrowth(eta=1.3), {"eta": 1.3}),
    "rareswitch 8": (rs.DeterminantGrowth(eta=8.0), {"eta": 8.0}),
}


def learner_policies(world, schedule, run, *, beta, ridge):
    """Feed the run's episodes to a Learner; return its policies and when each was deployed."""
    learner = rs.Learner(
        dim=world.dim,
        horizon=world.horizon,
        schedule=schedule,
        beta=beta,
        ridge=ridge,
        ties="lowest",
    )
    policies = [learner.policy]
    for k in range(EPISODES - 1):
        states, actions = run.states[k], run.actions[k]
        for h in range(world.horizon):
            assert learner.policy.act(h, world.features[states[h]]) == actions[h]
        switched = learner.observe(
            rs.Episode(
                features=world.features[states[:-1], actions],
                rewards=world.rewards[np.arange(world.horizon), states[:-1], actions],
                next_features=[world.features[s] for s in states[1:-1]],
            )
        )
        if switched:
            policies.append(learner.policy)
    return policies, [deployment.episode for deployment in learner.ledger]


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize(("schedule", "rule"), RULES.values(), ids=RULES)
@pytest.mark.parametrize(("beta", "ridge"), [(0.4, 1.0), (1.0, 0.1)])
def test_simulation_and_learner_agree_with_the_literal_transcription(
    world, schedule, rule, beta, ridge
):
    noise = np.random.default_rng(11).random((EPISODES, world.horizon))
    expected = play(world, episodes=EPISODES, noise=noise, beta=beta, ridge=ridge, **rule)
    run = rs.simulate(
        world, schedule, episodes=EPISODES, beta=beta, ridge=ridge, ties="lowest", noise=noise
    )
    np.testing.assert_array_equal(run.deployment_episodes, expected.deployment_episodes)
    np.testing.assert_array_equal(run.states, expected.states)
    np.testing.assert_array_equal(run.actions, expected.actions)
    np.testing.assert_allclose(run.regret, expected.regret, atol=1e-8)

    policies, deployed = learner_policies(world, schedule, run, beta=beta, ridge=ridge)
    assert deployed == expected.deployment_episodes
    for policy, q_values in zip(policies, expected.q_values, strict=True):
        for h in range(world.horizon):
            for s in range(world.states):
                found = policy.q_values(h, world.features[s])
                np.testing.assert_allclose(found, q_values[h, s], atol=1e-8)
    assert run.policy is not None
    last = [run.policy.q_values(h, world.features[0]) for h in range(world.horizon)]
    np.testing.assert_allclose(last, expected.q_values[-1][:, 0], atol=1e-8)
