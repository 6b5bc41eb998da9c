"""The returns of each version and the intake, counted row by row.

A cohort holds the returns of one version's episodes, as shares of the horizon, in the order of
their reports. A corrected episode keeps its first place and counts with its last return; a
withdrawn episode does not count. If the protocol has a control, the episodes of learned members
and of the control are also counted separately.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any

from rareswitch.campaigns.rulebook.comparison import Arm, Stratum
from rareswitch.campaigns.rulebook.rows import Head, canonical, digest_of
from rareswitch.campaigns.rulebook.running_mean import Place, RunningMean
from rareswitch.core.control import CONTROL, LEARNED

INTAKE = 0  # the cohort of all reports: 1 for a refused report, 0 for a recorded one
NOTHING = RunningMean()
COUNTED = ("episodes", "refusals")


class Cohorts:
    """The cohorts of a campaign after some rows and refusals.

    `control` is the control's share among its own and the learned members' episodes; 0 without a
    control. `changed` are the versions whose stored text is outdated.
    """

    def __init__(self, *, horizon: int, control: float = 0.0) -> None:
        self.horizon, self.control = horizon, control
        self._known: dict[int, RunningMean] = {}
        self._strata: dict[int, Stratum] = {}
        self.changed: set[int] = set()
        self.episodes = 0  # without withdrawn episodes

    def __getitem__(self, version: int) -> RunningMean:
        return self._known.get(version, NOTHING)

    @property
    def intake(self) -> RunningMean:
        """The share of refused reports since the campaign began or was reopened."""
        return self[INTAKE]

    @property
    def strata(self) -> dict[int, Stratum]:
        """The outcomes of learned members and of the control, by version."""
        return self._strata

    def record(self, version: int, total: float, role: str = LEARNED) -> Place:
        """Count a newly recorded episode; return its place, for a later correction.

        `role` is learned, control or floor.
        """
        known = self._known
        seen = known.get(version, NOTHING)
        place = seen.next_place
        if self.control:
            self._count(version, role, total, 1)
        self.episodes += 1
        known[version] = seen.add(place, total / self.horizon, 1)
        known[INTAKE] = known.get(INTAKE, NOTHING).after(0.0)
        self.changed |= {version, INTAKE}
        return place

    def refuse(self) -> None:
        """Count a newly refused report."""
        self._set(INTAKE, self[INTAKE].after(1.0))

    def correct(
        self,
        version: int,
        place: Place,
        before: float,
        after: float | None,
        role: str = LEARNED,
    ) -> None:
        """Change an episode's return; with `after` None, remove the episode."""
        seen = self[version].add(place, before / self.horizon, -1)
        if self.control:
            self._count(version, role, before, -1)
        if after is None:
            self.episodes -= 1
        else:
            seen = seen.add(place, after / self.horizon, 1)
            if self.control:
                self._count(version, role, after, 1)
        self._set(version, seen)

    def _count(self, version: int, role: str, total: float, sign: int) -> None:
        """Count a return in the arm of its role; the floor has none."""
        if (seen := self._strata.get(version)) is None:
            # The mean of all earlier returns and one return of ½.
            means = [one for number, one in self._known.items() if number != INTAKE]
            number = 1 + sum(one.observations for one in means)
            seen = Stratum((0.5 + sum(one.total for one in means)) / number)
        if role == LEARNED:
            seen = seen._replace(learned=seen.learned.add(total / self.horizon, sign))
        elif role == CONTROL:
            seen = seen._replace(control=seen.control.add(total / self.horizon, sign))
        self._strata[version] = seen

    def reopen(self) -> None:
        """Forget all refusals so far: a reopened campaign restarts its intake."""
        self._set(INTAKE, NOTHING)

    def _set(self, version: int, seen: RunningMean) -> None:
        self._known[version] = seen
        self.changed.add(version)

    def texts(self, heads: Mapping[str, Head]) -> dict[int, str]:
        """Return the changed cohorts as sealed texts; the intake's text names the counted rows."""
        summary = {
            "intake": list(self[INTAKE]),
            "episodes": self.episodes,
            "cohorts": len(self._known.keys() - {INTAKE}),
            "counted": {name: list(heads[name]) for name in COUNTED},
        }
        kept = {version: canonical(self._sums(version)) for version in self.changed - {INTAKE}}
        kept[INTAKE] = canonical(summary)
        return {version: f"{digest_of(text)} {text}" for version, text in kept.items()}

    def _sums(self, version: int) -> list[Any]:
        sums: list[Any] = list(self[version])
        if (stratum := self._strata.get(version)) is not None:
            sums.append([stratum.centre, list(stratum.learned), list(stratum.control)])
        return sums

    def load(self, texts: Mapping[int, str], heads: Mapping[str, Head]) -> bool:
        """Load all cohorts from `texts`; return False if they are damaged or count other rows."""
        try:
            opened = {version: json.loads(_unseal(text)) for version, text in texts.items()}
            summary = opened.pop(INTAKE)
            means = len(RunningMean._fields)
            known = {version: RunningMean(*sums[:means]) for version, sums in opened.items()}
            strata = {version: _stratum(*sums[means:]) for version, sums in opened.items()}
            if any((one is not None) != bool(self.control) for one in strata.values()):
                return False  # an old store did not count arms
            total = sum(seen.observations for seen in known.values())
            if (len(known), total) != (summary["cohorts"], summary["episodes"]):
                return False
            if any(list(heads[name]) != summary["counted"][name] for name in COUNTED):
                return False
            self._known = known | {INTAKE: RunningMean(*summary["intake"])}
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            return False
        self._strata = {version: one for version, one in strata.items() if one is not None}
        self.episodes = total
        self.changed.clear()
        return True


def _stratum(sums: list[Any] | None = None) -> Stratum | None:
    """Return the arms of a version from its stored sums."""
    return None if sums is None else Stratum(sums[0], Arm(*sums[1]), Arm(*sums[2]))


def _unseal(sealed: str) -> str:
    seal, _, text = sealed.partition(" ")
    if digest_of(text) != seal:
        raise ValueError("it was altered")
    return text


def in_their_order(rows: Iterable[Any], refusals: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of the log and the refusals in the order in which they were written."""
    return merge(rows, refusals, key=attrgetter("seq"))
