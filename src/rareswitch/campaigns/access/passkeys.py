"""Passkeys: registration by WebAuthn, and the public keys that verify signatures.

The rulebook checks the signature of a decision from the ledger alone. This module registers the
public key of a person's authenticator, once, with a challenge that the store keeps as a hash.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from rareswitch.campaigns.access.accounts import (
    Account,
    Accounts,
    acting,
    found_account,
    found_row,
    key_of,
    person_of,
)
from rareswitch.campaigns.access.errors import ForbiddenError, SignInError, UnknownError
from rareswitch.campaigns.access.log import time_text
from rareswitch.campaigns.access.roles import EVERYWHERE, Principal
from rareswitch.campaigns.access.tables import challenges, passkeys
from rareswitch.campaigns.errors import ConflictError
from rareswitch.campaigns.rulebook.names import MOST_CHARACTERS, checked_text
from rareswitch.campaigns.rulebook.signatures import (
    DOMAIN,
    broken_key,
    from_base64url,
    to_base64url,
)
from rareswitch.support.arguments import short_repr
from rareswitch.support.extras import require

if TYPE_CHECKING:
    from fido2.server import Fido2Server
    from fido2.webauthn import AuthenticatorData

SECONDS = 300.0  # lifetime of a challenge
MOST_PASSKEYS = 20  # for each account
LONGEST_CREDENTIAL = 1023  # bytes, by WebAuthn
ES256, EDDSA = -7, -8  # numbers of the algorithms in COSE
# By type, algorithm and curve in COSE: the algorithm's name, and the parts of the raw key.
_KEYS: list[tuple[list[int], tuple[str, tuple[int, ...]]]] = [
    ([2, ES256, 1], ("ES256", (-2, -3))),
    ([1, EDDSA, 6], ("EdDSA", (-2,))),
]
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^:/]*)(:[0-9]{1,5})?")
_ANSWER = "answer must be that of navigator.credentials.create"


@dataclass(frozen=True, kw_only=True)
class Passkey:
    """A registered passkey; `credential` and `public` are in base64url.

    `public` is 04 ‖ x ‖ y for ES256, and the 32 bytes of RFC 8032 for EdDSA.
    """

    credential: str
    account: str
    algorithm: str
    public: str
    relying_party: str
    label: str
    created: str

    @property
    def plain(self) -> dict[str, Any]:
        """The passkey as a JSON object."""
        return dict(vars(self))


class Passkeys(Accounts):
    """The passkeys of a store's accounts."""

    def passkey_options(self, account: Account | str, rp_id: str, origin: str) -> dict[str, Any]:
        """Return the options of navigator.credentials.create as JSON values.

        `rp_id` is the domain of the passkey, and `origin` the address of the page. The challenge is
        valid for this account, once, for five minutes.
        """
        _check_origin(rp_id, origin)
        challenge, now = secrets.token_bytes(32), self.clock()
        with self.store.changing("rareswitch-challenges") as connection:
            found = found_account(connection, account)
            row = found_row(connection, account)
            if found.disabled or row is None:
                raise ForbiddenError(f"the account of {found.name} is disabled")
            connection.execute(challenges.delete().where(challenges.c.expires <= now))
            connection.execute(
                challenges.insert().values(
                    digest=_digest(challenge),
                    account=found.account,
                    relying_party=rp_id,
                    origin=origin,
                    expires=now + SECONDS,
                )
            )
        return _options(_server(rp_id, origin), row, challenge, self.passkeys(found))

    def add_passkey(
        self, account: Account | str, answer: Mapping[str, Any], *, label: str = "passkey"
    ) -> Passkey:
        """Register the passkey that answers a challenge of `passkey_options`.

        `answer` is the JSON of navigator.credentials.create. The challenge is used up, even by a
        wrong answer.
        """
        label = checked_text("label", label, most=MOST_CHARACTERS).strip()
        asked = self._spend_challenge(key_of(account), _challenge_of(answer))
        data = _registered(_server(asked.relying_party, asked.origin), asked.challenge, answer)
        row = _key_row(data, asked.relying_party)
        with self.changing() as connection:
            found = found_account(connection, asked.account)
            if found.disabled:
                raise ForbiddenError(f"the account of {found.name} is disabled")
            mine = sa.select(sa.func.count()).where(passkeys.c.account == found.account)
            if (connection.execute(mine).scalar() or 0) >= MOST_PASSKEYS:
                raise ConflictError(
                    f"an account has at most {MOST_PASSKEYS} passkeys; remove one of them first"
                )
            same = sa.select(passkeys.c.credential).where(
                sa.or_(
                    passkeys.c.credential == row["credential"], passkeys.c.public == row["public"]
                )
            )
            if connection.execute(same).first() is not None:
                raise ConflictError("the passkey is registered already")
            row |= {"account": found.account, "label": label, "created": self.clock()}
            connection.execute(passkeys.insert().values(**row))
            told = {"credential": row["credential"], "label": label}
            self._log(connection, person_of(found), "passkey-added", found.name, **told)
        made = self.passkey(row["credential"])
        assert made is not None
        return made

    def passkeys(self, account: Account | str) -> list[Passkey]:
        """Return the passkeys of an account, the oldest first."""
        asked = sa.select(passkeys).where(passkeys.c.account == key_of(account))
        with self.store.reading() as connection:
            rows = connection.execute(asked.order_by(passkeys.c.created, passkeys.c.credential))
            return [_passkey(row) for row in rows.all()]

    def passkey(self, credential: str) -> Passkey | None:
        """Return the passkey with a credential id in base64url."""
        if not isinstance(credential, str) or not from_base64url(credential):
            return None
        asked = sa.select(passkeys).where(passkeys.c.credential == credential)
        with self.store.reading() as connection:
            row = connection.execute(asked).first()
        return None if row is None else _passkey(row)

    def signing_key(self, credential: str) -> dict[str, Any] | None:
        """Return the public key of an enabled account's passkey, in the ledger's form."""
        found = self.passkey(credential)
        if found is None or self.account(found.account).disabled:
            return None
        return {
            "credential": found.credential,
            "key": {"algorithm": found.algorithm, "public": found.public},
            "relying_party": found.relying_party,
            "account": found.account,
        }

    def remove_passkey(
        self, account: Account | str, credential: str, by: Principal | str | None = None
    ) -> None:
        """Remove a passkey; `by` is its owner (the default) or an administrator.

        Signatures in a ledger keep their public keys.
        """
        with self.changing() as connection:
            found = found_account(connection, account)
            person = acting(connection, person_of(found) if by is None else by)
            if person.account != found.account and not person.may("accounts", EVERYWHERE):
                raise ForbiddenError("a passkey is removed by its owner or by an administrator")
            known = self.passkey(credential)
            if known is None or known.account != found.account:
                raise UnknownError(
                    f"credential must be a passkey of {found.name}; got {short_repr(credential)}"
                )
            connection.execute(passkeys.delete().where(passkeys.c.credential == credential))
            told = {"credential": credential}
            self._log(connection, person, "passkey-removed", found.name, **told)

    def _spend_challenge(self, account: str, challenge: bytes) -> "_Asked":
        """Return and delete a challenge of an account."""
        columns = challenges.c
        with self.store.changing("rareswitch-challenges") as connection:
            asked = sa.select(challenges).where(columns.digest == _digest(challenge))
            row = connection.execute(asked).first()
            if row is not None:
                connection.execute(challenges.delete().where(columns.digest == row.digest))
        if row is None or row.account != account or self.clock() >= row.expires:
            raise SignInError("the challenge was used, has expired or is not yours; begin again")
        return _Asked(row.account, row.relying_party, row.origin, challenge)


@dataclass(frozen=True)
class _Asked:
    """A challenge with its account and page."""

    account: str
    relying_party: str
    origin: str
    challenge: bytes


def _check_origin(rp_id: str, origin: str) -> None:
    """Raise ValueError unless a browser lets a page of that origin use the domain."""
    if not isinstance(rp_id, str) or not isinstance(origin, str):
        raise TypeError(f"rp_id and origin must be texts; got {short_repr((rp_id, origin))}")
    parts = _ORIGIN.fullmatch(origin)
    if parts is None or not DOMAIN.fullmatch(parts["host"]):
        raise ValueError(f"origin must be https://host or https://host:port; got {origin!r}")
    scheme, host = parts["scheme"], parts["host"]
    if scheme != "https" and host != "localhost":
        raise ValueError(f"origin must begin with https, or be http://localhost; got {origin!r}")
    if not DOMAIN.fullmatch(rp_id) or (host != rp_id and not host.endswith(f".{rp_id}")):
        raise ValueError(f"rp_id must be the host of {origin}, or end it; got {rp_id!r}")


def _server(rp_id: str, origin: str) -> "Fido2Server":
    require("service")
    from fido2.server import Fido2Server
    from fido2.webauthn import (
        AttestationConveyancePreference,
        PublicKeyCredentialParameters,
        PublicKeyCredentialRpEntity,
        PublicKeyCredentialType,
    )

    server = Fido2Server(
        PublicKeyCredentialRpEntity(id=rp_id, name="rareswitch"),
        attestation=AttestationConveyancePreference.NONE,
        verify_origin=lambda given: given == origin,
    )
    server.allowed_algorithms = [
        PublicKeyCredentialParameters(type=PublicKeyCredentialType.PUBLIC_KEY, alg=number)
        for number in (ES256, EDDSA)
    ]
    server.timeout = int(SECONDS * 1000)  # type: ignore[assignment]
    return server


def _options(
    server: "Fido2Server", row: Any, challenge: bytes, known: list[Passkey]
) -> dict[str, Any]:
    from fido2.utils import websafe_decode
    from fido2.webauthn import (
        PublicKeyCredentialDescriptor,
        PublicKeyCredentialType,
        PublicKeyCredentialUserEntity,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    user = PublicKeyCredentialUserEntity(
        id=bytes.fromhex(row.handle), name=row.name, display_name=row.name
    )
    options, _ = server.register_begin(
        user,
        credentials=[
            PublicKeyCredentialDescriptor(
                type=PublicKeyCredentialType.PUBLIC_KEY, id=websafe_decode(one.credential)
            )
            for one in known
        ],
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.REQUIRED,
        challenge=challenge,
    )
    return dict(dict(options)["publicKey"])


def _challenge_of(answer: Mapping[str, Any]) -> bytes:
    """Return the challenge in an answer; it is verified later."""
    require("service")
    from fido2.webauthn import RegistrationResponse

    try:
        return bytes(RegistrationResponse.from_dict(answer).response.client_data.challenge)
    except Exception as error:  # the library may raise anything on a stranger's bytes
        raise ValueError(f"{_ANSWER}; got {type(error).__name__}") from None


def _registered(
    server: "Fido2Server", challenge: bytes, answer: Mapping[str, Any]
) -> "AuthenticatorData":
    """Verify an answer to a challenge; return the authenticator's data with its public key."""
    from fido2.utils import websafe_encode
    from fido2.webauthn import RegistrationResponse, UserVerificationRequirement

    state = {
        "challenge": websafe_encode(challenge),
        "user_verification": UserVerificationRequirement.REQUIRED,
    }
    try:
        given = RegistrationResponse.from_dict(answer)
        data = server.register_complete(state, given)
    except Exception as error:
        raise ValueError(f"{_ANSWER}; {error or type(error).__name__}") from None
    if given.response.client_data.cross_origin:
        raise ValueError(f"{_ANSWER}; got an answer from a page inside another page")
    if data.credential_data is None or data.credential_data.credential_id != given.raw_id:
        raise ValueError(f"{_ANSWER}; got the id of another credential")
    return data


def _key_row(data: "AuthenticatorData", relying_party: str) -> dict[str, Any]:
    """Return the columns of a passkey from its authenticator's data."""
    known = data.credential_data
    assert known is not None
    if len(known.credential_id) > LONGEST_CREDENTIAL:
        raise ValueError(f"{_ANSWER}; got a credential id of {len(known.credential_id)} bytes")
    key = known.public_key
    kind = [key.get(part) for part in (1, 3, -1)]  # type, algorithm, curve
    algorithm, parts = next((one for told, one in _KEYS if told == kind), ("", ()))
    numbers: list[Any] = [key.get(part) for part in parts]
    if not algorithm or not all(isinstance(one, bytes) and len(one) == 32 for one in numbers):
        raise ValueError(f"{_ANSWER}, with a key of ES256 or EdDSA; got another key")
    told = {
        "credential": to_base64url(known.credential_id),
        "algorithm": algorithm,
        "public": to_base64url((b"\x04" if algorithm == "ES256" else b"") + b"".join(numbers)),
        "relying_party": relying_party,
    }
    if (problem := broken_key(told)) is not None:
        raise ValueError(f"{_ANSWER}; {problem}")
    return told


def _passkey(row: Any) -> Passkey:
    return Passkey(**dict(row._mapping) | {"created": time_text(row.created)})


def _digest(challenge: bytes) -> str:
    return hashlib.sha256(challenge).hexdigest()
