"""A backup taken while others write is one moment of the store, restored to the same links."""

import threading

import pytest

from campaign_builders import create, fill, propose, report
from rareswitch.campaigns import Campaign, NotAllowedError, open_store
from rareswitch.campaigns.proof.backup import back_up, restore
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.status import status_of


def heads(campaign):
    with campaign.store.reading() as connection:
        return heads_of(connection, campaign.name)


def test_a_backup_taken_while_writing_is_one_moment(store, tmp_path):
    campaign = create(store, episodes=10_000)
    fill(campaign, range(20))
    ended = threading.Event()

    def write():
        for k in range(20, 5000):
            if ended.is_set():
                return
            campaign.take(report(k))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while heads(campaign)["episodes"].length < 30:
            pass
        before = heads(campaign)
        assert back_up(store, tmp_path / "backup.db") == [campaign.name]
        after = heads(campaign)
    finally:
        ended.set()
        writer.join()
    with open_store(tmp_path / "backup.db") as kept:
        copy = Campaign(kept, campaign.name)
        found = heads(copy)
        assert before["episodes"].length <= found["episodes"].length <= after["episodes"].length
        assert found["ledger"] == before["ledger"] == after["ledger"]
        assert verify(copy).problems == []


def test_a_backup_restores_to_the_same_links_in_either_kind_of_store(store, tmp_path, postgres):
    campaign = create(store)
    fill(campaign, range(8))
    propose(campaign)
    campaign.withdraw("p3", actor="ana", reason="consent")
    back_up(store, tmp_path / "backup.db")
    before = (tmp_path / "backup.db").read_bytes()
    for url in (tmp_path / "restored.db", postgres.create_database()):
        with open_store(url, create=True) as target:
            assert restore(tmp_path / "backup.db", target) == [campaign.name]
            restored = Campaign(target, campaign.name)
            assert heads(restored) == heads(campaign)
            assert status_of(restored) == status_of(campaign)
            with pytest.raises(NotAllowedError, match="already"):
                restore(tmp_path / "backup.db", target)
    assert (tmp_path / "backup.db").read_bytes() == before


def test_a_backup_never_writes_over_a_file(store, tmp_path):
    create(store)
    (tmp_path / "backup.db").write_text("mine")
    with pytest.raises(FileExistsError, match="is there already"):
        back_up(store, tmp_path / "backup.db")
    assert (tmp_path / "backup.db").read_text() == "mine"
