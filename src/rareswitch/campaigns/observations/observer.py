"""Raw observations instead of feature rows, and names instead of indices of actions.

If a protocol's `[features]` names the `columns` of an observation, the protocol's feature map turns
observations into rows. A report then holds one observation for each step (and one more if the
episode was truncated), and the names of actions or their indices from 0.

Observations may be personal data, so errors do not repeat their values or unknown names.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rareswitch.campaigns.report import Report
from rareswitch.campaigns.report_values import report_from
from rareswitch.campaigns.rulebook.claims import CLAIMS
from rareswitch.campaigns.rulebook.rows import digest_of
from rareswitch.campaigns.rulebook.terms import FeatureTerms, Subgroups
from rareswitch.core.control import Player
from rareswitch.core.policy import Policy
from rareswitch.core.task import Task
from rareswitch.features import (
    ActionBlocks,
    Features,
    Masked,
    OneHot,
    WithStage,
    features_from_bytes,
)
from rareswitch.features.observation_table import ObservationTable
from rareswitch.features.spaces import Bits, Digits, Numbers, Several, Space
from rareswitch.features.wrappers import Wrapper
from rareswitch.support.arguments import NOT_NUMBERS, Rows, set_fields, short_repr, whole

NEEDED = ("id", "observations", "actions", "rewards")
FIELDS = (*NEEDED, "recommended", "propensities", "version", "member", *CLAIMS, "participant")
TOLERANCE = 1e-9  # for rounding of a row's length


class Column(NamedTuple):
    """A column of numbers, or of whole numbers, from `least` to `most`."""

    name: str
    whole: bool = False
    least: float = -math.inf
    most: float = math.inf

    def checked(self, value: Any) -> int | float:
        """Return a valid number of this column; the error does not repeat an invalid value."""
        kinds = (int, np.integer) if self.whole else (int, float, np.integer, np.floating)
        if isinstance(value, kinds) and not isinstance(value, NOT_NUMBERS):
            # Integers are compared exactly; other numbers must be finite floats.
            try:
                number = int(value) if self.whole else float(value)
            except OverflowError:
                number = math.inf
            if self.least <= number <= self.most and (self.whole or math.isfinite(number)):
                return number
        kind, bounded = "whole" if self.whole else "finite", math.isfinite(self.least)
        ends = f" from {self.least:.0f} to {self.most:.0f}" if bounded else ""
        raise ValueError(f"{self.name} must be a {kind} number{ends}")


class Choice(NamedTuple):
    """The action that a policy takes: its name and its index."""

    action: str
    place: int


def packed_features(features: Any, columns: Sequence[str]) -> tuple[FeatureTerms, bytes]:
    """Return the `[features]` of a protocol, and the bytes of the feature map.

    >>> from rareswitch.features import OneHot
    >>> packed_features(OneHot(states=3, actions=2), ["severity"])[0].columns
    ('severity',)
    """
    if not isinstance(features, Features) or features.code is not None:
        name = features.code if isinstance(features, Features) else short_repr(features)
        raise TypeError(
            f"features must be a map of rareswitch.features without code of your own, which has no "
            f"bytes; got {name}. With code of your own, report rows of features and name no columns"
        )
    data = features.to_bytes()
    return FeatureTerms(name=features.name, digest=digest_of(data), columns=tuple(columns)), data


@dataclass(frozen=True, kw_only=True)
class Observer:
    """The feature map of a protocol, for observations with named columns.

    `data` are the bytes of the map; reading them imports no code. `actions` are the protocol's
    names, in the order of the map's rows. `subgroups` are the protocol's; if they have a column, a
    report gets its subgroup from the first observation.

    >>> from rareswitch.features import OneHot
    >>> terms, data = packed_features(OneHot(states=3, actions=2), ["severity"])
    >>> task = Task(dim=6, horizon=1, episodes=30, one_hot=True)
    >>> observer = Observer(features=terms, data=data, actions=("low", "high"), task=task)
    >>> observer.rows({"severity": 2}), observer.place("high")
    (array([4, 5]), 1)
    >>> told = {"observations": [{"severity": 2}], "actions": ["high"], "rewards": [0.5]}
    >>> observer.report({"id": "p1", **told}).episode.features
    array([5])
    """

    features: FeatureTerms
    data: bytes = field(repr=False)
    actions: tuple[str, ...]
    task: Task
    subgroups: Subgroups | None = None
    map: Features = field(init=False, repr=False)
    columns: tuple[Column, ...] = field(init=False, repr=False)
    _space: Space = field(init=False, repr=False)

    def __post_init__(self) -> None:
        terms, task = self.features, self.task
        if not isinstance(terms, FeatureTerms) or not terms.columns:
            raise ValueError(
                "[features] columns must name the numbers of an observation; this protocol has no "
                "columns. It takes rows of features, in JSON or Parquet; CSV needs columns"
            )
        if (found := digest_of(self.data)) != terms.digest:
            raise ValueError(
                f"data must be the feature map of the protocol, {terms.digest}; got {found}"
            )
        made = features_from_bytes(self.data)
        sizes = {
            "[task] dim": (task.dim, made.dim),
            "[task] one_hot": (task.one_hot, made.one_hot),
            "the number of [task] actions": (len(self.actions), made.actions),
        }
        for name, (agreed, own) in sizes.items():
            if agreed != own:
                raise ValueError(f"{name} must be {own}, as in the feature map; got {agreed}")
        if task.blocks not in (1, made.blocks):
            raise ValueError(
                f"[task] blocks must be 1 or {made.blocks}, as in the feature map; got "
                f"{task.blocks}"
            )
        if task.feature_norm * (1.0 + TOLERANCE) < made.norm < math.inf:
            raise ValueError(
                f"[task] feature_norm must be at least {made.norm:g}, the longest row of the "
                f"feature map; got {task.feature_norm:g}"
            )
        space = space_of(made, task.horizon)
        columns = columns_of(space, terms.columns)
        set_fields(self, actions=tuple(self.actions), map=made, columns=columns, _space=space)

    def rows(self, observation: Any, stage: int = 0) -> Rows:
        """Return the rows (A, d) of all actions, or the positions (A,) of one-hot rows."""
        stage = whole("stage", stage, least=0, most=self.task.horizon)
        numbers = iter(self._numbers(observation))
        with np.errstate(over="ignore", invalid="ignore"):  # such rows are refused below
            rows = self.map(state_of(self._space, numbers), stage)
            if not self.map.one_hot:
                longest = math.sqrt(np.vecdot(rows, rows).max())
                if not longest <= self.task.feature_norm * (1.0 + TOLERANCE):  # NaN fails too
                    raise ValueError(
                        "an observation must have features no longer than [task] feature_norm = "
                        f"{self.task.feature_norm:g}; those of this one are longer"
                    )
        return rows

    def place(self, action: Any) -> int:
        """Return the index of an action, given by its name or index."""
        if isinstance(action, str) and action in self._places:
            return self._places[action]
        counted = isinstance(action, int | np.integer) and not isinstance(action, NOT_NUMBERS)
        if counted and 0 <= action < len(self.actions):
            return int(action)
        raise ValueError(
            f"action must be one of {', '.join(self.actions)}, or a place from 0 to "
            f"{len(self.actions) - 1}"
        )

    def name(self, place: int) -> str:
        return self.actions[whole("place", place, least=0, most=len(self.actions) - 1)]

    def choose(self, member: Policy | Player, stage: int, observation: Any) -> Choice:
        """Return the action of the member drawn for an episode."""
        place = member.act(stage, self.rows(observation, stage))
        return Choice(self.name(place), place)

    def probability(
        self, policy: Policy, steps: Iterable[tuple[Any, Any]], observation: Any, action: Any
    ) -> float:
        """Return the probability of the next action given the episode's earlier actions.

        `steps` are the earlier (observation, recommended action) pairs. The result is the share of
        members that recommend this action, among the members that recommended all earlier actions.
        """
        chances = [
            policy.chances(stage, self.rows(seen, stage), self.place(taken))
            for stage, (seen, taken) in enumerate([*steps, (observation, action)])
        ]
        found = policy.conditional(np.array(chances))
        if not found[:-1].all():
            raise ValueError(
                f"steps must be actions that the policy recommends; none of its "
                f"{policy.members} members takes those up to stage "
                f"{int(np.argmin(found > 0.0))}"
            )
        return float(found[-1])

    def report(self, values: Any) -> Report:
        """Return the report of JSON values with observations."""
        told = self.with_rows(values)
        try:
            return report_from(told)
        except (TypeError, ValueError) as error:
            raise without_values(error) from None

    def with_rows(self, values: Any) -> dict[str, Any]:
        """Return a report's JSON values with feature rows instead of observations."""
        if not isinstance(values, Mapping):
            raise TypeError(f"a report must be an object; got {type(values).__name__}")
        if unknown := [name for name in values if name not in FIELDS]:
            meant = [known for known in FIELDS if any(_one_letter_off(x, known) for x in unknown)]
            hint = f": did you mean {meant[0]}?" if meant else ""
            raise ValueError(
                f"the fields of a report with observations may be {', '.join(FIELDS)}, and no "
                f"others; got {len(unknown)} unknown{hint}"
            )
        told = {name: value for name, value in values.items() if value is not None}
        if missing := [name for name in NEEDED if name not in told]:
            raise ValueError(f"a report with observations needs {missing[0]}")
        observations, actions = _listed("observations", told), _listed("actions", told)
        steps = whole("the number of actions", len(actions), least=1, most=self.task.horizon)
        if len(observations) not in (steps, steps + 1):
            raise ValueError(
                f"observations must be {steps}, one for each action, or {steps + 1} if the episode "
                f"was cut off; got {len(observations)}"
            )
        offered = [
            _within(f"observations[{t}]", self.rows, observation, t)
            for t, observation in enumerate(observations)
        ]
        if self.subgroups is not None and (column := self.subgroups.column):
            subgroup = self.subgroups.of(observations[0][column])
            if told.setdefault("subgroup", subgroup) != subgroup:
                raise ValueError(
                    f"subgroup must be that of the column {column} of the first observation, or be "
                    "left out"
                )
        del told["observations"]
        for field_name in ("actions", "recommended"):
            if field_name in told:
                told[field_name] = [
                    _within(f"{field_name}[{t}]", self.place, name)
                    for t, name in enumerate(_listed(field_name, told))
                ]
        taken = zip(offered, told["actions"], strict=False)
        told["features"] = [rows[place].tolist() for rows, place in taken]
        told["first_features"], *told["next_features"] = (rows.tolist() for rows in offered)
        return told

    def _numbers(self, observation: Any) -> list[int | float]:
        """Return the numbers of an observation in the order of the columns."""
        if not isinstance(observation, Mapping):
            raise TypeError(
                f"an observation must be an object with the columns {self._named}; got "
                f"{type(observation).__name__}"
            )
        for name in self.features.columns:
            if name not in observation:
                raise ValueError(
                    f"an observation must have the columns {self._named}; {name} is missing"
                )
        if others := len(observation) - len(self.columns):
            raise ValueError(
                f"an observation must have no other columns than {self._named}; got {others} "
                "unknown"
            )
        return [column.checked(observation[column.name]) for column in self.columns]

    @property
    def _named(self) -> str:
        return ", ".join(self.features.columns)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.actions)}


def without_values(error: Exception) -> ValueError:
    """Return a report's error without the given value."""
    return ValueError(str(error).partition("; got ")[0])


def _one_letter_off(given: Any, known: str) -> bool:
    """Return whether a text differs from a known text by one letter added, removed or changed.

    >>> [_one_letter_off(given, "rewards") for given in ("reward", "rewarts", "rewardss", "word")]
    [True, True, True, False]
    """
    if not isinstance(given, str) or abs(len(given) - len(known)) > 1:
        return False
    same = next((n for n, (a, b) in enumerate(zip(given, known, strict=False)) if a != b), None)
    if same is None:
        return True
    rests = [(same + 1, same + 1), (same + 1, same), (same, same + 1)]
    return any(given[a:] == known[b:] for a, b in rests)


def _listed(name: str, told: Mapping[str, Any]) -> Sequence[Any]:
    given = told[name]
    if not isinstance(given, list | tuple):
        raise TypeError(f"{name} must be a list; got {type(given).__name__}")
    return given


def _within(where: str, read: Any, *arguments: Any) -> Any:
    """Call a function, and add the place in the report to its errors."""
    try:
        return read(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None


def space_of(features: Features, horizon: int) -> Space:
    """Return the state space of a feature map; raise if the map has a mask."""
    inner: Any = features
    while isinstance(inner, Wrapper):
        if isinstance(inner, Masked):
            raise ValueError(
                "the feature map of a protocol with columns must have no mask: the place of an "
                "action would differ from state to state; report rows of features instead"
            )
        if isinstance(inner, WithStage) and inner.horizon != horizon:
            raise ValueError(
                f"[task] horizon must be {inner.horizon}, as in the feature map; got {horizon}"
            )
        inner = inner.map
    if isinstance(inner, OneHot) and inner.space is not None:
        table = inner.space
        return table.space if isinstance(table, ObservationTable) else table
    assert isinstance(inner, ActionBlocks)  # bytes contain no other map
    return inner.basis.reads or Numbers(shape=(inner.basis.inputs,))


def columns_of(space: Space, names: tuple[str, ...]) -> tuple[Column, ...]:
    """Return the columns of a space under these names, after a check of their number."""
    found = list(islice(_numbers_of(space), len(names) + 1))  # a hostile map may have very many
    if len(found) != len(names):
        wanted = "more" if len(found) > len(names) else str(len(found))
        raise ValueError(
            f"[features] columns must be one for each number of an observation, {wanted}; got "
            f"{len(names)}"
        )
    for column, name in zip(found, names, strict=True):
        if column.name not in ("", name):
            raise ValueError(
                f"[features] columns must be in the order of the feature map's keys; got {name!r} "
                f"for {column.name!r}"
            )
    return tuple(column._replace(name=name) for column, name in zip(found, names, strict=True))


def _numbers_of(space: Space, key: str = "") -> Iterator[Column]:
    """Yield the columns of a space in order, named by its keys if it has keys."""
    if isinstance(space, Several):
        for place, part in zip(space.places, space.parts, strict=True):
            one = isinstance(part, Digits) and len(part.counts) == 1
            single = one or (isinstance(part, Numbers) and part.size == 1)
            yield from _numbers_of(part, place if single and isinstance(place, str) else "")
    elif isinstance(space, Digits):
        for count, start in space.ranges:
            yield Column(key, True, start, start + count - 1)
    elif isinstance(space, Bits):
        yield from (Column("", True, 0, 1) for _ in range(space.size))
    else:
        yield from (Column(key) for _ in range(space.size))


def state_of(space: Space, numbers: Iterator[int | float]) -> Any:
    """Build a state of a space from the next numbers."""
    if isinstance(space, Several):
        parts = tuple(state_of(part, numbers) for part in space.parts)
        return parts if space.keys is None else dict(zip(space.keys, parts, strict=True))
    if isinstance(space, Digits):
        return list(islice(numbers, len(space.ranges)))
    if isinstance(space, Bits):
        return list(islice(numbers, space.size))
    assert isinstance(space, Numbers)
    return np.array(list(islice(numbers, space.size)), np.float64).reshape(space.shape)
