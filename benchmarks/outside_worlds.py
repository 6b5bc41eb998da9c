"""Worlds of other authors, for a test of the defaults.

Deep sea, catch and the discounting chain are from bsuite (Osband et al. 2020); six arms is from
Strehl and Littman (2008); the combination lock is from Misra et al. (2020) without its noise; the
tumour is from Zhao, Kosorok and Zeng (2009) with a fixed start. Each is written from its
description. `best` is the optimal return, or the return of the best rule of a family used in
practice.
"""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rareswitch.support.arguments import Floats

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Outside(gymnasium.Env[Any, Any]):
    """An environment that starts with `start`; `move` returns the reward and the end."""

    best: float
    horizon: int

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        self.start()
        return self.look(), {}

    def step(self, action: Any) -> Step:
        reward, ended = self.move(int(action))
        self.time += 1
        return self.look(), float(reward), bool(ended or self.time == self.horizon), False, {}

    def start(self) -> None:
        raise NotImplementedError

    def look(self) -> Any:
        raise NotImplementedError

    def move(self, action: int) -> tuple[float, bool]:
        raise NotImplementedError


class DeepSea(Outside):
    """A diver falls one row per step; the action that goes right differs from cell to cell.

    Going right costs 0.01/N, and the corner, which needs N moves to the right, pays 1.
    """

    def __init__(self, seed: int, size: int = 10) -> None:
        self.horizon = self._size = size
        self.best = 1.0 - 0.01
        self._right = np.random.default_rng((1, seed)).integers(2, size=(size, size))
        self.observation_space = Box(0.0, 1.0, (size, size))
        self.action_space = Discrete(2)

    def start(self) -> None:
        self._column = 0

    def look(self) -> Floats:
        board = np.zeros((self._size, self._size), np.float32)
        if self.time < self._size:
            board[self.time, self._column] = 1.0
        return board

    def move(self, action: int) -> tuple[float, bool]:
        if action != self._right[self.time, self._column]:
            self._column = max(0, self._column - 1)
            return 0.0, False
        won = self._column == self._size - 1
        self._column = min(self._size - 1, self._column + 1)
        return float(won) - 0.01 / self._size, False


class Catch(Outside):
    """A ball falls down a board of 10 × 5 towards a paddle: 1 if it is caught, else −1."""

    best, horizon = 1.0, 9

    def __init__(self, seed: int) -> None:
        self.observation_space = Box(0.0, 1.0, (10, 5))
        self.action_space = Discrete(3)

    def start(self) -> None:
        self._ball, self._paddle = int(self.np_random.integers(5)), 2

    def look(self) -> Floats:
        board = np.zeros((10, 5), np.float32)
        board[self.time, self._ball] = board[9, self._paddle] = 1.0
        return board

    def move(self, action: int) -> tuple[float, bool]:
        self._paddle = min(4, max(0, self._paddle + action - 1))
        caught = 1.0 if self._paddle == self._ball else -1.0
        return (caught, True) if self.time == 8 else (0.0, False)


class DiscountingChain(Outside):
    """The first action chooses a reward after 1, 3, 10, 30 or 100 steps; one pays a tenth more."""

    best, horizon = 1.1, 100
    _WAITS = (1, 3, 10, 30, 100)

    def __init__(self, seed: int) -> None:
        self._pays = np.ones(5)
        self._pays[seed % 5] += 0.1
        self.observation_space = Box(-1.0, 1.0, (2,))
        self.action_space = Discrete(5)

    def start(self) -> None:
        self._chosen = -1

    def look(self) -> Floats:
        return np.array([self._chosen / 5.0, self.time / 100.0], np.float32)

    def move(self, action: int) -> tuple[float, bool]:
        if self.time == 0:
            self._chosen = action
        paid = self.time + 1 == self._WAITS[self._chosen]
        return (float(self._pays[self._chosen]) if paid else 0.0), False


class SixArms(Outside):
    """Each of six actions leads to an arm with its own chance; the rarest arm pays most.

    In an arm one action stays and pays; all others lead back. Rewards are in units of 6000.
    """

    horizon = 20
    _CHANCES = (1.0, 0.15, 0.1, 0.05, 0.03, 0.01)
    _PAYS = (50 / 6000, 133 / 6000, 300 / 6000, 800 / 6000, 1660 / 6000, 1.0)
    _STAYS = (4, 3, 2, 1, 5, 0)

    def __init__(self, seed: int) -> None:
        self.observation_space, self.action_space = Discrete(7), Discrete(6)
        # The best arm depends on the number of steps left.
        value = 0.0
        for left in range(1, self.horizon + 1):
            value = max(
                p * pay * (left - 1) + (1.0 - p) * value
                for p, pay in zip(self._CHANCES, self._PAYS, strict=True)
            )
        self.best = value

    def start(self) -> None:
        self._state = 0

    def look(self) -> int:
        return self._state

    def move(self, action: int) -> tuple[float, bool]:
        if self._state == 0:
            if self.np_random.random() < self._CHANCES[action]:
                self._state = action + 1
            return 0.0, False
        if action == self._STAYS[self._state - 1]:
            return self._PAYS[self._state - 1], False
        self._state = 0
        return 0.0, False


class TrapGrid(Outside):
    """A slippery grid of 6 × 6: a goal nearby pays 0.3, the far corner pays 1, traps end it."""

    horizon = 30
    _TRAPS = frozenset({(1, 3), (2, 1), (3, 4), (4, 2), (4, 5)})
    _MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
    _SLIPS = 0.1

    def __init__(self, seed: int) -> None:
        self.observation_space, self.action_space = Discrete(36), Discrete(4)
        value = np.zeros((6, 6))
        for _ in range(self.horizon):
            value = np.array([[self._worth(value, r, c) for c in range(6)] for r in range(6)])
        self.best = float(value[0, 0])

    def _worth(self, value: Floats, row: int, column: int) -> float:
        after = [self._after((row, column), action) for action in range(4)]
        worth = [pays + (0.0 if ends else value[cell]) for cell, pays, ends in after]
        slipped = self._SLIPS * float(np.mean(worth))
        return max((1.0 - self._SLIPS) * one + slipped for one in worth)

    def _after(self, cell: tuple[int, int], action: int) -> tuple[tuple[int, int], float, bool]:
        down, right = self._MOVES[action]
        cell = min(5, max(0, cell[0] + down)), min(5, max(0, cell[1] + right))
        pays = {(0, 3): 0.3, (5, 5): 1.0}.get(cell, 0.0)
        return cell, pays, pays > 0.0 or cell in self._TRAPS

    def start(self) -> None:
        self._cell = 0, 0

    def look(self) -> int:
        return 6 * self._cell[0] + self._cell[1]

    def move(self, action: int) -> tuple[float, bool]:
        if self.np_random.random() < self._SLIPS:
            action = int(self.np_random.integers(4))
        self._cell, pays, ends = self._after(self._cell, action)
        return pays, ends


class CombinationLock(Outside):
    """One of ten actions opens each of six doors; a wrong action pays 0.1 once, the last door 1."""

    best, horizon = 1.0, 6

    def __init__(self, seed: int) -> None:
        self._opens = np.random.default_rng((2, seed)).integers(10, size=6)
        self.observation_space, self.action_space = Discrete(13), Discrete(10)

    def start(self) -> None:
        self._lost = False

    def look(self) -> int:
        return self.time + 6 * self._lost if self.time < 6 else 12

    def move(self, action: int) -> tuple[float, bool]:
        if self._lost or action != self._opens[self.time]:
            first, self._lost = not self._lost, True
            return 0.1 * first, False
        return float(self.time == 5), False


class Inventory(Outside):
    """Thirty days of a shop: order 0 to 20 in fives, sell at 4, buy at 2, store at 0.2 a piece."""

    horizon = 30

    def __init__(self, seed: int) -> None:
        self.observation_space = Box(0.0, 60.0, (2,))
        self.action_space = Discrete(5)
        self.best = max(self._earned(level) for level in range(5, 41, 5))

    def _earned(self, level: int) -> float:
        """Return the mean return of ordering up to a level, over 400 episodes."""
        totals = []
        for episode in range(400):
            self.reset(seed=10**6 + episode)
            total, ended = 0.0, False
            while not ended:
                wanted = math.ceil(max(0, level - self._stock) / 5)
                _, reward, ended, _, _ = self.step(min(4, wanted))
                total += reward
            totals.append(total)
        return float(np.mean(totals))

    def start(self) -> None:
        self._stock, self._mean = 10, 8.0

    def look(self) -> Floats:
        return np.array([self._stock, self._mean], np.float32)

    def move(self, action: int) -> tuple[float, bool]:
        self._stock = min(60, self._stock + 5 * action)
        demand = int(self.np_random.poisson(self._mean))
        sold = min(demand, self._stock)
        self._stock -= sold
        # The mean demand changes between 4 and 12.
        self._mean = float(np.clip(self._mean + self.np_random.normal(0.0, 1.0), 4.0, 12.0))
        return 4.0 * sold - 2.0 * 5 * action - 0.2 * self._stock, False


class Tumour(Outside):
    """Six months of a dose from 0 to 1: it shrinks the tumour and harms the patient."""

    horizon = 6

    def __init__(self, seed: int) -> None:
        self.observation_space = Box(0.0, 6.0, (2,))
        self.action_space = Discrete(5)
        self.best = max(self._earned(rule) for rule in self._rules())

    def _rules(self) -> list[tuple[int, int, float]]:
        """Return doses above and below a size of the tumour."""
        doses = range(5)
        return [(big, small, size) for big in doses for small in doses for size in (0.5, 1.0, 1.5)]

    def _earned(self, rule: tuple[int, int, float]) -> float:
        totals, (big, small, size) = [], rule
        for episode in range(100):
            self.reset(seed=10**6 + episode)
            total, ended = 0.0, False
            while not ended:
                _, reward, ended, _, _ = self.step(big if self._size > size else small)
                total += reward
            totals.append(total)
        return float(np.mean(totals))

    def start(self) -> None:
        self._toxic, self._size = (float(x) for x in self.np_random.uniform(0.0, 2.0, 2))
        self._first = self._toxic, self._size

    def look(self) -> Floats:
        return np.array([self._toxic, self._size], np.float32)

    def move(self, action: int) -> tuple[float, bool]:
        dose, toxic, size = action / 4.0, self._toxic, self._size
        grown = 0.15 * max(toxic, self._first[0]) - 1.2 * (dose - 0.5) if size > 0.0 else 0.0
        harmed = 0.1 * max(size, self._first[1]) + 1.2 * (dose - 0.5)
        self._size, self._toxic = max(0.0, size + grown), max(0.0, toxic + harmed)
        hazard = math.exp(-7.0 + self._toxic + self._size)
        if self.np_random.random() < 1.0 - math.exp(-hazard):
            return -60.0, True
        better = 5.0 * (np.sign(toxic - self._toxic) * (abs(toxic - self._toxic) >= 0.5))
        shrunk = (
            15.0
            if self._size == 0.0 < size
            else 5.0 * np.sign(size - self._size) * (abs(size - self._size) >= 0.5)
        )
        return float(better + shrunk), False
