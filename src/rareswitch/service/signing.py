"""Signatures over HTTP: the person who signs, and the proof of identity.

A person signs a decision with their password, or with a passkey. The passkey's challenge binds the
decision to the candidate, the protocol, the head of the ledger and the meaning.
"""

from typing import Annotated, Any

import msgspec

from rareswitch.service.endpoint import Call, Struct
from rareswitch.service.problems import Problem

Base64 = Annotated[str, msgspec.Meta(max_length=8192, pattern="^[A-Za-z0-9_-]*$")]
Link = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class PasskeySignature(Struct):
    """The answer of an authenticator, in base64url, and the head of the ledger at that time."""

    credential: Base64
    authenticator_data: Base64
    client_data: Base64
    signature: Base64
    head: Link


class Signature(Struct):
    """The person's password, or a passkey's signature."""

    password: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] | None = None
    passkey: PasskeySignature | None = None


def person_of(call: Call) -> str:
    """Return the name of the calling person; raise for the token of a device."""
    if call.principal.account is None:
        raise Problem(
            403, "a person must sign in, or use the token of an account, for the ledger",
            code="no-person",
        )  # fmt: skip
    return call.principal.name


def signature_of(call: Call, given: Signature | None, head: str) -> dict[str, Any]:
    """Return the ledger's form of a signature; raise unless it is the calling person's.

    `head` is the ledger's current head, stored with a password signature.
    """
    name, account, access = person_of(call), call.principal.account, call.service.access
    assert account is not None
    if given is None or (given.password is None) == (given.passkey is None):
        raise Problem(
            422, "signature must have a password or a passkey, and not both", code="unsigned",
            field="signature",
        )  # fmt: skip
    if given.password is not None:
        if not access.check_password(account, given.password):
            raise Problem(
                403, "the password is not that of your account", title="The password is wrong",
                code="signature", field="signature.password",
            )  # fmt: skip
        return {"method": "password", "head": head}
    assert given.passkey is not None
    key = access.signing_key(given.passkey.credential)
    if key is None or key["account"] != account:
        raise Problem(
            403, f"signature.passkey must be a passkey of {name}",
            title="The passkey is not yours", code="signature", field="signature.passkey",
        )  # fmt: skip
    told = msgspec.to_builtins(given.passkey)
    kept = {name: key[name] for name in ("key", "relying_party")}
    return {"method": "passkey", **told, **kept, "origin": call.service.settings.origin}
