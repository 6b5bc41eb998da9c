"""The terms of a protocol that rules ask for: budget, approval, intake, stopping rules and sizes.

`Terms` is read from the plain tables of a protocol. It makes no schedule and no feature map, so
nothing that a stranger's record names is ever imported to read it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from rareswitch.campaigns.rulebook.names import (
    checked_digest,
    checked_names,
    checked_person,
    person_key,
)
from rareswitch.campaigns.rulebook.rows import canonical, digest_of
from rareswitch.campaigns.rulebook.stopping import StoppingRule, rule_of
from rareswitch.support.arguments import flag, one_of, set_fields, short_repr, whole

APPROVALS = ("schedule", "second-person")
LATE = ("learn", "record")
# The tables that an amendment may change; recorded episodes do not depend on them.
AMENDABLE = ("episodes", "schedule", "budget", "approval", "intake", "stopping")
# The columns of a CSV file of reports that are no part of an observation.
REPORT_COLUMNS = (
    "id", "step", "action", "reward", "propensity", "recommended", "version", "member", "site",
    "began", "ended", "participant",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Approval:
    """How a candidate comes into force.

    By the "schedule" alone, or signed by a "second-person" who did not propose it; an amendment and
    the reopening of a stopped campaign then need two persons too. After a rejection the schedule is
    asked again when `retry_after` more episodes were recorded. If `signers` are named, nobody else
    decides anything.
    """

    by: str = "schedule"
    retry_after: int = 1
    signers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.signers, str) or not all(isinstance(name, str) for name in self.signers):
            raise TypeError(f"signers must be a list of names; got {short_repr(self.signers)}")
        names = tuple(checked_person("signers", name) for name in self.signers)
        keys = [person_key(name) for name in names]
        if len({*keys}) < len(keys):
            raise ValueError(f"signers must be different persons; got {', '.join(names)}")
        set_fields(
            self,
            by=one_of("by", self.by, APPROVALS),
            retry_after=whole("retry_after", self.retry_after, least=1),
            signers=names,
        )
        if len(names) == 1 and self.two_persons:
            raise ValueError(f"signers must be two persons or more; got {names[0]} alone")

    @property
    def two_persons(self) -> bool:
        return self.by == "second-person"

    def may_sign(self, name: str) -> bool:
        return not self.signers or person_key(name) in map(person_key, self.signers)


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Which reports are recorded.

    `late` says whether fits "learn" from episodes of a replaced version, or the log only has them
    on "record". An episode that was not assigned may name an earlier version while at most `grace`
    episodes were recorded since it was replaced. With `assigned` only assigned episodes are
    recorded. With `concealed` too, a salt that is drawn at the assignment decides the member, so
    that nobody can choose an episode's id by its treatment.
    """

    late: str = "learn"
    grace: int = 1000
    assigned: bool = False
    concealed: bool = False

    def __post_init__(self) -> None:
        set_fields(
            self,
            late=one_of("late", self.late, LATE),
            grace=whole("grace", self.grace, least=0),
            assigned=flag("assigned", self.assigned),
            concealed=flag("concealed", self.concealed),
        )
        if self.concealed and not self.assigned:
            raise ValueError("concealed needs assigned = true: the salt is drawn at the assignment")


@dataclass(frozen=True, kw_only=True)
class FeatureTerms:
    """The feature map that actors use: its name, its digest and the columns of an observation.

    `digest` is the SHA-256 of the map's bytes. `columns` name the numbers of an observation, in the
    order in which the map takes them; without them, actors report rows of features.

    >>> FeatureTerms(name="linear", digest="ab" * 32, columns=["age", "severity"]).columns
    ('age', 'severity')
    """

    name: str = ""
    digest: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a text; got {short_repr(self.name)}")
        if self.digest:
            checked_digest("digest", self.digest)
        set_fields(self, columns=checked_names("columns", self.columns))
        if taken := [name for name in self.columns if name in REPORT_COLUMNS]:
            raise ValueError(
                f"columns must not be {', '.join(REPORT_COLUMNS)}, which name other parts of a "
                f"report; got {taken[0]!r}"
            )
        if self.columns and not self.digest:
            raise ValueError("digest must be that of the map's bytes where columns are named")


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The terms of one revision of a protocol, whose tables are `plain`."""

    plain: dict[str, Any]
    name: str
    horizon: int
    episodes: int
    budget: int
    approval: Approval
    intake: Intake
    stopping: tuple[StoppingRule, ...]
    actions: tuple[str, ...] = ()

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Terms":
        return _terms(canonical(plain))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text of the tables."""
        return digest_of(canonical(self.plain))

    @property
    def simulation(self) -> str:
        """The digest of the report of a simulation made beforehand, or nothing."""
        return str(self.plain.get("simulation", {}).get("digest", ""))

    @property
    def features(self) -> str:
        """The digest of the feature map of raw observations, or nothing."""
        table = self.plain.get("features", {})
        return str(table.get("digest", "")) if table.get("columns") else ""

    @property
    def control_action(self) -> int | None:
        """The place of the action that the control is; None if there is none, or a policy."""
        plays = self.plain.get("recipe", {}).get("control", {}).get("plays")
        if plays in self.actions:
            return self.actions.index(plays)
        return plays if isinstance(plays, int) else None

    @property
    def control_share(self) -> float:
        """The control's share of the episodes that it and learned members play.

        0 if there is no control, or no learned member plays.
        """
        recipe = self.plain.get("recipe", {})
        control, floor = recipe.get("control", {}).get("share", 0.0), recipe.get("floor", 0.0)
        return float(control / (1.0 - floor)) if control and control + floor < 1.0 else 0.0

    @property
    def fixed(self) -> dict[str, Any]:
        """The tables that no amendment may change."""
        kept = {name: table for name, table in self.plain.items() if name not in AMENDABLE}
        return kept | {"task": self.plain["task"] | {"episodes": None}}


@lru_cache(maxsize=64)
def _terms(text: str) -> Terms:
    """Return the terms of a canonical text: a ledger is read more often than it is amended."""
    plain = json.loads(text)
    task = plain["task"]
    return Terms(
        plain=plain,
        name=plain["name"],
        horizon=whole("horizon", task["horizon"], least=1),
        episodes=whole("episodes", task["episodes"], least=1),
        budget=whole("deployments", plain["budget"]["deployments"], least=0),
        approval=Approval(**plain.get("approval", {})),
        intake=Intake(**plain.get("intake", {})),
        stopping=tuple(map(rule_of, plain.get("stopping", ()))),
        actions=tuple(task.get("actions", ())),
    )
