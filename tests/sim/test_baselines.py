from itertools import pairwise
from math import ceil, log, sqrt

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.sim import FiniteMDP, simulate_random
from rareswitch.sim.baselines import mvp, ucb2_hoeffding
from rareswitch.sim.baselines.tabular import _ucb2_triggers
from rareswitch.sim.run import initial_states, noise_of


def masked_tabular(seed, *, states=3, actions=3, horizon=3):
    """Return a tabular world in which every state but the first bars an action."""
    world = rs.worlds.tabular(states=states, actions=actions, horizon=horizon, seed=seed)
    feasible = np.ones((states, actions), bool)
    feasible[np.arange(1, states), np.arange(1, states) % actions] = False
    return FiniteMDP(
        features=world.features,
        transitions=world.transitions,
        rewards=world.rewards,
        feasible=feasible,
    )


WORLDS = {
    "tabular": rs.worlds.tabular(states=3, actions=3, horizon=3, seed=1),
    "masked": masked_tabular(2),
    "one-stage": rs.worlds.tabular(states=2, actions=4, horizon=1, seed=3),
}


class Table:
    """The greedy policy of literal estimates: among feasible actions, the lowest of the best."""

    def __init__(self, world):
        self.menus = [[a for a in range(len(row)) if row[a]] for row in world.feasible]
        self.H, self.S = world.horizon, world.states

    def of(self, q):
        best = [
            [max(self.menus[s], key=lambda a, h=h, s=s: (q[h, s, a], -a)) for s in range(self.S)]
            for h in range(self.H)
        ]
        return np.array(best)


def literal_ucb2(world, K, c):
    """Q-learning with UCB2-Hoeffding exploration (Bai et al. 2019, Algorithm 2), by dictionaries.

    Q̃ and V start at H; a visit t moves Q̃ by (H+1)/(H+t) towards r + V(s') + c·√(H³ι/t); V is
    min(H, max Q̃); the policy's Q copies Q̃ at a visit count of the triggering sequence.
    """
    H, S, A = world.rewards.shape
    table = Table(world)
    eta = 1 / (2 * H * (H + 1))
    r_star = ceil(log(10 * H * H) / log(1 + eta))
    triggers = set(range(1, ceil((1 + eta) ** r_star) + 1))
    triggers |= {ceil((1 + eta) ** r) for r in range(r_star + 1, r_star + 2000)}
    iota = log(S * A * K * H)
    follow = {(h, s, a): float(H) for h in range(H) for s in range(S) for a in range(A)}
    running, visits = dict(follow), dict.fromkeys(follow, 0)
    value = {(h, s): float(H) if h < H else 0.0 for h in range(H + 1) for s in range(S)}

    def learn(path, actions):
        triggered = False
        for h, (s, a) in enumerate(zip(path[:-1], actions, strict=True)):
            visits[h, s, a] += 1
            t = visits[h, s, a]
            rate, bonus = (H + 1) / (H + t), c * sqrt(H**3 * iota / t)
            target = world.rewards[h, s, a] + value[h + 1, path[h + 1]] + bonus
            running[h, s, a] = running[h, s, a] + rate * (target - running[h, s, a])
            value[h, s] = min(float(H), max(running[h, s, b] for b in table.menus[s]))
            if t in triggers:
                triggered = True
                for b in table.menus[s]:
                    follow[h, s, b] = running[h, s, b]
        return triggered

    return (lambda: table.of(follow)), learn


def literal_mvp(world, K, c):
    """Optimistic value iteration with Bernstein bonuses, anew when a visit count doubles.

    The bonus is √(Var(V)·cι/n) + H·cι/n with the empirical variance of the next value, Q is
    clipped at the steps to go, and an unseen pair is worth all of them.
    """
    H, S, A = world.rewards.shape
    table = Table(world)
    iota = c * log(S * A * K * H)
    seen = {}
    q = {(h, s, a): float(H - h) for h in range(H) for s in range(S) for a in range(A)}

    def learn(path, actions):
        doubled = False
        for h, (s, a) in enumerate(zip(path[:-1], actions, strict=True)):
            nexts = seen.setdefault((h, s, a), [])
            nexts.append(path[h + 1])
            doubled |= len(nexts) in {2**i for i in range(40)}
        if doubled:
            value = [0.0] * S
            for h in reversed(range(H)):
                for s in range(S):
                    for a in table.menus[s]:
                        if nexts := seen.get((h, s, a)):
                            n = len(nexts)
                            mean = sum(value[x] for x in nexts) / n
                            spread = max(sum(value[x] ** 2 for x in nexts) / n - mean**2, 0.0)
                            bonus = sqrt(spread * iota / n) + H * iota / n
                            q[h, s, a] = min(world.rewards[h, s, a] + mean + bonus, H - h)
                value = [max(q[h, s, a] for a in table.menus[s]) for s in range(S)]
        return doubled

    return (lambda: table.of(q)), learn


def literally(world, make, *, K, c, seed, initial_state=0):
    """Play episode by episode, recomputing the policy every time; return all that a run holds."""
    greedy, learn = make(world, K, c)
    noise = noise_of(None, K, world.horizon, seed)
    initial = initial_states(initial_state, world.states, K, seed)
    optimal = world.optimal_values()[0]
    states, all_actions, tables, regret = [], [], [], []
    learnt = [True]
    for k in range(K):
        tables.append(greedy())
        path, actions = [int(initial[k])], []
        for h in range(world.horizon):
            actions.append(int(tables[-1][h, path[-1]]))
            chance = np.cumsum(world.transitions[h, path[-1], actions[-1]])[:-1]
            path.append(int((chance <= noise[k, h]).sum()))
        regret.append(optimal[path[0]] - world.policy_values(tables[-1])[0][path[0]])
        learnt.append(learn(path, actions))
        states.append(path)
        all_actions.append(actions)
    changes = [int((a != b).sum()) for a, b in pairwise(tables)]
    return {
        "states": np.array(states),
        "actions": np.array(all_actions),
        "regret": np.array(regret),
        "deployment_episodes": [k + 1 for k in range(K) if learnt[k]],
        "switch_episodes": [k + 2 for k, change in enumerate(changes) if change],
        "local_switches": sum(changes),
    }


BASELINES = {"ucb2": (ucb2_hoeffding, literal_ucb2), "mvp": (mvp, literal_mvp)}


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize(("play", "literal"), BASELINES.values(), ids=BASELINES)
def test_a_baseline_plays_what_its_description_plays(play, literal, world, scale):
    expected = literally(world, literal, K=250, c=scale, seed=(5, 1))
    run = play(world, episodes=250, scale=scale, seed=(5, 1))
    np.testing.assert_array_equal(run.states, expected["states"])
    np.testing.assert_array_equal(run.actions, expected["actions"])
    np.testing.assert_allclose(run.regret, expected["regret"], atol=1e-12)
    for name in ("deployment_episodes", "switch_episodes"):
        assert list(getattr(run, name)) == expected[name]
    assert run.local_switches == expected["local_switches"]
    assert run.local_switches >= run.switches
    assert run.policy is None
    assert len(run.fitted_values) == run.deployments
    assert np.isnan(run.fitted_values).all()


@pytest.mark.parametrize(("play", "literal"), BASELINES.values(), ids=BASELINES)
def test_baselines_start_where_they_are_told(play, literal):
    world = WORLDS["tabular"]
    expected = literally(world, literal, K=80, c=0.1, seed=3, initial_state="uniform")
    run = play(world, episodes=80, seed=3, initial_state="uniform")
    assert len(set(run.states[:, 0])) == world.states
    np.testing.assert_array_equal(run.actions, expected["actions"])
    np.testing.assert_allclose(run.regret, expected["regret"], atol=1e-12)


@pytest.mark.parametrize(("play", "literal"), BASELINES.values(), ids=BASELINES)
def test_baselines_never_take_a_barred_action(play, literal):
    world = WORLDS["masked"]
    for scale in (0.0, 0.1, 10.0):
        run = play(world, episodes=150, scale=scale, seed=4, initial_state="uniform")
        assert world.feasible[run.states[:, :-1], run.actions].all()


def visit_counts(run):
    """Return the count (K, H) that each visit brought its pair to."""
    counts, seen = np.zeros(run.actions.shape, int), {}
    for k, h in np.ndindex(*run.actions.shape):
        pair = (h, run.states[k, h], run.actions[k, h])
        counts[k, h] = seen[pair] = seen.get(pair, 0) + 1
    return counts


def test_mvp_plans_anew_exactly_when_a_count_is_a_power_of_two():
    run = mvp(WORLDS["tabular"], episodes=600, seed=2)
    doubled = np.isin(visit_counts(run), 2 ** np.arange(12)).any(axis=1)
    assert list(run.deployment_episodes) == [1, *(np.flatnonzero(doubled[:-1]) + 2)]
    assert set(run.switch_episodes) <= set(run.deployment_episodes[1:])


def test_ucb2_follows_its_estimates_exactly_at_triggering_counts():
    world = WORLDS["one-stage"]
    run = ucb2_hoeffding(world, episodes=600, seed=2)
    triggers = _ucb2_triggers(0.25, ceil(log(10) / log(1.25)), 600)
    triggered = np.isin(visit_counts(run), sorted(triggers)).any(axis=1)
    assert not triggered.all()
    assert list(run.deployment_episodes) == [1, *(np.flatnonzero(triggered[:-1]) + 2)]


@pytest.mark.parametrize("most", [1, 5, 12, 1000])
def test_the_triggering_counts_are_dense_and_then_geometric(most):
    dense = set(range(1, 14))  # (1 + 1/4)^11 = 11.6 and (1 + 1/4)^12 = 14.6
    sparse = {ceil(1.25**r) for r in range(12, 60)}
    wanted = {t for t in set(range(1, 13)) | sparse if t <= most}
    assert _ucb2_triggers(0.25, 11, most) == wanted
    assert wanted <= dense | sparse


@pytest.mark.parametrize(("play", "literal"), BASELINES.values(), ids=BASELINES)
def test_baselines_learn(play, literal):
    world = rs.worlds.tabular(states=3, actions=3, horizon=3, seed=6)
    random = simulate_random(world, episodes=1500, seed=0).regret.mean()
    run = play(world, episodes=1500, scale=0.01, seed=0)
    assert run.regret[-300:].mean() < random / 4
    assert (run.regret >= -1e-12).all()


def test_rare_updates_make_few_switches():
    world = rs.worlds.tabular(states=3, actions=3, horizon=3, seed=6)
    run = mvp(world, episodes=1500, seed=0)
    assert run.switches < 27 * (1 + ceil(np.log2(1500))) / 2


@pytest.mark.parametrize(("play", "literal"), BASELINES.values(), ids=BASELINES)
def test_the_same_seed_is_the_same_run(play, literal):
    runs = [play(WORLDS["tabular"], episodes=60, seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].states, runs[1].states)
    assert (runs[0].states != runs[2].states).any()


@pytest.mark.parametrize(("play", "literal"), BASELINES.values(), ids=BASELINES)
def test_a_bad_argument_of_a_baseline_is_refused(play, literal):
    world = WORLDS["one-stage"]
    with pytest.raises(ValueError, match="episodes must be at least 1; got 0"):
        play(world, episodes=0)
    with pytest.raises(
        ValueError, match="scale must be a finite number at least 0 and at most 1e\\+100; got -1"
    ):
        play(world, episodes=5, scale=-1.0)
    with pytest.raises(ValueError, match="initial_state must be from 0 to 1"):
        play(world, episodes=5, initial_state=2)
