"""Access: accounts, roles, sessions, invitations, tokens and passkeys of a store."""

from rareswitch.campaigns.access.access import Access
from rareswitch.campaigns.access.accounts import Account
from rareswitch.campaigns.access.errors import (
    AccessError,
    ForbiddenError,
    SignInError,
    TooManyError,
    UnknownError,
)
from rareswitch.campaigns.access.invitations import Invitation
from rareswitch.campaigns.access.log import LogEntry
from rareswitch.campaigns.access.passkeys import Passkey
from rareswitch.campaigns.access.roles import (
    ACTIONS,
    ALLOWED,
    NOBODY,
    ROLES,
    Grant,
    Principal,
    operator,
)
from rareswitch.campaigns.access.sessions import Session
from rareswitch.campaigns.access.tokens import Token

__all__ = [
    "ACTIONS", "ALLOWED", "NOBODY", "ROLES", "Access", "AccessError", "Account", "ForbiddenError",
    "Grant", "Invitation", "LogEntry", "Passkey", "Principal", "Session", "SignInError", "Token",
    "TooManyError", "UnknownError", "operator",
]  # fmt: skip
