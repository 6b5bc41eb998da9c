"""Recording: exactly once, in one order without a gap, each episode with the version that acted."""

import json
import threading

import numpy as np
import pytest
import sqlalchemy as sa

import rareswitch as rs
from campaign_builders import (
    ROWS,
    chain,
    check_chains,
    create,
    fill,
    plain,
    propose,
    protocol,
    report,
    some_policy,
)
from rareswitch.campaigns import (
    Approval,
    Campaign,
    ConflictError,
    Intake,
    MovedError,
    NotAllowedError,
    RefusedError,
    Report,
    candidates,
    ledger,
    open_episodes,
    open_store,
    recording,
    refusals,
    status,
    verify,
)
from rareswitch.campaigns import (
    episodes as list_episodes,
)
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.store.people import FORGOTTEN
from rareswitch.campaigns.store.tables import participants


@pytest.fixture
def campaign(store):
    return create(store)


def reopened(campaign, store_url):
    return Campaign(open_store(store_url), campaign.name)


def test_a_new_campaign_has_its_protocol_and_version_1(campaign):
    assert campaign.version == 1
    assert [entry.kind for entry in campaign.entries] == ["created", "deployed"]
    assert campaign.protocol.digest == campaign.entries[0].payload["digest"]
    assert campaign.policy().digest == campaign.protocol.learner().policy.digest
    check_chains(campaign)


def test_creating_the_same_again_changes_nothing(campaign, store):
    again = create(store, by="ben")
    assert list(again.entries) == list(campaign.entries)


def test_another_protocol_under_the_same_name_is_a_conflict(campaign, store):
    with pytest.raises(ConflictError, match="campaign trial exists already, with another"):
        create(store, budget=4)
    assert len(campaign.entries) == 2


def test_a_campaign_that_is_not_there_is_named(store):
    with pytest.raises(NotAllowedError, match="there is no campaign trial"):
        Campaign(store, "trial")


def test_list_campaigns_one_store_do_not_touch_each_other(campaign, store):
    other = create(store, name="other")
    fill(campaign, range(3))
    assert fill(other, [0])[0].seq == 1
    assert [row.seq for row in chain(campaign, "episodes")] == [1, 2, 3]
    check_chains(campaign)
    check_chains(other)


def test_what_is_recorded_is_there_after_reopening(campaign, store_url):
    told = [report(k, site="3", began="2026-01-01", participant=f"person {k}") for k in range(3)]
    for one in told:
        campaign.record(one)
    again = reopened(campaign, store_url)
    found = chain(again, "episodes")
    again.store.close()
    assert [row.episode_id for row in found] == ["p0", "p1", "p2"]
    for row, one in zip(found, told, strict=True):
        assert episode_of(bytes(row.body)) == one.episode
        assert row.claims == '{"began":"2026-01-01","site":"3"}'
        assert row.total == one.episode.rewards.sum()
        assert (row.version, row.late, row.learn, row.revision) == (1, False, True, 0)


def test_record_takes_an_episode_and_what_is_told(campaign):
    one = report(0)
    done = campaign.record("p0", one.episode, first_features=ROWS, actions=one.actions)
    member = campaign.state.in_force.member("p0")
    assert done[:5] == (1, 1, member, False, True)
    assert campaign.record(one)[:5] == (1, 1, member, False, False)


def test_the_same_again_is_answered_with_its_place(campaign):
    first = fill(campaign, range(3))
    again = fill(campaign, [1, 0, 2])
    assert [one.seq for one in again] == [2, 1, 3]
    assert [one.new for one in first] == [True] * 3
    assert [one.new for one in again] == [False] * 3
    assert [type(one.late) for one in again] == [bool] * 3  # whatever the store keeps truths as
    assert len(chain(campaign, "episodes")) == 3


@pytest.mark.parametrize(
    "other",
    [
        report(0, rewards=[0.5, 0.25]),
        report(0, site="other"),
        report(0, version=1),
        Report(id="p0", episode=report(0).episode),
    ],
)
def test_another_content_is_a_conflict_and_changes_nothing(campaign, other):
    fill(campaign, [0])
    before = chain(campaign, "episodes")
    for _ in range(2):
        with pytest.raises(ConflictError, match="p0 is recorded already, as row 1") as caught:
            campaign.record(other)
        assert caught.value.fields == {"seq": 1, "refusal": 1}
    assert chain(campaign, "episodes") == before
    (refusal,) = chain(campaign, "refusals")
    assert (refusal.episode_id, "with different content" in refusal.reason) == ("p0", True)


def test_repeats_within_one_commit(campaign):
    asked = [report(0), report(0), report(0, site="other"), report(1)]
    answers = list(campaign.record_all(asked))
    assert [getattr(one, "seq", None) for one in answers] == [1, 1, None, 2]
    assert isinstance(answers[2], ConflictError)
    assert [one.new for one in (answers[0], answers[1], answers[3])] == [True, False, True]
    check_chains(campaign)


def test_many_at_once_keep_their_order(campaign):
    answers = list(campaign.record_all(report(k) for k in range(40)))
    assert [one.seq for one in answers] == list(range(1, 41))
    check_chains(campaign)


def test_more_than_one_commit_of_an_import(store):
    campaign = create(store, episodes=2500)
    answers = list(campaign.record_all(report(k) for k in range(2200)))
    assert [one.seq for one in answers] == list(range(1, 2201))


def test_threads_share_one_order_without_a_gap(campaign):
    """Thirty-two threads record, assign and repeat; every place is given once."""
    answers, errors = {}, []

    def work(thread):
        try:
            for k in range(thread, 56, 8):
                campaign.assign(f"p{k}")
                answers[thread, k] = campaign.record(report(k)).seq
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number % 8,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sorted(answers.values()) == list(range(1, 57))
    check_chains(campaign)


def test_clocks_do_not_matter(store):
    times = iter(f"{9999 - k}-01-01T00:00:00.000+00:00" for k in range(100))
    campaign = Campaign.create(store, protocol(), by="ana", clock=lambda: next(times))
    fill(campaign, range(5))
    assert [row.episode_id for row in chain(campaign, "episodes")] == [f"p{k}" for k in range(5)]
    received = [row.received for row in chain(campaign, "episodes")]
    assert received == sorted(received, reverse=True)
    check_chains(campaign)


# Assignments


def test_an_assignment_is_always_the_same(campaign):
    first = campaign.assign("p0")
    assert (first.version, first.key, first.new) == (1, "p0", True)
    assert first.digest == campaign.policy().digest
    assert campaign.policy().allocate("p0") == first.member
    propose(campaign)
    assert campaign.version == 2
    assert campaign.assign("p0") == first._replace(new=False)
    assert campaign.assign("p1").version == 2
    assert len(chain(campaign, "assignments")) == 2


def test_an_assigned_episode_belongs_to_its_version_however_late(store):
    campaign = create(store, intake=Intake(grace=0))
    campaign.assign("p0")
    propose(campaign)
    fill(campaign, range(1, 30))
    done = campaign.record(report(0))
    assert (done.version, done.late) == (1, True)


@pytest.mark.parametrize("version", [2, 3])
def test_an_assigned_episode_cannot_name_another_version(campaign, version):
    campaign.assign("p0")
    propose(campaign)
    with pytest.raises(RefusedError, match="version"):
        campaign.record(report(0, version=version))
    assert len(chain(campaign, "refusals")) == 1


def test_where_assignments_are_asked_for_others_are_refused(store):
    campaign = create(store, intake=Intake(assigned=True))
    with pytest.raises(RefusedError, match=r"p0 was not assigned.*\(refusal 1\)"):
        campaign.record(report(0))
    campaign.assign("p0")
    assert campaign.record(report(0)).seq == 1


def test_a_recorded_episode_cannot_begin_again(campaign):
    fill(campaign, [0])
    with pytest.raises(ConflictError, match="p0 is recorded already"):
        campaign.assign("p0")
    assert chain(campaign, "assignments") == []


# Attribution


def test_a_version_that_never_acted_is_refused(campaign):
    with pytest.raises(RefusedError, match="version 2 does not exist yet; version 1 is in force"):
        campaign.record(report(0, version=2))
    with pytest.raises(RefusedError, match="version must be"):
        campaign.record("p0", report(0).episode, version=0)
    assert chain(campaign, "episodes") == []


def test_without_a_version_it_is_the_one_in_force(campaign):
    propose(campaign)
    assert campaign.record(report(0)).version == 2


def test_no_more_episodes_begin_than_are_planned(store):
    campaign = create(store, episodes=12)
    for k in range(12):
        campaign.assign(f"p{k}")
    with pytest.raises(NotAllowedError, match="all 12 planned episodes have begun"):
        campaign.assign("p12")
    assert not campaign.assign("p3").new
    campaign.amend({"episodes": 18}, by="ana", reason="many are missing")
    assert campaign.assign("p12").new


def test_a_correction_that_is_no_report_is_in_the_register(campaign):
    fill(campaign, [0])
    with pytest.raises(RefusedError, match="refusal 1"):
        campaign.correct('{"id": "p0", "rewards": [2.5]}', by="ana", reason="misread")
    assert (
        campaign.correct(json.dumps(plain(0, rewards=[0.0, 0.25])), by="ana", reason="misread").seq
        == 2
    )


@pytest.mark.parametrize(("late", "learn"), [("learn", True), ("record", False)])
def test_an_episode_of_an_earlier_version_is_late(store, late, learn):
    campaign = create(store, intake=Intake(late=late))
    fill(campaign, [0])
    propose(campaign)
    done = campaign.record(report(1, version=1))
    assert (done.version, done.late) == (1, True)
    assert campaign.record(report(2, version=2)).late is False
    assert [(row.late, row.learn) for row in chain(campaign, "episodes")] == [
        (False, True),
        (True, learn),
        (False, True),
    ]


def test_grace_is_counted_in_episodes_since_the_version_was_replaced(store):
    campaign = create(store, intake=Intake(grace=2))
    fill(campaign, range(3))
    propose(campaign)
    assert campaign.record(report(10, version=1)).late
    fill(campaign, [3])
    assert campaign.record(report(11, version=1)).late  # two were recorded since
    with pytest.raises(RefusedError, match=r"version 1 was replaced 3 episodes ago.*grace is 2"):
        campaign.record(report(12, version=1))
    assert campaign.record(report(11, version=1)).new is False


def test_the_member_follows_from_version_and_id(campaign):
    member = campaign.state.in_force.member("p0")
    wrong = (member + 1) % campaign.state.in_force.members
    with pytest.raises(RefusedError, match=f"member {member} of version 1 plays episode p0"):
        campaign.record(report(0, member=wrong))
    assert campaign.record(report(0, member=member)).member == member


def test_after_a_rollback_its_version_acts(campaign):
    propose(campaign)
    fill(campaign, [0])
    campaign.rollback(1, by="ana", reason="safety")
    assert campaign.record(report(1)).version == 3
    assert campaign.record(report(2, version=2)).late
    assert campaign.record(report(3, version=1)).late


# Corrections and withdrawals


def test_a_correction_keeps_what_was_there(campaign):
    fill(campaign, range(3))
    before = chain(campaign, "episodes")
    done = campaign.correct(report(1, rewards=[0.5, 0.5]), by="ana", reason="typing error")
    after = chain(campaign, "episodes")
    assert (done.seq, done.version, done.new) == (4, 1, True)
    assert after[:3] == before
    assert (after[3].episode_id, after[3].revision, after[3].total) == ("p1", 1, 1.0)
    entry = campaign.entries[-1]
    assert (entry.kind, entry.actor, entry.reason) == ("corrected", "ana", "typing error")
    assert entry.payload["corrects"] == 2
    assert entry.payload["withdrawn"] is False
    campaign.correct(report(1, rewards=[0.25, 0.5]), by="ana", reason="again")
    assert chain(campaign, "episodes")[4].revision == 2
    assert campaign.entries[-1].payload["corrects"] == 4
    check_chains(campaign)


def test_the_original_is_still_what_a_repeat_is_compared_to(campaign):
    fill(campaign, [0])
    campaign.correct(report(0, rewards=[0.5, 0.5]), by="ana", reason="typing error")
    assert campaign.record(report(0))[:2] == (1, 1)
    assert campaign.record(report(0)).new is False
    with pytest.raises(ConflictError):
        campaign.record(report(0, rewards=[0.5, 0.5]))


def test_a_correction_stays_with_its_version(campaign):
    campaign.record(report(0, version=1))
    propose(campaign)
    with pytest.raises(NotAllowedError, match="version must be 1, which acted in episode p0"):
        campaign.correct(report(0, version=2), by="ana", reason="no")
    played = campaign.state.version(1).member("p0")
    with pytest.raises(
        NotAllowedError, match=f"member must be {played}, which acted in episode p0"
    ):
        campaign.correct(report(0, member=played + 1), by="ana", reason="no")
    done = campaign.correct(report(0, rewards=[0.5, 0.5]), by="ana", reason="yes")
    assert (done.version, done.late) == (1, False)


def test_only_what_is_recorded_is_corrected(campaign):
    with pytest.raises(NotAllowedError, match="p7 is not recorded"):
        campaign.correct(report(7), by="ana", reason="?")
    with pytest.raises(NotAllowedError, match="p7 is not recorded"):
        campaign.withdraw("p7", by="ana", reason="?")
    assert len(campaign.entries) == 2


def test_a_correction_that_is_no_episode_of_the_task_is_refused_and_registered(campaign):
    fill(campaign, [0])
    wrong = Report(
        id="p0", episode=rs.Episode(features=np.eye(4)[:1], rewards=[1.0], next_features=[])
    )
    with pytest.raises(RefusedError, match=r"\(refusal 1\)"):
        campaign.correct(wrong, by="ana", reason="?")
    assert [row.episode_id for row in chain(campaign, "refusals")] == ["p0"]
    assert len(campaign.entries) == 2


def test_corrections_and_withdrawals_change_their_cohort(campaign):
    for k, reward in enumerate([0.0, 0.5, 1.0]):
        campaign.record(report(k, rewards=[reward, reward]))
    assert mean(campaign, 1) == (3, 0.5)
    campaign.correct(report(0, rewards=[0.75, 0.75]), by="ana", reason="?")
    assert mean(campaign, 1) == (3, 0.75)
    campaign.withdraw("p2", by="ana", reason="consent withdrawn")
    assert mean(campaign, 1) == (2, 0.625)
    assert chain(campaign, "episodes")[-1].body is None
    assert campaign.entries[-1].payload["withdrawn"] is True
    check_chains(campaign)


def mean(campaign, version):
    seen = status(campaign).versions[version - 1]
    return seen.episodes, seen.mean / 2


def test_what_is_withdrawn_stays_withdrawn(campaign):
    fill(campaign, range(2))
    first = campaign.withdraw("p1", by="ana", reason="consent")
    again = campaign.withdraw("p1", by="ben", reason="consent")
    assert (first.new, again.new, again.seq) == (True, False, first.seq)
    for changed in (report(1), report(1, rewards=[0.5, 0.5])):
        with pytest.raises(NotAllowedError, match="p1 was withdrawn, and stays withdrawn"):
            campaign.correct(changed, by="ana", reason="consent again")
    assert campaign.record(report(1)).new is False
    assert mean(campaign, 1)[0] == 1
    assert [entry.kind for entry in campaign.entries[2:]] == ["corrected"]


def test_a_correction_sent_again_changes_nothing(campaign):
    fill(campaign, [0])
    told = report(0, rewards=[0.5, 0.5])
    first, again = (campaign.correct(told, by="ana", reason="typing error") for _ in range(2))
    assert (first.new, again.new, again.seq) == (True, False, first.seq)
    same = campaign.correct(told.plain, by="ben", reason="typing error")
    assert (same.new, same.seq) == (False, 2)
    assert len(chain(campaign, "episodes")) == 2
    assert [entry.kind for entry in campaign.entries[2:]] == ["corrected"]
    campaign.correct(report(0), by="ana", reason="it was right")  # back to the first is a change
    assert len(chain(campaign, "episodes")) == 3


def test_a_correction_that_is_refused_changes_no_participant(campaign):
    campaign.record(report(0, participant="Ada"))
    wrong = Report(
        id="p0",
        episode=rs.Episode(features=np.eye(4)[:1], rewards=[1.0], next_features=[]),
        participant="Bob",
    )
    with pytest.raises(RefusedError):
        campaign.correct(wrong, by="ana", reason="?")
    assert people(campaign) == [("p0", "Ada")]


# Cancelling


def test_a_cancelled_episode_leaves_its_place_to_another(store):
    campaign = create(store, episodes=6)
    for k in range(6):
        campaign.assign(f"p{k}")
    with pytest.raises(NotAllowedError, match="all 6 planned episodes have begun"):
        campaign.assign("p6")
    assert campaign.cancel("p2", by="ana", reason="never came") is True
    assert campaign.cancel("p2", by="ben", reason="never came") is False
    assert [entry.kind for entry in campaign.entries[2:]] == ["cancelled"]
    assert campaign.entries[-1].payload["assignment"] == 3
    assert campaign.assign("p6").new
    for attempt in (lambda: campaign.record(report(2)), lambda: campaign.assign("p2")):
        with pytest.raises(NotAllowedError, match="p2 was cancelled"):
            attempt()
    found = status(campaign)
    assert (found.assigned, found.open, found.cancelled) == (7, 6, 1)
    assert [one["episode_id"] for one in open_episodes(campaign, limit=3)] == ["p0", "p1", "p3"]
    assert verify(campaign).problems == []
    assert chain(campaign, "refusals") == []


def test_only_an_open_episode_is_cancelled(campaign):
    campaign.assign("p0")
    fill(campaign, [0, 1])
    for name, why in (("p0", "is recorded; it can be withdrawn"), ("p1", "is not assigned"),
                      ("p9", "is not assigned")):  # fmt: skip
        with pytest.raises(NotAllowedError, match=f"{name} {why}"):
            campaign.cancel(name, by="ana", reason="?")
    campaign.assign("p2")
    with pytest.raises(NotAllowedError, match=r"p2 has no report yet\. If treatment began, leave"):
        campaign.withdraw("p2", by="ana", reason="?")
    assert len(campaign.entries) == 2


# Concealed allocation


def test_a_concealed_allocation_is_drawn_at_the_assignment(store):
    concealed = Intake(assigned=True, concealed=True)
    one, other = (create(store, name=name, intake=concealed) for name in ("one", "other"))
    for k in range(30):
        given, members = one.assign(f"p{k}"), one.state.in_force
        salt = chain(one, "assignments")[-1].salt
        assert (len(salt), given.key) == (32, f"p{k}/{salt}")
        assert given.member == members.member(given.key) == one.policy().allocate(given.key)
        assert one.assign(f"p{k}") == given._replace(new=False)
        other.assign(f"p{k}")
    by_id = [members.member(f"p{k}") for k in range(30)]
    found = [[row.member for row in chain(c, "assignments")] for c in (one, other)]
    assert by_id != found[0] != found[1] != by_id
    one.record(report(0, member=found[0][0]))
    with pytest.raises(RefusedError, match="p99 was not assigned"):
        one.record(report(99))
    assert verify(one).problems == []


# Reading back, by page


def test_the_record_is_read_by_page(campaign):
    for k in range(5):
        campaign.assign(f"p{k}")
    fill(campaign, range(7))
    campaign.assign("q")
    for k in range(5):
        with pytest.raises(RefusedError):
            campaign.record(report(20 + k, version=9))
    pages = [list_episodes(campaign, after=after, limit=3) for after in (0, 3, 6, 9)]
    assert [[row["seq"] for row in page] for page in pages] == [[1, 2, 3], [4, 5, 6], [7], []]
    assert pages[0][1]["report"] == report(1).plain
    assert [row["number"] for row in refusals(campaign, after=2, limit=2)] == [3, 4]
    assert [one["episode_id"] for one in open_episodes(campaign)] == ["q"]
    assert open_episodes(campaign, after=6) == []
    propose(campaign)
    assert [one["number"] for one in candidates(campaign)] == [3]
    assert [e.number for e in ledger(campaign, after=1, limit=2)] == [2, 3]
    assert len(ledger(campaign)) == 4


# Who was behind episodes


def people(campaign):
    with campaign.store.reading() as connection:
        found = connection.execute(
            sa.select(participants.c.episode_id, participants.c.participant)
            .where(participants.c.participant != FORGOTTEN)
            .order_by(participants.c.episode_id)
        )
        return [tuple(row) for row in found]


def test_a_person_is_kept_apart_and_forgotten(campaign):
    names = ["Ada", "Bob", "Ada"]
    for k, name in enumerate(names):
        campaign.record(report(k, participant=name))
    assert people(campaign) == [("p0", "Ada"), ("p1", "Bob"), ("p2", "Ada")]
    before = chain(campaign, "episodes")
    assert campaign.forget("Ada", by="ben", reason="she asked") == 2
    assert people(campaign) == [("p1", "Bob")]
    assert chain(campaign, "episodes") == before
    entry = campaign.entries[-1]
    assert (entry.kind, entry.payload["episodes"]) == ("forgotten", 2)
    assert "Ada" not in str(campaign.entries)
    with pytest.raises(NotAllowedError, match="no episode has a participant of that name"):
        campaign.forget("Ada", by="ben", reason="again")
    assert campaign.entries[-1] == entry
    check_chains(campaign)


def test_a_repeat_may_tell_who_it_was(campaign):
    """Whether the first report was answered before, or is answered with it."""
    campaign.record(report(0))
    told = [report(0, participant="Ada"), report(1), report(1, participant="Bob"), report(2)]
    assert [answer.new for answer in campaign.record_all(told)] == [False, True, False, True]
    assert people(campaign) == [("p0", "Ada"), ("p1", "Bob")]
    assert campaign.record(report(0)).new is False
    assert campaign.record(report(0, participant="Ada")).new is False
    assert people(campaign) == [("p0", "Ada"), ("p1", "Bob")]
    assert len(chain(campaign, "episodes")) == 3
    check_chains(campaign)


def test_a_repeat_that_tells_of_another_is_a_conflict(campaign):
    campaign.record(report(0, participant="Ada"))
    with pytest.raises(ConflictError, match="for another participant") as caught:
        campaign.record(report(0, participant="Bob"))
    assert "Ada" not in str(caught.value)
    assert "Bob" not in str(caught.value)
    told = [report(1, participant="Cyd"), report(1, participant="Dan"), report(2)]
    first, second, third = campaign.record_all(told)
    assert (first.new, isinstance(second, ConflictError), third.new) == (True, True, True)
    assert people(campaign) == [("p0", "Ada"), ("p1", "Cyd")]
    assert chain(campaign, "refusals") == []


def test_who_was_forgotten_does_not_come_back(campaign):
    campaign.record(report(0, participant="Ada"))
    campaign.record(report(1))
    assert campaign.forget("Ada", by="ben", reason="she asked") == 1
    for name in ("Ada", "Bob"):
        assert campaign.record(report(0, participant=name)).new is False
        campaign.correct(report(0, rewards=[0, 1], participant=name), by="ben", reason="typo")
    assert people(campaign) == []
    campaign.record(report(1, participant="Ada"))  # of this episode nobody was forgotten
    assert people(campaign) == [("p1", "Ada")]


def test_who_is_forgotten_within_one_commit_does_not_come_back(campaign):
    told = report(1, participant="Ada Lovelace")
    campaign.record(told)
    signed = {"by": "ana", "reason": "she asked"}
    works = [
        recording.record(told),
        recording.record(report(2, participant="Ada Lovelace")),
        recording.correct(told, **signed),
        recording.forget("Ada Lovelace", **signed),
        recording.correct(told, **signed),
        recording.record(report(2, participant="Ada Lovelace")),
    ]
    answers = campaign._commit(works)  # the group of callers who came together
    assert answers[3] == 2
    with campaign.store.reading() as connection:
        kept = connection.execute(sa.select(participants.c.participant)).scalars()
        assert [*kept] == [FORGOTTEN, FORGOTTEN]


def test_a_correction_may_say_who_it_was(campaign):
    campaign.record(report(0, participant="Ada"))
    campaign.record(report(1))
    for number, name in ((0, "Bob"), (1, "Cyd"), (0, None)):
        corrected = report(number, rewards=[0, number], participant=name)
        campaign.correct(corrected, by="ben", reason="forms were swapped")
    assert people(campaign) == [("p0", "Bob"), ("p1", "Cyd")]
    campaign.withdraw("p1", by="ben", reason="no consent")
    assert people(campaign) == [("p0", "Bob"), ("p1", "Cyd")]
    check_chains(campaign)


def test_who_it_was_is_in_no_chain(campaign):
    campaign.record(report(0, participant="Ada Lovelace"))
    with pytest.raises(RefusedError):
        campaign.record(report(1, participant="Ada Lovelace", version=9))
    for name in ("episodes", "refusals", "ledger", "assignments"):
        assert "Ada" not in str(chain(campaign, name))


def test_a_person_who_is_no_text_cannot_be_forgotten(campaign):
    for wrong in ("Ada\0", "\ud800", "", 5):
        with pytest.raises((TypeError, ValueError), match="participant must"):
            campaign.forget(wrong, by="ben", reason="?")
    assert len(campaign.entries) == 2


# What several objects and connections see


def test_an_older_moment_of_the_store_shows_its_own_state(store):
    campaign = create(store, approval=Approval(by="second-person"))
    with store.reading() as connection:
        assert campaign.state_at(connection).in_force.version == 1
        campaign.stop(by="ana", reason="enough")
        assert campaign.state.stopped
        assert campaign.state_at(connection).stopped is None
        assert len(campaign.entries_at(connection)) == 2
    assert campaign.state.stopped


def test_two_objects_of_one_campaign_see_each_other(campaign, store):
    other = Campaign(store, "trial")
    fill(campaign, [0])
    assert other.record(report(0)).new is False
    propose(other)
    assert campaign.version == 2
    with pytest.raises(MovedError, match="version 2 is in force; the decision is about version 1"):
        campaign.propose(
            some_policy(1),
            seq=1,
            evidence={"triggers": []},
            expected=1,
            by="schedule",
            reason="late",
        )
