"""Tokens: issued within the issuer's roles, found in constant time, expired and revoked."""

import hmac
import threading
import time

import pytest

from access_builders import ADMINISTRATOR, PASSWORD, actions, add_person
from rareswitch.campaigns import open_store
from rareswitch.campaigns.access import Access, ForbiddenError, Grant, UnknownError, cache, operator

BERLIN = Grant("trial", "site", "berlin")
AUDITOR, APPROVER = Grant("trial", "auditor"), Grant("trial", "approver")


def test_a_token_opens_its_roles(access):
    token, secret = access.issue_token("gateway", [BERLIN], by="Ana")
    assert secret.startswith("rsw_")
    assert len(secret) == 4 + 16 + 1 + 43
    found = access.principal_of_token(secret)
    assert (found.name, found.account, found.via) == ("token gateway", None, "token")
    assert found.grants == (BERLIN,)
    assert access.tokens() == [token]
    assert token.plain["grants"] == [BERLIN.plain]
    assert secret not in repr(token)
    assert secret not in str(access.log())


def test_a_token_expires(access):
    token, secret = access.issue_token("gateway", [BERLIN], by="Ana", days=2)
    assert token.expires == "2027-01-17T08:00:00.000+00:00"
    access.clock.now += 2 * 86_400 - 1
    assert access.principal_of_token(secret)
    access.clock.now += 1  # the cache still has it
    assert access.principal_of_token(secret) is None
    assert access.cached_principal(secret) is None
    access._cache.clear()
    assert access.principal_of_token(secret) is None
    assert [one.state for one in access.tokens()] == ["expired"]


def test_a_revoked_token_is_refused_at_once(access):
    token, secret = access.issue_token("gateway", [BERLIN], by="Ana")
    _, kept = access.issue_token("other", [BERLIN], by="Ana")
    assert access.principal_of_token(secret)
    revoked = access.revoke_token(token.id, by="Ana")
    assert revoked.state == "revoked"
    assert access.principal_of_token(secret) is None
    assert access.cached_principal(secret) is None
    assert access.principal_of_token(kept)
    access.clock.now += 5
    assert access.revoke_token(token.id, by="Ana") == revoked
    assert [what for _, what, _ in actions(access)].count("token-revoked") == 1


def test_a_token_revoked_elsewhere_is_refused_within_a_second(access, store_url):
    token, secret = access.issue_token("gateway", [BERLIN], by="Ana")
    assert access.principal_of_token(secret)
    with open_store(store_url) as other:
        Access(other, clock=access.clock).revoke_token(token.id, by="Ana")
    time.sleep(cache.SECONDS + 0.05)
    assert access.principal_of_token(secret) is None


def test_all_users_of_an_open_store_share_what_was_revoked(access):
    other = Access(access.store, clock=access.clock)
    token, secret = access.issue_token("gateway", [BERLIN], by="Ana")
    assert other.principal_of_token(secret)
    access.revoke_token(token.id, by="Ana")
    assert other.principal_of_token(secret) is None


def test_a_revocation_overtakes_a_principal_that_is_being_read(access, monkeypatch):
    token, secret = access.issue_token("gateway", [BERLIN], by="Ana")
    load = access._token_principal
    read, go_on = threading.Event(), threading.Event()

    def slow(given):
        found = load(given)
        read.set()
        assert go_on.wait(20)
        return found

    monkeypatch.setattr(access, "_token_principal", slow)
    late = threading.Thread(target=access.principal_of_token, args=(secret,))
    late.start()
    assert read.wait(20)
    access.revoke_token(token.id, by="Ana")
    go_on.set()
    late.join(20)
    assert access.cached_principal(secret) is None
    assert access.principal_of_token(secret) is None


def test_the_store_is_asked_once_a_second(access, monkeypatch):
    _, secret = access.issue_token("gateway", [BERLIN], by="Ana")
    assert access.cached_principal(secret) is None
    first = access.principal_of_token(secret)
    assert access.cached_principal(secret) is first

    def never(*_):
        raise AssertionError("asked the store")

    monkeypatch.setattr(access.store, "reading", never)
    assert access.principal_of_token(secret) is first
    monkeypatch.setattr(cache, "SECONDS", 0.0)
    with pytest.raises(AssertionError, match="asked the store"):
        access.principal_of_token(secret)
    assert access.cached_principal(secret) is None


def test_the_cache_is_bounded(file_access, monkeypatch):
    monkeypatch.setattr(cache, "MOST", 3)
    secrets = [file_access.issue_token(f"t{n}", [BERLIN], by="Ana")[1] for n in range(5)]
    for secret in secrets:
        assert file_access.principal_of_token(secret)
        assert len(file_access._cache._known) <= 3


def test_what_is_no_token_is_refused(access):
    for damaged in (
        "", "rsw_", None, 7, b"rsw_", "rsw_0123456789abcdef_" + "x" * 43, "rsw_\0",
        "rsw_0123456789ABCDEF_" + "x" * 43, "ü" * 64, "rsw_" + "x" * 100_000, "Bearer rsw_",
    ):  # fmt: skip
        assert access.principal_of_token(damaged) is None
        assert access.cached_principal(damaged) is None


def test_a_changed_secret_is_refused(access):
    _, one = access.issue_token("one", [BERLIN], by="Ana")
    _, other = access.issue_token("other", [BERLIN], by="Ana")
    last = "A" if one[-1] != "A" else "B"
    for wrong in (one[:21] + other[21:], one[:-1] + last, one + "\n", " " + one, one.upper()):
        assert access.principal_of_token(wrong) is None
    session = access.sign_in("Ana", PASSWORD).secret
    assert access.principal_of_token(session) is None


def test_digests_are_compared_in_constant_time(file_access, monkeypatch):
    _, secret = file_access.issue_token("one", [BERLIN], by="Ana")
    _, other = file_access.issue_token("other", [BERLIN], by="Ana")
    session = file_access.sign_in("Ana", PASSWORD).secret
    invitation = file_access.invite("Ben", [], by="Ana")
    compared = []

    def watched(one, other):
        compared.append((one, other))
        return compare(one, other)

    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", watched)
    file_access._cache.clear()
    assert file_access.principal_of_token(secret)
    assert file_access.principal_of_token(secret[:21] + other[21:]) is None
    assert file_access.principal_of_session(session)
    assert file_access.invitation(invitation)
    assert [one == other for one, other in compared] == [True, False, True, True]
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: False)
    file_access._cache.clear()
    assert file_access.principal_of_token(secret) is None
    assert file_access.principal_of_session(session) is None


# --- who may issue what ---------------------------------------------------------------------------


def test_a_site_issues_tokens_of_its_own_site_in_its_own_name(access):
    add_person(access, "Site Berlin", BERLIN)
    site = access.sign_in("Site Berlin", PASSWORD).principal
    token, secret = access.issue_token("tablet 3", [BERLIN], by=site)
    assert (token.account, token.issuer) == ("siteberlin", "Site Berlin")
    assert access.principal_of_token(secret).site("trial") == "berlin"
    for other in (
        Grant("trial", "site", "oslo"),
        Grant("*", "site", "berlin"),
        Grant("other", "site", "berlin"),
        AUDITOR,
        ADMINISTRATOR,
    ):
        with pytest.raises(ForbiddenError, match="grants must be your own"):
            access.issue_token("x", [other], by=site)
    assert len(access.tokens()) == 1
    assert access.tokens("Site Berlin") == [token]
    assert access.tokens("Ana") == []


def test_a_grant_in_all_campaigns_may_be_given_for_one(access):
    add_person(access, "Ben", Grant("*", "auditor"))
    _, secret = access.issue_token("one", [AUDITOR], by="Ben")
    assert access.principal_of_token(secret).grants == (AUDITOR,)


def test_a_token_issues_none_in_the_name_of_its_person(access):
    add_person(access, "Ben", AUDITOR, BERLIN)
    _, secret = access.issue_token("narrow", [AUDITOR], by="Ben")
    narrow = access.principal_of_token(secret)
    for grant in (AUDITOR, BERLIN):
        with pytest.raises(ForbiddenError, match="a token cannot issue a token"):
            access.issue_token("another", [grant], by=narrow)
        with pytest.raises(ForbiddenError, match="a token cannot issue a token"):
            access.issue_token("another", [grant], by=narrow, account="Ben")


def test_a_token_in_a_name_loses_what_the_person_loses(access):
    add_person(access, "Ben", AUDITOR, BERLIN)
    _, secret = access.issue_token("both", [AUDITOR, BERLIN], by="Ben")
    assert access.principal_of_token(secret).roles("trial") == {"auditor", "site"}
    assert access.principal_of_token(secret).name == "Ben"
    access.withdraw_grant("Ben", AUDITOR, by="Ana")
    assert access.principal_of_token(secret).roles("trial") == {"site"}
    access.grant("Ben", AUDITOR, by="Ana")
    assert access.principal_of_token(secret).roles("trial") == {"auditor", "site"}


def test_nobody_gets_a_token_in_the_name_of_another(access):
    add_person(access, "Ben", APPROVER)
    with pytest.raises(ForbiddenError, match="a token cannot act for another person"):
        access.issue_token("x", [APPROVER], by="Ana", account="Ben")
    token, secret = access.issue_token("x", [APPROVER], by=operator("root"), account="Ben")
    assert access.principal_of_token(secret).account == token.account == "ben"
    with pytest.raises(ForbiddenError, match="grants must be those of the account"):
        access.issue_token("x", [AUDITOR], by=operator("root"), account="Ben")
    access.invite("Cyd", [AUDITOR], by="Ana")
    with pytest.raises(ForbiddenError, match="Cyd cannot"):
        access.issue_token("x", [AUDITOR], by=operator("root"), account="Cyd")


def test_only_a_person_approves(access):
    with pytest.raises(ForbiddenError, match="approver needs an account"):
        access.issue_token("robot", [APPROVER], by="Ana")
    add_person(access, "Ben", APPROVER)
    _, secret = access.issue_token("mine", [APPROVER], by="Ben")
    assert access.principal_of_token(secret).account == "ben"


def test_tokens_are_revoked_by_their_owner_or_an_administrator(access):
    add_person(access, "Ben", AUDITOR)
    add_person(access, "Cyd", AUDITOR)
    mine, _ = access.issue_token("mine", [AUDITOR], by="Ben")
    with pytest.raises(ForbiddenError, match="by its owner or by an administrator"):
        access.revoke_token(mine.id, by="Cyd")
    assert access.revoke_token(mine.id, by="Ben").state == "revoked"
    device, _ = access.issue_token("device", [AUDITOR], by="Ana")
    with pytest.raises(ForbiddenError):
        access.revoke_token(device.id, by="Ben")
    for unknown in ("0" * 16, "", None, "\0", "'; drop table tokens"):
        with pytest.raises(UnknownError, match="id must be that of a token"):
            access.revoke_token(unknown, by="Ana")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"label": ""}, "label must not be empty"),
        ({"label": "a\nb"}, "label must be one line"),
        ({"label": "x" * 201}, "label must have at most 200"),
        ({"grants": []}, "grants must not be empty"),
        ({"days": 0}, "days must be a finite number above 0"),
        ({"days": 4000}, "days must be"),
        ({"days": float("nan")}, "days must be"),
    ],
)
def test_wrong_arguments_are_named(file_access, changed, said):
    given = {"label": "x", "grants": [BERLIN], "days": 1} | changed
    with pytest.raises(ValueError, match=said):
        file_access.issue_token(**given, by="Ana")
    with pytest.raises(TypeError, match="grants must be a list of Grant"):
        file_access.issue_token("x", BERLIN, by="Ana")
