"""A software authenticator: passkeys that sign as a browser and its authenticator do."""

import hashlib
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from rareswitch.campaigns.rulebook.signatures import to_base64url

UP, UV = 0x01, 0x04


class SoftwarePasskey:
    """A passkey of a person for one relying party; `seed` makes the same key again."""

    def __init__(
        self,
        seed: int = 1,
        *,
        algorithm: str = "ES256",
        relying_party: str = "localhost",
        origin: str = "http://localhost:8000",
    ) -> None:
        self.algorithm, self.relying_party, self.origin = algorithm, relying_party, origin
        secret = hashlib.sha256(f"passkey {algorithm} {seed}".encode()).digest()
        self.credential = to_base64url(hashlib.sha256(secret).digest()[:16])
        self.private: Any
        if algorithm == "ES256":
            self.private = ec.derive_private_key(int.from_bytes(secret, "big") >> 8, ec.SECP256R1())
            form = (Encoding.X962, PublicFormat.UncompressedPoint)
            self.public = self.private.public_key().public_bytes(*form)
        else:
            self.private = ed25519.Ed25519PrivateKey.from_private_bytes(secret)
            self.public = self.private.public_key().public_bytes_raw()

    def sign_bytes(self, message: bytes) -> bytes:
        if self.algorithm == "ES256":
            return bytes(self.private.sign(message, ec.ECDSA(SHA256())))
        return bytes(self.private.sign(message))

    def sign(self, to_sign: Any, **changes: Any) -> dict[str, Any]:
        """Return the signature for what `Campaign.to_sign` returned.

        `changes` alter what is signed: `head`, `challenge`, `flags`, `rp`, `counter`, `extra` bytes
        after the authenticator data, `raw` client data, or a field of the client data.
        """
        client = {
            "type": "webauthn.get",
            "challenge": to_base64url(changes.pop("challenge", to_sign.challenge)),
            "origin": self.origin,
            "crossOrigin": False,
        }
        hashed = hashlib.sha256(changes.pop("rp", self.relying_party).encode()).digest()
        flags, extra = changes.pop("flags", UP | UV), changes.pop("extra", b"")
        counter = changes.pop("counter", 0)  # as authenticators without a counter send it
        head, raw = changes.pop("head", to_sign.head), changes.pop("raw", None)
        client |= changes
        client_data = json.dumps(client).encode() if raw is None else raw
        data = hashed + bytes([flags]) + counter.to_bytes(4, "big") + extra
        signature = self.sign_bytes(data + hashlib.sha256(client_data).digest())
        return {
            "method": "passkey",
            "head": head,
            "credential": self.credential,
            "key": {"algorithm": self.algorithm, "public": to_base64url(self.public)},
            "relying_party": self.relying_party,
            "origin": client["origin"],
            "authenticator_data": to_base64url(data),
            "client_data": to_base64url(client_data),
            "signature": to_base64url(signature),
        }


def by_password(to_sign: Any) -> dict[str, Any]:
    """Return the signature of a person who typed the password again."""
    return {"method": "password", "head": to_sign.head}
