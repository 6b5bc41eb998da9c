"""Roles, the actions that each role allows, and the principal who acts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rareswitch.campaigns.rulebook.names import checked_name, checked_person
from rareswitch.support.arguments import one_of, set_fields, short_repr

EVERYWHERE = "*"  # in place of a campaign's name: all campaigns of the store
PUBLIC = "public"
ROLES = ("administrator", "statistician", "approver", "site", "monitor", "auditor", PUBLIC)
GRANTED = ROLES[:-1]  # the protocol alone makes a campaign public
# These roles sign decisions and give roles, so a token has them only through an account, and loses
# them with it.
PERSONAL = ("approver", "administrator")
_READERS = ("administrator", "statistician", "approver", "monitor", "auditor")
# The roles that allow each action. Every route of the service names its action.
ALLOWED: dict[str, frozenset[str]] = {
    action: frozenset(roles)
    for action, roles in {
        "look": ROLES,
        "policy": (*_READERS, "site"),
        "assign": ("site",),
        "report": ("site",),
        "correct": ("site", "administrator"),
        "forget": ("administrator",),
        "create": ("administrator",),
        "accounts": ("administrator",),
        "unblinded": _READERS,
        "propose": ("statistician",),
        "amend": ("administrator", "statistician"),
        "reopen": ("administrator", "statistician"),
        "approve": ("approver",),
        "comment": ("statistician", "approver", "monitor", "auditor"),
        "rollback": ("approver", "monitor"),
        "stop": ("approver", "monitor", "administrator"),
        "export": ("administrator", "statistician", "monitor", "auditor"),
    }.items()
}
ACTIONS = tuple(ALLOWED)


@dataclass(frozen=True)
class Grant:
    """A role in one campaign, or in all campaigns ("*"); the role "site" names its site.

    >>> Grant("trial", "site", "berlin").plain
    {'campaign': 'trial', 'role': 'site', 'site': 'berlin'}
    """

    campaign: str
    role: str
    site: str = ""

    def __post_init__(self) -> None:
        if self.campaign != EVERYWHERE:
            checked_name("campaign", self.campaign)
        set_fields(self, role=one_of("role", self.role, GRANTED))
        if self.role != "site" and self.site:
            raise ValueError(
                f"site belongs to the role site; got {short_repr(self.site)} with {self.role}"
            )
        if self.role == "site" and ":" in checked_name("site", self.site):
            raise ValueError(
                f"site must have no colon: episode ids are site:number; got {short_repr(self.site)}"
            )

    def covers(self, other: "Grant") -> bool:
        """Return whether this grant allows everything that the other allows."""
        same = (self.role, self.site) == (other.role, other.site)
        return same and self.campaign in (EVERYWHERE, other.campaign)

    @property
    def plain(self) -> dict[str, str]:
        """The grant as a JSON object."""
        found = {"campaign": self.campaign, "role": self.role}
        return found | {"site": self.site} if self.site else found

    @classmethod
    def read(cls, given: Any) -> "Grant":
        """Return the grant of a table in the form of `plain`."""
        if not isinstance(given, dict):
            raise TypeError(f"grant must be a table of campaign and role; got {short_repr(given)}")
        if unknown := sorted(map(str, set(given) - {"campaign", "role", "site"})):
            raise ValueError(
                f"grant must have campaign, role and for the role site a site; got {unknown[0]!r}"
            )
        return cls(given.get("campaign", ""), given.get("role", ""), given.get("site", ""))

    def __str__(self) -> str:
        where = "all campaigns" if self.campaign == EVERYWHERE else self.campaign
        return f"{self.role}{f' {self.site}' if self.site else ''} in {where}"


def checked_grants(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """Return distinct grants, sorted, with at most one site for each campaign."""
    if isinstance(grants, Grant | str):
        raise TypeError(f"grants must be a list of Grant; got {short_repr(grants)}")
    found = list(dict.fromkeys(grants))
    sites: dict[str, str] = {}
    for grant in found:
        if not isinstance(grant, Grant):
            raise TypeError(f"grants must be a list of Grant; got {short_repr(grant)}")
        if grant.role == "site" and sites.setdefault(grant.campaign, grant.site) != grant.site:
            raise ValueError(
                f"grants must name one site for a campaign; got {sites[grant.campaign]} and "
                f"{grant.site} in {grant.campaign}"
            )
    return tuple(sorted(found, key=lambda grant: (grant.campaign, grant.role, grant.site)))


@dataclass(frozen=True)
class Principal:
    """The person, token or stranger behind a request, with roles.

    `account` identifies a person (the `person_key` of the name); it is None for a device's token.
    `via` is "session", "token", "nobody", or "machine" for a command on the machine itself.

    >>> site = Principal("token gateway", None, (Grant("trial", "site", "berlin"),), "token")
    >>> site.may("report", "trial"), site.may("unblinded", "trial"), site.site("trial")
    (True, False, 'berlin')
    """

    name: str
    account: str | None
    grants: tuple[Grant, ...]
    via: str
    public: frozenset[str] = frozenset()  # campaigns that the protocol opens to everybody

    def roles(self, campaign: str) -> frozenset[str]:
        """Return the roles in a campaign; for "*", the roles in all campaigns."""
        if (known := self._roles.get(campaign)) is None:
            own = (grant.role for grant in self.grants if grant.campaign in (EVERYWHERE, campaign))
            known = frozenset(own) | ({PUBLIC} if campaign in self.public else set())
            if len(self._roles) < 1000:  # strangers choose the names of campaigns
                self._roles[campaign] = known
        return known

    def may(self, action: str, campaign: str) -> bool:
        """Return whether a role in the campaign allows the action."""
        if action not in ALLOWED:
            raise ValueError(
                f"action must be one of {', '.join(ACTIONS)}; got {short_repr(action)}"
            )
        return not ALLOWED[action].isdisjoint(self.roles(campaign))

    def site(self, campaign: str) -> str | None:
        """Return the site in a campaign; the campaign's own grant takes precedence over "*"."""
        own = {grant.campaign: grant.site for grant in self.grants if grant.role == "site"}
        return own.get(campaign, own.get(EVERYWHERE))

    def may_give(self, grant: Grant) -> bool:
        """Return whether the principal may give a role: its own role, or any as administrator."""
        return self.may("accounts", EVERYWHERE) or any(own.covers(grant) for own in self.grants)

    def where_public(self, campaign: str, terms: Any) -> "Principal":
        """Return the principal with the role public in a campaign whose protocol is public."""
        if not getattr(terms, "public", False) or campaign in self.public:
            return self
        return replace(self, public=self.public | {campaign})

    @cached_property
    def _roles(self) -> dict[str, frozenset[str]]:
        return {}


NOBODY = Principal("nobody", None, (), "nobody")


def operator(name: str) -> Principal:
    """Return the person at the keyboard of the machine that holds the store."""
    grants = (Grant(EVERYWHERE, "administrator"),)
    return Principal(checked_person("by", name), None, grants, "machine")
