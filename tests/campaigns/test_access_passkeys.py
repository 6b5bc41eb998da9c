"""Passkeys: registered once, after a challenge for one account, with a key that can be checked."""

import hashlib
from base64 import urlsafe_b64decode

import pytest
import sqlalchemy as sa

from access_builders import add_person
from rareswitch.campaigns import ConflictError, open_store
from rareswitch.campaigns.access import Access, ForbiddenError, Grant, SignInError, UnknownError
from rareswitch.campaigns.access.tables import challenges
from software_passkey import SoftwarePasskey, base64url

PAGE = ("localhost", "http://localhost:8000")
APPROVER = Grant("trial", "approver")
SPENT = "the challenge was used, has expired or is not yours"


@pytest.fixture
def people(access):
    """Return the access to a store in which Ben and Cyd are approvers."""
    for name in ("Ben", "Cyd"):
        add_person(access, name, APPROVER)
    return access


@pytest.fixture
def ben(file_access):
    """Return the access to a file in which Ben is approver."""
    add_person(file_access, "Ben", APPROVER)
    return file_access


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
def test_a_passkey_is_registered_with_its_raw_key(people, algorithm):
    key = SoftwarePasskey(algorithm)
    answer = key.register(people.passkey_options("Ben", *PAGE))
    made = people.add_passkey("Ben", answer, label="Ben's phone")
    assert made.plain == {
        "credential": base64url(key.id),
        "account": "ben",
        "algorithm": algorithm,
        "public": base64url(key.public),
        "relying_party": "localhost",
        "label": "Ben's phone",
        "created": "2027-01-15T08:00:00.000+00:00",
    }
    assert people.passkeys("Ben") == [made]
    assert people.passkeys("Cyd") == []
    assert people.passkey(base64url(key.id)) == made
    assert people.signing_key(base64url(key.id)) == {
        "credential": base64url(key.id),
        "key": {"algorithm": algorithm, "public": base64url(key.public)},
        "relying_party": "localhost",
        "account": "ben",
    }
    told = people.log(limit=1000)[-1]
    assert (told.by, told.action, told.about) == ("Ben", "passkey-added", "Ben")


def test_options_ask_for_a_person_and_two_algorithms(people):
    options = people.passkey_options("Ben", *PAGE)
    assert options["rp"]["id"] == "localhost"
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [-7, -8]
    assert options["attestation"] == "none"
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert options["authenticatorSelection"]["residentKey"] == "preferred"
    assert options["user"]["name"] == "Ben"
    assert options["excludeCredentials"] == []
    key = SoftwarePasskey()
    people.add_passkey("Ben", key.register(options))
    again = people.passkey_options("Ben", *PAGE)
    assert [one["id"] for one in again["excludeCredentials"]] == [base64url(key.id)]
    assert again["user"]["id"] == options["user"]["id"]
    assert again["user"]["id"] != people.passkey_options("Cyd", *PAGE)["user"]["id"]
    assert again["challenge"] != options["challenge"]


def test_a_challenge_is_spent_once(people):
    answer = SoftwarePasskey().register(people.passkey_options("Ben", *PAGE))
    people.add_passkey("Ben", answer)
    with pytest.raises(SignInError, match=SPENT):
        people.add_passkey("Ben", answer)


def test_a_wrong_answer_spends_the_challenge_too(people):
    options = people.passkey_options("Ben", *PAGE)
    with pytest.raises(ValueError, match="origin"):
        people.add_passkey("Ben", SoftwarePasskey().register(options, "http://localhost:9000"))
    with pytest.raises(SignInError, match=SPENT):
        people.add_passkey("Ben", SoftwarePasskey().register(options))


def test_a_challenge_is_for_one_account(people):
    options = people.passkey_options("Ben", *PAGE)
    with pytest.raises(SignInError, match=SPENT):
        people.add_passkey("Cyd", SoftwarePasskey().register(options))
    assert people.passkeys("Cyd") == []


def test_a_challenge_ends_after_five_minutes(people):
    early, late = people.passkey_options("Ben", *PAGE), people.passkey_options("Ben", *PAGE)
    people.clock.now += 299
    people.add_passkey("Ben", SoftwarePasskey().register(early))
    people.clock.now += 1
    with pytest.raises(SignInError, match=SPENT):
        people.add_passkey("Ben", SoftwarePasskey().register(late))


def test_another_process_may_finish(people, store_url):
    options = people.passkey_options("Ben", *PAGE)
    with open_store(store_url) as store:
        other = Access(store, clock=people.clock)
        made = other.add_passkey("Ben", SoftwarePasskey().register(options))
    assert people.passkeys("Ben") == [made]


def test_challenges_are_stored_as_hashes_and_deleted(people):
    options = people.passkey_options("Ben", *PAGE)

    def stored():
        with people.store.reading() as connection:
            return connection.execute(sa.select(challenges)).all()

    (row,) = stored()
    assert options["challenge"] not in str(row)
    raw = options["challenge"] + "=" * (-len(options["challenge"]) % 4)
    assert row.digest == hashlib.sha256(urlsafe_b64decode(raw)).hexdigest()
    people.clock.now += 301
    people.passkey_options("Cyd", *PAGE)
    assert [row.account for row in stored()] == ["cyd"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"client": {"type": "webauthn.get"}}, "type"),
        ({"client": {"origin": "https://localhost"}}, "origin"),
        ({"client": {"crossOrigin": True}}, "a page inside another page"),
        ({"rp_id": "example.com"}, "RP ID"),
        ({"flags": 0x41}, "(?i)user verif"),
        ({"flags": 0x44}, "(?i)user present"),
        ({"flags": 0x05}, "answer must be"),
        ({"id": b"another"}, "the id of another credential"),
        ({"cose": {3: -257}}, "a key of ES256 or EdDSA"),
        ({"cose": {3: -35}}, "a key of ES256 or EdDSA"),
        ({"cose": {1: 3}}, "a key of ES256 or EdDSA"),
        ({"cose": {-1: 2}}, "a key of ES256 or EdDSA"),
        ({"cose": {1: [2]}}, "a key of ES256 or EdDSA"),
        ({"cose": {-2: bytes(32), -3: bytes(32)}}, "a point of the curve of ES256"),
        ({"cose": {1: 1, 3: -8, -1: 6, -2: b"\x02" + bytes(31)}}, "a point of the curve of EdDSA"),
        ({"cose": {-2: bytes(31)}}, "a key of ES256 or EdDSA"),
        ({"cose": {-2: "text"}}, "a key of ES256 or EdDSA"),
        ({"cose": {1: 1, 3: -8, -1: 6, -2: bytes(31)}}, "a key of ES256 or EdDSA"),
    ],
)
def test_wrong_answers_are_refused(ben, changed, said):
    options = ben.passkey_options("Ben", *PAGE)
    with pytest.raises(ValueError, match=said):
        ben.add_passkey("Ben", SoftwarePasskey().register(options, **changed))
    assert ben.passkeys("Ben") == []


@pytest.mark.parametrize(
    "answer",
    [
        {}, [], None, "x", 7, {"id": "x"}, {"id": "x", "rawId": "x", "response": {}},
        {"id": "AA", "rawId": "AA", "response": {"clientDataJSON": "AA", "attestationObject": ""}},
        {"id": "AA", "rawId": "AA", "response": {"clientDataJSON": 7, "attestationObject": []}},
        {"id": "é", "rawId": "é", "response": None},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(ben, answer):
    with pytest.raises(ValueError, match="answer must be that of navigator"):
        ben.add_passkey("Ben", answer)


@pytest.mark.parametrize("damage", [b"", b"\xff", b"\xa0", b"\x9f" * 100, b"\x81" * 3000])
def test_damaged_attestations_are_refused(ben, damage):
    answer = SoftwarePasskey().register(ben.passkey_options("Ben", *PAGE))
    answer["response"]["attestationObject"] = base64url(damage)
    with pytest.raises(ValueError, match="answer must be that of navigator"):
        ben.add_passkey("Ben", answer)


def test_one_key_is_that_of_one_person(people):
    key = SoftwarePasskey()
    people.add_passkey("Ben", key.register(people.passkey_options("Ben", *PAGE)))
    with pytest.raises(ConflictError, match="registered already"):
        people.add_passkey("Cyd", key.register(people.passkey_options("Cyd", *PAGE)))
    key.id = b"the same key under another id"
    with pytest.raises(ConflictError, match="registered already"):
        people.add_passkey("Cyd", key.register(people.passkey_options("Cyd", *PAGE)))


def test_an_account_has_few_passkeys(people, monkeypatch):
    monkeypatch.setattr("rareswitch.campaigns.access.passkeys.MOST_PASSKEYS", 2)
    for _ in range(2):
        people.add_passkey("Ben", SoftwarePasskey().register(people.passkey_options("Ben", *PAGE)))
    options = people.passkey_options("Ben", *PAGE)
    with pytest.raises(ConflictError, match="at most 2 passkeys"):
        people.add_passkey("Ben", SoftwarePasskey().register(options))


def test_passkeys_are_removed_by_their_owner_or_an_administrator(people):
    made = [
        people.add_passkey("Ben", SoftwarePasskey().register(people.passkey_options("Ben", *PAGE)))
        for _ in range(2)
    ]
    with pytest.raises(ForbiddenError, match="by its owner or by an administrator"):
        people.remove_passkey("Ben", made[0].credential, by="Cyd")
    with pytest.raises(UnknownError, match="a passkey of Cyd"):
        people.remove_passkey("Cyd", made[0].credential, by="Cyd")
    people.remove_passkey("Ben", made[0].credential)
    people.remove_passkey("Ben", made[1].credential, by="Ana")
    with pytest.raises(UnknownError):
        people.remove_passkey("Ben", made[1].credential)
    assert people.passkeys("Ben") == []
    assert people.signing_key(made[0].credential) is None


def test_a_disabled_account_signs_nothing(people):
    options = people.passkey_options("Ben", *PAGE)
    made = people.add_passkey("Ben", SoftwarePasskey().register(options))
    pending = people.passkey_options("Ben", *PAGE)
    people.disable("Ben", by="Ana")
    assert people.signing_key(made.credential) is None
    with pytest.raises(ForbiddenError, match="disabled"):
        people.passkey_options("Ben", *PAGE)
    with pytest.raises(ForbiddenError, match="disabled"):
        people.add_passkey("Ben", SoftwarePasskey().register(pending))


def test_an_unknown_credential_is_none(people):
    for credential in ("", "x", None, 7, "ü", "\0", "x" * 100_000):
        assert people.passkey(credential) is None
        assert people.signing_key(credential) is None
        with pytest.raises(UnknownError, match="credential must be a passkey of Ben"):
            people.remove_passkey("Ben", credential)


@pytest.mark.parametrize(
    ("rp_id", "origin", "said"),
    [
        ("localhost", "http://localhost:8000/", "origin must be https://host"),
        ("localhost", "localhost", "origin must be https://host"),
        ("example.com", "http://example.com", "must begin with https"),
        ("example.com", "https://example.org", "rp_id must be the host"),
        ("example.com", "https://badexample.com", "rp_id must be the host"),
        ("", "https://example.com", "rp_id must be the host"),
        ("com.", "https://example.com.", "origin must be https://host"),
        ("my_host", "https://my_host", "origin must be https://host"),
        ("example.com", "https://user@example.com", "origin must be https://host"),
        ("example.com", "ftp://example.com", "origin must be https://host"),
        ("example.com", "https://Trial.example.com", "origin must be https://host"),
        ("example.com", "https://\0.example.com", "origin must be https://host"),
        ("example.com", "https://example.com:port", "origin must be https://host"),
    ],
)
def test_a_page_that_no_browser_lets_register_is_refused(ben, rp_id, origin, said):
    with pytest.raises(ValueError, match=said):
        ben.passkey_options("Ben", rp_id, origin)


def test_a_domain_holds_for_its_hosts(people):
    options = people.passkey_options("Ben", "example.com", "https://trial.example.com:8443")
    answer = SoftwarePasskey().register(options, "https://trial.example.com:8443")
    assert people.add_passkey("Ben", answer).relying_party == "example.com"
