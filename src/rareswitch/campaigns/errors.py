"""Errors of campaigns: a sentence for people, a `code` for programs, and the fields it is about."""

import re
from typing import Any, ClassVar


class CampaignError(Exception):
    """The campaign refuses, and says why.

    `code` is the name of the class for programs; `fields` hold the values that a program needs to
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
        """The error as JSON holds it."""
        return {"error": str(self), "code": self.code, **self.fields}


class UnreadableError(CampaignError, ValueError):
    """The input is not a report at all; nothing was recorded, and the register does not have it."""


class RefusedError(CampaignError, ValueError):
    """The report is not an episode of this campaign; the register of refusals has it."""


class ConflictError(CampaignError):
    """Other content is recorded under that name already, and nothing is overwritten."""


class NotAllowedError(CampaignError):
    """The protocol does not allow it now."""


class MovedError(NotAllowedError):
    """Another version is in force than the version that the decision was about."""


class SignatureError(NotAllowedError):
    """The signature does not hold for this decision; it has to be made again."""


class UnavailableError(CampaignError):
    """The store cannot be read or written; nothing was half-written, and a later try may succeed.

    `full` says that there is no room.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message, full=full)
        self.full = full


class DamagedError(CampaignError):
    """The store holds something that this library cannot have written."""
