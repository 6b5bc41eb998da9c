"""Comments, several signatures and countersignatures on the command line."""

import pytest

from authenticator import SoftwarePasskey
from cli.terminal import call
from cli.test_campaign_command import PROTOCOL, begun, proposed, recorded, said, spoken
from rareswitch import campaigns

SEVERAL = PROTOCOL.replace(
    'by = "second-person"',
    'by = "second-person"\nquorum = 2\ngroups = {clinic = ["cyd", "dora"]}\nexpires_after = 9\n'
    "countersign_rollbacks = true",
)


@pytest.fixture
def doors(tmp_path, monkeypatch):
    return begun(tmp_path, monkeypatch, SEVERAL)


def refused(*arguments):
    """Return the message of a decision that the campaign refuses."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def test_status_tells_who_has_signed_and_what_is_owed(doors):
    number = str(proposed(doors)["number"])
    shown = said("status")
    assert "needs 2 more approvals, one of clinic (cyd or dora): rareswitch campaign" in shown
    assert "expires at row 15 of the log" in shown
    answer = spoken("approve", number, "--by", "ben", "--reason", "fine")
    assert answer == {"approved": int(number), "owed": 1}
    shown = said("status")
    assert "signed by ben at " in shown
    assert "approve version 2 for deployment (name typed)" in shown
    assert "needs 1 more approval, one of clinic" in shown
    lacks = said("approve", number, "--by", "ben", "--reason", "fine")
    assert lacks.startswith(f"proposal {number} lacks 1 signature, of clinic (cyd or dora)")
    assert lacks.endswith("approved by ben, as before\n")
    done = said("approve", number, "--by", "dora", "--reason", "fine")
    assert done == "version 2 is in force, approved by dora\n"
    assert "ben approved candidate" in said("ledger")


def test_comments_are_on_record_and_in_the_words_about_a_candidate(doors):
    number = str(proposed(doors)["number"])
    told = ("--by", "zoe", "--reason", "the dose is safe")
    answer = spoken("comment", number, "--reviewed", *told)
    assert answer["meaning"] == f"reviewed candidate {number}"
    assert said("comment", number, *told).endswith(f"comment on candidate {number}\n")
    shown = said("candidates")
    assert f"reviewed candidate {number} (name typed): the dose is safe" in shown
    assert f"zoe commented on candidate {number}: the dose is safe" in said("ledger")
    assert "must be an entry that proposes" in refused("campaign", "comment", "1", *told)


def test_a_candidate_that_expired_says_so(doors):
    proposed(doors)
    recorded(doors, 9, first=6)
    shown = said("candidates")
    assert "void: 9 episodes were recorded since candidate 3 was entered" in shown
    assert "engine let candidate 3 expire" in said("ledger")


def test_a_rollback_is_countersigned(doors):
    number = str(proposed(doors)["number"])
    for person in ("ben", "cyd"):
        said("approve", number, "--by", person, "--reason", "fine")
    said("rollback", "1", "--by", "ben", "--reason", "harm")
    shown = said("status")
    assert "rollback 7 by ben is in force; no candidate is deployed until another" in shown
    told = ("countersign", "7", "--reason", "right")
    assert "another person has to countersign" in refused("campaign", *told, "--by", "Ben")
    assert said(*told, "--by", "cyd") == "rollback 7 is countersigned\n"
    assert "countersign" not in said("status")
    assert "cyd countersigned rollback 7: right" in said("ledger")


def test_a_passkey_stands_below_its_entry(tmp_path, monkeypatch):
    folder = begun(tmp_path, monkeypatch)
    number = proposed(folder)["number"]
    key = SoftwarePasskey(5)
    with campaigns.open_store("sqlite:///campaign.db") as store:
        campaign = campaigns.Campaign(store, "doors")
        signature = key.sign(campaign.to_sign("approve", number))
        campaign.approve(number, by="ben", reason="fine", signature=signature)
        fingerprint = campaign.state.passkeys[key.credential].fingerprint
    line = f"approve version 2 for deployment (passkey {fingerprint[:16]}…)"
    for verb in ("ledger", "candidates"):
        assert line in said(verb)
    assert "ben has a passkey of localhost" in said("ledger")
    assert said("verify").endswith("verdict        proven, signed by one passkey\n")
    plain = spoken("verify")
    (check,) = [one for one in plain["checks"] if one["name"] == "signatures"]
    assert (check["passkeys"], check["passwords"]) == (1, 0)


def test_a_protocol_that_asks_for_passkeys_is_not_signed_here(tmp_path, monkeypatch):
    text = PROTOCOL.replace('by = "second-person"', 'by = "second-person"\nsignature = "passkey"')
    number = str(proposed(begun(tmp_path, monkeypatch, text))["number"])
    said_why = refused("campaign", "approve", number, "--by", "ben", "--reason", "fine")
    assert "signature must be by passkey, as the protocol asks; got no signature" in said_why
    assert "people sign on the pages of the service" in said_why
    for verb in ("status", "candidates", "learn"):
        text = said(verb)
        assert "needs approval by any approver" in text
        assert ": sign on the page of the service" in text
        assert "campaign approve" not in text
