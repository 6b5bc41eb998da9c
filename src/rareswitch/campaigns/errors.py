"""Errors of campaigns: a sentence for people, and a `code` and fields for programs."""

import re
from typing import Any, ClassVar


class CampaignError(Exception):
    """The base class of refusals by a campaign; the message is the reason.

    `code` names the class for programs; `fields` hold the values that a program needs to
    go on, such as the number of a refusal or the version in force.
    """

    code: ClassVar[str] = "campaign"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub("(?<!^)(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields

    @property
    def plain(self) -> dict[str, Any]:
        """The error as a JSON object."""
        return {"error": str(self), "code": self.code, **self.fields}


class UnreadableError(CampaignError, ValueError):
    """The input is not a report; nothing was recorded, not even in the register of refusals."""


class RefusedError(CampaignError, ValueError):
    """The report is not a valid episode of this campaign; it is in the register of refusals."""


class ConflictError(CampaignError):
    """Different content is already recorded under that name; nothing was overwritten."""


class NotAllowedError(CampaignError):
    """The protocol does not allow the action now."""


class MovedError(NotAllowedError):
    """The decision was about a version or protocol that has changed since."""


class SignatureError(NotAllowedError):
    """The signature is invalid for this decision; sign again."""


class UnavailableError(CampaignError):
    """The store cannot be read or written; nothing was half-written, and a retry may succeed.

    `full` means that no space is left.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message, full=full)
        self.full = full


class DamagedError(CampaignError):
    """The store holds data that this library cannot have written."""
