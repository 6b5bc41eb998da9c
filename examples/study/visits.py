"""Patients of two visits, usual care and a treatment: a world for `rareswitch plan --scenarios`."""

import numpy as np

from rareswitch.campaigns import Step


class TwoVisits:
    """The treatment helps the severe at each visit; only the last visit has a reward."""

    horizon = 2

    def __init__(self, seed, effect):
        self.seed, self.effect = seed, effect

    def begin(self, number):  # every patient has a generator: designs compare the same patients
        self.rng = np.random.default_rng([self.seed, number])
        self.visit, self.severe = 1, float(self.rng.random() < 0.5)
        return self.rows()

    def rows(self):  # a row for each treatment: a constant and the severity in its block
        told = np.array([1.0, self.severe]) / np.sqrt(2.0)
        return np.array([[*told, 0.0, 0.0], [0.0, 0.0, *told]])

    def step(self, place):
        chance = 0.6 - 0.2 * self.severe + self.effect * self.severe * place
        better = self.rng.random() < chance
        if self.visit == 1:
            self.visit, self.severe = 2, self.severe * (not better)
            return Step(0.0, self.rows(), over=False, expected=0.0)
        return Step(float(better), None, over=True, expected=chance)


def trial(seed, effect=0.0):
    return TwoVisits(seed, effect)
