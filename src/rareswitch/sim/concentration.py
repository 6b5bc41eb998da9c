"""How large β had to be: the concentration lemma measured on a known world."""

from collections.abc import Sequence

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.simulation import Simulation


def empirical_radius(simulation: Simulation, worlds: Sequence[FiniteLinearMDP]) -> Floats:
    """Return, for each run (R,), the smallest β with which Lemma B.4 holds for the last fit.

    The lemma bounds |φᵀw_h − r_h − P_h V_{h+1}| by β·‖φ‖_{Λ⁻¹} for every pair and stage, of the
    paper's regression with its bonus. Call it between `deploy()` and `play()`.
    """
    explores = simulation.tally.exploration
    if explores.draws or explores.estimate:
        raise ValueError(
            "simulation must be of the paper's bonus, beta=…, which the lemma is about; got "
            f"{explores}"
        )
    values = simulation.tally.values[:, :, 0].swapaxes(0, 1)
    following = np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], axis=1)
    exact = np.stack([w.theta + np.vecmat(v, w.mu) for w, v in zip(worlds, following, strict=True)])
    weights = np.stack([stage.weights for stage in simulation.stages], axis=1)
    errors = np.abs((weights - exact) @ worlds[0].space.columns)  # (R, H, N)
    norms = np.sqrt(simulation.tally.squared_norms()).swapaxes(0, 1)
    return (errors / norms).max(axis=(1, 2))
