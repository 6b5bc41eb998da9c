"""Errors of access; none reveals whether a name has an account."""

from rareswitch.campaigns.errors import CampaignError


class AccessError(CampaignError):
    """Access is refused."""


class SignInError(AccessError):
    """The name, password, link or passkey does not open an account."""


class ForbiddenError(AccessError):
    """No role of the caller allows the action."""


class TooManyError(AccessError):
    """Too many wrong passwords were tried; `retry_after` is the wait in seconds."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message, retry_after=retry_after)
        self.retry_after = retry_after


class UnknownError(AccessError):
    """There is no such account, token or passkey."""
