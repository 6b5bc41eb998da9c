"""Access from the command line: every command in words and in JSON, and secrets shown once."""

import json

import pytest

from access_builders import PASSWORD
from cli.terminal import call, refused
from rareswitch.campaigns import open_store
from rareswitch.campaigns.access import Access, Grant
from rareswitch.cli.access import access as group


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("RARESWITCH_STORE", "RARESWITCH_ACTOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def said(*arguments):
    result = call("access", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def spoken(*arguments):
    return json.loads(said(*arguments, "--json"))


def failed(*arguments):
    result = call("access", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def opened(work):
    """Do some work with the access to the store."""
    with open_store("campaign.db") as store:
        return work(Access(store))


def with_person(name, *grants):
    made = spoken("invite", name, *(part for grant in grants for part in ("--grant", *grant)))
    opened(lambda access: access.accept(made["secret"], PASSWORD))


def test_every_command_has_examples_and_json():
    for name, command in group.commands.items():
        assert f"rareswitch access {name}" in command.help
        assert any(option.name == "as_json" for option in command.params)


def test_the_first_person_is_administrator(folder):
    text = said("invite", "Ana Ruiz", "--url", "https://trial.example/")
    assert "Ana Ruiz, administrator in all campaigns" in text
    assert "it works once, within 72 hours" in text
    (line,) = [line for line in text.splitlines() if line.startswith("link ")]
    link = line.split()[-1]
    assert link.startswith("https://trial.example/invitations/rsi_")
    again = spoken("invite", "Ana Ruiz")
    assert again["link"] == f"http://localhost:8000/invitations/{again['secret']}"
    secret = link.rpartition("/")[2]
    assert secret not in said("accounts") + said("log") + said("accounts", "--json")
    opened(lambda access: access.accept(again["secret"], PASSWORD))
    assert spoken("accounts")[0]["accepted"] is True
    assert spoken("invite", "Ben")["grants"] == []


def test_people_and_roles(folder):
    with_person("Ana")
    with_person("Ben Okoro", ("approver", "trial"), ("site:berlin", "other"))
    assert spoken("accounts")[1]["grants"] == [
        {"campaign": "other", "role": "site", "site": "berlin"},
        {"campaign": "trial", "role": "approver"},
    ]
    assert said("grant", "ben okoro", "auditor", "*", "--by", "Ana").startswith(
        "Ben Okoro: active, auditor in all campaigns, site berlin in other, approver in trial"
    )
    assert "Ben Okoro: active, auditor" in said("withdraw", "Ben Okoro", "approver", "trial")
    assert said("disable", "Ben Okoro").startswith("Ben Okoro: disabled")
    names = [line.split("  ")[0] for line in said("accounts").splitlines()]
    assert names == ["name", "Ana", "Ben Okoro"]
    assert [one["disabled"] for one in spoken("accounts")] == [False, True]
    assert spoken("enable", "Ben Okoro")["disabled"] is False
    assert "Ana is the last administrator" in failed("disable", "Ana")
    assert "Ana is the last administrator" in failed("withdraw", "Ana", "administrator", "*")


def test_a_token_is_shown_once_and_revoked(folder):
    with_person("Ana")
    text = said("token", "gateway", "--grant", "site:berlin", "trial", "--days", "2")
    secret = next(word for word in text.split() if word.startswith("rsw_"))
    assert text.count(secret) == 1
    assert "shown this once" in text
    found = opened(lambda access: access.principal_of_token(secret))
    assert found.grants == (Grant("trial", "site", "berlin"),)
    (listed,) = spoken("tokens")
    assert (listed["label"], listed["state"], listed["issuer"]) == ("gateway", "valid", "operator")
    assert secret not in said("tokens") + said("log") + said("log", "--json")
    assert said("revoke", listed["id"]) == f"token {listed['id']} is revoked: gateway\n"
    assert opened(lambda access: access.principal_of_token(secret)) is None
    assert "revoked" in said("tokens")
    made = spoken("token", "other", "--grant", "auditor", "*")
    assert opened(lambda access: access.principal_of_token(made["secret"])) is not None


def test_a_token_in_a_name(folder):
    with_person("Ana")
    with_person("Ben", ("approver", "trial"))
    made = spoken("token", "mine", "--grant", "approver", "trial", "--account", "ben")
    assert made["account"] == "ben"
    personal = failed("token", "robot", "--grant", "approver", "trial")
    assert "needs an account" in personal
    assert "name the person with --account NAME" in personal
    assert "those of the account" in failed(
        "token", "mine", "--grant", "auditor", "trial", "--account", "ben"
    )


def test_a_password_is_reset(folder):
    with_person("Ana")
    made = spoken("reset", "ana", "--hours", "1")
    opened(lambda access: access.accept(made["secret"], "another plain one"))
    assert opened(lambda access: access.check_password("Ana", "another plain one"))


def test_the_log_names_who_did_it(folder, monkeypatch):
    with_person("Ana")
    monkeypatch.setenv("RARESWITCH_ACTOR", "root")
    said("invite", "Ben")
    log = spoken("log")
    assert [(one["number"], one["by"], one["via"], one["action"]) for one in log] == [
        (1, "operator", "machine", "invited"),
        (2, "Ana", "session", "accepted"),
        (3, "root", "machine", "invited"),
    ]
    assert [one["number"] for one in spoken("log", "--after", "1", "--limit", "1")] == [2]
    assert "root (machine)" in said("log", "--after", "2")
    assert said("log", "--after", "9") == "no entries\n"


def test_an_empty_store_says_so(folder):
    open_store("campaign.db", create=True).close()
    assert (said("accounts"), said("tokens")) == ("no accounts\n", "no tokens\n")


def test_refusals_are_one_line(folder):
    assert "there is no store" in refused("access", "accounts")
    with_person("Ana")
    assert "role must be one of" in refused("access", "grant", "Ana", "boss", "trial")
    for asked in (("grant", "Ana", "site", "trial"), ("invite", "Ben", "--grant", "site", "trial")):
        assert "write site:NAME" in refused("access", *asked)
    assert "name must be a person" in refused("access", "invite", "engine")
    assert "by must be one line" in refused("access", "invite", "Ben", "--by", "a\x1bb")
    assert "grants must not be empty" in refused("access", "token", "x")
    assert "account must exist in the store" in failed("disable", "Zed")
    assert "id must be that of a token" in failed("revoke", "0123456789abcdef")
    assert "Ana has an account already" in failed("invite", "ana")
    assert "Ana is not auditor in trial" in failed("withdraw", "Ana", "auditor", "trial")


def test_a_campaign_that_is_not_there_yet_is_named(folder):
    for asked in (
        ("invite", "Ben", "--grant", "approver", "pian", "--grant", "administrator", "*"),
        ("grant", "Ben", "auditor", "pian"),
        ("token", "gateway", "--grant", "site:berlin", "pian"),
    ):
        result = call("access", *asked)
        assert result.exit_code == 0
        assert result.stderr == "the store has no campaign pian yet\n"


def test_libraries_that_are_missing_are_named(folder, monkeypatch):
    monkeypatch.setattr(
        "rareswitch.support.extras.find_spec", lambda name: None if name == "argon2" else True
    )
    assert "pip install '.[service]'" in failed("invite", "Ana")
