"""A feature map from any function or class of the user that returns the rows of all actions.

The digest of code covers only its results on a sample of states, the probe.
"""

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rareswitch.features.basis import Basis
from rareswitch.features.feature_map import (
    PARTS,
    UNVERIFIED,
    FeatureMap,
    Features,
    blocks_of,
    checked_map,
    truths,
)
from rareswitch.features.packed import Packed
from rareswitch.support import codec
from rareswitch.support.arguments import (
    Bools,
    Ints,
    Rows,
    flag,
    floats,
    positions,
    real,
    set_fields,
    short_repr,
    whole,
)

TOLERANCE = 1e-9  # rounding error of the length of a row
# Results that agree in 30 bits, nine digits, count as equal, because sines differ between machines
# in the last bits. Results below SMALLEST are rounding errors and count as 0.
BITS = 30
SMALLEST = 1e-12
STAGE = ("h", "stage")  # names of an argument that is the stage

Probe = Iterable[Any] | Callable[[], Iterable[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Custom(Features):
    """The rows (A, d) that a `function` returns, or with `one_hot` their positions (A,).

    The function takes a state, or a state and the stage if its second argument is called `h` or
    `stage`. A function with any other required second argument is φ(s, a): it takes a state and the
    number of an action, and returns one row; `actions` must be given. A feature map keeps its
    feasible actions.

    Rows are checked at every call and copied. A row longer than `norm` is an error. `blocks` are
    those of `Features`; a learner checks them.

    The digest covers the results on the `probe`, a sample of states or a function that returns one,
    to nine digits. Without a probe it covers only the name and the sizes, the name ends in
    "unverified", and `actions` and `dim` must be given.

    >>> def dose(patient):
    ...     return np.column_stack([np.ones(3), [0.0, 0.5, 1.0], np.arange(3) * patient["age"]])
    >>> Custom(dose, probe=[{"age": 0.3}, {"age": 0.7}]).dim
    3
    >>> Custom(dose, actions=3, dim=3).name
    'dose, unverified'
    >>> Custom(lambda s, a: [1.0, a, s * a], actions=2, dim=3)(0.5)
    array([[1. , 0. , 0. ],
           [1. , 1. , 0.5]])
    """

    kind: ClassVar[str] = "custom"

    function: Callable[..., Any]
    actions: int = field(default=0, kw_only=True)
    dim: int = field(default=0, kw_only=True)
    name: str = field(default="", kw_only=True)
    norm: float = field(default=math.inf, kw_only=True)
    one_hot: bool = field(default=False, kw_only=True)
    blocks: int = field(default=1, kw_only=True)
    probe: Probe = field(default=(), kw_only=True)
    _second: str | None = field(init=False)
    _feasible: Callable[[Any, int], Any] | None = field(init=False)
    _does: str | None = field(init=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable; got {short_repr(self.function)}")
        one_hot = flag("one_hot", self.one_hot)
        probe = tuple(self.probe() if callable(self.probe) else self.probe)
        norm = math.inf if self.norm == math.inf else real("norm", self.norm, above=0.0)
        set_fields(self, _second=_second_argument(self.function), _feasible=_mask(self.function))
        sizes = {"actions": self.actions, "dim": self.dim}
        if self._second == "action" and not sizes["actions"]:
            raise ValueError("actions must be given for a function of a state and an action")
        shape = np.shape(self._rows(probe[0], 0)) if probe else ()
        if probe and len(shape) != (1 if one_hot else 2):
            wanted = "one position for each action" if one_hot else "(A, d), a row for each action"
            raise ValueError(
                f"rows must be {wanted}; got shape {shape} (from {name_of(self.function)})"
            )
        for size, shown in zip(sizes, (*shape, 0, 0), strict=False):
            sizes[size] = sizes[size] or shown
            if not sizes[size]:
                raise ValueError(f"{size} must be given without a probe")
        name = self.name or name_of(self.function)
        if not probe and not name.endswith(UNVERIFIED):
            name += UNVERIFIED
        set_fields(
            self,
            actions=whole("actions", sizes["actions"], least=1),
            dim=whole("dim", sizes["dim"], least=1),
            name=name,
            norm=1.0 if one_hot else norm,
            one_hot=one_hot,
            blocks=whole("blocks", self.blocks, least=1),
            probe=probe,
        )
        set_fields(self, _does=behaviour(self._results(probe)) if probe else None)

    def __call__(self, state: Any, h: int = 0) -> Rows:
        rows = self._rows(state, h)
        try:
            return self._positions(rows) if self.one_hot else self._floats(rows)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} (from {self.name}, for {short_repr(state)})") from None

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        mask = None if self._feasible is None else self._feasible(state, h)
        if mask is None:
            return None
        checked = truths(f"feasible actions of {self.name}", mask, (self.actions,))
        if not checked.any():
            raise ValueError(
                f"an action must be feasible in every state; none in {short_repr(state)} (from "
                f"{self.name})"
            )
        return checked

    def _rows(self, state: Any, h: int) -> Any:
        if self._second == "action":
            return [self.function(state, action) for action in range(self.actions)]
        return self.function(state, h) if self._second == "stage" else self.function(state)

    def _floats(self, rows: Any) -> Rows:
        checked = floats("rows", rows, (self.actions, self.dim))
        if math.isfinite(self.norm):
            longest = math.sqrt(np.vecdot(checked, checked).max())
            if longest > self.norm * (1.0 + TOLERANCE):
                raise ValueError(f"rows must not be longer than {self.norm:g}; got {longest:g}")
        return checked

    def _positions(self, rows: Any) -> Ints:
        checked = positions("rows", rows, self.dim)
        if len(checked) != self.actions:
            raise ValueError(f"rows must be {self.actions} positions; got {len(checked)}")
        return checked

    def _results(self, probe: tuple[Any, ...]) -> Iterator[npt.NDArray[Any]]:
        """Yield rows and masks on the probe, at two stages if the stage may matter."""
        for h in (0, 1) if self._second == "stage" else (0,):
            for state in probe:
                yield self(state, h)
                if (mask := self.feasible(state, h)) is not None:
                    yield mask

    @property
    def code(self) -> str:
        return self.name.removesuffix(UNVERIFIED)

    def described(self, arrays: codec.Arrays) -> dict[str, Any]:
        sizes = {"actions": self.actions, "dim": self.dim, "one_hot": self.one_hot}
        own = getattr(self.function, "digest", None)  # of the fields of a feature map
        of = {} if own is None else {"of": own}
        return {"kind": self.kind, "name": self.name, "does": self._does, **sizes, **of}


def as_features(thing: Any, **arguments: Any) -> FeatureMap:
    """Return a built-in map unchanged, and a `Custom` around any other map or function.

    `arguments` are those of `Custom`: `actions` and `dim`, or a `probe`. A map has its own sizes
    and takes only the probe; another number of `actions` is an error.

    >>> as_features(lambda state: np.eye(2) * state, actions=2, dim=2, name="scaled")(0.5)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    if isinstance(thing, type):
        name = thing.__name__
        raise TypeError(
            f"features must be a feature map or a function; got the class {name}: write {name}(…)"
        )
    if isinstance(thing, Basis):
        raise TypeError(
            f"features must have a row for each action; got the basis {short_repr(thing)}: write "
            "ActionBlocks(basis, actions=…)"
        )
    if any(hasattr(thing, part) for part in PARTS):
        found = checked_map("features", thing)
        if (count := arguments.get("actions", found.actions)) != found.actions:
            raise ValueError(
                f"features must have a row for each of {count} actions; got {found.name}, which "
                f"has {found.actions}"
            )
        if isinstance(thing, Packed) and not _unchecked(thing):
            return found
        said = {part: getattr(thing, part) for part in ("actions", "dim", "name", "norm")}
        said |= {"one_hot": thing.one_hot, "blocks": blocks_of(thing)}
        return Custom(thing, **said, probe=arguments.get("probe", ()))
    if callable(getattr(thing, "transform", None)):
        raise TypeError(
            f"features must have a row for each action; got the transformer {short_repr(thing)}: "
            "write ActionBlocks(basis_of(transformer), actions=…)"
        )
    if not callable(thing):
        raise TypeError(
            "features must be a feature map, or a function from a state to rows; got "
            f"{short_repr(thing)}"
        )
    return Custom(thing, **arguments)


def behaviour(results: Iterable[npt.NDArray[Any]]) -> str:
    """Return the SHA-256 of results in hexadecimal, equal on every machine.

    >>> third = np.array([1 / 3, 0.0])
    >>> behaviour([third]) == behaviour([third + 1e-16]), behaviour([third]) == behaviour([-third])
    (True, False)
    """
    seen = hashlib.sha256()
    for result in results:
        mantissa, exponent = np.frexp(np.asarray(result, np.float64))
        rounded = np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS)
        rounded = np.where(np.abs(rounded) < SMALLEST, 0.0, rounded)
        seen.update(repr(rounded.shape).encode())
        seen.update(rounded.astype("<f8").tobytes())
    return seen.hexdigest()


def name_of(code: Any) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return str(getattr(code, "__name__", type(code).__name__))


def _second_argument(function: Callable[..., Any]) -> str | None:
    """Return the kind of a function's second argument: "stage", "action" or None."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # code in C has no signature
        return None
    placed = [one for one in given if one.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if sum(one.default is one.empty for one in placed) > 2:
        raise TypeError(
            "function must take a state, a state and the stage h, or a state and an action; got "
            f"{short_repr(function)}"
        )
    if len(placed) < 2:
        return None
    if placed[1].name in STAGE:
        return "stage"
    return "action" if placed[1].default is placed[1].empty else None


def _mask(function: Any) -> Callable[[Any, int], Any] | None:
    """Return the map's `feasible` as a function of state and stage, or None."""
    feasible = getattr(function, "feasible", None)
    if feasible is None or _second_argument(feasible) == "stage":
        return feasible
    return lambda state, h: feasible(state)


def _unchecked(part: Any) -> bool:
    """Return whether a part of a map is a class from outside this package."""
    if type(part) is Custom or not isinstance(part, Packed | tuple):
        return False
    if isinstance(part, Packed) and not part.built_in:
        return True
    return any(map(_unchecked, part if isinstance(part, tuple) else part._fields().values()))
