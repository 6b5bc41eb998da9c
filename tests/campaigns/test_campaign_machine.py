"""A whole campaign against a model in plain Python, on both stores.

Every step does several things, so that few steps lead far: versions, late episodes, corrections of
what was fitted before, amendments with rows on both sides.
"""

import itertools
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import rareswitch as rs
from campaign_builders import chain, check_chains, protocol
from campaign_model import Model, told
from rareswitch.campaigns import (
    Approval,
    Campaign,
    CampaignError,
    DataQuality,
    Futility,
    Harm,
    Intake,
    Learning,
    NotAllowedError,
    UnreadableError,
    export,
    open_store,
    verify,
)
from rareswitch.campaigns.proof.verifier import verify_export
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.rulebook.stopping import plain_rule
from rareswitch.campaigns.store.tables import cohorts, snapshots

FRESH = itertools.count(1)
UNREADABLE = ["", "[]", "id,rewards", '{"name": "x"}']
variants = st.integers(0, 2)
by = st.sampled_from(["second-person", "schedule"])
late = st.sampled_from(["learn", "record"])
grace = st.integers(0, 2)
retry_after = st.integers(1, 3)
every_episode = st.just({"kind": "every-episode"})
stopping_rules = st.one_of(
    st.builds(Harm, below=st.sampled_from([1.9, 1.97, 1.99]), confidence=st.just(0.5)),
    st.builds(
        Futility,
        target=st.sampled_from([1.9, 1.97, 1.99]),
        after=st.integers(3, 9),
        confidence=st.just(0.5),
    ),
    st.builds(DataQuality, most=st.sampled_from([0.0, 0.05, 0.1]), confidence=st.just(0.5)),
)
grids = st.fixed_dictionaries({"kind": st.just("uniform-grid"), "batches": st.integers(5, 12)})


plain_rules = stopping_rules.map(plain_rule)


class CampaignMachine(RuleBasedStateMachine):
    """Do the same to a campaign and to its model, and compare answers, refusals and state."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.store = open_store(url, create=True)

    @initialize(data=st.data(), seasons=st.integers(0, 3))
    def begin(self, data, seasons):
        """Begin a campaign, mostly one that has gone on for a while."""
        draw = data.draw
        agreed = protocol(
            name=f"trial-{next(FRESH)}",
            episodes=draw(st.integers(15, 30)),
            batches=1,
            schedule=rs.EveryEpisode(),
            budget=draw(st.integers(1, 5)),
            approval=Approval(by=draw(by), retry_after=draw(retry_after)),
            intake=Intake(late=draw(late), grace=draw(grace)),
            recipe=rs.Recipe(exploration=rs.Bonus(0.5)),
            stopping=draw(st.lists(stopping_rules, max_size=2).map(tuple)),
        )
        self.campaign = Campaign.create(self.store, agreed, by="ana")
        self.learning = Learning(self.campaign)
        self.model = Model(agreed)
        for _ in range(seasons):
            self.record_some(data)
            self.learn_and_decide(data)

    # Steps

    @rule(data=st.data())
    def season(self, data):
        """Record, change something, learn and decide, maybe some rows later."""
        self.record_some(data)
        self.change(data)
        self.learn_and_decide(data)

    @rule(data=st.data())
    def season_of_a_learner_behind(self, data):
        """Record on both sides of changes; then learn from all of it, version by version."""
        self.record_some(data)
        self.amend(data)
        self.record_some(data)
        self.change(data)
        for _ in range(data.draw(st.integers(2, 4))):
            self.learn_and_decide(data)

    @rule(data=st.data())
    def season_in_single_rows(self, data):
        """Learn after every row until nothing is due, then change the last row or the protocol."""
        for _ in range(data.draw(st.integers(1, 2))):
            self.record(self.fresh(), 0, None)
            self.learn_and_decide(data)
        self.record(self.fresh(), data.draw(variants), None)
        self.change(data)
        self.learn()

    @rule(data=st.data())
    def assigned_before(self, data):
        """Assign episodes, let versions come and go, and report some of them."""
        for _ in range(data.draw(st.integers(1, 3))):
            self.assign(self.fresh())
        self.learn_and_decide(data)
        self.record_some(data)

    @rule(data=st.data())
    def look_back(self, data):
        """Correct or withdraw what versions were fitted on, and maybe record more before a fit."""
        self.learn_and_decide(data)
        for _ in range(data.draw(st.integers(1, 2))):
            self.correct(data)
        if data.draw(st.booleans()):
            self.record_some(data)
        self.learn_and_decide(data)

    @rule(data=st.data(), left=st.integers(0, 1), more=st.integers(1, 3))
    def budget_down_and_up(self, data, left, more):
        """Let a learner come late to rows from before, between and after two amendments."""
        if self.model.waiting:
            self.decide(data)
        for deployments in (self.model.spent + left, self.model.spent + left + more):
            for _ in range(data.draw(st.integers(2, 4))):
                self.record(self.fresh(), 0, None)
            self.amend_to({"budget": {"deployments": deployments}})
        for _ in range(3):
            self.learn_and_decide(data)

    @rule(data=st.data())
    def pass_over(self, data):
        """Roll back while a candidate waits; then somebody decides about it."""
        self.record(self.fresh(), 0, None)
        self.propose_early(data)
        self.roll_back(data)
        self.decide(data)

    @rule(data=st.data(), more=st.sampled_from([0, 4]))
    def plan_fewer(self, data, more):
        """Plan as many episodes as there are, or a few more, and correct one of them."""
        self.record(self.fresh(), 0, None)
        self.amend_to({"episodes": max(1, self.model.counted + more)})
        self.correct(data)

    @rule(times=st.integers(6, 12))
    def season_of_poor_returns(self, times):
        for _ in range(times):
            self.record(self.fresh(), 1, None)

    @rule(data=st.data(), times=st.integers(2, 6))
    def season_of_refusals(self, data, times):
        """Refuse much, and record in between; maybe two persons reopen the campaign."""
        for _ in range(times):
            self.refuse(data)
        self.record(self.fresh(), 0, None)
        self.refuse(data)
        if data.draw(st.booleans()):
            self.lift(data)
            self.refuse(data)

    @rule(data=st.data())
    def change_two(self, data):
        """Do two things that may meet: an amendment and a correction, a loss and a rollback."""
        self.change(data)
        self.change(data)

    @precondition(lambda self: self.model.stopped)
    @rule(data=st.data(), seasons=st.integers(1, 3))
    def begin_another(self, data, seasons):
        self.compare_all()
        self.begin(data, seasons)

    # What steps are made of

    def both(self, really, expected):
        """Do something to the campaign and to its model; return their answers, None for refusals.

        What the model refuses the campaign must refuse, with the same error.
        """
        try:
            answer = expected()
        except CampaignError as error:
            refusal = type(error)
        else:
            return really(), answer
        with pytest.raises(CampaignError) as caught:
            really()
        assert caught.type is refusal  # not one of its kind: who moved may try again
        return None, None

    def change(self, data):
        data.draw(
            st.sampled_from(
                [
                    self.amend,
                    self.amend,
                    self.correct,
                    self.correct,
                    self.roll_back,
                    self.propose_early,
                    self.repeat,
                    self.refuse,
                    self.lift,
                    self.cancel,
                    self.lose_the_learner,
                    self.restart,
                    self.decide,
                    self.stop,
                ]
            )
        )(data)

    def fresh(self):
        """Return the number of an episode that nobody has heard of."""
        return 1 + max([0, *self.model.assigned, *(row.number for row in self.model.rows)])

    def assign(self, number):
        found, version = self.both(
            lambda: self.campaign.assign(f"p{number}"), lambda: self.model.assign(number)
        )
        assert found is None or found.version == version

    def record_some(self, data):
        """Record a few episodes of some versions, in one commit or in many."""
        outstanding = [n for n in self.model.assigned if not self.model.place(n)]
        last, fresh = len(self.model.versions), self.fresh()
        which = st.sampled_from([None] * 8 + outstanding[-3:] * 2 + [max(1, fresh - 1)])
        acted = st.sampled_from([None] * 6 + [max(1, last - 1)] * 3 + [max(1, last - 2), last + 1])
        reports = []
        for number, variant, version in data.draw(
            st.lists(st.tuples(which, variants, acted), min_size=1, max_size=5)
        ):
            reports.append((number or fresh, variant, version))
            fresh += number is None
        if data.draw(st.booleans()):
            for one in reports:
                self.record(*one)
            return
        answers = list(self.campaign.record_all([told(*one) for one in reports]))
        expected = self.model.record_all([(one[0], one, one[2]) for one in reports])
        for found, answer in zip(answers, expected, strict=True):
            if isinstance(answer, CampaignError):
                assert type(found) is type(answer)
            else:
                assert found.seq == answer

    def record(self, number, variant, version):
        found, seq = self.both(
            lambda: self.campaign.record(told(number, variant, version)),
            lambda: self.model.record(number, (number, variant, version), version),
        )
        assert found is None or found.seq == seq

    def repeat(self, data):
        if self.model.rows:
            row = data.draw(st.sampled_from(self.model.first_rows()))
            found, seq = self.both(
                lambda: self.campaign.record(told(*row.content)),
                lambda: self.model.record(row.number, row.content, row.content[2]),
            )
            assert (found.seq, found.new, found.late) == (seq, False, row.late)
            self.both(
                lambda: self.campaign.assign(f"p{row.number}"),
                lambda: self.model.assign(row.number),
            )

    def correct(self, data):
        """Correct or withdraw an episode, mostly one that is recorded."""
        known = [row.number for row in self.model.first_rows()]
        number = data.draw(st.sampled_from([*known, *known[:3], *known[-3:], self.fresh()]))
        variant = data.draw(st.sampled_from([0, 1, 2, None]))
        if variant is None:
            self.both(
                lambda: self.campaign.withdraw(f"p{number}", by="ana", reason="consent"),
                lambda: self.model.correct(number, None),
            )
        else:
            content = (number, variant, None)
            self.both(
                lambda: self.campaign.correct(told(*content), by="ana", reason="typo"),
                lambda: self.model.correct(number, content),
            )

    def refuse(self, data):
        """Send a report that is refused, mostly another than before, or no report at all."""
        number = data.draw(st.sampled_from([len(self.model.refusals)] * 4 + [0]))
        text = json.dumps({"id": f"r{number}", "rewards": [7]})
        self.both(lambda: self.campaign.record(text), lambda: self.model.refuse(text))
        with pytest.raises(UnreadableError):
            self.campaign.record(data.draw(st.sampled_from(UNREADABLE)))

    def lift(self, data):
        """Reopen the campaign, if data quality stopped it."""

        def by_two():
            number = self.campaign.reopen(by="ana", reason="the form is repaired").number
            with pytest.raises(NotAllowedError):
                self.campaign.approve(number, by=" Ana.", reason="me too")
            return self.campaign.approve(number, by="ben", reason="seen")

        self.both(by_two, self.model.reopen)

    def cancel(self, data):
        """Cancel an episode, mostly one that is assigned and not reported."""
        known = [*self.model.assigned] or [self.fresh()]
        number = data.draw(st.sampled_from([*known, *known[-3:], self.fresh()]))
        found, new = self.both(
            lambda: self.campaign.cancel(f"p{number}", by="ana", reason="never came"),
            lambda: self.model.cancel(number),
        )
        assert found is new
        self.assign(number)

    def learn(self):
        seq = self.model.due()
        candidate = self.learning.step()
        if seq is None:
            assert candidate is None
        else:
            number = self.model.propose(seq, proposer="schedule", planned=True)
            made = self.model.candidates[number]
            assert (candidate.number, candidate.seq) == (number, seq)
            assert (candidate.digest, candidate.status) == (made.digest, made.status)

    def learn_and_decide(self, data):
        """Learn, and decide about what waits, now or after more rows, or leave it."""
        self.learn()
        if self.model.waiting:
            if data.draw(st.booleans()):
                self.record_some(data)
            self.decide(data)

    def propose_early(self, data):
        found, number = self.both(
            lambda: self.learning.propose_early(by="ana", reason="news"),
            lambda: self.model.propose(len(self.model.rows), proposer="ana", planned=False),
        )
        assert found is None or found.digest == self.model.candidates[number].digest

    def decide(self, data):
        """Approve, reject or pass over a candidate, mostly the one that waits."""
        known = list(self.model.candidates)
        if not known:
            return
        number = data.draw(st.sampled_from([*[self.model.waiting or known[-1]] * 6, *known]))
        what = data.draw(st.sampled_from(["ben"] * 6 + ["reject"] * 3 + ["ana", "pass over", ""]))
        if what == "reject":
            self.both(
                lambda: self.campaign.reject(number, by="ben", reason="no"),
                lambda: self.model.reject(number),
            )
            return
        if what == "pass over":
            self.roll_back(data)
        if what:
            who = "ana" if what == "ana" else "ben"
            self.both(
                lambda: self.campaign.approve(number, by=who, reason="agreed"),
                lambda: self.model.approve(number, who),
            )

    def roll_back(self, data):
        last = len(self.model.versions)
        to = data.draw(st.sampled_from([*[max(1, last - 1)] * 3, 1, last, 0]))
        self.both(
            lambda: self.campaign.rollback(to, by="cyd", reason="harm"),
            lambda: self.model.rollback(to),
        )

    def amend(self, data):
        """Amend something, near where it matters now."""
        spent, counted = self.model.spent, self.model.counted
        deployments = st.integers(max(0, spent - 1), spent + 2)
        assigned = st.sampled_from([False, False, False, True])
        changes = data.draw(
            st.one_of(
                st.fixed_dictionaries({"budget": table(deployments=deployments)}),
                st.fixed_dictionaries({"budget": table(deployments=deployments)}),
                st.fixed_dictionaries({"episodes": st.integers(max(1, counted), counted + 9)}),
                st.fixed_dictionaries({"schedule": every_episode | grids}),
                st.fixed_dictionaries({"stopping": st.lists(plain_rules, max_size=2)}),
                st.fixed_dictionaries({"approval": table(by=by, retry_after=retry_after)}),
                st.fixed_dictionaries({"intake": table(late=late, grace=grace, assigned=assigned)}),
            )
        )
        self.amend_to(changes)

    def amend_to(self, changes):
        """Amend the protocol: where a second person approves, ben does."""
        if not possible(self.model.now, changes):
            return
        entry, waits = self.both(
            lambda: self.campaign.amend(changes, by="ana", reason="agreed"),
            lambda: self.model.amend(changes),
        )
        if waits:
            assert entry.number == self.model.amendment[0]
            with pytest.raises(NotAllowedError):
                self.campaign.approve(entry.number, by="ANA", reason="me too")
            self.both(
                lambda: self.campaign.approve(entry.number, by="ben", reason="agreed"),
                self.model.approve_amendment,
            )

    def stop(self, data):
        if data.draw(st.integers(0, 5)) == 5:
            self.both(lambda: self.campaign.stop(by="ana", reason="enough"), self.model.stop)

    def restart(self, data):
        self.store.close()
        self.store = open_store(self.url)
        self.campaign = Campaign(self.store, self.campaign.name)
        self.learning = Learning(self.campaign)

    def lose_the_learner(self, data):
        self.learning = Learning(self.campaign)
        if data.draw(st.booleans()):
            with self.store.writing(self.campaign.name) as connection:
                for cache in (snapshots, cohorts):
                    connection.execute(cache.delete().where(cache.c.campaign == self.campaign.name))

    @invariant()
    def same_state(self):
        if not hasattr(self, "model"):
            return
        state, model = self.campaign.state, self.model
        assert [entry.kind for entry in self.campaign.entries] == model.entries
        assert state.terms.digest == model.now.digest
        assert bool(state.stopped) == bool(model.stopped)
        assert state.spent == model.spent <= model.now.budget
        assert [(one.digest, one.seq, one.since) for one in state.versions] == [
            (one.digest, one.seq, one.since) for one in model.versions
        ]
        assert [(n, one.status) for n, one in state.candidates.items()] == [
            (n, one.status) for n, one in model.candidates.items()
        ]

    def teardown(self):
        with self.store:
            if hasattr(self, "model"):
                self.compare_all()

    def compare_all(self):
        """Compare every row, and let both verifiers prove the record."""
        found = chain(self.campaign, "episodes")
        assert [
            (row.episode_id, row.revision, row.version, row.late, row.learn) for row in found
        ] == [
            (f"p{row.number}", row.revision, row.version, row.late, row.learn)
            for row in self.model.rows
        ]
        for row, expected in zip(found, self.model.rows, strict=True):
            if expected.content is None:
                assert row.body is None
            else:
                assert episode_of(bytes(row.body)) == told(*expected.content).episode
        assert {row.episode_id: row.version for row in chain(self.campaign, "assignments")} == {
            f"p{number}": version for number, version in self.model.assigned.items()
        }
        assert len(chain(self.campaign, "refusals")) == len(self.model.refusals)
        check_chains(self.campaign)
        assert verify(self.campaign).problems == []
        with TemporaryDirectory() as folder:
            export(self.campaign, Path(folder) / "out", by="zoe", reason="a proof")
            assert verify_export(Path(folder) / "out").problems == []
        self.model.entries.append("exported")


def table(**keys):
    """Return what draws a table of the protocol."""
    return st.fixed_dictionaries(keys)


def possible(now, changes):
    """Return whether an amendment is of another protocol that is possible."""
    try:
        return now.amended(changes) != now
    except ValueError:
        return False


def test_a_campaign_is_what_the_model_says(store_url):
    examples = 5 if store_url.startswith("postgresql") else 16
    run_state_machine_as_test(
        lambda: CampaignMachine(store_url),
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
