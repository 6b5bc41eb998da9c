"""Trajectories of every kind that a log may hold, for hypothesis."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rareswitch.trajectories import Trajectory

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)
WHOLE = st.integers(-(2**63) + 1, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = TEXT.filter(lambda text: text and not text.startswith("("))


def arrays(count):
    """Return arrays of one number for each observation, or of more of one shape."""
    shape = hnp.array_shapes(min_dims=0, max_dims=2, max_side=3).map(lambda rest: (count, *rest))
    kinds = (
        (np.float64, NUMBERS), (np.int64, WHOLE), (np.bool, st.booleans()),
        (np.float32, st.floats(allow_nan=False, allow_infinity=False, width=32)),
        (np.uint8, st.integers(0, 255)),
    )  # fmt: skip
    return st.one_of(hnp.arrays(dtype, shape, elements=each) for dtype, each in kinds)


def columns(count):
    """Return parts of observations stacked along time: arrays, texts, and tuples or dicts of them.

    All observations of one log are of one type, as those of an environment are.
    """
    leaves = arrays(count) | st.lists(TEXT, min_size=count, max_size=count)
    return st.recursive(
        leaves,
        lambda part: (
            st.lists(part, min_size=1, max_size=3).map(tuple)
            | st.dictionaries(NAMES, part, min_size=1, max_size=3)
        ),
        max_leaves=4,
    )


def at(stacked, t):
    """Return observation t of what `columns` drew."""
    if isinstance(stacked, tuple):
        return tuple(at(part, t) for part in stacked)
    if isinstance(stacked, dict):
        return {key: at(part, t) for key, part in stacked.items()}
    return stacked[t]


@st.composite
def logs(draw, most=4):
    """Return a list of trajectories of one environment, all observations of one type."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most))
    actions = draw(st.integers(1, 4))
    shown = draw(columns(sum(lengths) + len(lengths)))
    keys = draw(st.sampled_from([st.none(), TEXT.filter(bool), st.integers(0, 2**63 - 1)]))
    log, start = [], 0
    for steps in lengths:
        terminated = draw(st.booleans())
        taken = draw(hnp.arrays(np.int64, steps, elements=st.integers(0, actions - 1)))
        masks = draw(st.none() | hnp.arrays(np.bool, (steps + 1, actions)))
        if masks is not None:
            masks[np.arange(steps), taken] = True
            masks[-1, 0] |= not terminated
        chance = hnp.arrays(np.float64, steps, elements=st.floats(0.0, 1.0, exclude_min=True))
        log.append(
            Trajectory(
                observations=[at(shown, start + t) for t in range(steps + 1)],
                actions=taken,
                rewards=draw(hnp.arrays(np.float64, steps, elements=NUMBERS)),
                terminated=terminated,
                propensities=draw(st.none() | chance),
                masks=masks,
                version=draw(st.none() | st.integers(1, 2**63 - 1)),
                member=draw(st.none() | st.integers(0, 2**63 - 1)),
                key=draw(keys),
            )
        )
        start += steps + 1
    return log


def assert_same(one, other):
    """Assert that two trajectories are equal, and of the same types in every part."""
    assert one == other
    assert_same_types(one.observations, other.observations)
    for name in ("actions", "rewards", "propensities", "masks"):
        kept, read = getattr(one, name), getattr(other, name)
        assert kept is read is None or kept.dtype == read.dtype
    assert type(one.key) is type(other.key)


def assert_same_types(one, other):
    assert type(one) is type(other)
    if isinstance(one, tuple):
        for parts in zip(one, other, strict=True):
            assert_same_types(*parts)
    elif isinstance(one, dict):
        for key in one:
            assert_same_types(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
