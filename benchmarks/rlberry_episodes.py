"""Time the first episodes of rlberry's LSVI-UCB on the hard instance; prints a JSON list.

Runs in rlberry's environment, without rareswitch.
"""

import json
import logging
import sys
import time
from itertools import product

import numpy as np
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents import LSVIUCBAgent
from rlberry_scool.agents.features import FeatureMap

logging.disable(logging.WARNING)
D, H, DELTA = 13, 10, 0.35


class Features(FeatureMap):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.shape = (table.shape[2],)

    def map(self, observation, action):
        return self.table[observation, action]


def instance():
    actions = np.array([(*a, 1) for a in product((-1, 1), repeat=D - 3)], float)
    gamma = np.random.default_rng(0).choice([-1, 1], D - 2) * DELTA / (D - 2)
    features = np.zeros((2, len(actions), D))
    features[0] = np.column_stack([-actions, np.tile([1 - DELTA, DELTA], (len(actions), 1))])
    features[1, :, -2:] = DELTA, 1 - DELTA
    up = DELTA + actions @ gamma
    transitions = np.empty((2, len(actions), 2))
    transitions[0] = np.column_stack([1 - up, up])
    transitions[1] = DELTA, 1 - DELTA
    rewards = np.array([np.zeros(len(actions)), np.ones(len(actions))])
    return features, transitions, rewards


if __name__ == "__main__":
    episodes = int(sys.argv[1])
    features, transitions, rewards = instance()
    env = FiniteMDP(rewards, transitions, initial_state_distribution=0)
    agent = LSVIUCBAgent(env, horizon=H, gamma=1.0, feature_map_fn=lambda env: Features(features))
    agent.n_episodes = episodes
    agent.reset()
    seconds = []
    for _ in range(episodes):
        began = time.process_time()
        agent.run_episode()
        agent.w_vec = agent._run_lsvi(agent.bonus_scale_factor)
        seconds.append(time.process_time() - began)
    print(json.dumps(seconds))
