"""Small worlds whose observations repeat, as those of the Behaviour Suite for RL (Osband 2020)."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete


class Catch(gym.Env):
    """A ball falls down a board of 10 × 5, and a paddle at the bottom must catch it: ±1."""

    rows, columns = 10, 5
    observation_space, action_space = Box(0.0, 1.0, (10, 5), np.float32), Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.ball, self.paddle = 0, int(self.np_random.integers(self.columns)), 2
        return self._board(), {}

    def step(self, action):
        self.paddle = min(max(self.paddle + int(action) - 1, 0), self.columns - 1)
        self.row += 1
        ended = self.row == self.rows - 1
        reward = (1.0 if self.ball == self.paddle else -1.0) if ended else 0.0
        return self._board(), reward, ended, False, {}

    def _board(self):
        board = np.zeros((self.rows, self.columns), np.float32)
        board[self.row, self.ball] = board[-1, self.paddle] = 1.0
        return board


class DeepSea(gym.Env):
    """A diver goes down left or right; only always right finds the treasure, at a small cost."""

    def __init__(self, size=8):
        self.size = size
        self.observation_space = Box(0.0, 1.0, (size, size), np.float32)
        self.action_space = Discrete(2)
        self.right = np.random.default_rng(0).integers(2, size=(size, size))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row = self.column = 0
        return self._board(), {}

    def step(self, action):
        right = bool(action == self.right[self.row, self.column])
        reward = -0.01 / self.size if right else 0.0
        if right and self.row == self.column == self.size - 1:
            reward += 1.0
        self.column = min(max(self.column + (1 if right else -1), 0), self.size - 1)
        self.row += 1
        return self._board(), reward, self.row == self.size, False, {}

    def _board(self):
        board = np.zeros((self.size, self.size), np.float32)
        if self.row < self.size:
            board[self.row, self.column] = 1.0
        return board


class DiscountingChain(gym.Env):
    """The first action chooses one of five chains, which pay 1 after 1, 3, 10, 30 or 100 steps.

    The third pays 1.1. An observation is the chain and the share of 100 steps.
    """

    observation_space, action_space = Box(-1.0, 4.0, (1, 2), np.float32), Discrete(5)
    pays = (1, 3, 10, 30, 100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.chain, self.time = -1, 0
        return self._shown(), {}

    def step(self, action):
        if self.chain < 0:
            self.chain = int(action)
        self.time += 1
        paid = self.time == self.pays[self.chain]
        reward = (1.1 if self.chain == 2 else 1.0) if paid else 0.0
        return self._shown(), reward, self.time == self.pays[-1], False, {}

    def _shown(self):
        return np.array([[self.chain, self.time / self.pays[-1]]], np.float32)


class Grid(gym.Env):
    """A room of 6 × 6 with a goal, seen as a square of 7 × 7 × 3 around and before the player.

    It is like MiniGrid-Empty: turn left, turn right, go on; the sooner the goal, the more.
    """

    observation_space, action_space = Box(0, 255, (7, 7, 3), np.uint8), Discrete(3)

    def __init__(self, size=6, steps=100, crates=0):
        self.size, self.steps, self.crates = size, steps, crates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.board = np.full((self.size + 14, self.size + 14), 2, np.uint8)
        self.board[7:-7, 7:-7] = 1
        free = [(7 + i, 7 + j) for i in range(self.size) for j in range(self.size)][1:-1]
        for k in self.np_random.permutation(len(free))[: self.crates]:
            self.board[free[k]] = 6
        self.board[6 + self.size, 6 + self.size] = 8
        self.at, self.heading, self.time = np.array([7, 7]), 0, 0
        return self._shown(), {}

    def step(self, action):
        self.time += 1
        if action < 2:
            self.heading = (self.heading + (1 if action else 3)) % 4
        else:
            ahead = self.at + [(0, 1), (1, 0), (0, -1), (-1, 0)][self.heading]
            if self.board[tuple(ahead)] in (1, 8):
                self.at = ahead
        found = self.board[tuple(self.at)] == 8
        reward = 1.0 - 0.9 * self.time / self.steps if found else 0.0
        return self._shown(), reward, bool(found), self.time == self.steps, {}

    def _shown(self):
        row, column = self.at
        around = np.rot90(self.board[row - 6 : row + 7, column - 6 : column + 7], self.heading + 1)
        view = around[:7, 3:10]
        return np.stack([view, view % 5, np.zeros_like(view)], axis=-1)
