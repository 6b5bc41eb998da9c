"""Accounts: one for each person, invited once, with roles that only administrators change."""

import pytest

from access_builders import ADMINISTRATOR, PASSWORD, Clock, actions, add_person
from rareswitch.campaigns import ConflictError, NotAllowedError
from rareswitch.campaigns.access import (
    Access,
    ForbiddenError,
    Grant,
    Principal,
    SignInError,
    UnknownError,
    operator,
)

AUDITOR = Grant("trial", "auditor")
SPENT = "it was used, replaced or has expired"


def test_a_store_is_new_until_the_first_invitation_is_accepted(store, cheap_passwords):
    access = Access(store, clock=Clock())
    assert access.is_new
    secret = access.invite("Ana", [ADMINISTRATOR], by="serve")
    assert access.is_new
    again = access.invite("Ana", [ADMINISTRATOR], by="serve")
    with pytest.raises(SignInError, match=SPENT):
        access.accept(secret, PASSWORD)
    assert access.accept(again, PASSWORD).grants == (ADMINISTRATOR,)
    assert not access.is_new
    with pytest.raises(ForbiddenError, match="by must be a person whose account can sign in"):
        access.invite("Eve", [ADMINISTRATOR], by="serve")
    assert [entry.via for entry in access.log()] == ["machine", "machine", "session"]


def test_an_invitation_is_spent_once(access):
    secret = access.invite("Ben", [AUDITOR], by="Ana")
    assert access.invitation(secret).name == "Ben"
    assert access.invitation(secret).grants == (AUDITOR,)
    assert not access.account("Ben").accepted
    access.accept(secret, PASSWORD)
    for use in (access.invitation, lambda secret: access.accept(secret, "another plain one")):
        with pytest.raises(SignInError, match=SPENT):
            use(secret)
    assert access.check_password("Ben", PASSWORD)


def test_an_invitation_ends_with_its_time(access):
    secret = access.invite("Ben", [AUDITOR], by="Ana", hours=2)
    access.clock.now += 7199
    assert access.invitation(secret).expires == "2027-01-15T10:00:00.000+00:00"
    access.clock.now += 1
    with pytest.raises(SignInError, match=SPENT):
        access.accept(secret, PASSWORD)
    with pytest.raises(SignInError):
        access.sign_in("Ben", PASSWORD)


def test_what_is_no_invitation_is_refused(access):
    for damaged in ("", "x", None, 7, "rsi_0123456789abcdef_", "\0", "ü" * 90):
        with pytest.raises(SignInError, match=SPENT):
            access.invitation(damaged)


def test_a_changed_secret_is_refused(access):
    secret = access.invite("Ben", [AUDITOR], by="Ana")
    other = access.invite("Cyd", [AUDITOR], by="Ana")
    mixed = secret[:21] + other[21:]
    for wrong in (mixed, secret[:-1] + ("A" if secret[-1] != "A" else "B"), f"{secret} "):
        with pytest.raises(SignInError):
            access.accept(wrong, PASSWORD)
    token = "rsw" + secret[3:]
    with pytest.raises(SignInError):
        access.accept(token, PASSWORD)


def test_a_bad_password_leaves_the_invitation(access):
    secret = access.invite("Ben", [AUDITOR], by="Ana")
    with pytest.raises(ValueError, match="12 characters or more; got 5"):
        access.accept(secret, "short")
    assert access.accept(secret, PASSWORD).accepted


def test_spellings_of_one_name_are_one_account(access):
    add_person(access, "Ben Okoro", AUDITOR)
    for spelling in ("ben okoro", "BEN  OKORO", "Bén Okoro", "benokoro"):
        assert access.account(spelling).name == "Ben Okoro"
        assert access.sign_in(spelling, PASSWORD).name == "Ben Okoro"
        with pytest.raises(ConflictError, match="Ben Okoro has an account already"):
            access.invite(spelling, [], by="Ana")
    assert [one.account for one in access.accounts()] == ["ana", "benokoro"]


@pytest.mark.parametrize("name", ["engine", "schedule", "nobody", "operator", "", "a\0b", "..."])
def test_names_that_are_no_person_are_refused(file_access, name):
    with pytest.raises(ValueError, match="name must"):
        file_access.invite(name, [], by="Ana")


def test_only_an_administrator_of_all_campaigns_changes_accounts(access):
    add_person(access, "Ben", *(Grant("trial", role) for role in ("administrator", "approver")))
    add_person(access, "Cyd", AUDITOR)
    ben = access.sign_in("Ben", PASSWORD).principal
    before = actions(access)
    for by in ("Ben", ben, Principal("Ben", "ben", (ADMINISTRATOR,), "session")):
        for change in (
            lambda by: access.invite("Eve", [], by=by),
            lambda by: access.grant("Ben", ADMINISTRATOR, by=by),
            lambda by: access.withdraw_grant("Cyd", AUDITOR, by=by),
            lambda by: access.disable("Cyd", by=by),
            lambda by: access.enable("Cyd", by=by),
            lambda by: access.reset_password("Cyd", by=by),
        ):
            with pytest.raises(ForbiddenError, match="administrator of all campaigns"):
                change(by)
    assert actions(access) == before


def test_roles_are_given_and_withdrawn_at_once(access):
    add_person(access, "Ben", AUDITOR)
    session = access.sign_in("Ben", PASSWORD).secret
    assert access.principal_of_session(session).roles("trial") == {"auditor"}
    assert access.grant("Ben", Grant("trial", "monitor"), by="Ana").grants == (
        AUDITOR,
        Grant("trial", "monitor"),
    )
    assert access.principal_of_session(session).roles("trial") == {"auditor", "monitor"}
    access.grant("Ben", AUDITOR, by="Ana")  # has it already
    assert access.withdraw_grant("Ben", AUDITOR, by="Ana").grants == (Grant("trial", "monitor"),)
    assert access.principal_of_session(session).roles("trial") == {"monitor"}
    with pytest.raises(NotAllowedError, match="Ben is not auditor in trial"):
        access.withdraw_grant("Ben", AUDITOR, by="Ana")
    told = [entry for entry in access.log() if "grant" in entry.action]
    assert [(one.action, one.details["grant"]["role"]) for one in told] == [
        ("granted", "monitor"),
        ("grant-withdrawn", "auditor"),
    ]


def test_an_account_has_one_site_in_a_campaign(access):
    add_person(access, "Ben", Grant("trial", "site", "berlin"))
    with pytest.raises(ValueError, match="one site for a campaign; got berlin and oslo in trial"):
        access.grant("Ben", Grant("trial", "site", "oslo"), by="Ana")
    access.grant("Ben", Grant("other", "site", "oslo"), by="Ana")


def test_the_last_administrator_stays(access):
    access.invite("Ben", [ADMINISTRATOR], by="Ana")  # has not accepted, so cannot help
    for change in (
        lambda: access.disable("Ana", by="Ana"),
        lambda: access.disable("Ana", by=operator("root")),
        lambda: access.withdraw_grant("Ana", ADMINISTRATOR, by="Ana"),
    ):
        with pytest.raises(NotAllowedError, match="Ana is the last administrator"):
            change()
    assert not access.account("Ana").disabled
    assert access.account("Ana").grants == (ADMINISTRATOR,)
    add_person(access, "Cyd", ADMINISTRATOR)
    access.disable("Ana", by="Cyd")
    with pytest.raises(NotAllowedError, match="Cyd is the last administrator"):
        access.disable("Cyd", by="Cyd")


def test_a_disabled_account_opens_nothing(access):
    add_person(access, "Ben", AUDITOR)
    session = access.sign_in("Ben", PASSWORD)
    token, secret = access.issue_token("notebook", [AUDITOR], by=session.principal)
    assert access.disable("Ben", by="Ana").disabled
    assert access.session(session.secret) is None
    assert access.principal_of_token(secret) is None
    assert access.check_password("Ben", PASSWORD) is False
    with pytest.raises(SignInError, match="name or password is wrong"):
        access.sign_in("Ben", PASSWORD)
    with pytest.raises(ForbiddenError):
        access.issue_token("again", [AUDITOR], by=session.principal)
    with pytest.raises(NotAllowedError, match="enable it first"):
        access.reset_password("Ben", by="Ana")
    access.enable("Ben", by="Ana")
    assert access.session(session.secret) is None
    assert access.principal_of_token(secret).name == "Ben"
    assert access.sign_in("Ben", PASSWORD)
    assert token.state == "valid"


def test_disabling_ends_an_open_invitation(access):
    secret = access.invite("Ben", [AUDITOR], by="Ana")
    access.disable("Ben", by="Ana")
    access.enable("Ben", by="Ana")
    with pytest.raises(SignInError, match=SPENT):
        access.accept(secret, PASSWORD)


def test_a_lost_password_is_reset(access):
    add_person(access, "Ben", AUDITOR)
    session = access.sign_in("Ben", PASSWORD).secret
    _, token = access.issue_token("own", [AUDITOR], by=operator("ops"), account="Ben")
    secret = access.reset_password("Ben", by="Ana")
    assert access.session(session) is not None
    assert access.principal_of_token(token) is not None
    access.accept(secret, "another plain one")
    assert access.session(session) is None
    assert access.principal_of_token(token) is None
    assert access.check_password("Ben", "another plain one")
    assert not access.check_password("Ben", PASSWORD)


def test_an_unknown_account_is_named(access):
    for name in ("Zed", "", "x" * 100_000, "\ud800", "a\0b\0"):
        with pytest.raises(UnknownError, match="account must exist in the store"):
            access.account(name)
        with pytest.raises(SignInError):
            access.sign_in(name, PASSWORD)


def test_the_log_has_every_change_without_a_gap(access):
    add_person(access, "Ben", AUDITOR)
    session = access.sign_in("Ben", PASSWORD)
    access.sign_out(session.secret)
    access.sign_out(session.secret)
    assert actions(access) == [
        ("Ana", "invited", "Ana"),
        ("Ana", "accepted", "Ana"),
        ("Ana", "invited", "Ben"),
        ("Ben", "accepted", "Ben"),
        ("Ben", "signed-in", "Ben"),
        ("Ben", "signed-out", "Ben"),
    ]
    assert [entry.number for entry in access.log()] == [1, 2, 3, 4, 5, 6]
    assert [entry.number for entry in access.log(after=2, limit=2)] == [3, 4]
    assert [entry.number for entry in access.latest_log(2)] == [6, 5]
    assert access.log()[2].plain == {
        "number": 3,
        "at": "2027-01-15T08:00:00.000+00:00",
        "by": "Ana",
        "via": "session",
        "action": "invited",
        "about": "Ben",
        "details": {"grants": [{"campaign": "trial", "role": "auditor"}]},
    }
    with pytest.raises(ValueError, match="limit must be"):
        access.log(limit=0)


def test_what_fails_is_not_in_the_log(access):
    before = actions(access)
    with pytest.raises(NotAllowedError):
        access.disable("Ana", by="Ana")
    sites = [Grant("trial", "site", "berlin"), Grant("trial", "site", "oslo")]
    with pytest.raises(ValueError, match="one site"):
        access.invite("Ben", sites, by="Ana")
    assert actions(access) == before
    assert [one.name for one in access.accounts()] == ["Ana"]
