"""Off-policy evaluation: estimate the return of a policy from the log of another policy."""

from rareswitch.evaluation.agreement import conditional_propensities
from rareswitch.evaluation.compare import Comparison, compare, evaluate
from rareswitch.evaluation.judge import Estimate
from rareswitch.evaluation.method import Method

__all__ = [
    "Comparison",
    "Estimate",
    "Method",
    "compare",
    "conditional_propensities",
    "evaluate",
]
