"""Sums that keep what rounding takes away (Neumaier 1974).

Λ⁻¹ magnifies an error of Σrφ by up to 1/λ in directions that no feature has visited, and adding the
same feature 10⁵ times plainly drifts by far more than one rounding.
"""

from typing import Any

import numpy as np

from rareswitch.core.arguments import Floats


def add(total: Floats, lost: Floats, addend: Floats, at: Any = ...) -> None:
    """Add to total[at] in place, and to lost[at] what the addition rounded off.

    total + lost is the sum to about twice the precision of a float; `at` must not repeat a place.
    """
    before = total[at]
    after = before + addend
    # Knuth's TwoSum: exactly before + addend − after, whichever is larger.
    share = after - before
    lost[at] += (before - (after - share)) + (addend - share)
    total[at] = after


def zeros(*shape: int) -> tuple[Floats, Floats]:
    """Return an empty sum: total and lost."""
    return np.zeros(shape), np.zeros(shape)
