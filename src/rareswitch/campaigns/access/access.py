"""Access: all that a service asks about the people and devices of a store."""

from rareswitch.campaigns.access.invitations import Invitations
from rareswitch.campaigns.access.passkeys import Passkeys
from rareswitch.campaigns.access.sessions import Sessions
from rareswitch.campaigns.access.tokens import Tokens


class Access(Invitations, Sessions, Tokens, Passkeys):
    """The accounts, sessions, invitations, tokens and passkeys of a store.

    `by` is the principal who acts, or the name of an account. Secrets are returned once, and the
    store keeps their hashes. Any number of threads and processes may use one store.
    """
