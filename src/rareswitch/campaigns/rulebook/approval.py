"""How proposals are approved: signers, their number, expiry, and method of signature."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from rareswitch.campaigns.rulebook.names import checked_names, checked_person, person_key
from rareswitch.campaigns.rulebook.signatures import PASSKEY, PASSWORD
from rareswitch.support.arguments import flag, one_of, set_fields, short_repr, whole

APPROVALS = ("schedule", "second-person")
METHODS = ("any", PASSWORD, PASSKEY)  # from weak to strong
# These keys are left out if they are not set, so old protocols keep their digest.
OPTIONAL = ("signers", "quorum", "groups", "expires_after", "signature", "countersign_rollbacks")


class Owed(NamedTuple):
    """The missing signatures of a proposal: their number, and the groups that have not signed."""

    signatures: int
    groups: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Approval:
    """How a candidate comes into force.

    The "schedule" approves alone, or a "second-person" who did not propose the candidate signs. An
    amendment and the reopening of a stopped campaign then need two persons too. After a rejection
    the schedule is evaluated again when `retry_after` more episodes are recorded. If `signers` are
    named, only they decide.

    A candidate and an amendment need `quorum` signatures besides the proposer's, and one from each
    of the `groups`, which share no person. A candidate expires `expires_after` rows after its
    entry. With `signature` "password", decisions are signed by password or passkey; with "passkey",
    by passkey. A rollback is in force at once; with `countersign_rollbacks`, no candidate is
    deployed until another person countersigns it.

    >>> both = Approval(by="second-person", groups={"clinic": ["ana"], "statistics": ["ben", "cy"]})
    >>> both.owed(["ana"])
    Owed(signatures=1, groups=('statistics',))
    """

    by: str = "schedule"
    retry_after: int = 1
    signers: tuple[str, ...] = ()
    quorum: int = 1
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    expires_after: int | None = None
    signature: str = "any"
    countersign_rollbacks: bool = False

    def __post_init__(self) -> None:
        expires = self.expires_after
        set_fields(
            self,
            by=one_of("by", self.by, APPROVALS),
            retry_after=whole("retry_after", self.retry_after, least=1),
            signers=_persons("signers", self.signers),
            quorum=whole("quorum", self.quorum, least=1),
            groups=_groups(self.groups),
            expires_after=None if expires is None else whole("expires_after", expires, least=1),
            signature=one_of("signature", self.signature, METHODS),
            countersign_rollbacks=flag("countersign_rollbacks", self.countersign_rollbacks),
        )
        if self.two_persons:
            self._check_possible()
        else:
            for name in ("quorum", "groups", "countersign_rollbacks"):
                if name in self.plain:
                    raise ValueError(f'{name} needs by = "second-person"; got by = {self.by!r}')

    def _check_possible(self) -> None:
        """Refuse terms under which no amendment by a signer could be approved."""
        names = self.signers
        if not names:
            return
        if len(names) == 1:
            raise ValueError(f"signers must be two persons or more; got {names[0]} alone")
        if self.quorum > len(names) - 1:
            raise ValueError(
                f"quorum must be at most {len(names) - 1}, the signers besides a proposer; got "
                f"{self.quorum}"
            )
        for group, persons in self.groups.items():
            if others := [name for name in persons if not self.may_sign(name)]:
                raise ValueError(f"groups: {group} must be signers; {others[0]} is not one")

    @property
    def two_persons(self) -> bool:
        return self.by == "second-person"

    @property
    def several(self) -> bool:
        """Whether a proposal may need more than one approval."""
        return self.quorum > 1 or bool(self.groups)

    @property
    def for_reopening(self) -> "Approval":
        """The approval of a reopening: one person besides the proposer."""
        return replace(self, quorum=1, groups={})

    def may_sign(self, name: str) -> bool:
        return not self.signers or person_key(name) in map(person_key, self.signers)

    def owed(self, approvers: Iterable[str]) -> Owed:
        """Return the signatures that are missing after these persons' approvals."""
        keys = {person_key(name) for name in approvers}
        groups = tuple(
            group
            for group, persons in self.groups.items()
            if not keys & {person_key(name) for name in persons}
        )
        return Owed(max(self.quorum - len(keys), len(groups), 0), groups)

    @property
    def plain(self) -> dict[str, Any]:
        """The table [approval], without optional keys that are not set."""
        plain: dict[str, Any] = {}
        defaults: dict[str, Any] = {"groups": {}}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in OPTIONAL or value != defaults.get(one.name, one.default):
                plain[one.name] = value
        if "signers" in plain:
            plain["signers"] = list(self.signers)
        if "groups" in plain:
            plain["groups"] = {group: list(names) for group, names in self.groups.items()}
        return plain


def _persons(what: str, given: Any) -> tuple[str, ...]:
    """Return the names of different persons."""
    listed = isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
    if not listed:
        raise TypeError(f"{what} must be a list of names; got {short_repr(given)}")
    names = tuple(checked_person(what, name) for name in given)
    if len({person_key(name) for name in names}) < len(names):
        raise ValueError(f"{what} must be different persons; got {', '.join(names)}")
    return names


def _groups(given: Any) -> dict[str, tuple[str, ...]]:
    """Return the persons of each group, in the order of the names of the groups."""
    if not isinstance(given, Mapping):
        raise TypeError(f"groups must be a table of lists of names; got {short_repr(given)}")
    names: Sequence[str] = checked_names("groups", sorted(given))
    groups = {name: _persons(f"groups: {name}", given[name]) for name in names}
    if empty := [name for name, persons in groups.items() if not persons]:
        raise ValueError(f"groups must not be empty; {empty[0]} is")
    everybody = [person for persons in groups.values() for person in persons]
    if len({person_key(name) for name in everybody}) < len(everybody):
        raise ValueError("groups must not share a person: each signs for one group")
    return groups
