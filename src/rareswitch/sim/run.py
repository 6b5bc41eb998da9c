"""What happened in a run, and the randomness that a run is given."""

from dataclasses import dataclass

import numpy as np

from rareswitch.core.arguments import Floats, Ints, floats, one_of, shown
from rareswitch.core.policy import TIE_TOLERANCE, Policy
from rareswitch.core.streams import Seed, Stream, generator


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """What happened in K episodes of one run.

    `regret` is that of the member that played, `members` its number. `deployment_episodes` are the
    episodes (counted from 1) before which a policy was deployed, and `fitted_values` the values
    V₁(s₁) of their fits, of a mixture the mean over members. A deployment after the first that
    changed the action of some member in some (stage, state) was a switch; `local_switches` counts
    every such pair.
    """

    regret: Floats  # (K,)
    states: Ints  # (K, H+1)
    actions: Ints  # (K, H)
    members: Ints  # (K,)
    deployment_episodes: Ints
    switch_episodes: Ints
    fitted_values: Floats
    local_switches: int
    policy: Policy | None  # the last one in force; None: uniformly random, or none yet

    @property
    def deployments(self) -> int:
        return len(self.deployment_episodes)

    @property
    def switches(self) -> int:
        return len(self.switch_episodes)

    def optimistic_share(self, optimal: Floats) -> float:
        """Return the fraction of fits with V₁(s₁) ≥ V*₁(s₁), given V*₁ (S,) of the run's world."""
        best = optimal[self.states[self.deployment_episodes - 1, 0]]
        return float(np.mean(self.fitted_values >= best - TIE_TOLERANCE))

    @property
    def average_regret(self) -> Floats:
        """Regret(k)/k, as in the paper's figures."""
        return np.cumsum(self.regret) / np.arange(1, len(self.regret) + 1)

    def __repr__(self) -> str:
        return (
            f"Run({len(self.regret)} episodes, regret {self.regret.sum():.4g}, "
            f"{self.deployments} deployments, {self.switches} switches)"
        )


def initial_states(choice: int | str | Ints, states: int, episodes: int, seed: Seed) -> Ints:
    """Return the initial state of every episode (K,)."""
    if isinstance(choice, str):
        one_of("initial_state", choice, ("uniform",))
        return generator(seed, Stream.INITIAL).integers(0, states, episodes)
    initial = np.asarray(choice)
    if initial.dtype.kind not in "iu" or initial.shape not in ((), (episodes,)):
        raise ValueError(
            f'initial_state must be a state, {episodes} of them or "uniform"; got {shown(choice)}'
        )
    if initial.min() < 0 or initial.max() >= states:
        raise ValueError(f"initial_state must be from 0 to {states - 1}; got {shown(choice)}")
    return np.broadcast_to(initial, episodes).astype(np.int64)


def noise_of(given: Floats | None, episodes: int, horizon: int, seed: Seed) -> Floats:
    """Return the uniforms (K, H) that decide the next states."""
    if given is None:
        return generator(seed, Stream.NOISE).random((episodes, horizon))
    noise = floats("noise", given, (episodes, horizon))
    if noise.min() < 0.0 or noise.max() >= 1.0:
        raise ValueError(f"noise must lie in [0, 1); got {noise.min()} … {noise.max()}")
    return noise
