"""Access: everything that a service needs about the people and devices of a store."""

from rareswitch.campaigns.access.invitations import Invitations
from rareswitch.campaigns.access.passkeys import Passkeys
from rareswitch.campaigns.access.sessions import Sessions
from rareswitch.campaigns.access.tokens import Tokens


class Access(Invitations, Sessions, Tokens, Passkeys):
    """The accounts, sessions, invitations, tokens and passkeys of a store.

    `by` is the acting principal, or the name of an account. Secrets are returned once; the store
    keeps only their hashes. Threads and processes may share one store.
    """
