"""Stopping rules: evaluated by the engine after every report, and valid however often it looks."""

import pytest
import sqlalchemy as sa

from campaign_builders import (
    chain,
    check_chains,
    create,
    fill,
    mostly_in_files,
    propose,
    report,
)
from rareswitch.campaigns import (
    Campaign,
    DataQuality,
    Futility,
    Harm,
    NotAllowedError,
    RefusedError,
    learn,
    open_store,
    status,
    verify,
)
from rareswitch.campaigns import head as heads
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.running_mean import RunningMean
from rareswitch.campaigns.store.tables import cohorts, episodes
from rareswitch.campaigns.store.transaction import count_again


def play(campaign, numbers, reward, **told):
    """Record episodes with one reward at every step until the campaign stops; return the last."""
    for k in numbers:
        if campaign.state.stopped:
            return k
        campaign.record(report(k, rewards=[reward, reward], **told))
    return numbers[-1] + 1 if campaign.state.stopped else None


def first_look(reached, reward):
    """Return after how many episodes of one return an interval says so, written out here."""
    mean, count = RunningMean(), 0
    while not reached(mean, count):
        mean, count = mean.after(reward), count + 1
    return count


def test_harm_stops_at_the_very_episode_that_shows_it(store):
    campaign = create(store, episodes=500, stopping=(Harm(below=0.6),))
    stopped = play(campaign, range(300), 0.0)
    # H = 2, and version 1 has half of the error of 5%.
    assert stopped == first_look(lambda mean, _: 2 * mean.bounds(0.975).high < 0.6, 0.0)
    entry = campaign.state.stopped
    assert (entry.actor, entry.kind) == ("engine", "stopped")
    assert entry.reason.startswith("harm: version 1 returns at most 0.5")
    kept = {name: value for name, value in entry.payload.items() if name != "reached"}
    assert kept.pop("margin") == kept["value"] - 0.6 < 0.0
    assert f"{kept.pop('value'):.3g}" in entry.reason
    assert kept == {"rule": "harm", "threshold": 0.6}
    assert entry.position == stopped
    assert entry.number == len(campaign.entries)
    with pytest.raises(NotAllowedError, match="has stopped"):
        campaign.record(report(400))
    check_chains(campaign)


def test_a_later_version_has_a_smaller_share_of_the_error(store):
    campaign = create(store, episodes=500, stopping=(Harm(below=0.6),))
    propose(campaign)
    stopped = play(campaign, range(300), 0.0)
    assert stopped == first_look(lambda mean, _: 2 * mean.bounds(1 - 0.05 / 6).high < 0.6, 0.0)
    assert campaign.state.stopped.reason.startswith("harm: version 2")


def test_good_returns_stop_nothing(store):
    campaign = create(
        store, episodes=500, stopping=(Harm(below=0.6), Futility(target=0.7, after=10))
    )
    assert play(campaign, range(150), 0.5) is None


def test_late_episodes_count_for_the_version_that_played_them(store):
    campaign = create(store, episodes=500, stopping=(Harm(below=0.6),))
    play(campaign, range(10), 0.0)
    propose(campaign)
    stopped = play(campaign, range(10, 300), 0.0, version=1)
    assert stopped == first_look(lambda mean, _: 2 * mean.bounds(0.975).high < 0.6, 0.0)
    assert campaign.state.stopped.reason.startswith("harm: version 1")


def test_futility_waits_and_then_stops(store):
    campaign = create(store, episodes=500, stopping=(Futility(target=0.6, after=60),))
    assert play(campaign, range(300), 0.0) == 60
    assert campaign.state.stopped.reason.startswith("futility: after 60 episodes version 1")


def test_data_quality_counts_what_is_refused(store):
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.3),))
    fill(campaign, range(3))
    mean = RunningMean().after(0.0).after(0.0).after(0.0)
    refused = 0
    while not campaign.state.stopped:
        with pytest.raises(RefusedError):
            campaign.record(report(100 + refused, version=9))
        refused += 1
        mean = mean.after(1.0)
        assert bool(campaign.state.stopped) == (mean.bounds(0.95).low > 0.3)
    assert campaign.state.stopped.reason.startswith("data-quality: at least ")
    assert campaign.state.stopped.payload["value"] == mean.bounds(0.95).low
    assert len(chain(campaign, "refusals")) == refused > 3
    with pytest.raises(RefusedError):
        campaign.record({"id": "after-the-end", "rewards": [7]})
    assert sum(entry.kind == "stopped" for entry in campaign.entries) == 1


def test_most_episodes(store):
    campaign = create(store, episodes=12, batches=3)
    campaign.assign("p90")
    fill(campaign, range(12))
    entry = campaign.state.stopped
    assert entry.reason == "episodes: all 12 are recorded"
    kept = [entry.payload[name] for name in ("rule", "value", "threshold", "margin")]
    assert kept == ["episodes", 12, 12, 0]
    assert campaign.record(report(90)).seq == 13
    with pytest.raises(NotAllowedError):
        campaign.record(report(91))
    assert sum(entry.kind == "stopped" for entry in campaign.entries) == 1


def test_the_rest_of_a_batch_is_not_taken_after_the_end(store):
    campaign = create(store, episodes=12, batches=3)
    campaign.assign("p14")
    answers = list(campaign.record_all(report(k) for k in range(16)))
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["Recorded"] * 12 + ["NotAllowedError"] * 2 + ["Recorded", "NotAllowedError"]
    assert campaign.state.stopped.position == 12
    check_chains(campaign)


def test_a_withdrawn_episode_leaves_room_for_another(store):
    campaign = create(store, episodes=12, batches=3)
    fill(campaign, range(11))
    campaign.withdraw("p3", by="ana", reason="consent")
    fill(campaign, [11])
    assert campaign.state.stopped is None
    fill(campaign, [12])
    assert campaign.state.stopped


def test_a_correction_is_looked_at_too(store):
    """What was typed wrongly may have hidden the harm."""
    campaign = create(store, episodes=500, stopping=(Harm(below=0.9),))
    campaign.record(report(0, rewards=[1.0, 1.0]))
    place = RunningMean().next_place
    typed = right = RunningMean().after(1.0)
    k = 1
    while 2 * right.bounds(0.975).high >= 0.9:
        campaign.record(report(k, rewards=[0.0, 0.0]))
        k, typed = k + 1, typed.after(0.0)
        right = typed.add(place, 1.0, -1).add(place, 0.0, 1)
        assert campaign.state.stopped is None
    campaign.correct(report(0, rewards=[0.0, 0.0]), by="ana", reason="typing error")
    assert campaign.state.stopped.reason.startswith("harm: version 1")
    assert [entry.kind for entry in campaign.entries[-2:]] == ["corrected", "stopped"]
    check_chains(campaign)


def test_rules_that_were_amended_hold_from_then_on(store):
    campaign = create(store, episodes=500)
    assert play(campaign, range(100), 0.0) is None
    campaign.amend({"stopping": [{"rule": "harm", "below": 0.6}]}, by="ana", reason="safety")
    assert campaign.state.stopped.reason.startswith("harm: version 1")  # it is reached already


def test_an_amendment_cannot_end_the_campaign(store):
    campaign = create(store, episodes=60)
    fill(campaign, range(20))
    campaign.withdraw("p3", by="ana", reason="consent")
    for fewer in (10, 20):
        with pytest.raises(NotAllowedError, match="episodes must be more than the 20 recorded"):
            campaign.amend({"episodes": fewer}, by="ana", reason="funds")
    assert campaign.state.stopped is None
    campaign.amend({"episodes": 21}, by="ana", reason="funds")
    fill(campaign, range(20, 22))
    assert campaign.state.stopped.reason == "episodes: all 21 are recorded"


def test_nobody_signs_as_the_engine(store):
    campaign = create(store)
    with pytest.raises(ValueError, match="by must be a person: engine signs nothing"):
        campaign.stop(by=" Engine", reason="not me")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Harm(below=0.0), "below must be"),
        (lambda: Harm(below="1"), "below must be"),
        (lambda: Harm(below=1.0, confidence=1.0), "confidence must be"),
        (lambda: Futility(target=1.0, after=0), "after must be"),
        (lambda: DataQuality(most=1.0), "most must be"),
        (lambda: DataQuality(most=float("nan")), "most must be"),
    ],
)
def test_rules_are_checked(make, why):
    with pytest.raises((TypeError, ValueError), match=why):
        make()


# Data quality


def flood(campaign, numbers):
    """Send reports that are refused until the campaign stops; return how many were."""
    for sent, k in enumerate(numbers):
        if campaign.state.stopped:
            return sent
        with pytest.raises(RefusedError):
            campaign.record(report(1000 + k, version=9))
    return None


def test_the_same_refused_report_counts_once(store):
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.3),))
    wrong = report(7, version=9)
    numbers = set()
    for _ in range(50):
        with pytest.raises(RefusedError) as caught:
            campaign.record(wrong)
        numbers.add(caught.value.fields["refusal"])
    answers = list(campaign.record_all([wrong] * 20))
    assert numbers | {answer.fields["refusal"] for answer in answers} == {1}
    assert len(chain(campaign, "refusals")) == 1
    assert campaign.state.stopped is None


def test_two_persons_lift_a_stop_by_data_quality_and_the_intake_begins_anew(store, store_url):
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.3),))
    campaign.assign("p0")
    with open_store(store_url) as elsewhere:
        other = Campaign(elsewhere, "trial")
        fill(other, range(1, 4))
        sent = flood(other, range(50))
        number = campaign.reopen(by="ana", reason="the form is repaired").number
        assert campaign.reopen(by="Ana", reason="the form is repaired").number == number
        assert status(campaign).reopening["number"] == number
        for same in ("ana", " Ana.", "a na"):
            with pytest.raises(NotAllowedError, match="another person has to approve"):
                campaign.approve(number, by=same, reason="me too")
        with pytest.raises(NotAllowedError, match="the campaign has stopped"):
            campaign.assign("p9")
        entry = campaign.approve(number, by="ben", reason="seen")
        assert campaign.approve(number, by="ben", reason="seen") == entry
        assert [e.kind for e in campaign.entries[2:]] == ["stopped", "reopening", "reopened"]
        assert campaign.state.stopped is None
        fill(other, range(4, 7))  # a process that counted before the reopening
        fill(campaign, range(7, 9))
        assert campaign.state.stopped is None
        again = flood(campaign, range(50, 100))
    assert again >= sent > 3  # more episodes came in between
    with store.writing("trial") as connection:
        connection.execute(cohorts.delete())
    before = status(campaign)
    assert before.versions[0].episodes == 8
    assert verify(campaign).problems == []
    check_chains(campaign)


def test_a_reopening_is_rejected_once(store):
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.3),))
    flood(campaign, range(50))
    number = campaign.reopen(by="ana", reason="please").number
    for _ in range(2):
        campaign.reject(number, by="ben", reason="no")
    with pytest.raises(NotAllowedError):
        campaign.approve(number, by="cyd", reason="yes")
    assert [e.kind for e in campaign.entries[2:]] == ["stopped", "reopening", "rejected"]
    assert verify(campaign).problems == []


@pytest.mark.parametrize("ended", ["harm", "by hand", "all", "not"])
def test_no_other_stop_is_lifted(store, ended):
    campaign = create(store, episodes=60, stopping=(Harm(below=0.6),))
    if ended == "harm":
        play(campaign, range(60), 0.0)
    elif ended == "all":
        play(campaign, range(60), 0.5)
    elif ended == "by hand":
        campaign.stop(by="ana", reason="enough")
    with pytest.raises(NotAllowedError, match="only a campaign that data-quality stopped"):
        campaign.reopen(by="ana", reason="go on")


# Caches


def busy(store):
    """Return a campaign with cohorts of two versions, refusals and corrections."""
    campaign = create(store, batches=12, stopping=(Harm(below=0.1), DataQuality(most=0.9)))
    for k in range(6):
        campaign.record(report(k))
        if k % 2:
            with pytest.raises(RefusedError):
                campaign.record({"id": f"x{k}", "rewards": [7]})
    assert len(learn(campaign)) == 1
    campaign.record(report(6))
    campaign.withdraw("p2", by="ana", reason="consent")
    campaign.correct(report(3, rewards=[1.0, 0.5]), by="ana", reason="misread")
    return campaign


def stored(store, name="trial"):
    with store.reading() as connection:
        return dict(
            tuple(row)
            for row in connection.execute(
                sa.select(cohorts.c.version, cohorts.c.state).where(cohorts.c.campaign == name)
            )
        )


def one_digit(text):
    """Return a text with another sum of the observations, or of the intake."""
    begin = text.index("[", max(0, text.find("intake")))
    place = next(i for i in range(text.index(",", begin), len(text)) if text[i] in "12345678")
    return text[:place] + str(int(text[place]) + 1) + text[place + 1 :]


@mostly_in_files("version", [0, 1, 2], 1)
@pytest.mark.parametrize("damage", [None, "{", "[]", '["x"]', one_digit, "another campaign's"])
def test_damaged_cohorts_are_counted_again(store, store_url, version, damage):
    """They are a cache: rules go on as if nothing had happened."""
    campaign = busy(store)
    before, versions = stored(store), status(campaign).versions
    where = (cohorts.c.campaign == "trial", cohorts.c.version == version)
    if damage == "another campaign's":
        create(store, name="other")
        other = Campaign(store, "other")
        fill(other, range(4))
        propose(other)
        fill(other, range(4, 6))
        damage = stored(store, "other")[version]
    text = damage(before[version]) if callable(damage) else damage
    with store.writing("trial") as connection:
        if text is None:
            connection.execute(cohorts.delete().where(*where))
        else:
            connection.execute(cohorts.update().where(*where).values(state=text))
    with open_store(store_url) as again:  # a process that has nothing in memory
        fresh = Campaign(again, "trial")
        assert status(fresh).versions == versions
        assert verify(fresh).problems == []
        assert fresh.record(report(7)).seq == 10
        assert status(fresh).versions[1].episodes == 2
    check_cohorts(store)


def check_cohorts(store):
    """Compare the stored cohorts with all rows, counted again."""
    found, campaign = Cohorts(horizon=2), Campaign(store, "trial")
    with store.reading() as connection:
        expected, _ = count_again(connection, "trial", campaign.state)
    assert found.load(stored(store), heads(campaign))
    versions = range(len(campaign.state.versions) + 1)  # 0 is the intake
    assert [found[version] for version in versions] == [expected[version] for version in versions]
    assert found.episodes == expected.episodes


def test_cohorts_of_other_rows_are_counted_again(store, store_url):
    """As if a transaction had written rows, and not the cohorts."""
    campaign = busy(store)
    old = stored(store)
    campaign.correct(report(1, rewards=[1.0, 1.0]), by="ana", reason="misread")
    expected = status(campaign)
    with store.writing("trial") as connection:
        for version, text in old.items():
            where = (cohorts.c.campaign == "trial", cohorts.c.version == version)
            connection.execute(cohorts.update().where(*where).values(state=text))
    with open_store(store_url) as again:
        fresh = Campaign(again, "trial")
        assert status(fresh) == expected
        fresh.record(report(7))
    check_cohorts(store)


@pytest.mark.parametrize(
    "place", ["{", "[1]", "null", '["a", "b", "c"]', "[1,0.5,0.25]", "[1,0.5,1.0]", "[1e400,0,0]"]
)
def test_a_damaged_place_is_found_again(store, place):
    """The place of an episode in its cohort is a cache too."""
    campaign = busy(store)
    with store.writing("trial") as connection:
        connection.execute(episodes.update().values(place=place))
    assert campaign.record(report(1)).new is False
    campaign.correct(report(1, rewards=[0.5, 0.5]), by="ana", reason="misread")
    check_cohorts(store)


def test_bytes_in_place_of_a_place_are_no_place(tmp_path):
    """SQLite keeps them in a column of texts."""
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = busy(store)
        with store.writing("trial") as connection:
            connection.execute(sa.text("update episodes set place = x'ff00'"))
        campaign.correct(report(1, rewards=[0.5, 0.5]), by="ana", reason="misread")
        check_cohorts(store)


def test_the_place_of_another_episode_is_not_taken(store):
    campaign = busy(store)
    with store.writing("trial") as connection:
        of = episodes.c.episode_id
        other = connection.execute(sa.select(episodes.c.place).where(of == "p0")).scalar_one()
        connection.execute(episodes.update().where(of == "p1").values(place=other))
    campaign.correct(report(1, rewards=[0.5, 0.5]), by="ana", reason="misread")
    kept = stored(store)
    with store.writing("trial") as connection:
        connection.execute(cohorts.delete())
    Campaign(store, "trial").record(report(7))
    assert stored(store)[1] == kept[1]
