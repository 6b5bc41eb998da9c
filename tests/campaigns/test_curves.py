"""ECDSA on P-256 and Ed25519 in plain Python, held against OpenSSL and published vectors."""

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given, settings
from hypothesis import strategies as st

from authenticator import SoftwarePasskey
from rareswitch.campaigns.rulebook.curves import (
    L,
    N,
    P,
    Q,
    ed25519_holds,
    ed25519_point,
    es256_holds,
    p256_point,
)

# RFC 6979, A.2.5, with SHA-256.
P256_KEY = bytes.fromhex(
    "04"
    "60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6"
    "7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299"
)
P256_VECTORS = [
    (b"sample", 0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
     0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8),
    (b"test", 0xF1ABB023518351CD71D881567B1EA663ED3EFCF6C5132B354F28D3B0B7D38367,
     0x019F4113742A2B14BD25926B49C649155F267E60D3814B4C0CC84250E46F0083),
]  # fmt: skip
# RFC 8032, 7.1: public key, message, signature.
ED25519_VECTORS = [
    ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "46bd25bf5f0595bbe24655141438e7a100b"),
    ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d8c387b2eaeb4302aeeb00d291612bb0c00"),
    ("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "6594a7c15e9716ed28dc027beceea1ec40a"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "r", "s"), P256_VECTORS)
def test_published_signatures_on_p256_hold(message, r, s):
    assert es256_holds(P256_KEY, message, encode_dss_signature(r, s))
    assert es256_holds(P256_KEY, message, encode_dss_signature(r, N - s))  # as WebAuthn allows
    assert not es256_holds(P256_KEY, message + b".", encode_dss_signature(r, s))
    assert not es256_holds(P256_KEY, message, encode_dss_signature(r, s + 1))


@pytest.mark.parametrize(("key", "message", "signature"), ED25519_VECTORS)
def test_published_signatures_of_ed25519_hold(key, message, signature):
    key, message, signature = map(bytes.fromhex, (key, message, signature))
    assert ed25519_holds(key, message, signature)
    assert not ed25519_holds(key, message + b".", signature)
    # The same S with the order of the group added is the same scalar: only one is accepted.
    malleable = int.from_bytes(signature[32:], "little") + L
    assert not ed25519_holds(key, message, signature[:32] + malleable.to_bytes(32, "little"))


def openssl_es256(public, message, signature):
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public)
        key.verify(signature, message, ec.ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def openssl_ed25519(public, message, signature):
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


SAID_BY = {"ES256": (es256_holds, openssl_es256), "EdDSA": (ed25519_holds, openssl_ed25519)}
CHANGES = st.lists(
    st.tuples(st.sampled_from(["public", "message", "signature"]), st.integers(0, 80),
              st.integers(0, 255), st.sampled_from(["set", "cut", "add"])),
    max_size=2,
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(
    algorithm=st.sampled_from(["ES256", "EdDSA"]),
    seed=st.integers(0, 2**64),
    message=st.binary(max_size=60),
    changes=CHANGES,
)
def test_openssl_says_the_same_of_signatures_and_their_mutations(algorithm, seed, message, changes):
    key = SoftwarePasskey(seed, algorithm=algorithm)
    parts = {"public": key.public, "message": message, "signature": key.sign_bytes(message)}
    for name, place, byte, how in changes:
        data = bytearray(parts[name])
        place = min(place, max(0, len(data) - 1))
        if how == "add":
            data.insert(place, byte)
        elif how == "cut":
            del data[place : place + 1]
        elif data:
            data[place] = byte
        parts[name] = bytes(data)
    if algorithm == "ES256" and len(parts["public"]) == 33:
        return  # OpenSSL reads compressed points too; a passkey has none
    ours, theirs = SAID_BY[algorithm]
    told = parts["public"], parts["message"], parts["signature"]
    assert ours(*told) is theirs(*told)
    if not changes:
        assert ours(*told)


@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 3), st.integers(-3, 3), st.sampled_from([0, 1, N, P, 2**256 - 1]))
def test_numbers_at_the_ends_of_their_range_are_no_signature(near_r, near_s, end):
    r, s = max(0, end + near_r), max(0, end + near_s)
    signature = encode_dss_signature(r, s)
    assert es256_holds(P256_KEY, b"sample", signature) is False
    assert openssl_es256(P256_KEY, b"sample", signature) is False


def test_a_sum_at_infinity_is_no_signature():
    """With u₁G = −u₂Q the sum is the point at infinity, whose x does not exist."""
    secret = 5
    key = ec.derive_private_key(secret, ec.SECP256R1()).public_key()
    numbers = key.public_numbers()
    public = b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
    digest = int.from_bytes(hashlib.sha256(b"m").digest(), "big")
    r = -digest * pow(secret, -1, N) % N  # digest + r · secret = 0
    assert not es256_holds(public, b"m", encode_dss_signature(r, 7))


def test_two_equal_points_are_added_rightly():
    """With u₁G = u₂Q the sum is a point's double."""
    digest, nonce = int.from_bytes(hashlib.sha256(b"m").digest(), "big"), 12345
    point = ec.derive_private_key(nonce, ec.SECP256R1()).public_key().public_numbers()
    r = point.x % N
    secret = digest * pow(r, -1, N) % N
    signature = encode_dss_signature(r, 2 * digest * pow(nonce, -1, N) % N)
    numbers = ec.derive_private_key(secret, ec.SECP256R1()).public_key().public_numbers()
    public = b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
    assert es256_holds(public, b"m", signature)
    assert openssl_es256(public, b"m", signature)


BAD_DER = [
    b"", b"\x30", b"\x30\x00", b"\x30\x06\x02\x01\x01\x02\x01\x01\x00",
    b"\x31\x06\x02\x01\x01\x02\x01\x01",
    b"\x30\x81\x06\x02\x01\x01\x02\x01\x01", b"\x30\x80\x02\x01\x01\x02\x01\x01\x00\x00",
    b"\x30\x07\x02\x02\x00\x01\x02\x01\x01", b"\x30\x06\x02\x01\x81\x02\x01\x01",
    b"\x30\x05\x02\x00\x02\x01\x01", b"\x30\x06\x02\x01\x01\x03\x01\x01",
    b"\x30\x06\x02\x01\x01\x02\x7f\x01", b"\x30\x03\x02\x01\x01",
]  # fmt: skip


@pytest.mark.parametrize("signature", BAD_DER)
def test_bytes_that_are_not_der_are_no_signature(signature):
    assert es256_holds(P256_KEY, b"sample", signature) is False


@pytest.mark.parametrize("spelling", ["longer length", "zero in front", "byte behind"])
def test_a_valid_signature_in_another_encoding_is_refused(spelling):
    _, r, s = P256_VECTORS[1]
    der = encode_dss_signature(r, s)
    if spelling == "longer length":
        der = der[:1] + b"\x81" + der[1:]
    elif spelling == "byte behind":
        der += b"\x00"
    else:
        first = 4 + der[3]
        der = der[:1] + bytes([der[1] + 1]) + der[2:first] + b"\x02" + bytes([der[first + 1] + 1])
        der += b"\x00" + encode_dss_signature(r, s)[first + 2 :]
    assert es256_holds(P256_KEY, b"test", der) is False
    assert openssl_es256(P256_KEY, b"test", der) is False


def test_points_that_are_not_on_the_curve_are_no_keys():
    x, y = P256_KEY[1:33], P256_KEY[33:]
    zero = bytes(32)
    wrong = [
        b"", b"\x00", b"\x04", P256_KEY[:-1], P256_KEY + b"\x00", b"\x02" + x, b"\x06" + x + y,
        b"\x04" + y + x, b"\x04" + zero + zero, b"\x04" + x + zero,
        b"\x04" + (int.from_bytes(x, "big") + P & (2**256 - 1)).to_bytes(32, "big") + y,
    ]  # fmt: skip
    assert p256_point(P256_KEY) is not None
    assert [p256_point(data) for data in wrong] == [None] * len(wrong)


def little(number):
    return number.to_bytes(32, "little")


# The eight points of small order, in canonical and other encodings.
SMALL_ORDER = [
    little(1), little(Q - 1), little(0), little(2**255), little(1 + 2**255), little(Q - 1 + 2**255),
    little(Q), little(Q + 1), little(Q + 2**255), little(Q + 1 + 2**255),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
]  # fmt: skip


@pytest.mark.parametrize("public", SMALL_ORDER)
def test_keys_of_small_order_and_second_spellings_are_no_keys(public):
    """For such a key the neutral element and S = 0 sign many messages, without any secret."""
    assert ed25519_point(public) is None
    for message in (bytes([n]) for n in range(8)):
        assert ed25519_holds(public, message, little(1) + little(0)) is False


def test_a_key_is_read_from_32_bytes_of_a_point():
    key = bytes.fromhex(ED25519_VECTORS[0][0])
    assert ed25519_point(key) is not None
    assert ed25519_point(key[:-1]) is None
    assert ed25519_point(key + b"\x00") is None
    assert ed25519_point(little(2)) is None  # no x has this y


def test_a_point_has_one_encoding():
    """Bytes of y + q are the same y: the key of such bytes would have two fingerprints."""
    assert sum(ed25519_point(little(y)) is not None for y in range(19)) >= 5
    assert [ed25519_point(little(y + Q)) for y in range(19)] == [None] * 19
