"""Signatures by passkey: the signed bytes, and their verification from the record alone.

A passkey signs SHA-256(subject ‖ protocol ‖ head ‖ meaning). The first three are SHA-256 digests,
each written as 64 digits 0-9a-f; the meaning follows in UTF-8. No separator is needed: the first
three have a fixed length, so no other four texts give the same bytes.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rareswitch.campaigns.rulebook.curves import (
    ed25519_holds,
    ed25519_point,
    es256_holds,
    p256_point,
)
from rareswitch.campaigns.rulebook.names import checked_digest

ALGORITHMS = {"ES256": (p256_point, es256_holds), "EdDSA": (ed25519_point, ed25519_holds)}
PASSWORD, PASSKEY = "password", "passkey"
# The fields of a signature in an entry of the ledger, by method.
SIGNATURE_FIELDS = {
    PASSWORD: ("method", "head"),
    PASSKEY: ("method", "head", "credential", "authenticator_data", "client_data", "signature"),
}
KEY_FIELDS = ("credential", "algorithm", "public", "relying_party")
DOMAIN = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.(?!$)|$))+")
MOST_BYTES = 4096  # in a part of a signature
# Flags of authenticator data: the user was present, the user was verified, other data follow.
PRESENT, VERIFIED, ATTESTED, EXTENDED = 0x01, 0x04, 0x40, 0x80


def challenge_of(subject: str, protocol: str, head: str, meaning: str) -> bytes:
    """Return the 32 bytes that a passkey signs.

    >>> challenge_of("0" * 64, "1" * 64, "2" * 64, "reviewed candidate 7").hex()[:16]
    '63baf99ddf368315'
    """
    names = {"subject": subject, "protocol": protocol, "head": head}
    digests = "".join(checked_digest(name, value) for name, value in names.items())
    return hashlib.sha256(f"{digests}{meaning}".encode()).digest()


class Passkey(NamedTuple):
    """A public key and its owner, registered by entry `number`.

    `public` is 04 ‖ x ‖ y for ES256, and the 32 bytes of RFC 8032 for EdDSA. `relying_party` is the
    domain of the passkey.
    """

    person: str
    number: int
    credential: str
    algorithm: str
    public: bytes
    relying_party: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the public key."""
        return hashlib.sha256(self.public).hexdigest()


def broken_key(table: Mapping[str, Any]) -> str | None:
    """Return why a table is not a valid public key of a passkey; None if it is."""
    algorithm, relying_party = table["algorithm"], table["relying_party"]
    if algorithm not in ALGORITHMS:
        return f"algorithm must be {' or '.join(ALGORITHMS)}; got {algorithm!r}"
    if not DOMAIN.fullmatch(relying_party):
        return f"relying_party must be a domain name in small letters; got {relying_party!r}"
    if not from_base64url(table["credential"]):
        return "credential must be bytes in base64url"
    public = from_base64url(table["public"])
    read, _ = ALGORITHMS[algorithm]
    if public is None or read(public) is None:
        return f"public must be a point of the curve of {algorithm} in base64url"
    return None


def broken_assertion(key: Passkey, signature: Mapping[str, str], challenge: bytes) -> str | None:
    """Return why a passkey's signature is invalid for a challenge; None if it is valid.

    The checks are those of WebAuthn, 7.2, with user verification required. No extension is
    requested, so authenticator data have exactly 37 bytes.
    """
    parts = [from_base64url(signature[name]) for name in SIGNATURE_FIELDS[PASSKEY][3:]]
    authenticator_data, client_data, signed = parts
    if authenticator_data is None or client_data is None or signed is None:
        return "its parts must be base64url without padding"
    client = _read_client_data(client_data)
    if client.get("type") != "webauthn.get":
        return f"its type must be webauthn.get; got {client.get('type')!r}"
    if client.get("challenge") != to_base64url(challenge):
        return "it signs something else: another subject, protocol, head of the ledger or meaning"
    if client.get("crossOrigin", False) is not False:
        return "it must not be made inside a page of another origin"
    if not _fits(client.get("origin"), key.relying_party):
        return f"its origin must be a page of {key.relying_party}; got {client.get('origin')!r}"
    if len(authenticator_data) != 37:
        return f"its authenticator data must have 37 bytes; got {len(authenticator_data)}"
    if authenticator_data[:32] != hashlib.sha256(key.relying_party.encode()).digest():
        return f"it was not made for {key.relying_party}"
    flags = authenticator_data[32]
    if not flags & PRESENT or not flags & VERIFIED:
        return "the authenticator must have verified its user; its flags say that it has not"
    if flags & (ATTESTED | EXTENDED):
        return "its flags announce data that are not there"
    message = authenticator_data + hashlib.sha256(client_data).digest()
    if not _holds(key.algorithm, key.public, message, signed):
        return f"it is not a signature by the passkey of {key.person} in entry {key.number}"
    return None


def counter_of(signature: Mapping[str, str]) -> dict[str, int]:
    """Return the authenticator's counter by its credential; empty for a password.

    An authenticator with a counter sends a larger number with each signature; others always send 0.
    """
    if signature["method"] != PASSKEY:
        return {}
    data = from_base64url(signature["authenticator_data"]) or b""
    return {signature["credential"]: int.from_bytes(data[33:37], "big")}


def origin_of(signature: Mapping[str, str]) -> str:
    """Return the page of a signature from its client data; "" if they do not name it."""
    origin = _read_client_data(from_base64url(signature["client_data"]) or b"").get("origin")
    return origin if isinstance(origin, str) else ""


@lru_cache(maxsize=4096)
def _holds(algorithm: str, public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a signature is valid; cached, because a verifier checks each several times."""
    _, holds = ALGORITHMS[algorithm]
    return holds(public, message, signature)


def _read_client_data(data: bytes) -> dict[str, Any]:
    """Return the table of a browser's client data; empty if the data are not a table."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_table)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key comes twice")
    return table


def _fits(origin: Any, relying_party: str) -> bool:
    """Return whether an origin is a secure page of a domain or of its subdomain."""
    if not isinstance(origin, str):
        return False
    try:
        parts = urlsplit(origin)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if origin != f"{parts.scheme}://{host}" + (f":{port}" if port is not None else ""):
        return False  # a path, a user, or another spelling
    own_machine = host == "localhost" or host.endswith(".localhost")
    secure = parts.scheme == "https" or (parts.scheme == "http" and own_machine)
    return secure and (host == relying_party or host.endswith(f".{relying_party}"))


def to_base64url(data: bytes) -> str:
    """Return bytes as WebAuthn writes them.

    >>> to_base64url(b"rare")
    'cmFyZQ'
    """
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: Any) -> bytes | None:
    """Return the bytes of a text from `to_base64url`; None for any other value."""
    if not isinstance(text, str) or not text.isascii() or len(text) > 2 * MOST_BYTES:
        return None
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if to_base64url(data) == text else None
