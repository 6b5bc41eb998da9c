"""Episodes per day and per site, counted as rows come, and the forecast of the next version."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from rareswitch.campaigns import Campaign, list_episodes, open_episodes, open_store, sites, status
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.service.pages.counting import counts_of
from rareswitch.service.pages.forecast import day_after, forecasts
from study_builders import create_study, run_study, treat


@pytest.fixture
def study(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create_study(store)
        run_study(campaign, 50)
        yield campaign


def counted(campaign):
    with campaign.store.reading() as connection:
        state, heads = campaign.state_at(connection), heads_of(connection, campaign.name)
        return counts_of(campaign, connection, state, heads)


def check(campaign):
    """Compare the counts with those of the library, which reads all rows each time."""
    found = counted(campaign)
    for row in sites(campaign):
        one = found.sites[row["site"]]
        assert (one.outcomes, one.deviating) == (row["episodes"], row["deviating"])
        assert one.mean == pytest.approx(row["mean_return"])
    waiting = Counter(row["episode_id"].split(":")[0] for row in open_episodes(campaign, limit=999))
    assert {name: one.open for name, one in found.sites.items() if one.open} == waiting
    rows = [row for row in list_episodes(campaign, limit=999) if not row["revision"]]
    days = Counter(row["received"][:10] for row in rows)
    assert {str(day): seen.total() for day, seen in found.days.items()} == days
    assert sum(one.recorded for one in found.sites.values()) == len(rows)
    return found


def test_counts_follow_new_rows_corrections_withdrawals_and_cancellations(study):
    check(study)
    rng = np.random.default_rng(5)
    report = treat(study, 900, rng, site="lima")
    check(study)
    study.record(report)
    assert check(study).sites["lima"].recorded == 1
    study.correct(report | {"rewards": [1.0 - report["rewards"][0]]}, by="ana", reason="typo")
    check(study)
    study.correct(report | {"site": "porto"}, by="ana", reason="another site")
    check(study)
    study.withdraw("berlin:0003", by="ana", reason="consent")
    check(study)
    name = open_episodes(study)[0]["episode_id"]
    study.cancel(name, by="ana", reason="never began")
    grown = check(study)
    fresh = Campaign(study.store, study.name)
    assert check(fresh) == grown


def test_counts_are_read_once(study, monkeypatch):
    counted(study)
    read = []
    from rareswitch.service.pages import counting

    rows_of = counting.rows_of

    def watched(*args, **named):
        for row in rows_of(*args, **named):
            read.append(row)
            yield row

    monkeypatch.setattr(counting, "rows_of", watched)
    counted(study)
    assert len(read) == 2  # the last row of each chain, to see that it is still the same
    study.record(treat(study, 901, np.random.default_rng(6)))
    read.clear()
    counted(study)
    assert len(read) == 4


def test_other_rows_are_counted_anew(study):
    found = counted(study)
    from rareswitch.service.pages import counting

    counting._known[study].links["episodes"] = "0" * 64
    counting._known[study].sites["berlin"].recorded = 10**6
    assert counted(study) == found


def test_the_rate_is_that_of_the_last_two_weeks(study):
    found = counted(study)
    last = datetime.fromisoformat(found.last)
    rate, days = found.rate(last)
    total = sum(one.recorded for one in found.sites.values())
    assert days == (last.date() - datetime.fromisoformat(found.first).date()).days + 1
    assert rate == pytest.approx(total / days)
    later, days = found.rate(last + timedelta(days=100))
    assert (later, days) == (0.0, 14)


NOW = datetime(2026, 3, 20, tzinfo=UTC)


def trigger(quantity, value, threshold):
    return {"quantity": quantity, "value": value, "threshold": threshold, "reached": False}


def test_a_forecast_extends_dates_and_growth(study):
    found = replace(
        status(study),
        triggers=(trigger("growth", 2.0, 5.0), trigger("episode", 51, 71), {"quantity": 3}),
    )
    since = found.folded - found.versions[-1].since
    first, second = forecasts(found, 10.0, NOW)
    assert first.quantity == "episode"
    assert (first.episodes, first.day) == (20, NOW + timedelta(days=2))
    assert second.episodes == -(-3.0 * since // 2.0)
    assert second.share == pytest.approx(0.4)
    assert "growth slows down" in second.how


def test_a_forecast_without_growth_or_rate_tells_no_day(study):
    found = replace(status(study), triggers=(trigger("growth", 0.0, 5.0),))
    (one,) = forecasts(found, 10.0, NOW)
    assert (one.episodes, one.day) == (None, None)
    assert "not grown yet" in one.how
    (reached,) = forecasts(replace(found, triggers=(trigger("growth", 6.0, 5.0),)), 10.0, NOW)
    assert (reached.episodes, reached.how, reached.share) == (0, "It is reached.", 1.0)
    assert day_after(10, None, NOW) is None
    assert day_after(10, 0.0, NOW) is None
    assert day_after(10**9, 1.0, NOW) is None
