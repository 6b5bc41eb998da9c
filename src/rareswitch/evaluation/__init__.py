"""What a policy would earn, from a log of another: off-policy evaluation of mixtures."""

from rareswitch.evaluation.agreement import conditional_propensities
from rareswitch.evaluation.compare import Comparison, compare
from rareswitch.evaluation.evaluate import Evaluation, evaluate
from rareswitch.evaluation.method import Method
from rareswitch.evaluation.sharing import Sharing, check_sharing

__all__ = [
    "Comparison",
    "Evaluation",
    "Method",
    "Sharing",
    "check_sharing",
    "compare",
    "conditional_propensities",
    "evaluate",
]
