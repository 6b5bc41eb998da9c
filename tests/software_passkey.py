"""An authenticator in software: it makes a key and answers the challenge of a registration."""

import hashlib
import json
import os
import struct
from base64 import urlsafe_b64encode

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fido2 import cbor

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def base64url(data):
    return urlsafe_b64encode(data).rstrip(b"=").decode()


class SoftwarePasskey:
    """A key of ES256 or EdDSA; `cose` is its public key as an authenticator tells it."""

    def __init__(self, algorithm="ES256"):
        self.id = os.urandom(32)
        if algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
            raw = Encoding.X962, PublicFormat.UncompressedPoint
            self.public = self.private.public_key().public_bytes(*raw)
            self.cose = {1: 2, 3: -7, -1: 1, -2: self.public[1:33], -3: self.public[33:]}
        else:
            self.private = ed25519.Ed25519PrivateKey.generate()
            self.public = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            self.cose = {1: 1, 3: -8, -1: 6, -2: self.public}

    def register(self, options, origin="http://localhost:8000", **changed):
        """Return the JSON of navigator.credentials.create; `changed` makes it a wrong one."""
        client = {
            "type": "webauthn.create",
            "challenge": options["challenge"],
            "origin": origin,
            "crossOrigin": False,
        } | changed.get("client", {})
        rp_id = changed.get("rp_id", options["rp"]["id"])
        flags = changed.get("flags", PRESENT | VERIFIED | ATTESTED)
        cose = cbor.encode(self.cose | changed.get("cose", {}))
        data = hashlib.sha256(rp_id.encode()).digest() + struct.pack(">BI", flags, 7)
        data += bytes(16) + struct.pack(">H", len(self.id)) + self.id + cose
        attested = {"fmt": "none", "attStmt": {}, "authData": data}
        return {
            "id": base64url(changed.get("id", self.id)),
            "rawId": base64url(changed.get("id", self.id)),
            "type": "public-key",
            "response": {
                "clientDataJSON": base64url(json.dumps(client).encode()),
                "attestationObject": base64url(cbor.encode(attested)),
                "transports": ["internal"],
            },
            "clientExtensionResults": {},
            "authenticatorAttachment": "platform",
        }
