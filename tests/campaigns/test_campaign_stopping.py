"""Stopping rules: evaluated by the engine after every report, and valid however often it looks."""

import pytest

from campaign_builders import chain, check_chains, create, fill, propose, report
from rareswitch.campaigns import DataQuality, Futility, Harm, NotAllowedError, RefusedError
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.record.cohorts import cohorts_of
from rareswitch.campaigns.record.counting import INTAKE
from rareswitch.campaigns.stopping.running_mean import RunningMean
from rareswitch.campaigns.store.tables import cohorts


def play(campaign, numbers, reward, **told):
    """Record episodes with one reward at every step until the campaign stops; return the last."""
    for k in numbers:
        if campaign.state.stopped:
            return k
        campaign.take(report(k, rewards=[reward, reward], **told))
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
        campaign.take(report(400))
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
            campaign.take(report(100 + refused, version=9))
        refused += 1
        mean = mean.after(1.0)
        assert bool(campaign.state.stopped) == (mean.bounds(0.95).low > 0.3)
    assert campaign.state.stopped.reason.startswith("data-quality: at least ")
    assert campaign.state.stopped.payload["value"] == mean.bounds(0.95).low
    assert len(chain(campaign, "refusals")) == refused > 3
    with pytest.raises(RefusedError):
        campaign.record_json("after the end")
    assert sum(entry.kind == "stopped" for entry in campaign.entries) == 1


def test_most_episodes(store):
    campaign = create(store, episodes=12, batches=3)
    campaign.assign("p90")
    fill(campaign, range(12))
    entry = campaign.state.stopped
    assert entry.reason == "episodes: all 12 are recorded"
    kept = [entry.payload[name] for name in ("rule", "value", "threshold", "margin")]
    assert kept == ["episodes", 12, 12, 0]
    assert campaign.take(report(90)).seq == 13
    with pytest.raises(NotAllowedError):
        campaign.take(report(91))
    assert sum(entry.kind == "stopped" for entry in campaign.entries) == 1


def test_the_rest_of_a_batch_is_not_taken_after_the_end(store):
    campaign = create(store, episodes=12, batches=3)
    campaign.assign("p14")
    answers = list(campaign.take_all(report(k) for k in range(16)))
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["Recorded"] * 12 + ["NotAllowedError"] * 2 + ["Recorded", "NotAllowedError"]
    assert campaign.state.stopped.position == 12
    check_chains(campaign)


def test_a_withdrawn_episode_leaves_room_for_another(store):
    campaign = create(store, episodes=12, batches=3)
    fill(campaign, range(11))
    campaign.withdraw("p3", actor="ana", reason="consent")
    fill(campaign, [11])
    assert campaign.state.stopped is None
    fill(campaign, [12])
    assert campaign.state.stopped


def test_a_correction_is_looked_at_too(store):
    """What was typed wrongly may have hidden the harm."""
    campaign = create(store, episodes=500, stopping=(Harm(below=0.9),))
    limit = first_look(lambda mean, _: 2 * mean.bounds(0.975).high < 0.9, 0.0)
    campaign.take(report(0, rewards=[1.0, 1.0]))
    assert play(campaign, range(1, limit), 0.0) is None
    campaign.correct(report(0, rewards=[0.0, 0.0]), actor="ana", reason="typing error")
    assert campaign.state.stopped.reason.startswith("harm: version 1")
    assert [entry.kind for entry in campaign.entries[-2:]] == ["corrected", "stopped"]
    check_chains(campaign)


def test_rules_that_were_amended_hold_from_then_on(store):
    campaign = create(store, episodes=500)
    assert play(campaign, range(100), 0.0) is None
    campaign.amend({"stopping": [{"rule": "harm", "below": 0.6}]}, actor="ana", reason="safety")
    assert campaign.state.stopped.reason.startswith("harm: version 1")  # it is reached already


def test_fewer_episodes_than_are_recorded_end_the_campaign_at_once(store):
    campaign = create(store, episodes=60)
    fill(campaign, range(20))
    campaign.amend({"episodes": 20, "budget": {"deployments": 3}}, actor="ana", reason="funds")
    assert campaign.state.stopped.reason == "episodes: all 20 are recorded"
    assert campaign.state.stopped.actor == "engine"


def test_nobody_signs_as_the_engine(store):
    campaign = create(store)
    with pytest.raises(NotAllowedError, match="engine stops a campaign by a rule"):
        campaign.stop(actor=" Engine", reason="not me")


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


def test_cohorts_that_were_lost_are_counted_again(store):
    """They are a cache: rules go on as if nothing had happened."""
    campaign = create(store, stopping=(Harm(below=0.1), DataQuality(most=0.9)))
    for k in range(6):
        campaign.take(report(k))
        if k % 2:
            with pytest.raises(RefusedError):
                campaign.record_json("{}")
    propose(campaign)
    campaign.take(report(6))
    campaign.withdraw("p2", actor="ana", reason="consent")
    campaign.correct(report(3, rewards=[1.0, 0.5]), actor="ana", reason="misread")
    with store.reading() as connection:
        before = cohorts_of(connection, campaign.name)
    with store.writing(campaign.name) as connection:
        connection.execute(cohorts.delete())
    assert verify(campaign).problems
    campaign.take(report(7))
    horizon = campaign.protocol.task.horizon
    expected = before | {
        INTAKE: before[INTAKE].after(0.0),
        2: before[2].after(report(7).total / horizon),
    }
    with store.reading() as connection:
        assert cohorts_of(connection, campaign.name) == expected
    (found,) = (check for check in verify(campaign).checks if check.name == "cohorts")
    assert found.problems == []
