"""Spaces made of others, in order or by name: Gymnasium's Tuple and Dict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.space import Space
from rareswitch.support.arguments import Floats, set_fields, short_repr


@dataclass(frozen=True, kw_only=True, eq=False)
class Several(Space):
    """A state of several `parts`: a tuple of them, or with `keys` a mapping from key to part."""

    kind: ClassVar[str] = "several"

    parts: tuple[Space, ...]
    keys: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not parts or not all(isinstance(part, Space) for part in parts):
            raise ValueError(f"parts must be at least one Space; got {short_repr(parts)}")
        keys = None if self.keys is None else tuple(self.keys)
        if keys is not None:
            named = all(isinstance(key, str) for key in keys)
            if not named or len(set(keys)) != len(parts) or len(keys) != len(parts):
                raise ValueError(
                    f"keys must be a text of its own for each of {len(parts)} parts; got {keys}"
                )
        counts = [part.count for part in parts]
        counted = [count for count in counts if count is not None]
        set_fields(
            self,
            parts=parts,
            keys=keys,
            count=math.prod(counted) if len(counted) == len(counts) else None,
            size=sum(part.size for part in parts),
        )

    @cached_property
    def places(self) -> tuple[int | str, ...]:
        """Where the parts are found in a state."""
        return tuple(range(len(self.parts))) if self.keys is None else self.keys

    def index(self, state: Any) -> int:
        self._check(state)
        number = 0
        for place, part in zip(self.places, self.parts, strict=True):
            try:
                number = number * (part.count or 0) + part.index(state[place])
            except (TypeError, ValueError) as error:
                raise _within(place, error) from None
        return number

    def flat(self, state: Any) -> Floats:
        self._check(state)
        rows = []
        for place, part in zip(self.places, self.parts, strict=True):
            try:
                rows.append(part.flat(state[place]))
            except (TypeError, ValueError) as error:
                raise _within(place, error) from None
        return np.concatenate(rows)

    def _check(self, state: Any) -> None:
        if self.keys is None:
            if not isinstance(state, tuple | list | np.ndarray) or len(state) != len(self.parts):
                raise ValueError(
                    f"state must be a tuple of {len(self.parts)} parts; got {short_repr(state)}"
                )
        elif not isinstance(state, Mapping) or set(state) != set(self.keys):
            raise ValueError(
                f"state must be a mapping with the keys {', '.join(self.keys)}; got "
                f"{short_repr(state)}"
            )


def _within(place: int | str, error: TypeError | ValueError) -> TypeError | ValueError:
    """Return the error of a part as one that says where in the state the part is."""
    return type(error)(f"state[{place!r}]{str(error).removeprefix('state')}")
