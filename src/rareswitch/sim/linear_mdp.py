"""Linear MDPs (Definition 2): P_h(s'|s,a) = ⟨φ(s,a), μ_h(s')⟩ and r_h(s,a) = ⟨φ(s,a), θ_h⟩."""

import numpy as np
import numpy.typing as npt

from rareswitch.core.arguments import Floats, Ints, floats
from rareswitch.sim.mdp import ROUNDING, FiniteMDP


class FiniteLinearMDP(FiniteMDP):
    """The linear MDP of features φ (S, A, d), measures μ (H, S, d) and θ (H, d).

    Probabilities and rewards out of range are refused. The norms of the definition, ‖φ‖ ≤ 1,
    ‖μ_h(S)‖ ≤ √d and ‖θ_h‖ ≤ √d, are a matter of scale: what exceeds them is listed in
    `violations`, with the place and the amount; the paper's bounds then take `feature_norm`.

    >>> features = np.eye(2).reshape(1, 2, 2)
    >>> world = FiniteLinearMDP(features, mu=np.ones((3, 1, 2)), theta=np.full((3, 2), 0.5))
    >>> world.optimal_values()[0], world.violations
    (array([1.5]), ())
    """

    def __init__(
        self,
        features: Floats,
        mu: Floats,
        theta: Floats,
        *,
        feasible: npt.NDArray[np.bool] | None = None,
    ) -> None:
        features = floats("features", features, ("S", "A", "d"))
        states, _, dim = features.shape
        self.mu = floats("mu", mu, ("H", states, dim))
        self.theta = floats("theta", theta, (len(self.mu), dim))
        transitions = features @ self.mu.mT[:, None]  # (H, S, A, S)
        rewards = np.moveaxis(features @ self.theta.T, -1, 0).copy()  # (H, S, A)
        barred = ~np.asarray(feasible, bool) if feasible is not None else np.zeros(0)
        if barred.shape == features.shape[:2]:  # a pair that can never be played need not be valid
            transitions[:, barred] = np.eye(states)[0]
            rewards[:, barred] = 0.0
        super().__init__(
            features=features,
            transitions=_rounded(transitions),
            rewards=_rounded(rewards),
            feasible=feasible,
        )

    @property
    def violations(self) -> tuple[str, ...]:
        """What exceeds the norms of the definition, one sentence each."""
        found = []
        norms = np.linalg.norm(self.features, axis=-1) * self.feasible
        state, action = (int(i) for i in np.unravel_index(norms.argmax(), norms.shape))
        found.append(("‖φ(s,a)‖", f"(s, a) = ({state}, {action})", norms.max(), 1.0))
        root = np.sqrt(self.dim)
        for name, vectors in (("‖μ_h(S)‖", self.mu.sum(axis=1)), ("‖θ_h‖", self.theta)):
            lengths = np.linalg.norm(vectors, axis=-1)
            found.append((name, f"h = {int(lengths.argmax())}", lengths.max(), root))
        return tuple(
            f"{name} = {value:.4g} at {place} exceeds {limit:.4g} by {value - limit:.3g}"
            for name, place, value, limit in found
            if value > limit + ROUNDING
        )

    def policy_weights(self, actions: Ints) -> Floats:
        """Return w^π (H, d) with Q^π_h = ⟨φ, w^π_h⟩ (Proposition 1)."""
        return self.theta + np.vecmat(self.policy_values(actions)[1:], self.mu)


def _rounded(array: Floats) -> Floats:
    """Set what is 0 or 1 up to rounding to just that, so that the impossible never happens."""
    for exact in (0.0, 1.0):
        array[np.abs(array - exact) < ROUNDING] = exact
    return array
