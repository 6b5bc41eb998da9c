"""Secrets: none of them is in the store, a backup or the log, and races spend each once."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import campaign_builders
from access_builders import PASSWORD, accept, add_person
from campaign_builders import create
from campaign_processes import nursery
from rareswitch.campaigns import (
    ConflictError,
    NotAllowedError,
    backup,
    migrate,
    open_store,
    restore,
)
from rareswitch.campaigns.access import Access, Grant, SignInError, operator
from software_passkey import SoftwarePasskey

AUDITOR, ADMINISTRATOR = Grant("trial", "auditor"), Grant("*", "administrator")
PATIENCE = 60.0
GOLDEN = Path(campaign_builders.__file__).parent / "golden"


def make_secrets(access):
    """Make one secret of each kind; return them and what they are made of."""
    session = access.sign_in("Ana", PASSWORD)
    _, token = access.issue_token("gateway", [AUDITOR], by="Ana")
    old, revoked = access.issue_token("old", [AUDITOR], by="Ana")
    access.revoke_token(old.id, by="Ana")
    invitation = access.invite("Ben", [AUDITOR], by="Ana")
    used = access.invite("Cyd", [AUDITOR], by="Ana")
    access.accept(used, "another plain one")
    reset = access.reset_password("Cyd", by="Ana")
    ended = access.sign_in("Ana", PASSWORD).secret
    access.sign_out(ended)
    challenge = access.passkey_options("Ana", "localhost", "http://localhost")["challenge"]
    for wrong in ("a wrong password of Ana", "typed in the wrong field"):
        with pytest.raises(SignInError):
            access.sign_in("Ana", wrong)
        with pytest.raises(SignInError):
            access.sign_in(wrong, wrong)
    whole = (session.secret, token, revoked, invitation, used, reset, ended)
    parts = [secret[21:] for secret in whole]
    return [
        *whole, *parts, session.csrf, challenge, PASSWORD, "another plain one",
        "a wrong password of Ana", "typed in the wrong field", "typedinthewrongfield",
    ]  # fmt: skip


def all_bytes(store, url):
    """Return all bytes of a store: the files of SQLite, or every row of a server."""
    if store.is_sqlite:
        return b"".join(path.read_bytes() for path in store.path.parent.iterdir() if path.is_file())
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql")) as connection:
        names = [
            name
            for (name,) in connection.execute(
                "select table_name from information_schema.tables where table_schema = 'public'"
            )
        ]
        rows = [connection.execute(f'select * from "{name}"').fetchall() for name in names]
    assert {"accounts", "tokens", "sessions", "access_log"} <= set(names)
    return repr(rows).encode()


def test_no_secret_is_in_the_store(access, store_url):
    secrets = make_secrets(access)
    written = all_bytes(access.store, store_url)
    assert b"gateway" in written  # the search finds what is there
    assert [secret for secret in secrets if secret.encode() in written] == []
    assert not [secret for secret in secrets if secret in str(access.log(limit=1000))]


def test_a_backup_has_accounts_and_tokens_and_no_session(access, tmp_path):
    create(access.store)
    secrets = make_secrets(access)
    key = SoftwarePasskey()
    page = ("localhost", "http://localhost:8000")
    access.add_passkey("Cyd", key.register(access.passkey_options("Cyd", *page)))
    (tmp_path / "kept").mkdir()
    backup(access.store, tmp_path / "kept" / "backup.db")
    written = (tmp_path / "kept" / "backup.db").read_bytes()
    assert [secret for secret in secrets if secret.encode() in written] == []
    with open_store(tmp_path / "new.db", create=True) as target:
        assert restore(tmp_path / "kept" / "backup.db", target) == ["trial"]
        again = Access(target, clock=access.clock)
        assert again.accounts() == access.accounts()
        assert again.tokens() == access.tokens()
        assert again.log(limit=1000) == access.log(limit=1000)
        assert again.passkeys("Cyd") == access.passkeys("Cyd") != []
        token, session, invitation = secrets[1], secrets[0], secrets[3]
        assert again.principal_of_token(token)
        assert again.session(session) is None
        with pytest.raises(SignInError):
            again.invitation(invitation)
        assert again.sign_in("Ana", PASSWORD)


def test_a_backup_gives_no_access_back(access, tmp_path):
    _, secret = access.issue_token("gateway", [AUDITOR], by="Ana")
    (tmp_path / "kept").mkdir()
    backup(access.store, tmp_path / "kept" / "backup.db")
    access.revoke_token(access.tokens()[0].id, by="Ana")
    restore(tmp_path / "kept" / "backup.db", access.store)
    assert access.principal_of_token(secret) is None
    assert [one.state for one in access.tokens()] == ["revoked"]


def test_an_old_store_has_no_accounts_and_can_be_given_some(tmp_path, cheap_passwords):
    shutil.copy(GOLDEN / "campaign-0.1.0.db", tmp_path / "store.db")
    migrate(tmp_path / "store.db")
    with open_store(tmp_path / "store.db") as store:
        access = Access(store)
        assert access.is_new
        assert access.accounts() == access.tokens() == access.log() == []
        add_person(access, "Ana", ADMINISTRATOR)
        assert access.sign_in("Ana", PASSWORD)


def test_two_processes_accept_one_invitation_once(access, store_url):
    access.clock.now = time.time()  # as it is in the processes
    secret = access.invite("Ben", [AUDITOR], by="Ana")
    context = nursery()
    barrier, pipes = context.Barrier(4), []
    for number in range(4):
        mine, theirs = context.Pipe(duplex=False)
        given = (store_url, theirs, barrier, secret, f"password of process {number}")
        context.Process(target=accept, args=given, daemon=True).start()
        theirs.close()
        pipes.append(mine)
    said = [pipe.recv() if pipe.poll(PATIENCE) else "silent" for pipe in pipes]
    assert sorted(said) == ["Ben", "refused", "refused", "refused"]
    winner = said.index("Ben")
    right = [access.check_password("Ben", f"password of process {n}") for n in range(4)]
    assert right == [number == winner for number in range(4)]


def outcomes(work, items):
    """Do the works at once; return their answers or the names of their errors."""

    def one(item):
        try:
            return work(item)
        except (ConflictError, NotAllowedError, SignInError) as error:
            return type(error).__name__

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, items))


def test_many_who_invite_one_person_make_one_account(access):
    secrets = outcomes(lambda n: access.invite("Ben", [AUDITOR], by="Ana"), range(16))
    assert len([one for one in access.accounts() if one.name == "Ben"]) == 1
    accepted = outcomes(lambda secret: access.accept(secret, PASSWORD).name, secrets)
    assert sorted(accepted) == ["Ben"] + ["SignInError"] * 15


def test_administrators_who_disable_each_other_leave_one(access):
    names = ["Ana", *(f"person {letter}" for letter in "bcdefgh")]
    for name in names[1:]:
        add_person(access, name, ADMINISTRATOR)
    said = outcomes(lambda name: access.disable(name, by=operator("root")).disabled, names)
    assert sorted(map(str, said)) == ["NotAllowedError"] + ["True"] * 7
    assert sum(not one.disabled for one in access.accounts()) == 1


def test_the_log_is_numbered_without_a_gap_by_many_at_once(access, store_url):
    with open_store(store_url) as other:
        both = (access, Access(other, clock=access.clock))
        outcomes(lambda n: both[n % 2].issue_token(f"t{n}", [AUDITOR], by="Ana")[0].id, range(24))
    assert [entry.number for entry in access.log()] == list(range(1, 27))
    assert len(access.tokens()) == 24
