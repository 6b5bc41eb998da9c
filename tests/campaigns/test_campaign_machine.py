"""A whole campaign against a model in plain Python, on both stores."""

import itertools

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
    Intake,
    Learning,
    open_store,
)
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.store.tables import snapshots

numbers = st.integers(0, 15)
variants = st.integers(0, 2)
few = st.integers(0, 6)
FRESH = itertools.count(1)


class CampaignMachine(RuleBasedStateMachine):
    """Do the same to a campaign and to its model, and compare answers, refusals and state."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.store = open_store(url, create=True)

    @initialize(
        by=st.sampled_from(["schedule", "second-person"]),
        late=st.sampled_from(["learn", "record"]),
        budget=st.integers(1, 4),
        episodes=st.integers(6, 14),
    )
    def begin(self, by, late, budget, episodes):
        agreed = protocol(
            name=f"trial-{next(FRESH)}",
            episodes=episodes,
            batches=1,
            schedule=rs.EveryEpisode(),
            budget=budget,
            approval=Approval(by=by, retry_after=2),
            intake=Intake(late=late, grace=3),
            recipe=rs.core.recipe.Recipe(exploration=rs.Bonus(0.5)),
        )
        self.campaign = Campaign.create(self.store, agreed, actor="ana")
        self.learning = Learning(self.campaign)
        self.model = Model(agreed)

    def both(self, really, expected):
        """Do something to the campaign and to its model; return their answers, None for refusals.

        What the model refuses the campaign must refuse, with the same error.
        """
        try:
            answer = expected()
        except CampaignError as error:
            with pytest.raises(type(error)):
                really()
            return None, None
        return really(), answer

    @rule(number=numbers)
    def assign(self, number):
        found, version = self.both(
            lambda: self.campaign.assign(f"p{number}"), lambda: self.model.assign(number)
        )
        assert found is None or found.version == version

    @rule(number=numbers, variant=variants, version=st.sampled_from([None, None, None, 1, 2, 3, 4]))
    def record_any(self, number, variant, version):
        self.record(number, variant, version)

    @rule(variant=variants, data=st.data())
    def record_next(self, variant, data):
        """Record one more, of the version in force, of an earlier one, or of one to come."""
        known = range(1, len(self.model.versions) + 2)
        for _ in range(data.draw(st.integers(1, 3))):
            version = data.draw(st.sampled_from([*[None] * 6, *known]))
            self.record(len(self.model.first_rows()), variant, version)

    def record(self, number, variant, version):
        found, seq = self.both(
            lambda: self.campaign.take(told(number, variant, version)),
            lambda: self.model.record(number, (number, variant, version), version),
        )
        assert found is None or found.seq == seq

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def repeat(self, data):
        row = data.draw(st.sampled_from(self.model.first_rows()))
        found, seq = self.both(
            lambda: self.campaign.take(told(*row.content)),
            lambda: self.model.record(row.number, row.content, row.content[2]),
        )
        assert (found.seq, found.new, found.late) == (seq, False, row.late)

    @rule(data=st.data(), variant=variants)
    def correct(self, data, variant):
        number = data.draw(self.some_episode())
        self.both(
            lambda: self.campaign.correct(told(number, variant, None), actor="ana", reason="typo"),
            lambda: self.model.correct(number, (number, variant, None)),
        )

    @rule(data=st.data())
    def withdraw(self, data):
        number = data.draw(self.some_episode())
        self.both(
            lambda: self.campaign.withdraw(f"p{number}", actor="ana", reason="consent"),
            lambda: self.model.correct(number, None),
        )

    def some_episode(self):
        """Return mostly one that is recorded."""
        known = [row.number for row in self.model.first_rows()]
        return st.sampled_from([*known, 15])

    @rule(text=st.sampled_from(["", "[]", '{"id": "p1"}', '{"id": 5}']))
    def refuse(self, text):
        self.both(lambda: self.campaign.record_json(text), self.model.refuse)

    @rule(times=st.integers(1, 3))
    def learn(self, times):
        for _ in range(times):
            self.learn_once()

    def learn_once(self):
        seq = self.model.due()
        candidate = self.learning.step()
        if seq is None:
            assert candidate is None
        else:
            number = self.model.propose(seq, proposer="schedule", planned=True)
            made = self.model.candidates[number]
            assert (candidate.number, candidate.seq) == (number, seq)
            assert (candidate.digest, candidate.status) == (made.digest, made.status)

    @rule()
    def propose_early(self):
        found, number = self.both(
            lambda: self.learning.propose_early(actor="ana", reason="news"),
            lambda: self.model.propose(len(self.model.rows), proposer="ana", planned=False),
        )
        assert found is None or found.digest == self.model.candidates[number].digest

    @precondition(lambda self: self.model.candidates)
    @rule(data=st.data(), actor=st.sampled_from(["ana", "ben", "ben"]))
    def approve(self, data, actor):
        number = data.draw(self.some_candidate())
        self.both(
            lambda: self.campaign.approve(number, actor=actor, reason="agreed"),
            lambda: self.model.approve(number, actor),
        )

    @precondition(lambda self: self.model.candidates)
    @rule(data=st.data())
    def reject(self, data):
        number = data.draw(self.some_candidate())
        self.both(
            lambda: self.campaign.reject(number, actor="ben", reason="no"),
            lambda: self.model.reject(number),
        )

    def some_candidate(self):
        """Return mostly the one that waits."""
        known = list(self.model.candidates)
        return st.sampled_from([*[self.model.waiting or known[-1]] * 4, *known])

    @rule(data=st.data())
    def roll_back(self, data):
        last = len(self.model.versions)
        to = data.draw(st.sampled_from([0, last, *[max(1, last - 1)] * 4]))
        self.both(
            lambda: self.campaign.roll_back(to, actor="cyd", reason="harm"),
            lambda: self.model.roll_back(to),
        )

    @rule(
        changes=st.one_of(
            st.fixed_dictionaries({"budget": st.fixed_dictionaries({"deployments": few})}),
            st.fixed_dictionaries({"episodes": st.integers(5, 20)}),
            st.fixed_dictionaries(
                {
                    "intake": st.fixed_dictionaries(
                        {
                            "late": st.sampled_from(["learn", "record"]),
                            "grace": st.integers(0, 5),
                            "assigned": st.sampled_from([False, False, False, True]),
                        }
                    )
                }
            ),
        )
    )
    def amend(self, changes):
        if self.model.stopped or not same(self.model.now, changes):
            self.both(
                lambda: self.campaign.amend(changes, actor="ana", reason="agreed"),
                lambda: self.model.amend(changes),
            )

    @precondition(lambda self: len(self.model.entries) > 12)
    @rule()
    def stop(self):
        self.both(lambda: self.campaign.stop(actor="ana", reason="enough"), self.model.stop)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = open_store(self.url)
        self.campaign = Campaign(self.store, self.campaign.name)
        self.learning = Learning(self.campaign)

    @rule(forget=st.booleans())
    def lose_the_learner(self, forget):
        self.learning = Learning(self.campaign)
        if forget:
            with self.store.writing(self.campaign.name) as connection:
                connection.execute(
                    snapshots.delete().where(snapshots.c.campaign == self.campaign.name)
                )

    @invariant()
    def same_state(self):
        if not hasattr(self, "model"):
            return
        state, model = self.campaign.state, self.model
        assert [entry.kind for entry in self.campaign.entries] == model.entries
        assert state.protocol == model.now
        assert bool(state.stopped) == model.stopped
        assert state.spent == model.spent <= model.now.budget
        assert [(one.digest, one.seq, one.since) for one in state.versions] == [
            (one.digest, one.seq, one.since) for one in model.versions
        ]
        assert [(n, one.status) for n, one in state.candidates.items()] == [
            (n, one.status) for n, one in model.candidates.items()
        ]

    def teardown(self):
        if hasattr(self, "model"):
            self.compare_all()
        self.store.close()

    def compare_all(self):
        """Compare every row, and let the library prove its own record."""
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
        assert len(chain(self.campaign, "refusals")) == self.model.refusals
        check_chains(self.campaign)
        assert verify(self.campaign).problems == []


def same(now, changes):
    """Return whether an amendment would change nothing, which is an error of another kind."""
    try:
        now.amended(changes)
    except ValueError:
        return True
    return False


def test_a_campaign_is_what_the_model_says(store_url):
    examples = 10 if store_url.startswith("postgresql") else 25
    run_state_machine_as_test(
        lambda: CampaignMachine(store_url),
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
