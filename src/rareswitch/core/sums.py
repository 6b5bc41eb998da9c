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


def add_in_turn(total: Floats, lost: Floats, addends: Floats) -> tuple[Floats, Floats]:
    """Return what `add` makes of total and lost for each of the addends (n, ...) in their order.

    Bit for bit: an accumulation adds one after the other, as they would be added alone.
    """
    totals = np.add.accumulate(np.concatenate([total[None], addends]))
    before, after = totals[:-1], totals[1:]
    share = after - before
    rounded_off = (before - (after - share)) + (addends - share)
    return after[-1], np.add.accumulate(np.concatenate([lost[None], rounded_off]))[-1]


def zeros(*shape: int) -> tuple[Floats, Floats]:
    """Return an empty sum: total and lost."""
    return np.zeros(shape), np.zeros(shape)
