"""What `reset` and `step` must return."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rareswitch.support.arguments import short_repr

Answer = tuple[Any, Any, Any, Any, Mapping[str, Any]]
PLAIN = (float, int)  # rewards that are simply numbers


def pair(answer: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return what `reset` returned, if it is an observation and an info."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
        return answer
    raise ValueError(
        f"reset must return (observation, info), as in Gymnasium; got {short_repr(answer)}"
    )


def five(answer: Any) -> Answer:
    """Return what `step` returned, if it is of five parts with an info at the end."""
    if isinstance(answer, tuple) and len(answer) == 5:
        info = answer[4]
        if type(info) is dict or isinstance(info, Mapping):
            return answer
    raise ValueError(
        "step must return (observation, reward, terminated, truncated, info), as in Gymnasium; got "
        f"{short_repr(answer)}"
    )


def number(reward: Any) -> float:
    """Return a reward as a float: a number, or an array of one; it need not be finite."""
    if type(reward) in PLAIN:
        return float(reward)
    given = np.asarray(reward)
    if given.size != 1 or given.dtype.kind not in "fiub":
        raise TypeError(f"reward must be a number; got {short_repr(reward)}")
    return float(given.item())
