"""The terms of a protocol that rules need: budget, approval, intake, analysis, stopping, sizes.

`Terms` is read from the plain tables of a protocol. It builds no schedule and no feature map, so
reading a stranger's record imports no code that the record names.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.names import checked_digest, checked_names, checked_text
from rareswitch.campaigns.rulebook.rows import canonical, digest_of
from rareswitch.campaigns.rulebook.stopping import StoppingRule, rule_of
from rareswitch.support.arguments import flag, one_of, real, set_fields, short_repr, whole

LATE = ("learn", "record")
MISSING = ("reported", "zero", "worst")
# The tables that an amendment may change; recorded episodes do not depend on them.
AMENDABLE = ("episodes", "schedule", "budget", "approval", "intake", "stopping", "access")
# The columns of a CSV file of reports that are not part of an observation.
REPORT_COLUMNS = (
    "id", "step", "action", "reward", "propensity", "recommended", "version", "member", "site",
    "began", "ended", "participant",
)  # fmt: skip
# Further columns of such a file. If the protocol has [analysis], an observation's columns cannot
# have these names.
ANALYSIS_COLUMNS = ("subgroup", "events")


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Which reports are recorded.

    With `late` "learn", fits use episodes of a replaced version; with "record", the log only keeps
    them. An unassigned episode may name an earlier version while at most `grace` episodes were
    recorded since its replacement. With `assigned`, only assigned episodes are recorded. With
    `concealed` too, a salt drawn at the assignment decides the member, so nobody can choose an
    episode's id to get a treatment.
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


@dataclass(frozen=True, kw_only=True)
class Subgroups:
    """The subgroups of participants, by their names.

    Without a `column`, reports name the subgroup. With it, the subgroup follows from that column of
    the first raw observation: a value below the first of the `cuts` is in the first subgroup, a
    value equal to or above the last cut is in the last.

    >>> Subgroups(names=["mild", "severe"], column="severity", cuts=[2.0]).of(2)
    'severe'
    """

    names: tuple[str, ...]
    column: str = ""
    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        names = _normal_names("names", self.names)
        if not names:
            raise ValueError("names must have at least one subgroup; got none")
        if not isinstance(self.column, str):
            raise TypeError(f"column must be a text; got {short_repr(self.column)}")
        if not isinstance(self.cuts, list | tuple):
            raise TypeError(f"cuts must be a list of numbers; got {short_repr(self.cuts)}")
        cuts = tuple(real("cuts", cut) for cut in self.cuts)
        if any(high <= low for low, high in pairwise(cuts)):
            raise ValueError(f"cuts must be strictly increasing; got {short_repr(list(cuts))}")
        if bool(cuts) != bool(self.column):
            raise ValueError(
                "column and cuts must be given together, or neither; got "
                f"{'cuts' if cuts else 'column'} alone"
            )
        if self.column and len(names) != len(cuts) + 1:
            raise ValueError(f"names must be one more than cuts, {len(cuts) + 1}; got {len(names)}")
        set_fields(self, names=names, cuts=cuts)

    def of(self, value: float) -> str:
        """Return the subgroup of a value of the column."""
        return self.names[bisect_right(self.cuts, value)]

    @property
    def plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"names": list(self.names)}
        return plain | ({"column": self.column, "cuts": list(self.cuts)} if self.column else {})


@dataclass(frozen=True, kw_only=True)
class AnalysisTerms:
    """The plan of the analysis, which no amendment changes.

    `confidence` is that of the two-sided intervals at the end of the study. `missing` decides how
    an assigned episode without a report counts there: "reported" leaves it out, "zero" counts a
    return of 0, and "worst" counts 0 for a learned member and the largest return for the control.
    `events` are the kinds of adverse event that a report may count.

    >>> AnalysisTerms(events=["serious"], subgroups=Subgroups(names=["mild", "severe"])).events
    ('serious',)
    """

    confidence: float = 0.95
    missing: str = "reported"
    events: tuple[str, ...] = ()
    subgroups: Subgroups | None = None

    def __post_init__(self) -> None:
        events = _normal_names("events", self.events)
        if wrong := [name for name in events if ":" in name or ";" in name]:
            raise ValueError(f"events must be names without : and ;; got {wrong[0]!r}")
        if self.subgroups is not None and not isinstance(self.subgroups, Subgroups):
            raise TypeError(f"subgroups must be Subgroups; got {short_repr(self.subgroups)}")
        set_fields(
            self,
            confidence=real("confidence", self.confidence, least=0.5, below=1.0),
            missing=one_of("missing", self.missing, MISSING),
            events=events,
        )

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "AnalysisTerms":
        """Return the analysis of the table [analysis] of a protocol."""
        given = _only(table, "analysis", cls)
        if "subgroups" in given:
            subgroups = _only(given["subgroups"], "subgroups", Subgroups)
            if "names" not in subgroups:
                raise ValueError("subgroups needs names")
            try:
                given["subgroups"] = Subgroups(**subgroups)
            except (TypeError, ValueError) as error:
                raise type(error)(f"subgroups: {error}") from None
        return cls(**given)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse a subgroup column that is not in an observation, and columns with taken names."""
        if taken := [name for name in columns if name in ANALYSIS_COLUMNS]:
            raise ValueError(
                f"[features] columns must not be {' or '.join(ANALYSIS_COLUMNS)} where the "
                f"protocol has [analysis]; got {taken[0]!r}"
            )
        column = "" if self.subgroups is None else self.subgroups.column
        if column and column not in columns:
            raise ValueError(
                "subgroups: column must be one of [features] columns "
                f"({', '.join(columns) or 'the protocol has none'}); got {column!r}"
            )

    @property
    def plain(self) -> dict[str, Any]:
        """The table [analysis], without keys that are not set."""
        plain: dict[str, Any] = {"confidence": self.confidence, "missing": self.missing}
        if self.events:
            plain["events"] = list(self.events)
        if self.subgroups is not None:
            plain["subgroups"] = self.subgroups.plain
        return plain


def _only(table: Any, name: str, kind: type[Any]) -> dict[str, Any]:
    """Return a table, or raise if a key is not a field of a dataclass."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{name} must be a table; got {short_repr(table)}")
    known = [part.name for part in fields(kind)]
    if unknown := [key for key in table if key not in known]:
        raise ValueError(f"{name} has no key {unknown[0]!r}; it takes {', '.join(known)}")
    return dict(table)


def _normal_names(what: str, given: Any) -> tuple[str, ...]:
    """Return distinct names in Unicode's NFKC form, as in reports."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"{what} must be a list of names; got {short_repr(given)}")
    return checked_names(what, [checked_text(what, name) for name in given])


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
    analysis: AnalysisTerms = AnalysisTerms()
    public: bool = False  # whether everybody may see the campaign's status

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Terms":
        return _terms(canonical(plain))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical text of the tables."""
        return digest_of(canonical(self.plain))

    @property
    def simulation(self) -> str:
        """The digest of the report of an earlier simulation, or an empty text."""
        return str(self.plain.get("simulation", {}).get("digest", ""))

    @property
    def features(self) -> str:
        """The digest of the feature map of raw observations, or an empty text."""
        table = self.plain.get("features", {})
        return str(table.get("digest", "")) if table.get("columns") else ""

    @property
    def control_action(self) -> int | None:
        """The index of the control's action; None without a control, or if it is a policy."""
        plays = self.plain.get("recipe", {}).get("control", {}).get("plays")
        if plays in self.actions:
            return self.actions.index(plays)
        return plays if isinstance(plays, int) else None

    @property
    def control_share(self) -> float:
        """The control's share among its own and the learned members' episodes.

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
    """Return the terms of a canonical text; cached, because amendments are rare."""
    plain = json.loads(text)
    task, analysis = plain["task"], AnalysisTerms()
    if "analysis" in plain:
        analysis = AnalysisTerms.of(plain["analysis"])
        analysis.check_columns(plain.get("features", {}).get("columns", ()))
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
        analysis=analysis,
        public=flag("public", plain.get("access", {}).get("public", False)),
    )
