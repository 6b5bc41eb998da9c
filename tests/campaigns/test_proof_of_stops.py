"""A campaign stopped where a rule was reached, and nowhere else: both verifiers look again."""

import numpy as np
import pytest

from campaign_builders import chain, create, fill, report
from forged_store import write_again
from rareswitch.campaigns import DataQuality, Futility, Harm, Learning, RefusedError, open_store
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.ledger import enter
from rareswitch.campaigns.stopping import looking
from rareswitch.campaigns.stopping.rules import Watched
from rareswitch.campaigns.stopping.running_mean import RunningMean
from rareswitch.support import codec
from two_proofs import of_export, of_store

ANA = {"actor": "ana", "reason": "agreed"}
HARM = Harm(below=0.9)
POOR = [0.0, 0.0]


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield opened


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(export_module, "page", lambda *_: "")


def play(campaign, numbers, rewards=POOR, **told):
    """Record episodes with these rewards; return the number after the last one taken."""
    for k in numbers:
        if campaign.state.stopped:
            return k
        campaign.take(report(k, rewards=rewards, **told))
    return numbers[-1] + 1


def refuse(campaign, times):
    for _ in range(times):
        with pytest.raises(RefusedError):
            campaign.record_json("nothing that can be read")


def until_stopped(campaign, rewards=POOR):
    assert play(campaign, range(300), rewards) < 300
    return campaign


def first_harm(below=0.9):
    """Return after how many episodes without a reward version 1 is stopped for harm."""
    mean = RunningMean()
    while 2 * mean.bounds(0.975).high >= below:
        mean = mean.after(0.0)
    return mean.observations


# --- campaigns that stopped where they had to -----------------------------------------------------


def by_harm(store):
    """Rows that were assigned come in later, and so do corrections: nobody looks any more."""
    campaign = create(store, episodes=500, stopping=(HARM, DataQuality(most=0.5)))
    campaign.assign("p400")
    until_stopped(campaign)
    campaign.take(report(400, rewards=POOR))
    refuse(campaign, 2)
    campaign.withdraw("p1", **ANA)
    return campaign


def by_futility(store):
    return until_stopped(
        create(store, episodes=500, stopping=(Harm(below=0.1), Futility(target=0.9, after=40)))
    )


def by_data_quality(store):
    campaign = create(store, episodes=500, stopping=(HARM, DataQuality(most=0.3)))
    fill(campaign, range(3))
    while not campaign.state.stopped:
        refuse(campaign, 1)
    return campaign


def by_the_planned_episodes(store):
    campaign = create(store, episodes=12, batches=3)
    fill(campaign, range(8))
    campaign.withdraw("p2", **ANA)
    refuse(campaign, 1)
    fill(campaign, range(8, 13))
    return campaign


def by_a_correction(store):
    campaign = create(store, episodes=500, stopping=(HARM,))
    campaign.take(report(0, rewards=[1.0, 1.0]))
    play(campaign, range(1, first_harm()))
    campaign.correct(report(0, rewards=POOR), **ANA)
    return campaign


def by_an_amendment(store):
    campaign = create(store, episodes=500)
    play(campaign, range(60))
    campaign.amend({"stopping": [{"rule": "harm", "below": 0.6}]}, **ANA)
    return campaign


def by_an_amendment_that_is_about_an_earlier_version(store):
    campaign = create(store, episodes=500, batches=5, budget=1)
    play(campaign, range(101))
    with Learning(campaign) as learning:
        assert learning.step().version == 2
    play(campaign, range(101, 120), [1.0, 1.0])
    campaign.amend({"stopping": [{"rule": "harm", "below": 0.6}]}, **ANA)
    return campaign


def by_harm_of_a_later_version(store):
    """It has a smaller share of the error than the first."""
    campaign = create(store, episodes=500, batches=50, budget=1, stopping=(HARM,))
    play(campaign, range(10), [1.0, 1.0])
    with Learning(campaign) as learning:
        assert learning.step().version == 2
    play(campaign, range(10, 300))
    return campaign


def by_a_late_episode(store):
    campaign = create(store, episodes=500, batches=50, budget=1, stopping=(HARM,))
    play(campaign, range(10))
    with Learning(campaign) as learning:
        assert learning.step().version == 2
    play(campaign, range(10, 15), [1.0, 1.0])
    play(campaign, range(15, 300), version=1)
    return campaign


def by_a_person(store):
    campaign = create(store, episodes=500, stopping=(HARM,))
    play(campaign, range(5))
    campaign.stop(actor="ana", reason="funds")
    return campaign


def not_at_all(store):
    campaign = create(store, episodes=500, stopping=(HARM, DataQuality(most=0.5)))
    play(campaign, range(9), [0.5, 1.0])
    refuse(campaign, 3)
    campaign.correct(report(3, rewards=POOR), **ANA)
    campaign.withdraw("p4", **ANA)
    campaign.amend({"stopping": [{"rule": "harm", "below": 0.5}]}, **ANA)
    play(campaign, range(9, 30), [0.5, 1.0])
    return campaign


RULES = {
    by_harm: "harm",
    by_futility: "futility",
    by_data_quality: "data-quality",
    by_the_planned_episodes: "episodes",
    by_a_correction: "harm",
    by_an_amendment: "harm",
    by_an_amendment_that_is_about_an_earlier_version: "harm",
    by_harm_of_a_later_version: "harm",
    by_a_late_episode: "harm",
    by_a_person: None,
    not_at_all: None,
}


@pytest.mark.parametrize("story", RULES)
def test_a_campaign_that_went_right_passes(store, tmp_path, story):
    campaign = story(store)
    stopped = campaign.state.stopped
    assert bool(stopped) == (story is not not_at_all)
    assert (stopped.payload.get("rule") if stopped else None) == RULES[story]
    assert of_store(campaign) == []
    assert of_export(campaign, tmp_path / "out") == {}


# --- engines that did otherwise -------------------------------------------------------------------


class Engine:
    """What an engine sees at its looks, one after the other, as a test has it."""

    def __init__(self, monkeypatch):
        self._really, self.looks = looking.watched, 0
        self._changes = {}
        monkeypatch.setattr(looking, "watched", self._watched)

    def at(self, look, change):
        """Let the engine see something else at a look: what `change` makes of each thing."""
        self._changes[look] = change

    def always(self, change):
        self._changes[None] = change

    def _watched(self, *given):
        self.looks += 1
        change = self._changes.get(self.looks, self._changes.get(None))
        seen = self._really(*given)
        return seen if change is None else map(change, seen)


@pytest.fixture
def engine(monkeypatch):
    return Engine(monkeypatch)


def nothing(seen):
    return seen._replace(passed=False)


def named_by_both(campaign, folder, *, store, export):
    """Assert that both verifiers name what is wrong, once and in these words."""
    (found,) = of_store(campaign)
    assert store in found
    told = of_export(campaign, folder)
    assert list(told) == ["stops"]
    (found,) = told["stops"]
    assert export in found


def test_a_stop_that_came_a_row_late_is_named(store, tmp_path, engine):
    campaign = create(store, episodes=500, stopping=(HARM,))
    engine.at(first_harm(), nothing)
    until_stopped(campaign)
    assert campaign.state.stopped.position == first_harm() + 1
    named_by_both(
        campaign,
        tmp_path / "out",
        store=f"episodes: row {first_harm()}: harm was reached (",
        export=f"after row {first_harm()} harm was reached, ",
    )


def test_a_stop_that_never_came_is_named(store, tmp_path, engine):
    """Also at the last row: nothing comes after it."""
    engine.always(nothing)
    campaign = create(store, episodes=10, batches=2)
    fill(campaign, range(10))
    assert campaign.state.stopped is None
    named_by_both(
        campaign,
        tmp_path / "out",
        store="episodes: row 10: episodes was reached (10 has passed 10)",
        export="after row 10 episodes was reached, 10, and it went on",
    )


def test_a_refusal_too_many_is_named(store, tmp_path, engine):
    engine.always(nothing)
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.3),))
    fill(campaign, range(3))
    refuse(campaign, 40)
    mean, times = RunningMean().after(0.0).after(0.0).after(0.0), 0
    while mean.bounds(0.95).low <= 0.3:
        mean, times = mean.after(1.0), times + 1
    fill(campaign, [3])
    named_by_both(
        campaign,
        tmp_path / "out",
        store=f"refusals: row {times}: data-quality was reached (",
        export=f"after refusal {times} data-quality was reached, ",
    )


def test_a_correction_that_nobody_looked_at_is_named(store, tmp_path, engine):
    engine.at(first_harm() + 1, nothing)
    campaign = by_a_correction(store)
    assert campaign.state.stopped is None
    number = len(campaign.entries)
    named_by_both(
        campaign,
        tmp_path / "out",
        store=f"ledger: entry {number}: harm was reached (",
        export=f"after entry {number} harm was reached, ",
    )


def test_an_amendment_that_nobody_looked_at_is_named(store, tmp_path, engine):
    engine.at(61, nothing)
    campaign = by_an_amendment(store)
    assert campaign.state.stopped is None
    named_by_both(
        campaign,
        tmp_path / "out",
        store="ledger: entry 3: harm was reached (",
        export="after entry 3 harm was reached, ",
    )


def test_a_person_who_stops_what_the_engine_should_have_does_not_help(store, tmp_path, engine):
    engine.always(nothing)
    campaign = create(store, episodes=500, stopping=(HARM,))
    play(campaign, range(first_harm()))
    campaign.stop(**ANA)
    named_by_both(
        campaign,
        tmp_path / "out",
        store=f"episodes: row {first_harm()}: harm was reached (",
        export=f"after row {first_harm()} harm was reached, ",
    )


def harm(seen):
    return seen._replace(passed=seen.rule == "harm", reason="so")


def stops_with(change):
    """Return a test's engine that stops at its eighth look, with something else than it saw."""
    return lambda seen: change(seen) if seen.rule == "harm" else nothing(seen)


OTHERWISE = {
    "a row early": lambda seen: seen._replace(passed=True, reason="so"),
    "with another rule": lambda seen: seen._replace(rule="futility", reason="so"),
    "with another value": lambda seen: seen._replace(value=seen.value - 1e-8, reason="so"),
    "with another threshold": lambda seen: seen._replace(threshold=0.9 + 1e-8, reason="so"),
}


@pytest.mark.parametrize("how", OTHERWISE)
def test_a_stop_without_its_warrant_is_named(store, tmp_path, engine, how):
    campaign = create(store, episodes=500, stopping=(HARM,))
    look = first_harm() - (how == "a row early")
    engine.at(look, stops_with(OTHERWISE[how]))
    until_stopped(campaign)
    assert campaign.state.stopped.position == look
    where = "no rule was reached" if how == "a row early" else "harm was reached ("
    named_by_both(
        campaign,
        tmp_path / "out",
        store=f"at episodes: row {look} {where}",
        export=f"entry 3 stops by {'futility' if 'rule' in how else 'harm'}, ",
    )


@pytest.mark.parametrize("number", ["value", "threshold", "margin"])
def test_one_number_that_was_entered_otherwise_is_named(store, tmp_path, monkeypatch, number):
    """The others are what they must be."""
    campaign = create(store, episodes=500, stopping=(HARM,))
    plain = Watched.plain.fget

    def otherwise(one):
        told = plain(one)
        return told | {number: told[number] + 1e-8}

    with monkeypatch.context() as patched:
        patched.setattr(Watched, "plain", property(otherwise))
        until_stopped(campaign)
    named_by_both(
        campaign,
        tmp_path / "out",
        store="ledger: entry 3: the engine stopped with",
        export="entry 3 stops by harm, ",
    )


def test_of_two_rules_the_first_stops(store, tmp_path, engine):
    """Both are reached at once; the one that comes second in the protocol is entered."""
    campaign = create(store, episodes=500, stopping=(HARM, Futility(target=0.9, after=1)))
    engine.always(lambda seen: nothing(seen) if seen.rule == "harm" else seen)
    until_stopped(campaign)
    assert campaign.state.stopped.payload["rule"] == "futility"
    named_by_both(
        campaign,
        tmp_path / "out",
        store="harm was reached",
        export="entry 3 stops by futility, ",
    )


def engine_stops(campaign, actor="engine", **changes):
    """Enter a stop of the engine's where it does not look."""
    with campaign._deciding() as (pen, _):
        told = {"rule": "episodes", "value": 5, "threshold": 5, "margin": 0} | changes
        enter(pen, "stopped", told, actor=actor, reason="episodes: all of them", now="now")


@pytest.mark.parametrize("actor", ["engine", " Engine"])
def test_a_stop_where_the_engine_did_not_look_is_named(store, tmp_path, actor):
    campaign = create(store, episodes=500)
    fill(campaign, range(5))
    campaign.forget("nobody", **ANA)
    engine_stops(campaign, actor)
    named_by_both(
        campaign,
        tmp_path / "out",
        store="ledger: entry 4: the engine stopped where it did not look",
        export="entry 4 stops by episodes, 5, and nothing was looked at there",
    )


def test_a_stop_right_after_a_row_that_did_not_reach_anything_is_named(store, tmp_path):
    campaign = create(store, episodes=500)
    fill(campaign, range(5))
    engine_stops(campaign)
    named_by_both(
        campaign,
        tmp_path / "out",
        store="at episodes: row 5 no rule was reached",
        export="entry 3 stops by episodes, 5, and after row 5 it saw",
    )


# --- rounding -------------------------------------------------------------------------------------


def value_after(count):
    """Return the highest mean of version 1 after so many episodes without a reward."""
    mean = RunningMean()
    for _ in range(count):
        mean = mean.after(0.0)
    return 2 * mean.bounds(0.975).high


@pytest.mark.parametrize(("by", "passes"), [(5e-10, True), (5e-9, False)])
@pytest.mark.parametrize("side", [1, -1])
def test_what_is_as_near_as_rounding_may_be_decided_either_way(
    store, tmp_path, engine, by, passes, side
):
    """The threshold is just above or below the value after 20 rows: the engine does otherwise."""
    below = value_after(20) + side * by
    campaign = create(store, episodes=500, stopping=(Harm(below=below),))
    engine.at(
        20,
        nothing
        if side == 1
        else lambda seen: seen._replace(passed=seen.rule == "harm", reason="so"),
    )
    until_stopped(campaign)
    assert campaign.state.stopped.position == (21 if side == 1 else 20)
    assert (of_store(campaign) == []) == passes
    assert (of_export(campaign, tmp_path / "out") == {}) == passes


def test_an_end_that_was_cut_off_is_not_near_to_anything(store, tmp_path, engine):
    """No refusal may be: the lower end is 0 until there is one, which is no rounding."""
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.0),))
    engine.at(3, lambda seen: seen._replace(passed=seen.rule == "data-quality", reason="so"))
    fill(campaign, range(3))
    assert campaign.state.stopped
    named_by_both(
        campaign,
        tmp_path / "out",
        store="at episodes: row 3 no rule was reached",
        export="entry 3 stops by data-quality, 0.0, and after row 3 it saw",
    )


# --- places that do not fit together --------------------------------------------------------------


def test_rows_written_again_as_they_were_pass(store):
    campaign = by_the_planned_episodes(store)
    write_again(campaign, "refusals", 1, reason="another")
    assert of_store(campaign) == []


def test_a_refusal_that_says_it_came_elsewhere_is_named(store):
    campaign = create(store, episodes=500)
    fill(campaign, range(4))
    refuse(campaign, 2)
    write_again(campaign, "refusals", 2, seq=3)
    (found,) = of_store(campaign)
    assert found == ("refusals: row 2 says that it came after episode 3; it came after episode 4")


def test_an_entry_that_was_not_written_where_it_says_is_named(store):
    """The refusal came after the fourth episode, and the entry before saw it already."""
    campaign = create(store, episodes=500)
    fill(campaign, range(4))
    refuse(campaign, 1)
    campaign.forget("nobody", **ANA)
    fill(campaign, range(4, 6))
    write_again(campaign, "refusals", 1, seq=6)
    found = of_store(campaign)[0]
    assert found.startswith("ledger: entry 3 was written between other episodes and refusals")


def test_a_correction_that_no_entry_tells_of_is_named(store):
    campaign = create(store, episodes=500)
    fill(campaign, range(4))
    campaign.withdraw("p2", **ANA)
    told = campaign.entries[2].payload | {"episodes": 0}
    write_again(campaign, "ledger", 3, kind="forgotten", payload=canonical(told))
    assert "episodes: row 5: it corrects, and no entry says so" in of_store(campaign)


def test_an_entry_of_a_correction_that_is_not_there_is_named(store):
    campaign = create(store, episodes=500)
    fill(campaign, range(4))
    campaign.forget("nobody", **ANA)
    write_again(campaign, "ledger", 3, kind="corrected", payload=corrected(campaign))
    assert "ledger: entry 3: no row was corrected there" in of_store(campaign)


def corrected(campaign):
    reached = campaign.entries[-1].payload["reached"]
    what = {"episode_id": "p3", "seq": 4, "corrects": 3, "withdrawn": False}
    return canonical(what | {"reached": reached})


def test_a_return_that_no_episode_has_is_named(store):
    """It would be counted as more than all there is to gain."""
    campaign = create(store, episodes=500)
    fill(campaign, range(4))
    body = codec.pack("report", {}, huge_rewards(campaign))
    write_again(campaign, "episodes", 2, body=body, total=2e200)
    found = of_store(campaign)
    assert "episodes: row 2: its return is 2e+200, which no episode of this task has" in found


def huge_rewards(campaign):
    (row,) = (row for row in chain(campaign, "episodes") if row.seq == 2)
    arrays = dict(codec.unpack("report", bytes(row.body)).arrays)
    return arrays | {"rewards": np.full(2, 1e200)}
