"""Oracles and drivers shared by the tests."""

import hashlib
import json
import sys
import time
import tracemalloc
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

import rareswitch as rs
from rareswitch.core.clock import Clock, Ledger
from rareswitch.core.gram import Gram
from rareswitch.sim import FiniteLinearMDP


class Asked:
    """Any rule without `stays_due` and `upcoming`: it must be asked before every episode."""

    def __init__(self, rule):
        self._rule = rule
        if hasattr(rule, "accepts"):
            self.accepts = rule.accepts

    def due(self, clock):
        return self._rule.due(clock)


class Starts:
    """Switch before the listed episodes, asked before every one."""

    def __init__(self, starts):
        self.starts = tuple(starts)

    def due(self, clock):
        return clock.episode in self.starts


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def masked_world(seed, *, states=5, actions=4, d=4, horizon=3):
    """Return a random linear MDP in which every state bars some of its actions."""
    rng = np.random.default_rng(seed)
    feasible = rng.random((states, actions)) < 0.5
    feasible[np.arange(states), rng.integers(0, actions, states)] = True
    return FiniteLinearMDP(
        rng.dirichlet(np.ones(d), (states, actions)),
        rng.dirichlet(np.ones(states), (horizon, d)).transpose(0, 2, 1),
        rng.random((horizon, d)),
        feasible=feasible,
    )


def episode_of(world, states, actions):
    """Return the Episode of one path (H+1,) and its actions (H,)."""
    stage = np.arange(len(actions))
    return rs.Episode(
        features=world.features[states[:-1], actions],
        rewards=world.rewards[stage, states[:-1], actions],
        next_features=[world.features[s][world.feasible[s]] for s in states[1:-1]],
        first_features=world.features[states[0]][world.feasible[states[0]]],
    )


def greedy_tables(world, policy):
    """Return the action (M, H, S) that each member of a policy takes in every stage and state."""
    options = [np.flatnonzero(allowed) for allowed in world.feasible]
    return np.array(
        [
            [
                [o[member.act(h, world.features[s][o])] for s, o in enumerate(options)]
                for h in range(world.horizon)
            ]
            for member in map(policy.member, range(policy.members))
        ]
    )


def stepped(world, learner, *, noise, initial):
    """Step a learner by hand, each episode by the member drawn with its number, from 1, as key.

    Returns states, actions, members, and the tables (M, H, S) of every policy by episode.
    """
    episodes, horizon = noise.shape
    states = np.zeros((episodes, horizon + 1), int)
    actions = np.zeros((episodes, horizon), int)
    members = np.zeros(episodes, int)
    tables = {1: greedy_tables(world, learner.policy)}
    for k in range(episodes):
        states[k, 0] = initial[k]
        members[k] = learner.policy.allocate(k + 1)
        table = tables[max(tables)][members[k]]
        drawn = learner.policy.draw(k + 1)
        for h in range(horizon):
            s = states[k, h]
            actions[k, h] = table[h, s]
            options = np.flatnonzero(world.feasible[s])
            assert options[drawn.act(h, world.features[s][options])] == actions[k, h]
            cdf = np.cumsum(world.transitions[h, s, actions[k, h]])[:-1]
            states[k, h + 1] = (cdf <= noise[k, h]).sum()
        switched = learner.observe(episode_of(world, states[k], actions[k]))
        if switched and k + 1 < episodes:
            tables[k + 2] = greedy_tables(world, learner.policy)
    return states, actions, members, tables


def walk(world, learner, *, noise, initial):
    """Step a learner by hand; return states, actions, and the tables of every policy by episode.

    A policy has a table (H, S), a mixture one for each member (M, H, S).
    """
    states, actions, _, tables = stepped(world, learner, noise=noise, initial=initial)
    return states, actions, {k: t[0] if len(t) == 1 else t for k, t in tables.items()}


def switches_of(tables):
    """Return the episodes of all switches, and their local number, of tables by episode.

    Of a mixture, a (stage, state) counts once, whichever of its members changes its action there.
    """
    changes = {}
    for j, k in pairwise(tables):
        changed = tables[j] != tables[k]
        changes[k] = int(changed.reshape(-1, *changed.shape[-2:]).any(axis=0).sum())
    return [k for k, change in changes.items() if change], sum(changes.values())


def replay(rule, features, *, task=None, ridge=1.0, stages="own"):
    """Return the episodes before which a rule deploys anew on features (n, H, d).

    By default the task has as many episodes as the features, with a feature norm of 1.
    """
    episodes, horizon, dim = features.shape
    if task is None:
        task = rs.Task(dim=dim, horizon=horizon, episodes=episodes, stages=stages)
    assert (task.dim, task.horizon) == (dim, horizon)
    gram = Gram.of_ridge((task.pools.count,), dim, ridge)
    ledger = Ledger().deploy(episode=1, logdet=gram.logdet, trace=gram.trace)
    for k, seen in enumerate(features[:-1], start=2):
        if task.pools.shared:
            gram = gram.add_block(np.stack([[*seen[:-1], 0.0 * seen[-1]], seen]))
        else:
            gram, _, _ = gram.add(seen)
        if rule.due(ledger.clock(task, episode=k, logdet=gram.logdet)):
            ledger = ledger.deploy(episode=k, logdet=gram.logdet, trace=gram.trace)
    return [deployment.episode for deployment in ledger[1:]]


def clock_at(growth, *, task=None, episode=9, deployed_at=1, deployments=1, logdet=0.0, trace=1.0):
    """Return a clock whose log-determinants grew by `growth` (H,) since the deployment.

    By default the task is open-ended, with d = 1.
    """
    growth = np.array(growth, float)
    since = np.broadcast_to(np.asarray(logdet, float), growth.shape)
    return Clock(
        task=rs.Task(dim=1, horizon=len(growth)) if task is None else task,
        episode=episode,
        logdet=since + growth,
        deployed_at=deployed_at,
        deployments=deployments,
        logdet_deployed=since,
        trace_deployed=np.broadcast_to(np.asarray(trace, float), growth.shape),
    )


def followed(rule, episodes, task=None):
    """Return the episodes before which a rule that is asked before each deploys, with the first.

    By default the task has that many episodes, with d = H = 1.
    """
    task = rs.Task(dim=1, horizon=1, episodes=episodes) if task is None else task
    made = [1]
    for k in range(2, episodes + 1):
        clock = clock_at([0.0], task=task, episode=k, deployed_at=made[-1], deployments=len(made))
        if rule.due(clock):
            made.append(k)
    return made


def reference_q(episodes, *, horizon, dim, beta, ridge, clip=True):
    """Return Q as a function (h, rows), by explicit inverses from the raw episodes."""
    inverse, weights = [None] * horizon, [None] * horizon

    def q_values(h, rows):
        rows = np.asarray(rows, float)
        bonus = beta * np.sqrt(np.einsum("ad,de,ae->a", rows, inverse[h], rows))
        values = rows @ weights[h] + bonus
        return np.clip(values, 0.0, horizon - h) if clip else values

    for h in reversed(range(horizon)):
        gram, target = ridge * np.eye(dim), np.zeros(dim)
        for episode in (e for e in episodes if len(e) > h):
            feature = episode.features[h]
            bootstraps = h + 1 < horizon and h < len(episode.next_features)
            following = q_values(h + 1, episode.next_features[h]).max() if bootstraps else 0.0
            gram += np.outer(feature, feature)
            target += feature * (episode.rewards[h] + following)
        inverse[h] = np.linalg.inv(gram)
        weights[h] = inverse[h] @ target
    return q_values


def ragged_episode(rng, *, horizon, dim, cut_off=None, steps=None):
    """Return a random episode: any length, feasible sets of any size, ended or cut off."""
    steps = int(rng.integers(1, horizon + 1)) if steps is None else steps
    cut_off = bool(rng.integers(0, 2)) if cut_off is None else cut_off
    return rs.Episode(
        features=unit_rows(rng, steps, dim),
        rewards=rng.random(steps),
        next_features=[
            unit_rows(rng, int(rng.integers(1, 5)), dim) for _ in range(steps - 1 + cut_off)
        ],
    )


def ragged_learning(learner, *, seed, start, stop):
    """Feed episodes start … stop−1, chosen by the learner's own policy; return policy digests."""
    digests = []
    for k in range(start, stop):
        rng = np.random.default_rng((seed, k))
        steps = int(rng.integers(1, learner.task.horizon + 1))
        menus = [
            unit_rows(rng, int(rng.integers(1, 5)), learner.task.dim) for _ in range(steps + 1)
        ]
        member = learner.policy.draw(k + 1)
        chosen = [menus[h][member.act(h, menus[h])] for h in range(steps)]
        following = menus[1:] if k % 2 else menus[1:-1]
        learner.observe(
            rs.Episode(features=chosen, rewards=rng.random(steps), next_features=following)
        )
        digests.append(learner.policy.digest)
    return digests


def opened(data):
    """Return the header, as a dict, and the arrays' values of packed bytes."""
    stop = 14 + int.from_bytes(data[10:14], "little")
    return json.loads(data[14:stop]), data[stop:-32]


def sealed(header, values):
    """Pack a header, a dict or bytes, with those values and a valid checksum: bytes forged well."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = b"".join([b"rareswitch", len(text).to_bytes(4, "little"), text, values])
    return body + hashlib.sha256(body).digest()


def replaced(data, arrays):
    """Return packed bytes with some arrays in the place of those of their names."""
    header, values = opened(data)
    kept, listed = [], []
    for name, dtype, shape in header["arrays"]:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        array = np.asarray(arrays.get(name, np.frombuffer(values[:size], dtype).reshape(shape)))
        listed.append([name, array.dtype.str, list(array.shape)])
        kept.append(array.tobytes())
        values = values[size:]
    return sealed(header | {"arrays": listed}, b"".join(kept))


@contextmanager
def cheap(*, megabytes=2.0, seconds=1.0):
    """Fail if what is done inside takes more memory, or clearly more time."""
    tracemalloc.start()
    started = time.perf_counter()
    try:
        yield
    finally:
        took, peak = time.perf_counter() - started, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert took < seconds
    assert peak < megabytes * 1e6


# Of every kind, with estimates.
ESTIMATING = [
    rs.Bonus(0.0, estimate=True),
    rs.Bonus(0.8, estimate=True),
    rs.Perturbation(0.7, draws=3, estimate=True),
    rs.Ensemble(5),
]


def position_episode(rng, *, horizon, states=4, actions=3, cut_off=None, steps=None):
    """Return a random episode by positions, s·A + a: of any length, some actions barred."""
    steps = int(rng.integers(1, horizon + 1)) if steps is None else steps
    cut_off = bool(rng.integers(0, 2)) if cut_off is None else cut_off
    path = rng.integers(0, states, steps + 1)
    taken = rng.integers(0, actions, steps)
    menus = [rng.permutation(actions)[: rng.integers(1, actions + 1)] for _ in path]
    return rs.Episode(
        features=path[:-1] * actions + taken,
        rewards=rng.random(steps).round(1),
        next_features=[s * actions + menu for s, menu in zip(path[1:], menus[1:], strict=True)][
            : steps - 1 + cut_off
        ],
    )


def in_rows(episode, dim):
    """Return an episode given by positions with the one-hot rows written out."""
    unit = np.eye(dim)
    return rs.Episode(
        features=unit[episode.features],
        rewards=episode.rewards,
        next_features=[unit[positions] for positions in episode.next_features],
    )


class Interrupt:
    """A trace function that raises at the n-th line of files with `within` in their path."""

    def __init__(self, lines, within):
        self.left, self.within = lines, within

    def __call__(self, frame, event, argument):
        if self.within not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self


def interrupted(call, lines, within="rareswitch"):
    """Call, but raise at that line of the package or a file; return whether it came so far."""
    tracing = sys.gettrace()
    sys.settrace(Interrupt(lines, within))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
    return False
