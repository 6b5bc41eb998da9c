"""The table of what can be read from bytes, and the reading."""

from typing import Any

import numpy as np

from rareswitch.features.action_blocks import ActionBlocks
from rareswitch.features.basis import Chained, Joined
from rareswitch.features.box_space import Numbers
from rareswitch.features.composite_space import Several
from rareswitch.features.dense import Dense
from rareswitch.features.discrete_space import Bits, Digits, Whole
from rareswitch.features.feature_map import Features
from rareswitch.features.flatten import Flatten
from rareswitch.features.fourier import Fourier
from rareswitch.features.identity import Identity
from rareswitch.features.masked import Masked
from rareswitch.features.min_max import MinMax
from rareswitch.features.one_hot import OneHot
from rareswitch.features.packed import CONTENTS, Packed
from rareswitch.features.polynomial import Polynomial
from rareswitch.features.radial import Radial
from rareswitch.features.standardised import Standardised
from rareswitch.features.unit_norm import UnitNorm
from rareswitch.features.unit_rows import UnitRows
from rareswitch.features.with_stage import WithStage
from rareswitch.support import codec

KINDS: dict[str, type[Packed]] = {
    cls.kind: cls
    for cls in (
        ActionBlocks, Bits, Chained, Dense, Digits, Flatten, Fourier, Identity, Joined, Masked,
        MinMax, Numbers, OneHot, Polynomial, Radial, Several, Standardised, UnitNorm, UnitRows,
        Whole, WithStage,
    )
}  # fmt: skip


def features_from_bytes(data: bytes) -> Features:
    """Return the feature map that `to_bytes` wrote; bytes that were altered are refused.

    >>> features_from_bytes(OneHot(states=3, actions=2).to_bytes())
    OneHot(one-hot of 3 states × 2 actions)
    """
    return Features.from_bytes(data)


def rebuilt(data: bytes) -> Packed:
    """Return the map, basis or space that was packed."""
    parts = codec.unpack(CONTENTS, data)
    parts.only(meta=("described",), arrays=tuple(parts.arrays))
    used: list[str] = []
    with parts.reading():
        made = _made(parts.meta["described"], parts, used)
        if not isinstance(made, Packed):
            raise ValueError("it describes none")
        if sorted(used) != sorted(parts.arrays):
            raise ValueError("its arrays are not those that it describes")
    return made


def _made(plain: Any, parts: codec.Parts, used: list[str]) -> Any:
    """Return what was described: a value, an array, several of them, or one of the table."""
    if isinstance(plain, list):
        return tuple(_made(part, parts, used) for part in plain)
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1 and (place := plain.get("array", plain.get("truths"))) is not None:
        used.append(place)
        held = parts.arrays[place]
        array = parts.array(place, "|u1" if "truths" in plain else "<f8", ("n",) * held.ndim)
        return array.astype(np.bool) if "truths" in plain and array.max(initial=0) <= 1 else array
    fields = dict(plain)
    cls = KINDS[fields.pop("kind")]
    return cls(**{name: _made(value, parts, used) for name, value in fields.items()})
