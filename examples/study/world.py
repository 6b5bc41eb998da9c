"""Participants with a severity, usual care and two treatments: the worlds of scenarios.toml."""

import numpy as np

from rareswitch.campaigns import OneStep

ACTIONS = 3  # usual care, treatment A, treatment B


def trial(seed, effect_mild=0.0, effect_severe=0.0):
    """Return a world in which treatment A changes the chance of recovery, by severity.

    Treatment B is as good as usual care. A row has a constant and the severity of the participant,
    in the block of its action.
    """

    def participant(rng):
        severe = float(rng.random() < 0.5)
        told = np.array([1.0, severe]) / np.sqrt(2.0)
        rows = np.zeros((ACTIONS, 2 * ACTIONS))
        for action in range(ACTIONS):
            rows[action, 2 * action : 2 * action + 2] = told
        usual = 0.6 - 0.2 * severe
        effect = effect_severe if severe else effect_mild
        return rows, np.array([usual, usual + effect, usual])

    return OneStep(participant, seed=seed)
