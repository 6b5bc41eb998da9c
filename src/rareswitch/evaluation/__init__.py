"""What a policy would earn, from a log of another: off-policy evaluation of mixtures."""

from rareswitch.evaluation.agreement import conditional_propensities
from rareswitch.evaluation.compare import Comparison, compare
from rareswitch.evaluation.evaluate import Evaluation, evaluate
from rareswitch.evaluation.method import Method

__all__ = [
    "Comparison",
    "Evaluation",
    "Method",
    "compare",
    "conditional_propensities",
    "evaluate",
]
