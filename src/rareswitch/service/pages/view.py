"""The viewer of a page, and the message of the last request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Viewer(Protocol):
    """The principal of a request, as pages see it."""

    @property
    def name(self) -> str: ...

    def may(self, action: str, campaign: str) -> bool:
        """Return whether the principal may do an action in a campaign."""
        ...

    def site(self, campaign: str) -> str | None:
        """Return the site of the principal, or None."""
        ...


@dataclass(frozen=True)
class View:
    """One request for a page.

    `csrf` is the hidden value of every form. `message` and `error` are at the top of the page.
    `passkeys` are the viewer's credential ids (base64url). `typed` has the fields of a refused
    form, to fill it again.
    """

    principal: Viewer
    csrf: str = ""
    message: str = ""
    error: str = ""
    signed_in: bool = True
    passkeys: tuple[str, ...] = ()
    typed: Mapping[str, str] = field(default_factory=dict)

    def may(self, action: str, campaign: Any = "*") -> bool:
        """Return whether the viewer may do an action, in one campaign or in all."""
        return self.principal.may(action, getattr(campaign, "name", campaign))

    def typed_in(self, form: str, name: str, default: str = "") -> str:
        """Return the text of a field in a refused form."""
        return self.typed.get(name, default) if self.typed.get("form") == form else default
