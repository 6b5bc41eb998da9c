"""Signing in: passwords, waits after wrong ones, and sessions that end."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from access_builders import PASSWORD, Clock, actions, add_person, with_administrator
from rareswitch.campaigns import UnavailableError, open_store
from rareswitch.campaigns.access import Access, Grant, SignInError, TooManyError, passwords
from rareswitch.campaigns.access.attempts import LONGEST, wait_after
from rareswitch.campaigns.access.passwords import checked_password
from rareswitch.campaigns.access.tables import accounts, attempts, sessions
from rareswitch.campaigns.rulebook.names import person_key

AUDITOR = Grant("trial", "auditor")
WRONG = "some other password"


def outcome(access, name="Ana", password=WRONG):
    """Return how an attempt to sign in ends: "in", "wrong" or the seconds to wait."""
    try:
        access.sign_in(name, password)
    except SignInError:
        return "wrong"
    except TooManyError as error:
        return error.retry_after
    return "in"


# --- passwords ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("elevenchars", "12 characters or more; got 11"),
        ("", "12 characters or more; got 0"),
        ("ﬁﬁﬁﬁﬁ", "12 characters or more; got 10"),
        ("x" * 1025, "at most 1024 bytes"),
        ("é" * 513, "at most 1024 bytes"),
        ("ﷺ" * 60, "at most 1024 bytes"),  # NFKC makes eighteen letters of each
        ("twelve and \ud800", "at most 1024 bytes of Unicode text"),
        ("password1234", "one of the commonest"),
        ("PassWord1234", "one of the commonest"),
        ("ＰＡＳＳＷＯＲＤ１２３４", "one of the commonest"),
        ("aaaaaaaaaaaaaaaa", "one of the commonest"),
        ("121212121212", "one of the commonest"),
        ("Maria Fernandez", "the name itself"),
        ("maria.fernandez", "the name itself"),
        ("Maria FernandezMaria Fernandez", "the name itself"),
    ],
)
def test_weak_passwords_are_refused_and_not_shown(password, said):
    with pytest.raises(ValueError, match=said) as raised:
        checked_password(password, name="Maria Fernandez")
    assert not password or password not in str(raised.value)


@pytest.mark.parametrize("password", [None, 12345678901234, b"bytes of twelve", ["x"] * 12])
def test_passwords_of_other_types_are_refused(password):
    with pytest.raises(TypeError, match="password must be a text"):
        checked_password(password, name="Ana")


@pytest.mark.parametrize(
    "password",
    [
        "lowercase only",
        "x" * 500 + "yz12",
        "пароль из слов",
        "four words, no digits",
        "é" * 4 + "abcdef12",
    ],
)
def test_kinds_of_characters_do_not_matter(password):
    assert checked_password(password, name="Ana")


def test_forms_of_one_password_are_one(file_access):
    add_person(file_access, "Ben", password="café ﬁve hundred")
    for form in ("café ﬁve hundred", "cafe\u0301 five hundred"):
        assert file_access.check_password("Ben", form)
    assert not file_access.check_password("Ben", "CAFÉ five hundred")


@pytest.mark.parametrize(
    "password", ["", "x" * 5000, "\ud800" * 12, None, 7, "twelve\0plain words"]
)
def test_any_other_password_is_wrong(file_access, password):
    assert outcome(file_access, "Ana", password) == "wrong"
    assert file_access.check_password("Ana", password) is False


def test_hashes_have_the_settings_that_are_recommended():
    hashed = passwords.password_hash(PASSWORD)
    assert hashed.startswith("$argon2id$v=19$m=47104,t=1,p=1$")
    assert passwords.password_matches(hashed, PASSWORD)
    assert not passwords.password_matches(hashed, WRONG)
    assert not passwords.is_outdated(hashed)
    assert passwords.password_hash(PASSWORD) != hashed


def test_a_hash_of_other_settings_is_renewed_at_sign_in(access, cheap_passwords):
    old = PasswordHasher(time_cost=2, memory_cost=32, parallelism=1).hash(PASSWORD)

    def stored():
        with access.store.reading() as connection:
            return connection.execute(sa.select(accounts.c.password)).scalar_one()

    with access.changing() as connection:
        connection.execute(accounts.update().values(password=old))
    assert outcome(access) == "wrong"
    assert stored() == old
    session = access.sign_in("Ana", PASSWORD)
    assert stored() != old
    assert not cheap_passwords.check_needs_rehash(stored())
    assert access.session(session.secret) is not None
    assert outcome(access, "Ana", PASSWORD) == "in"


def test_a_hash_that_is_none_opens_nothing(access):
    for damaged in ("", "x", "$argon2id$v=19$m=64,t=1,p=1$", "\u00e9"):
        with access.changing() as connection:
            connection.execute(accounts.update().values(password=damaged))
            connection.execute(attempts.delete())
        assert outcome(access, "Ana", PASSWORD) == "wrong"


class Recorder:
    """Counts the work of a hasher."""

    def __init__(self, hasher):
        self.hasher, self.work = hasher, []

    def verify(self, hashed, password):
        self.work.append(hashed.rsplit("$", 2)[0])
        return self.hasher.verify(hashed, password)

    def __getattr__(self, name):
        return getattr(self.hasher, name)


def test_every_wrong_attempt_costs_the_same_work(file_access, cheap_passwords, monkeypatch):
    recorder = Recorder(cheap_passwords)
    monkeypatch.setattr(passwords, "_hasher", lambda: recorder)
    file_access.invite("Ben", [AUDITOR], by="Ana")  # has no password yet
    add_person(file_access, "Cyd", AUDITOR)
    file_access.disable("Cyd", by="Ana")
    recorder.work.clear()
    for name, password in (
        ("Ana", WRONG),
        ("nobody at all", WRONG),
        ("Ben", WRONG),
        ("Cyd", WRONG),
        ("Cyd", PASSWORD),
        ("Ana", "x" * 5000),
        ("nobody at all", "x" * 5000),
        ("Ana", "\ud800"),
    ):
        assert outcome(file_access, name, password) == "wrong"
    assert recorder.work == ["$argon2id$v=19$m=64,t=1,p=1"] * 8


@given(st.text())
def test_the_key_of_a_key_is_itself(name):
    """An account is found by its key as by its name."""
    assert person_key(person_key(name)) == person_key(name)


# --- waits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Ana", "nobody at all"])
def test_wrong_passwords_make_the_next_attempt_wait(access, name):
    assert [outcome(access, name) for _ in range(7)] == ["wrong"] * 5 + [1, 1]
    for wait in (1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300):
        access.clock.now += wait - 0.5
        assert outcome(access, name) == 1
        access.clock.now += 0.5
        assert outcome(access, name) == "wrong"
    assert outcome(access, name) == 300 == LONGEST


def test_nobody_waits_for_good(file_access):
    for _ in range(60):
        outcome(file_access)
        file_access.clock.now += LONGEST
    assert outcome(file_access, "Ana", PASSWORD) == "in"
    assert outcome(file_access) == "wrong"  # a right one begins anew
    assert wait_after(10**9) == LONGEST


def test_a_right_password_is_not_told_apart_while_it_waits(access):
    for _ in range(5):
        outcome(access)
    assert outcome(access, "Ana", PASSWORD) == outcome(access) == 1


def test_signatures_wait_as_sign_ins_do_but_are_counted_apart(access):
    for _ in range(8):
        outcome(access)
    for _ in range(5):
        assert access.check_password("Ana", WRONG) is False
    with pytest.raises(TooManyError, match="try again in 1 s") as raised:
        access.check_password("Ana", PASSWORD)
    assert raised.value.plain["retry_after"] == raised.value.retry_after == 1
    with pytest.raises(TooManyError):
        access.change_password("Ana", PASSWORD, "another plain one")


def test_each_account_waits_for_itself(access):
    add_person(access, "Ben", AUDITOR)
    for _ in range(6):
        outcome(access, "Ben")
    assert outcome(access, "Ben", PASSWORD) == 1
    assert outcome(access, "Ana", PASSWORD) == "in"


def test_another_process_knows_of_wrong_passwords(store, store_url, cheap_passwords):
    clock = Clock()
    access = with_administrator(store, clock)
    for _ in range(4):
        outcome(access)
    with open_store(store_url) as again:
        other = Access(again, clock=clock)
        assert [outcome(other), outcome(other), outcome(access)] == ["wrong", 1, 1]


def test_attempts_are_forgotten_after_an_hour(access):
    for number in range(20):
        outcome(access, f"nobody {number}")
    for _ in range(5):
        outcome(access)
    access.clock.now += 3601
    assert outcome(access) == "wrong"
    with access.store.reading() as connection:
        (row,) = connection.execute(sa.select(attempts)).all()
    assert row.failures == 1


def test_a_clock_that_is_put_back_locks_nobody_out(access):
    for _ in range(5):
        outcome(access)
    access.clock.now -= 10 * 365 * 86_400
    assert [outcome(access), outcome(access)] == ["wrong", 2]
    access.clock.now += 2
    assert outcome(access, "Ana", PASSWORD) == "in"


def test_many_threads_gain_no_attempt(access):
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: outcome(access), range(32)))
    assert sorted(found, key=str) == [1] * 27 + ["wrong"] * 5


def test_many_threads_of_one_person_may_sign_in(access):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: outcome(access, "Ana", PASSWORD), range(12)))
    assert found == ["in"] * 12
    with access.store.reading() as connection:
        assert connection.execute(sa.select(attempts)).all() == []


def test_the_log_tells_of_many_wrong_passwords_once(access):
    for _ in range(4):
        outcome(access)
        outcome(access, "nobody at all")
    assert outcome(access, "Ana", PASSWORD) == "in"
    for _ in range(30):
        outcome(access)
        outcome(access, "nobody at all")
        access.clock.now += 100
    told = [entry for entry in access.log() if entry.action == "passwords-failed"]
    assert [(one.by, one.about, one.details) for one in told] == [
        ("nobody", "Ana", {"attempts": 5})
    ]


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_is_that_of_its_account(access):
    add_person(access, "Ben Okoro", AUDITOR)
    session = access.sign_in("ben okoro", PASSWORD)
    assert (session.account, session.name) == ("benokoro", "Ben Okoro")
    assert session.principal.via == "session"
    assert access.session(session.secret) == session
    assert access.principal_of_session(session.secret).grants == (AUDITOR,)
    assert session.secret not in repr(session)
    assert session.csrf not in repr(session)


def test_csrf_tokens_belong_to_their_session(file_access):
    one, other = file_access.sign_in("Ana", PASSWORD), file_access.sign_in("Ana", PASSWORD)
    assert one.secret != other.secret
    assert one.has_csrf(one.csrf)
    for wrong in (other.csrf, "", None, one.secret, one.csrf + "0", "ü"):
        assert not one.has_csrf(wrong)
    assert file_access.session(one.secret).csrf == one.csrf


def test_a_session_ends_when_it_is_idle(access):
    secret = access.sign_in("Ana", PASSWORD).secret
    for _ in range(5):
        access.clock.now += 3599
        access._cache.clear()
        assert access.session(secret) is not None
    access.clock.now += 3600
    assert access.session(secret) is None
    access._cache.clear()
    assert access.session(secret) is None


def test_a_session_ends_after_half_a_day_of_use(access):
    secret = access.sign_in("Ana", PASSWORD).secret
    for _ in range(23):
        access.clock.now += 1800
        access._cache.clear()
        assert access.session(secret) is not None
    access.clock.now += 1800
    assert access.session(secret) is None
    access._cache.clear()
    assert access.session(secret) is None


def test_a_used_session_is_written_once_a_minute(file_access, monkeypatch):
    secret = file_access.sign_in("Ana", PASSWORD).secret
    touched = []
    touch = file_access._touch
    monkeypatch.setattr(
        file_access, "_touch", lambda *given: touched.append(given) or touch(*given)
    )
    for _ in range(100):
        file_access.clock.now += 3
        file_access._cache.clear()
        assert file_access.session(secret) is not None
    assert len(touched) == 5


def test_signing_in_again_ends_the_session_before(access):
    one = access.sign_in("Ana", PASSWORD)
    other = access.sign_in("Ana", PASSWORD, previous=one.secret)
    assert access.session(one.secret) is None
    assert access.session(other.secret) is not None
    access.sign_in("Ana", PASSWORD, previous="rss_nonsense")


def test_signing_out_ends_one_session(access):
    one, other = access.sign_in("Ana", PASSWORD), access.sign_in("Ana", PASSWORD)
    access.sign_out(one.secret)
    access.sign_out(other.secret[:21] + one.secret[21:])  # the id of one, the secret of another
    access.sign_out("nonsense")
    assert access.session(one.secret) is None
    assert access.session(other.secret) is not None


def test_a_changed_password_ends_all_sessions(access):
    add_person(access, "Ben", AUDITOR)
    held = [access.sign_in("Ben", PASSWORD).secret for _ in range(3)]
    mine = access.sign_in("Ana", PASSWORD).secret
    with pytest.raises(SignInError, match="present password is wrong"):
        access.change_password("Ben", WRONG, "another plain one")
    with pytest.raises(ValueError, match="12 characters"):
        access.change_password("Ben", PASSWORD, "short")
    assert all(map(access.session, held))
    access.change_password("Ben", PASSWORD, "another plain one")
    assert not any(map(access.session, held))
    assert access.session(mine)
    assert outcome(access, "Ben", PASSWORD) == "wrong"
    assert outcome(access, "Ben", "another plain one") == "in"
    assert ("Ben", "password-changed", "Ben") in actions(access)


def test_what_is_no_session_is_none(access):
    for damaged in ("", "x", None, 7, "rss_0123456789abcdef_", "rss_\0", "ü" * 64):
        assert access.session(damaged) is None
        assert access.principal_of_session(damaged) is None


def test_the_secrets_of_two_sessions_do_not_mix(access):
    one, other = access.sign_in("Ana", PASSWORD).secret, access.sign_in("Ana", PASSWORD).secret
    assert access.session(one[:21] + other[21:]) is None
    assert access.session("rsw" + one[3:]) is None


def test_sessions_that_are_over_are_deleted(access):
    for _ in range(3):
        access.sign_in("Ana", PASSWORD)
    access.clock.now += 13 * 3600
    access.sign_in("Ana", PASSWORD)
    with access.store.reading() as connection:
        assert len(connection.execute(sa.select(sessions)).all()) == 1


def test_a_store_without_room_still_knows_its_sessions(access, monkeypatch):
    secret = access.sign_in("Ana", PASSWORD).secret

    def full(*_):
        raise UnavailableError("there is no room left", full=True)

    monkeypatch.setattr(access.store, "changing", full)
    access._cache.clear()
    access.clock.now += 100
    assert access.session(secret) is not None
