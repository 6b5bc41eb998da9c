"""A sample of states, and every map and basis of the package on it."""

import numpy as np

from rareswitch.features import (
    ActionBlocks,
    Cosines,
    Dense,
    Flatten,
    Masked,
    ObservationTable,
    OneHot,
    Polynomial,
    Scaling,
    UnitNorm,
    UnitRows,
    WithStage,
    joined,
)
from rareswitch.features.spaces import Bits, Digits, Numbers, Several

SAMPLE = np.random.default_rng(3).normal(size=(60, 3)) * [1.0, 20.0, 0.05] + [0.0, 7.0, 1.0]
SPACE = Several(
    parts=(
        Numbers(shape=(2, 2)),
        Digits(counts=(3,), starts=(1,)),
        Several(parts=(Digits(counts=(2, 3), starts=(0, -1)), Bits(size=2))),
    ),
    keys=("position", "gear", "rest"),
)
STATES = [
    {"position": [[0.5, -1.0], [2.0, k]], "gear": 1 + k % 3, "rest": ([k % 2, 0], [1, k % 2])}
    for k in range(4)
]


def bases():
    """Return each basis with three inputs, by name."""
    standardised = Scaling.standard(SAMPLE, clip=2.0)
    radial = Cosines.radial(inputs=3, components=8, bandwidths=(0.5, 2.0), seed=4)
    both = joined(Polynomial(inputs=3, degree=1), radial)
    found = [
        Polynomial(inputs=3, degree=1, constant=False),
        Polynomial(inputs=3, degree=1),
        Polynomial(inputs=3, degree=3),
        Polynomial(inputs=3, degree=2, constant=False, interaction_only=True),
        Cosines.fourier(inputs=3, order=3),
        radial,
        standardised,
        Scaling.standard(SAMPLE),
        Scaling.min_max(SAMPLE),
        Scaling.min_max(SAMPLE, clip=False),
        UnitNorm(inputs=3, bound=2.0),
        both,
        standardised.then(both).then(UnitNorm(inputs=20, bound=4.0)),
    ]
    return {f"{number}-{basis.kind}": basis for number, basis in enumerate(found)}


def maps():
    """Return each map that is data with some of its states, by name."""
    table = OneHot(states=4, actions=3)
    feasible = np.eye(4, 3, dtype=bool) | [True, False, False]
    blocks = {
        f"blocks of {name}": (ActionBlocks(basis, actions=2), list(SAMPLE[:4]))
        for name, basis in bases().items()
    }
    flat = ActionBlocks(
        Flatten(space=SPACE).then(Polynomial(inputs=14, degree=1, constant=False)), actions=2
    )
    plain = ActionBlocks(Polynomial(inputs=3, degree=1, constant=False), actions=2)
    return blocks | {
        "table": (table, range(4)),
        "dense": (Dense(table), range(4)),
        "of several": (OneHot(states=6, actions=2, space=Digits(counts=(2, 3), starts=(0, 1))),
                       [(0, 1), (1, 3)]),
        "flat": (flat, STATES),
        "met": (OneHot(states=8, actions=2, space=ObservationTable.met(SPACE, STATES, hashed=4)),
                STATES),
        "masked": (Masked(table, feasible), range(4)),
        "staged table": (WithStage(table, horizon=3), range(4)),
        "staged": (WithStage(plain, horizon=3), list(SAMPLE[:4])),
        "unit rows": (UnitRows(plain, bound=30.0), list(SAMPLE[:4])),
        "around": (WithStage(Masked(table, feasible), horizon=2), range(4)),
    }  # fmt: skip
