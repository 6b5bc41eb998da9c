"""Baseline algorithms, each a function that returns a `Run`.

`tabular` and `posterior` hold algorithms that count visits of states; `least_squares` and
`variance_weighted` hold algorithms on linear features; `redrawn` holds an ablation of mixtures.
`play` is their common loop.
"""

from rareswitch.sim.baselines.least_squares import (
    epsilon_greedy,
    explore_then_commit,
    layer_by_layer,
)
from rareswitch.sim.baselines.posterior import psrl
from rareswitch.sim.baselines.redrawn import redrawn_mixture
from rareswitch.sim.baselines.tabular import eqo, mvp, ucb2_hoeffding
from rareswitch.sim.baselines.variance_weighted import lsvi_ucb_plus_plus

__all__ = [
    "epsilon_greedy",
    "eqo",
    "explore_then_commit",
    "layer_by_layer",
    "lsvi_ucb_plus_plus",
    "mvp",
    "psrl",
    "redrawn_mixture",
    "ucb2_hoeffding",
]
