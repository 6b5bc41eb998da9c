"""Small environments, honest and otherwise, and the loop of `play` written out by hand."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

import rareswitch as rs
from rareswitch.features import ActionBlocks, Masked, OneHot, Polynomial, Scaling
from rareswitch.support.streams import KeyedStream, Stream

STATES, ACTIONS = 6, 3


def allowed(state):
    """Return which actions are feasible in a state of a masked walk: two or three of them."""
    mask = np.ones(ACTIONS, bool)
    mask[state % (ACTIONS + 1) % ACTIONS] = state % (ACTIONS + 1) == ACTIONS
    return mask


class Walk(gymnasium.Env):
    """A random walk on a ring, which ends in its last state or is cut off at a limit of steps.

    Observations are shown as a number, an array, a dict or a tuple. A masked walk tells in its info
    which actions are feasible, and refuses all others.
    """

    def __init__(self, shown="number", masked=False, limit=None, ends=True, start=0):
        self.shown, self.masked, self.limit, self.ends = shown, masked, limit, ends
        self.action_space = Discrete(ACTIONS, start=start)
        self.observation_space = {
            "number": Discrete(STATES),
            "array": Box(0.0, STATES, (2,), np.float64),
            "dict": Dict(at=Discrete(STATES), time=Box(0.0, 100.0, (1,), np.float64)),
            "tuple": Tuple((Discrete(STATES), Discrete(101))),
        }[shown]

    def observation(self):
        return {
            "number": self.state,
            "array": np.array([self.state, self.time], np.float64),
            "dict": {"at": self.state, "time": np.array([self.time], np.float64)},
            "tuple": (self.state, self.time),
        }[self.shown]

    def info(self):
        return {"action_mask": allowed(self.state).astype(np.int8)} if self.masked else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = int(self.np_random.integers(STATES - 1)), 0
        return self.observation(), self.info()

    def step(self, action):
        action = int(action) - int(self.action_space.start)
        if self.masked and not allowed(self.state)[action]:
            raise AssertionError(f"action {action} is not feasible in state {self.state}")
        self.state = (self.state + action + int(self.np_random.integers(2))) % STATES
        self.time += 1
        terminated = self.ends and self.state == STATES - 1
        truncated = not terminated and self.time == self.limit
        return self.observation(), self.state % 3 / 2.0, terminated, truncated, self.info()


def table():
    """Return one-hot features of a walk that shows numbers."""
    return OneHot(states=STATES, actions=ACTIONS)


def masked_table():
    """Return the same with the mask of a masked walk."""
    return Masked(table(), np.array([allowed(state) for state in range(STATES)]))


def blocks():
    """Return dense features of a walk that shows arrays."""
    scaled = Scaling.between([0.0, 0.0], [STATES, 10.0])
    return ActionBlocks(scaled.then(Polynomial(inputs=2, degree=1)), actions=ACTIONS)


def learner_for(
    features, horizon=5, switches=4, episodes=30, *, schedule=None, warm_start=(), **rest
):
    """Return a learner that switches a few times in so many episodes."""
    sizes = {"dim": features.dim, "horizon": horizon, "episodes": episodes}
    norm = features.norm if np.isfinite(features.norm) else 1e6
    task = {"feature_norm": norm, "stages": "shared", "one_hot": features.one_hot} | rest
    return rs.Learner(
        rs.Task(**sizes, **task),
        schedule or rs.UniformGrid(batches=switches + 1),
        rs.Recipe(exploration=rs.Ensemble(6), seed=3),
        warm_start=warm_start,
    )


def seed_of(episode, seed=0, stream=Stream.ENVIRONMENT):
    """Return the seed that an environment is reset with before an episode."""
    return int(KeyedStream(seed, stream).at(episode).integers(2**31))


def rows_after(features, observation, info, stage):
    """Return the rows of the feasible actions, and these actions."""
    mask = np.ones(features.actions, bool)
    if features.feasible(observation, stage) is not None:
        mask &= features.feasible(observation, stage)
    if "action_mask" in info:
        mask &= np.array(info["action_mask"], bool)
    return features(observation, stage)[mask], np.flatnonzero(mask)


def literal_episode(policy, world, features, episode, rewards=None, seed=0):
    """Play one episode by hand; return what a learner is told, and the actions and rewards."""
    rewards, horizon = rewards or rs.gym.Rewards(), policy.horizon
    member = policy.draw(episode)
    observation, info = world.reset(seed=seed_of(episode, seed))
    rows, actions = first, _ = rows_after(features, observation, info, 0)
    chosen, earned, following, taken = [], [], [], []
    for h in range(horizon):
        place = member.act(h, rows)
        chosen.append(rows[place])
        taken.append(int(actions[place]))
        start = int(getattr(world.action_space, "start", 0))
        observation, reward, terminated, truncated, info = world.step(start + taken[-1])
        earned.append(reward)
        if terminated:
            break
        rows, actions = rows_after(features, observation, info, min(h + 1, horizon - 1))
        following.append(rows)
        if truncated:
            break
    told = rs.Episode(
        features=np.array(chosen),
        rewards=[rewards.scaled(reward) for reward in earned],
        next_features=following,
        first_features=first,
    )
    return told, taken, earned, terminated, truncated


def literal_play(learner, world, features, episodes, rewards=None, seed=0):
    """Play episode by episode as the documentation tells it, and give what came of each."""
    while learner.episodes < episodes:
        policy, version = learner.policy, len(learner.ledger)
        number = learner.episodes + 1
        told, *rest = literal_episode(policy, world, features, number, rewards, seed)
        yield number, version, policy, told, *rest, learner.observe(told)
