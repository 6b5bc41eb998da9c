"""A campaign stopped where a rule was reached, and nowhere else."""

import pytest

from campaign_builders import create, fill, report
from forgery import Forgery
from rareswitch.campaigns import (
    DataQuality,
    Futility,
    Harm,
    Learning,
    RefusedError,
    heads,
    open_store,
    recording,
)
from rareswitch.campaigns.recording import Work
from rareswitch.campaigns.rulebook.running_mean import RunningMean
from rareswitch.campaigns.rulebook.stopping import Watched
from two_proofs import of_export, of_folder, of_store

ANA = {"by": "ana", "reason": "agreed"}
HARM = Harm(below=0.9)
POOR = [0.0, 0.0]


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield opened


def play(campaign, numbers, rewards=POOR, **told):
    """Record episodes with these rewards; return the number after the last one taken."""
    for k in numbers:
        if campaign.state.stopped:
            return k
        campaign.record(report(k, rewards=rewards, **told))
    return numbers[-1] + 1


def refuse(campaign, times):
    for _ in range(times):
        name = f"x{len(campaign.entries)}-{heads(campaign)['refusals'].length}"
        with pytest.raises(RefusedError):
            campaign.record({"id": name, "features": [[1, 0, 0]], "rewards": [2]})


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
    campaign.record(report(400, rewards=POOR))
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
    """The corrected return counts in its place, with the weight that it had there."""
    campaign = create(store, episodes=500, stopping=(HARM,))
    campaign.record(report(0, rewards=[1.0, 1.0]))
    place = RunningMean().next_place
    mean = corrected = RunningMean().after(1.0)
    while 2 * corrected.bounds(0.975).high >= 0.9:
        campaign.record(report(mean.observations, rewards=POOR))
        mean = mean.after(0.0)
        corrected = mean.add(place, 1.0, -1).add(place, 0.0, 1)
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
    campaign.stop(by="ana", reason="funds")
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
        self._really, self.looks = recording.watch, 0
        self._changes = {}
        monkeypatch.setattr(recording, "watch", self._watched)

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


def named(campaign, folder, said):
    """Check that the store and its export name the one problem, in these words."""
    (found,) = of_store(campaign)
    assert said in found
    assert of_export(campaign, folder) == {"stops": [found]}


def test_a_stop_that_came_a_row_late_is_named(store, tmp_path, engine):
    campaign = create(store, episodes=500, stopping=(HARM,))
    engine.at(first_harm(), nothing)
    until_stopped(campaign)
    assert campaign.state.stopped.position == first_harm() + 1
    named(campaign, tmp_path / "out", f"episodes: row {first_harm()}: harm was reached (")


def no_row_after(store):
    return happen(create(store, episodes=10, batches=2), lambda c: fill(c, range(10)))


def a_person_stops(store):
    """A person who stops the campaign later does not help."""
    campaign = create(store, episodes=500, stopping=(HARM,))
    play(campaign, range(first_harm()))
    return happen(campaign, lambda c: c.stop(**ANA))


def happen(campaign, event):
    event(campaign)
    return campaign


NEVER = {
    no_row_after: "episodes: row 10: episodes was reached (10 has passed 10)",
    by_a_correction: "ledger: entry 3: harm was reached (",
    by_an_amendment: "ledger: entry 3: harm was reached (",
    a_person_stops: f"episodes: row {first_harm()}: harm was reached (",
}


@pytest.mark.parametrize("story", NEVER)
def test_a_stop_that_never_came_is_named(store, tmp_path, engine, story):
    engine.always(nothing)
    campaign = story(store)
    named(campaign, tmp_path / "out", NEVER[story])


def test_a_refusal_too_many_is_named(store, tmp_path, engine):
    engine.always(nothing)
    campaign = create(store, episodes=500, stopping=(DataQuality(most=0.3),))
    fill(campaign, range(3))
    refuse(campaign, 40)
    mean, times = RunningMean().after(0.0).after(0.0).after(0.0), 0
    while mean.bounds(0.95).low <= 0.3:
        mean, times = mean.after(1.0), times + 1
    fill(campaign, [3])
    named(campaign, tmp_path / "out", f"refusals: row {times}: data-quality was reached (")


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
    named(campaign, tmp_path / "out", f"at episodes: row {look} {where}")


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
    named(campaign, tmp_path / "out", "ledger: entry 3: the engine stopped with")


def test_of_two_rules_the_first_stops(store, tmp_path, engine):
    """Both are reached at once; the one that comes second in the protocol is entered."""
    campaign = create(store, episodes=500, stopping=(HARM, Futility(target=0.9, after=1)))
    engine.always(lambda seen: nothing(seen) if seen.rule == "harm" else seen)
    until_stopped(campaign)
    assert campaign.state.stopped.payload["rule"] == "futility"
    named(campaign, tmp_path / "out", "harm was reached")


def engine_stops(campaign):
    """Enter a stop of the engine's where it does not look."""
    told = {"rule": "episodes", "value": 5, "threshold": 5, "margin": 0}
    signed = {"by": "engine", "reason": "episodes: all of them"}
    campaign.submit(Work(lambda transaction: transaction.enter("stopped", told, **signed))).result()


@pytest.mark.parametrize("after", ["a row", "an entry"])
def test_a_stop_without_a_look_is_named(store, tmp_path, after):
    campaign = create(store, episodes=500)
    fill(campaign, range(5))
    if after == "an entry":
        campaign.note_export("0" * 64, **ANA)
    engine_stops(campaign)
    said = {"a row": "at episodes: row 5 no rule was reached",
            "an entry": "ledger: entry 4: the engine stopped where it did not look"}  # fmt: skip
    named(campaign, tmp_path / "out", said[after])


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
    engine.at(20, nothing if side == 1 else harm)
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
    named(campaign, tmp_path / "out", "at episodes: row 3 no rule was reached")


# --- places that do not fit together --------------------------------------------------------------


@pytest.mark.parametrize("seq", [3, 6])
def test_a_refusal_that_says_it_came_elsewhere_is_named(store, tmp_path, seq):
    """Two refusals came after the fourth episode, and the entry after them saw both."""
    campaign = create(store, episodes=500)
    fill(campaign, range(4))
    refuse(campaign, 2)
    campaign.note_export("0" * 64, **ANA)
    fill(campaign, range(4, 6))
    assert of_export(campaign, tmp_path / "out") == {}
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    forgery.chains["refusals"][1]["seq"] = seq
    forgery.cover_up()
    said = f"refusals: row 2 names row {seq} of the log; it came after 4"
    assert said in [one for found in of_folder(forgery.folder).values() for one in found]
