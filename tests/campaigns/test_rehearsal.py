"""A protocol played in the field: reproducible, the same as a Learner, and counted right."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

import rareswitch as rs
from rareswitch.campaigns import (
    AnalysisTerms,
    Approval,
    Campaign,
    Circumstances,
    ConflictError,
    FiniteWorld,
    Harm,
    Intake,
    NotAllowedError,
    Protocol,
    Report,
    Subgroups,
    learn,
    open_store,
    propose,
    simulate,
    status,
    verify,
)
from rareswitch.campaigns.store import tables
from rareswitch.core.recipe import Recipe
from same_log import differences_from_learner

EPISODES = 120
MDP = rs.worlds.tabular(states=3, actions=3, horizon=2, seed=5)
GRID = rs.UniformGrid(batches=5)
ROUGH = Circumstances(
    sites=4,
    delay=12.0,
    missing=0.1,
    repeated=0.15,
    damaged=0.15,
    corrected=0.06,
    withdrawn=0.04,
    overridden=0.1,
    learn_every=3,
    crashes=0.4,
    outage=4.0,
    signing=6.0,
    rejected=0.4,
)


def protocol_of(**changes):
    given = {
        "name": "rough",
        "task": MDP.task(episodes=EPISODES),
        "schedule": rs.SpreadBudget(switches=5),
        "budget": 5,
        "recipe": Recipe(exploration=rs.Ensemble(members=4)),
        "approval": Approval(by="second-person", retry_after=5),
    }
    return Protocol(**given | changes)


def simulated(store, protocol=None, circumstances=ROUGH, **more):
    return simulate(
        protocol or protocol_of(), FiniteWorld(MDP), store, circumstances=circumstances, **more
    )


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "simulated.db", create=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def rough(tmp_path_factory):
    """One rough simulation, for all that only look at it."""
    path = tmp_path_factory.mktemp("rough") / "rough.db"
    with open_store(path, create=True) as opened:
        yield simulated(opened, seed=3), opened


def rows(store, table):
    with store.reading() as connection:
        return connection.execute(sa.select(table)).all()


def test_the_same_seed_makes_the_same_ledger_and_another_one_another(rough, tmp_path):
    done, _ = rough
    for seed, same in ((3, True), (4, False)):
        with open_store(tmp_path / f"{seed}.db", create=True) as opened:
            again = simulated(opened, seed=seed)
        assert (again.links == done.links) is same
        assert (again == done) is same


def test_everything_goes_wrong_and_the_policies_are_those_of_a_learner(rough):
    done, store = rough
    assert differences_from_learner(Campaign(store, "rough")) == ()
    assert done.problems == ()
    wrong = ("missing", "late", "repeated", "refused", "corrected", "withdrawn", "overridden",
             "deaths", "rejections")  # fmt: skip
    assert all(getattr(done, name) > 0 for name in wrong), done
    assert done.deployments >= 2
    assert max(done.decision_delays) > 0


def test_every_number_of_the_summary_is_what_the_store_tells(rough):
    done, store = rough
    episodes, entries = rows(store, tables.episodes), rows(store, tables.ledger)
    kinds = Counter(entry.kind for entry in entries)
    first = [row for row in episodes if not row.revision]
    assigned = rows(store, tables.assignments)
    assert done.begun == len(assigned) == EPISODES
    assert done.recorded == len(first)
    assert done.missing == len({row.episode_id for row in assigned} - {r.episode_id for r in first})
    assert done.late == sum(row.late for row in first)
    assert done.refused == len(rows(store, tables.refusals))
    corrections = [row for row in episodes if row.revision]
    assert done.withdrawn == sum(row.body is None for row in corrections)
    assert done.corrected == sum(row.body is not None for row in corrections)
    latest = {row.episode_id: row for row in sorted(episodes, key=lambda row: row.seq)}
    kept = [row.total for row in latest.values() if row.body is not None]
    assert done.mean_return == pytest.approx(np.mean(kept), rel=1e-12)
    assert done.deployments == kinds["deployed"] - 1 <= done.budget == 5
    assert done.rejections == kinds["rejected"]
    deployed = [json.loads(e.payload) for e in entries if e.kind == "deployed"][1:]
    assert done.decision_delays == tuple(
        one["reached"]["episodes"][0] - one["seq"] for one in deployed
    )
    heads = {row.chain: row.link for row in rows(store, tables.heads)}
    assert done.links == heads
    assert done.ledger_link == entries[-1].link
    assert (
        done.stopped
        == "all 120 episodes have begun, and no more reports are due"
        == entries[-1].reason
    )


def test_the_regret_is_that_of_the_members_that_were_assigned(rough):
    done, store = rough
    campaign, world = Campaign(store, "rough"), FiniteWorld(MDP)
    lost = [
        world.loss(campaign.policy(row.version).member(row.member))
        for row in rows(store, tables.assignments)
    ]
    assert done.regret == pytest.approx(sum(lost), rel=1e-12)
    assert done.plain["problems"] == []
    assert json.loads(json.dumps(done.plain))["decision_delays"] == list(done.decision_delays)


def test_reports_are_late_out_of_order_and_say_where_and_when(rough):
    _, store = rough
    first = sorted((r for r in rows(store, tables.episodes) if not r.revision), key=lambda r: r.seq)
    numbers = [int(row.episode_id.rpartition(":")[2]) for row in first]
    assert numbers != sorted(numbers)
    claims = [json.loads(row.claims) for row in first]
    assert {claim["site"] for claim in claims} == {f"site-{n:02d}" for n in (1, 2, 3, 4)}
    assert all(claim["began"] <= claim["ended"] <= row.received
               for claim, row in zip(claims, first, strict=True))  # fmt: skip


def test_a_learner_that_dies_leaves_no_trace(store, tmp_path):
    """With no outage the ledger is link by link that of a learner that never died."""
    dies = replace(ROUGH, crashes=0.7, outage=0.0, learn_every=1)
    mortal = simulated(store, circumstances=dies)
    with open_store(tmp_path / "alive.db", create=True) as opened:
        alive = simulated(opened, circumstances=replace(dies, crashes=0.0))
    assert mortal.deaths > 50
    assert alive.deaths == 0
    assert mortal.links == alive.links


@pytest.mark.parametrize("late", ["learn", "record"])
@pytest.mark.parametrize("by", ["schedule", "second-person"])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_a_learner_whatever_the_protocol(store, late, by, seed):
    protocol = protocol_of(
        task=MDP.task(episodes=60),
        schedule=rs.UniformGrid(batches=6),
        intake=Intake(late=late, assigned=True),
        approval=Approval(by=by),
    )
    done = simulated(store, protocol, seed=seed)
    assert done.problems == ()
    assert differences_from_learner(Campaign(store, "rough")) == ()
    assert 1 <= done.deployments <= 5
    learns = {bool(row.learn) for row in rows(store, tables.episodes) if row.late}
    assert learns == {late == "learn"}


def test_a_calm_campaign_is_the_simulation_of_the_lab(store):
    """One policy at a time, nothing goes wrong: the very episodes and regret of rs.simulate."""
    deep = rs.worlds.tabular(states=3, actions=3, horizon=3, seed=5)
    protocol = protocol_of(
        task=deep.task(episodes=EPISODES),
        schedule=GRID,
        recipe=Recipe(exploration=rs.Bonus(0.5)),
        approval=Approval(),
    )
    calm = Circumstances.calm()
    done = simulate(protocol, FiniteWorld(deep), store, circumstances=calm)
    run = rs.simulate(deep, GRID, rs.Recipe.paper(beta=0.5), episodes=EPISODES)
    totals = [r.total for r in sorted(rows(store, tables.episodes), key=lambda row: row.seq)]
    states = run.states[:, :-1]
    stage = np.arange(deep.horizon)
    assert totals == pytest.approx(deep.rewards[stage, states, run.actions].sum(axis=1))
    assert done.regret == pytest.approx(run.regret.sum())
    assert done.deployments == run.deployments - 1 == 4
    assert done.decision_delays == (0, 0, 0, 0)
    assert done.stopped == "episodes: all 120 are recorded"
    assert (done.late, done.missing, done.refused, done.deaths, done.mean_delay) == (0, 0, 0, 0, 0)


def test_a_rehearsal_waits_for_people_and_goes_on(store):
    protocol = protocol_of()
    waits = replace(ROUGH, signs=False)
    half = simulated(store, protocol, waits, episodes=60)
    assert half.begun == 60
    assert half.stopped is None
    assert half.deployments == 0
    campaign = Campaign(store, "rough", rehearsal=True)
    assert half.waiting == campaign.state.waiting.number
    campaign.approve(half.waiting, by="ben", reason="looked at it")
    rest = simulated(store, protocol, waits)
    assert rest.begun == 60
    assert rest.deployments == 1
    assert rest.problems == ()
    received = [row.received for row in sorted(rows(store, tables.episodes), key=lambda r: r.seq)]
    assert received == sorted(received)
    assert simulated(store, protocol, waits).begun == 0


def test_a_rehearsal_that_stopped_waits_for_nobody(store):
    done = simulated(store, protocol_of(), replace(ROUGH, signs=False))
    assert done.stopped is not None
    assert Campaign(store, "rough", rehearsal=True).state.waiting is not None
    assert done.waiting is None


def test_at_the_end_somebody_looks_once_more(store):
    """A learner that is down, or looks too seldom, is replaced before the campaign is stopped."""
    seldom = replace(ROUGH, learn_every=10_000)
    done = simulated(store, protocol_of(approval=Approval()), seldom, episodes=60)
    assert done.deployments >= 2
    assert done.problems == ()
    assert done.deaths == 0


def test_a_stopping_rule_ends_it_and_reports_that_are_under_way_still_come(store):
    protocol = protocol_of(stopping=(Harm(below=2.0),))
    done = simulated(store, protocol, replace(ROUGH, delay=20.0))
    assert done.stopped.startswith("harm: version")
    assert done.begun < EPISODES
    assert done.recorded == done.begun - done.missing
    assert done.problems == ()


def test_a_rehearsal_never_touches_a_campaign(store):
    campaign = Campaign.create(store, protocol_of(), by="ana")
    before = list(campaign.entries)
    with pytest.raises(ConflictError, match=r"rough is a campaign in .*; use another store"):
        simulated(store)
    assert list(campaign.entries) == before
    assert rows(store, tables.assignments) == []


@pytest.mark.parametrize("more", [{}, {"budget": 6}])
def test_a_rehearsal_never_becomes_the_campaign(store, more):
    simulated(store, episodes=30)
    with pytest.raises(ConflictError, match=r"rough is a rehearsal in .*; use another store"):
        Campaign.create(store, protocol_of(**more), by="ana")


def test_nobody_is_treated_in_a_rehearsal(store):
    simulated(store, episodes=30)
    campaign = Campaign(store, "rough")
    episode = rs.Episode(features=[0, 1], rewards=[0, 0], next_features=[[0, 1, 2]])
    before = [rows(store, table) for table in (tables.heads, tables.snapshots)]
    for attempt in (
        lambda: campaign.assign("new"),
        lambda: campaign.record("new", episode),
        lambda: campaign.record({"id": "x", "rewards": [0]}),
        lambda: list(campaign.record_all([{"id": "x", "rewards": [0]}])),
        lambda: learn(campaign),
        lambda: propose(campaign, by="ana", reason="?", early=True),
        lambda: campaign.stop(by="ana", reason="?"),
        lambda: campaign.withdraw("new", by="ana", reason="?"),
    ):
        with pytest.raises(NotAllowedError, match="rough is a rehearsal: nobody is treated in it"):
            attempt()
    assert [rows(store, table) for table in (tables.heads, tables.snapshots)] == before
    assert campaign.state.rehearsal
    assert status(campaign).rehearsal
    assert (campaign.entries[0].payload["rehearsal"], campaign.entries[0].actor) == (
        True,
        "simulation",
    )


@pytest.mark.parametrize("name", ["simulation", " Simulation", "simu-lation"])
def test_nobody_creates_a_campaign_as_the_simulation(store, name):
    with pytest.raises(NotAllowedError, match="simulation creates rehearsals"):
        Campaign.create(store, protocol_of(), by=name)
    with pytest.raises(NotAllowedError, match="simulation creates rehearsals"):
        Campaign.create(store, protocol_of(), by="ana", rehearsal=True)
    assert rows(store, tables.campaigns) == []


@pytest.mark.parametrize("by", ["schedule", "second-person"])
def test_a_protocol_with_signers_is_rehearsed(store, by):
    signers = Approval(by=by, signers=("Ana", "Ben"))
    done = simulated(store, protocol_of(approval=signers))
    assert done.deployments >= 1
    assert done.problems == ()
    assert done.stopped.startswith("all 120 episodes have begun")


def test_a_protocol_that_conceals_is_rehearsed(store):
    done = simulated(store, protocol_of(intake=Intake(assigned=True, concealed=True)), episodes=40)
    assert done.problems == ()
    assert len({row.salt for row in rows(store, tables.assignments)}) == 40


def test_a_world_of_another_task_is_refused_before_anything_is_written(store):
    other = rs.worlds.tabular(states=2, actions=3, horizon=2, seed=0)
    with pytest.raises(ValueError, match="world must offer rows of the protocol's task"):
        simulate(protocol_of(), FiniteWorld(other), store)
    longer = rs.worlds.tabular(states=3, actions=3, horizon=3, seed=0)
    with pytest.raises(ValueError, match="world must have the protocol's horizon, 2; got 3"):
        simulate(protocol_of(), FiniteWorld(longer), store)
    short = protocol_of(task=replace(MDP.task(episodes=EPISODES), feature_norm=0.9), schedule=GRID)
    with pytest.raises(ValueError, match="no longer than the protocol's feature_norm"):
        simulate(short, FiniteWorld(MDP), store)
    with pytest.raises(TypeError, match="circumstances must be Circumstances"):
        simulate(protocol_of(), FiniteWorld(MDP), store, circumstances={})
    assert rows(store, tables.campaigns) == []


@pytest.mark.parametrize("name", ["missing", "crashes", "rejected", "overridden"])
def test_circumstances_say_what_they_take(name):
    with pytest.raises(ValueError, match=f"{name} must be .* at most 1.*; got 1.5"):
        Circumstances(**{name: 1.5})
    with pytest.raises(ValueError, match="sites must be"):
        Circumstances(sites=0)


def test_overrides_are_reported_with_what_was_recommended(rough):
    done, store = rough
    told = [
        Report.from_body(row.body, id=row.episode_id)
        for row in rows(store, tables.episodes)
        if row.body is not None and not row.revision
    ]
    otherwise = [one for one in told if one.recommended is not None]
    assert 0 < len(otherwise) <= done.overridden
    assert any((one.recommended != one.actions).any() for one in otherwise)
    campaign = Campaign(store, "rough")
    by_id = {row.episode_id: row for row in rows(store, tables.assignments)}
    for one in told:
        acted = by_id[one.id]
        member = campaign.policy(acted.version).member(acted.member)
        offered = [one.first_features, *one.episode.next_features]
        chosen = [member.act(h, offered[h]) for h in range(len(one.episode))]
        assert chosen == list(one.actions if one.recommended is None else one.recommended)


def test_postgresql_has_the_same_ledger(rough, postgres):
    done, _ = rough
    with open_store(postgres.create_database(), create=True) as store:
        assert simulated(store, seed=3) == done


class Ward(FiniteWorld):
    """A world that tells subgroups and events of the episode just played."""

    def begin(self, number):
        self._current, self.taken = number, 0
        return super().begin(number)

    def step(self, place):
        self.taken += place
        return super().step(place)

    def subgroup(self):
        return ("mild", "severe", None)[self._current % 3]

    def events(self):
        return {"nausea": self.taken} if self.taken else {}


def test_a_world_tells_subgroups_and_events_where_the_protocol_declares_them(store):
    declared = AnalysisTerms(events=["nausea"], subgroups=Subgroups(names=["mild", "severe"]))
    made = simulate(protocol_of(analysis=declared), Ward(MDP), store, circumstances=ROUGH, seed=3)
    found = Counter()
    for row in rows(store, tables.episodes):
        if row.body is None:
            continue
        claims, report = json.loads(row.claims), Report.from_body(row.body)
        number = int(row.episode_id.partition(":")[2])
        assert claims.get("subgroup") == ("mild", "severe", None)[number % 3]
        taken = int(report.actions.sum())
        assert claims["events"] == ({"nausea": taken} if taken else {})
        found[claims.get("subgroup")] += 1
    assert min(found[name] for name in ("mild", "severe", None)) > 20
    campaign = Campaign(store, "rough", rehearsal=True)
    last = [*campaign.state.candidates.values()][-1]
    assert {one["subgroup"] for one in last.evidence["subgroups"]} == {"mild", "severe"}
    assert verify(campaign).verdict == "proven"
    assert made.begun == EPISODES


def test_a_world_is_not_asked_for_claims_that_the_protocol_does_not_declare(store):
    simulate(protocol_of(), Ward(MDP), store, circumstances=Circumstances.calm(), episodes=5)
    claims = [json.loads(row.claims) for row in rows(store, tables.episodes)]
    assert len(claims) == 5
    assert not [one for one in claims if {"subgroup", "events"} & one.keys()]
