"""What came of a training, in plain values: for a file, a table or another program."""

from dataclasses import asdict
from typing import Any

from rareswitch.gym.evaluate import Evaluation
from rareswitch.gym.known import Known
from rareswitch.gym.train import Training


def summarised(
    training: Training,
    *,
    episodes: int,
    known: Known | None = None,
    fresh: Evaluation | None = None,
) -> dict[str, Any]:
    """Return what a training of so many planned episodes came to.

    `known` and `fresh` are of the recommended policy: what it earns exactly, where that is known,
    and what it earned on fresh episodes. Switches are deployments after the first, as budgets count
    them; regret is what the optimum would have earned beyond the returns that were met. "sharing"
    compares own and shared stages, if the fits chose between them.

    >>> from rareswitch.gym import train
    >>> from rareswitch.gym.summary import summarised
    >>> summary = summarised(train("FrozenLake-v1", episodes=40, horizon=8), episodes=40)
    >>> summary["switches"], summary["deployment_limit"], summary["versions"][0]["episodes"]
    (2, 2, 14)
    """
    learner, totals = training.learner, training.totals
    health = learner.health()
    sharing = health.sharing
    limit = getattr(learner.schedule, "deployment_limit", None)
    return {
        "episodes": len(totals),
        "members": learner.policy.members,
        "switches": len(learner.ledger) - 1,
        "deployment_limit": limit and limit(training.setting.task(episodes), learner.recipe.ridge),
        "return": float(totals.mean()),
        "versions": [asdict(cohort) for cohort in training.cohorts()],
        "recommended": {
            "digest": training.agent.policy.digest,
            "exact": known and known.policy,
            "fresh": fresh and interval_of(fresh),
        },
        "optimum": known and known.optimum,
        "random": known and known.random,
        "regret": known and float((known.optimum - totals).sum()),
        "sharing": sharing and {**asdict(sharing), "says": str(sharing)},
        "warnings": list(health.warnings),
    }


def interval_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain values."""
    return {
        "episodes": len(evaluation.totals),
        "mean": evaluation.mean,
        "low": evaluation.low,
        "high": evaluation.high,
    }
