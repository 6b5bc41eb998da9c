"""The library against the paper's algorithms transcribed line by line."""

import hashlib

import numpy as np
import pytest

import rareswitch as rs
from literal import estimated_q, play, symmetric_root
from rareswitch.support.streams import KeyedStream, Stream

WORLDS = {
    "hard d=5 H=3": rs.worlds.hard_to_learn(d=5, horizon=3, delta=0.3, seed=1),
    "hard d=6 H=5 padded": rs.worlds.hard_to_learn(d=6, horizon=5, seed=2, reading="padded"),
    "hard d=7 H=2 compact": rs.worlds.hard_to_learn(d=7, horizon=2, seed=3, reading="compact"),
    "hard normalized": rs.worlds.hard_to_learn(d=6, horizon=4, seed=4, normalized=True),
    "random linear": rs.worlds.random_linear(states=6, actions=4, d=5, horizon=4, seed=5),
    "tabular": rs.worlds.tabular(states=3, actions=2, horizon=3, seed=6),
    "misspecified": rs.worlds.misspecified(
        rs.worlds.hard_to_learn(d=5, horizon=4, seed=7), zeta=0.3, seed=7
    ),
}
EPISODES = 36
RULES = {
    "lsvi-ucb": (rs.EveryEpisode(), {"batches": EPISODES}),
    "batch 7": (rs.UniformGrid(batches=7), {"batches": 7}),
    "rareswitch 1.3": (rs.DeterminantGrowth(eta=1.3), {"eta": 1.3}),
    "rareswitch 8": (rs.DeterminantGrowth(eta=8.0), {"eta": 8.0}),
}


def learner_policies(world, schedule, recipe, run):
    """Feed the run's episodes to a Learner; return its policies and when each was deployed."""
    learner = rs.Learner(world.task(episodes=EPISODES), schedule, recipe)
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
    recipe = rs.Recipe.paper(beta=beta, ridge=ridge, ties="lowest")
    run = rs.simulate(world, schedule, recipe, episodes=EPISODES, noise=noise)
    np.testing.assert_array_equal(run.deployment_episodes, expected.deployment_episodes)
    np.testing.assert_array_equal(run.states, expected.states)
    np.testing.assert_array_equal(run.actions, expected.actions)
    np.testing.assert_allclose(run.regret, expected.regret, atol=1e-8)

    policies, deployed = learner_policies(world, schedule, recipe, run)
    assert deployed == expected.deployment_episodes
    for policy, q_values in zip(policies, expected.q_values, strict=True):
        for h in range(world.horizon):
            for s in range(world.states):
                found = policy.q_values(h, world.features[s])
                np.testing.assert_allclose(found, q_values[h, s], atol=1e-8)
    assert run.policy is not None
    last = [run.policy.q_values(h, world.features[0]) for h in range(world.horizon)]
    np.testing.assert_allclose(last, expected.q_values[-1][:, 0], atol=1e-8)


def episodes_of(world, run, count):
    """Return the first episodes of a run."""
    stage = np.arange(world.horizon)
    return [
        rs.Episode(
            features=world.features[states[:-1], actions],
            rewards=world.rewards[stage, states[:-1], actions],
            next_features=[world.features[s] for s in states[1:-1]],
        )
        for states, actions in zip(run.states[:count], run.actions[:count], strict=True)
    ]


def declared_q(world, log, drawn, *, ridge):
    """Return Q (H, S, A) of one member with the declared ridge, from the raw episodes."""
    horizon, dim = drawn.shape
    q_values = np.zeros((horizon + 1, *world.features.shape[:2]))
    states = {world.features[s].tobytes(): s for s in range(world.states)}
    for h in range(horizon - 1, -1, -1):
        gram, target = ridge * np.eye(dim), np.zeros(dim)
        for episode in log:
            value = episode.rewards[h]
            if h + 1 < horizon:
                value += q_values[h + 1, states[episode.next_features[h].tobytes()]].max()
            gram += np.outer(episode.features[h], episode.features[h])
            target += value * episode.features[h]
        inverse = np.linalg.inv(gram)
        weights = inverse @ target + symmetric_root(inverse) @ drawn[h]
        q_values[h] = np.clip(world.features @ weights, 0.0, horizon - h)
    return q_values[:horizon]


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("schedule", [rule for rule, _ in list(RULES.values())[1:]], ids=repr)
@pytest.mark.parametrize("estimate", [True, False])
def test_a_simulated_ensemble_agrees_with_its_literal_transcription(world, schedule, estimate):
    members, scale, ridge, seed = 3, 0.5, 0.6, (5, 2)
    explores = rs.Ensemble(members, scale, estimate)
    recipe = rs.Recipe(exploration=explores, ridge=ridge, ties="lowest")
    run = rs.simulate(world, schedule, recipe, episodes=EPISODES, seed=seed)
    horizon, dim = world.horizon, world.dim
    normal, allocations = (KeyedStream(seed, s) for s in (Stream.PERTURBATION, Stream.ALLOCATION))
    ends = [*run.deployment_episodes[1:], EPISODES + 1]
    optimal = world.optimal_values()[0, 0]
    for version, (first, end) in enumerate(zip(run.deployment_episodes, ends, strict=True), 1):
        if version > 4 and end <= EPISODES:
            continue  # slow; the first ones and the last say it all
        log = episodes_of(world, run, first - 1)
        drawn = scale * normal.at(version).standard_normal((members, horizon, 1, dim))
        tables, values = np.zeros((members, horizon, world.states), int), []
        for m in range(members):
            if estimate:
                q = estimated_q(log, horizon=horizon, dim=dim, drawn=drawn[m])
                found = np.array([[q(h, rows) for rows in world.features] for h in range(horizon)])
            else:
                found = declared_q(world, log, drawn[m, :, 0], ridge=ridge)
            values.append(found[0, 0].max())
            best = found >= found.max(axis=-1, keepdims=True) - 1e-9
            tables[m] = best.argmax(axis=-1)
            if end == EPISODES + 1:
                member = run.policy.member(m)
                for h in range(horizon):
                    for s in range(world.states):
                        kept = member.q_values(h, world.features[s])
                        np.testing.assert_allclose(kept, found[h, s], atol=1e-8)
        assert run.fitted_values[version - 1] == pytest.approx(np.mean(values), abs=1e-8)
        allocation = int(allocations.at(version).integers(2**63))
        for k in range(first, end):
            m = run.members[k - 1]
            named = hashlib.blake2b(f"{allocation}/{k}".encode(), digest_size=8).digest()
            assert m == int.from_bytes(named, "big") * members // 2**64
            taken = tables[m, np.arange(horizon), run.states[k - 1, :-1]]
            np.testing.assert_array_equal(run.actions[k - 1], taken)
            lost = optimal - world.policy_values(tables[m])[0, 0]
            assert run.regret[k - 1] == pytest.approx(lost, abs=1e-8)
