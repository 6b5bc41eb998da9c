"""Off-policy evaluation: the return of a policy from the log of another."""

from rareswitch.evaluation.agreement import conditional_propensities
from rareswitch.evaluation.compare import Comparison, compare, evaluate
from rareswitch.evaluation.judge import Estimate
from rareswitch.evaluation.method import Method
from rareswitch.evaluation.sharing import Sharing, check_sharing

__all__ = [
    "Comparison",
    "Estimate",
    "Method",
    "Sharing",
    "check_sharing",
    "compare",
    "conditional_propensities",
    "evaluate",
]
