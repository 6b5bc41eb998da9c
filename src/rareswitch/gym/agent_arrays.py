"""An agent as named arrays, which any program can act by."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rareswitch.core.policy import Policy, policy_arrays
from rareswitch.features.packed import Packed
from rareswitch.support import codec
from rareswitch.support.arguments import short_repr

# What a basis computes from its fields, and other programs need not know how.
DERIVED = {"polynomial": ("factors",)}


def agent_arrays(policy: Policy, features: Any, actions: Sequence[Any] | None) -> codec.Arrays:
    """Return the arrays of a policy under their names, and those of its features by kind.

    >>> from rareswitch.features import ActionBlocks, Scaling
    >>> policy = Policy(weights=[[0.5, 0.25]])
    >>> features = ActionBlocks(Scaling.between([0.0], [2.0]), actions=2)
    >>> sorted(agent_arrays(policy, features, None))[:4]
    ['action-blocks.actions', 'clip', 'scaling.high', 'scaling.low']
    """
    if not isinstance(features, Packed) or features.code is not None:
        raise TypeError(
            f"features must be maps of this package to be arrays; got {short_repr(features)}. Take "
            "the policy's own, policy.weights and the others, and your code beside them"
        )
    arrays: codec.Arrays = {"clip": np.array(policy.clip)}
    for name in (*policy_arrays(policy.one_hot), "allocation"):
        if (value := getattr(policy, name)) is not None:
            arrays[name] = np.array(value)
    if policy.beta:
        arrays["beta"] = np.array(policy.beta)
    if actions is not None:
        arrays["actions"] = np.array(actions)
    counted: dict[str, int] = {}
    for part in _parts(features):
        counted[part.kind] = counted.get(part.kind, 0) + 1
        number = counted[part.kind]
        name = part.kind if number == 1 else f"{part.kind}-{number}"
        derived = [(field, getattr(part, field)) for field in DERIVED.get(part.kind, ())]
        for field, value in (*_values(part), *derived):
            if isinstance(value, bool | int | float | np.ndarray):
                arrays[f"{name}.{field}"] = np.array(value)
    return arrays


def _parts(whole: Packed) -> Iterator[Packed]:
    """Yield a map, a basis or a space, and all that it is made of, from the outside in."""
    yield whole
    for _, value in _values(whole):
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Packed):
                yield from _parts(part)


def _values(part: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(part, field.name)) for field in fields(part) if field.init]
