"""Signatures on two elliptic curves, verified in plain Python: ECDSA on P-256, and Ed25519.

Verification handles public values only, so it need not take constant time. A malformed signature is
invalid; no function raises, whatever the bytes.
"""

import hashlib

# P-256, FIPS 186-5 and SP 800-186: y² = x³ − 3x + b over the integers modulo p; G has order n.
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None  # None is the point at infinity

# Ed25519, RFC 8032: −x² + y² = 1 + dx²y² over the integers modulo q; the base has prime order L.
Q = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, Q) % Q
ROOT = pow(2, (Q - 1) // 4, Q)  # a square root of −1
Extended = tuple[int, int, int, int]  # X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z
NEUTRAL: Extended = (0, 1, 1, 0)


def es256_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether a DER signature (r, s) of ECDSA with SHA-256 is valid for an uncompressed key.

    Both s and n − s are accepted, because WebAuthn requires neither.
    """
    key, pair = p256_point(public), _read_der(signature)
    if key is None or pair is None:
        return False
    r, s = pair
    if not (0 < r < N and 0 < s < N):
        return False
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    inverse = pow(s, -1, N)
    sum_ = _add(_multiply(digest * inverse % N, G), _multiply(r * inverse % N, key))
    return sum_ is not None and sum_[0] % N == r


def p256_point(public: bytes) -> Point:
    """Return the point of 65 bytes 04 ‖ x ‖ y if it is on the curve, else None."""
    if len(public) != 65 or public[0] != 4:
        return None
    x, y = int.from_bytes(public[1:33], "big"), int.from_bytes(public[33:], "big")
    on_curve = x < P and y < P and (y * y - (x * x * x - 3 * x + B)) % P == 0
    return (x, y) if on_curve else None


def _add(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return other if one is None else one
    (x1, y1), (x2, y2) = one, other
    if x1 == x2:
        if (y1 + y2) % P == 0:
            return None
        slope = (3 * x1 * x1 - 3) * pow(2 * y1, -1, P)
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P)
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def _multiply(scalar: int, point: Point) -> Point:
    total: Point = None
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total


def _read_der(data: bytes) -> tuple[int, int] | None:
    """Return r and s of a DER sequence of two positive integers without extra bytes."""
    if len(data) < 2 or data[0] != 0x30 or data[1] >= 0x80 or data[1] != len(data) - 2:
        return None
    found, rest = [], data[2:]
    for _ in range(2):
        if len(rest) < 3 or rest[0] != 0x02 or not 1 <= rest[1] <= min(33, len(rest) - 2):
            return None
        number, rest = rest[2 : 2 + rest[1]], rest[2 + rest[1] :]
        padded = len(number) > 1 and number[0] == 0
        if number[0] & 0x80 or (padded and not number[1] & 0x80):
            return None  # negative, or with an unneeded leading zero
        found.append(int.from_bytes(number, "big"))
    return None if rest else (found[0], found[1])


def ed25519_holds(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature R ‖ S is valid: R = [S]B − [k]A, compared as bytes."""
    key = ed25519_point(public)
    if key is None or len(signature) != 64:
        return False
    start, s = signature[:32], int.from_bytes(signature[32:], "little")
    if s >= L:
        return False
    hashed = hashlib.sha512(start + public + message).digest()
    k = int.from_bytes(hashed, "little") % L
    x, y, z, t = key
    negative = (Q - x, y, z, Q - t)
    return _encode(_sum(_times(s, _BASE), _times(k, negative))) == start


def ed25519_point(public: bytes) -> Extended | None:
    """Return the point of 32 bytes; None if it is not a point or has small order.

    Anybody could forge signatures of a key of small order.
    """
    point = _decode(public)
    if point is None:
        return None
    x, _, z, _ = eight = _times(8, point)
    return None if x % Q == 0 and (eight[1] - z) % Q == 0 else point


def _decode(data: bytes) -> Extended | None:
    """Return the point of a canonical encoding: y < q in 255 bits, and the lowest bit of x."""
    if len(data) != 32:
        return None
    number = int.from_bytes(data, "little")
    y, odd = number & (2**255 - 1), number >> 255
    if y >= Q:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, Q) % Q
    x = pow(square, (Q + 3) // 8, Q)
    if (x * x - square) % Q:
        x = x * ROOT % Q
    if (x * x - square) % Q or (x == 0 and odd):
        return None
    x = x if x & 1 == odd else Q - x
    return x, y, 1, x * y % Q


def _encode(point: Extended) -> bytes:
    inverse = pow(point[2], -1, Q)
    x, y = point[0] * inverse % Q, point[1] * inverse % Q
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _sum(one: Extended, other: Extended) -> Extended:
    """Return the sum of two points; the formula of RFC 8032, 5.1.4, has no exception."""
    (x1, y1, z1, t1), (x2, y2, z2, t2) = one, other
    a, b = (y1 - x1) * (y2 - x2) % Q, (y1 + x1) * (y2 + x2) % Q
    c, d = 2 * t1 * t2 * D % Q, 2 * z1 * z2 % Q
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % Q, g * h % Q, f * g % Q, e * h % Q


def _times(scalar: int, point: Extended) -> Extended:
    total = NEUTRAL
    while scalar:
        if scalar & 1:
            total = _sum(total, point)
        point = _sum(point, point)
        scalar >>= 1
    return total


def _base() -> Extended:
    point = _decode((4 * pow(5, -1, Q) % Q).to_bytes(32, "little"))
    assert point is not None
    return point


_BASE = _base()
