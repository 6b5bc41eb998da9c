"""The part of a protocol that a site needs: task, actions, feature map, intake and claims."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.campaigns.errors import DamagedError, NotAllowedError
from rareswitch.campaigns.observations.observer import Observer
from rareswitch.campaigns.rulebook.rows import canonical, digest_of
from rareswitch.campaigns.rulebook.terms import AnalysisTerms, FeatureTerms
from rareswitch.core.policy import Policy
from rareswitch.core.task import Task
from rareswitch.support.arguments import Rows, floats, positions


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The tables of a protocol, and the bytes of its feature map if it has columns.

    Unknown tables of later library versions are kept, but not read.
    """

    tables: Mapping[str, Any]
    map: bytes | None = field(default=None, repr=False)

    @cached_property
    def digest(self) -> str:
        return digest_of(canonical(self.tables))

    @cached_property
    def task(self) -> Task:
        table = self.tables["task"]
        return Task(**{part.name: table[part.name] for part in fields(Task) if part.name in table})

    @property
    def actions(self) -> tuple[str, ...]:
        return tuple(self.tables["task"].get("actions", ()))

    @property
    def assigned(self) -> bool:
        """Whether the server must assign every episode."""
        intake = self.tables.get("intake", {})
        return bool(intake.get("assigned", False) or intake.get("concealed", False))

    @property
    def features(self) -> FeatureTerms | None:
        """The feature map of raw observations; None if sites report feature rows."""
        table = self.tables.get("features", {})
        if not table.get("columns"):
            return None
        return FeatureTerms(**{name: table[name] for name in ("name", "digest", "columns")})

    @cached_property
    def analysis(self) -> AnalysisTerms:
        return AnalysisTerms.of(self.tables.get("analysis", {}))

    @cached_property
    def observer(self) -> Observer:
        """The reader of raw observations."""
        if self.features is None or self.map is None:
            raise NotAllowedError(
                "the protocol's [features] has no columns: act and report with rows of features"
            )
        return Observer(
            features=self.features,
            data=self.map,
            actions=self.actions,
            task=self.task,
            subgroups=self.analysis.subgroups,
        )

    def check(self, policy: Policy) -> None:
        """Raise if a policy does not fit the task."""
        task = self.task
        ours = (task.horizon, task.dim, task.one_hot)
        theirs = (policy.horizon, policy.dim, policy.one_hot)
        if ours != theirs:
            raise DamagedError(
                "the policy must have the protocol's horizon, dim and one_hot, "
                f"{ours[0]}, {ours[1]} and {ours[2]}; got {theirs[0]}, {theirs[1]} and {theirs[2]}"
            )

    def offer(self, features: Any, name: str = "features") -> Rows:
        """Return the checked rows of all feasible actions (A, d), or positions (A,)."""
        rows, names = self.rows(features, name), self.actions
        least = 1 if self.control is None else self.control + 1
        if len(rows) < least or (names and len(rows) > len(names)):
            most = f" to {len(names)}" if names else " or more"
            raise ValueError(
                f"{name} must be {least}{most} rows, one for each action; got {len(rows)}"
            )
        return rows

    def rows(self, features: Any, name: str = "features") -> Rows:
        """Return checked feature rows (n, d), or positions (n,)."""
        task = self.task
        if task.one_hot:
            return positions(name, features, task.dim)
        rows = floats(name, features, ("n", task.dim))
        longest = math.sqrt(np.vecdot(rows, rows).max(initial=0.0))
        if not longest <= task.feature_norm * (1.0 + 1e-9):
            raise ValueError(
                f"{name} must be no longer than {task.feature_norm:g}; got {longest:.6g}"
            )
        return rows

    @property
    def control(self) -> int | None:
        """The index of the control's action; None without a control, or if it is a policy."""
        plays = self.tables.get("recipe", {}).get("control", {}).get("plays")
        if plays in self.actions:
            return self.actions.index(plays)
        return plays if isinstance(plays, int) else None
