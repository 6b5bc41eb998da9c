"""What a fit asks of the data, wherever they are: in memory, of many runs, or on a cluster."""

from typing import Protocol

from rareswitch.core.arguments import Floats
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage


class Statistics(Protocol):
    """Sums over the steps of each pool; leading axes are free.

    A stage learns from the steps of one pool. Steps are summed as (φ, 1, r): what is beyond φ is
    read only by a fit that estimates.
    """

    @property
    def pools(self) -> Pools:
        """Which steps each stage learns from."""
        ...

    @property
    def one_hot(self) -> bool:
        """Whether features are one-hot: W is then diagonal, and given by its diagonal."""
        ...

    @property
    def ridge(self) -> float:
        """λ, which is inside W."""
        ...

    @property
    def whitener(self) -> Floats:
        """W (..., P, d, d), or its diagonal (..., P, d)."""
        ...

    @property
    def step_sums(self) -> Floats:
        """Σ_τ (φ_τ, 1, r_τ) of each pool (..., P, d+2)."""
        ...

    @property
    def reward_sums(self) -> Floats:
        """Σ_τ r_τ·(φ_τ, 1, r_τ) of each pool (..., P, d+2)."""
        ...

    def next_value_sums(self, h: int, following: Stage) -> Floats:
        """Return Σ_τ V_τ·(φ_τ, 1, r_τ, V_τ) over stage h's pool, V_τ = max_a Q_{h+1}(s'_τ, a).

        Members are an axis after those of the statistics: (..., M, d+3) where Q_{h+1} has them.
        """
        ...
