"""A history of both kinds of stages: whatever happens to it happens to both."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ragged_episode
from rareswitch.core.policy import fit
from rareswitch.statistics import BothHistories, dense, history_of, one_hot

DENSE = rs.Task(dim=3, horizon=4, stages="auto", end_reward=0.25)
TASKS = {"dense": DENSE, "one-hot": replace(DENSE, dim=6, one_hot=True)}
BY_TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
RECIPE = rs.Recipe(exploration=rs.Ensemble(3))


def log_of(task, count, seed):
    rng = np.random.default_rng(seed)
    if not task.one_hot:
        return [ragged_episode(rng, horizon=4, dim=3) for _ in range(count)]
    log = []
    for _ in range(count):
        steps = int(rng.integers(1, 5))
        states = [np.arange(2) + 2 * rng.integers(3) for _ in range(steps - 1)]
        rows = [int(rng.choice(state)) for state in [np.arange(2), *states]]
        log.append(
            rs.Episode(features=np.array(rows), rewards=rng.random(steps), next_features=states)
        )
    return log


def contents(history):
    return {name: array.tobytes() for name, array in history.fold().to_arrays().items()}


@BY_TASK
def test_it_holds_the_history_of_each_kind(task):
    log = log_of(task, 12, 0)
    both = history_of(task, 0.5, log)
    assert isinstance(both, BothHistories)
    for kind, part in (("own", both.own), ("shared", both.shared)):
        assert contents(part) == contents(history_of(replace(task, stages=kind), 0.5, log))
    assert both.episodes == 12
    assert both.gram.logdet.tobytes() == both.shared.gram.logdet.tobytes()
    assert both.stored_rows == both.own.stored_rows + both.shared.stored_rows


@BY_TASK
@given(
    st.integers(0, 10**6),
    st.sets(st.integers(0, 9)),
    st.sampled_from([1, 25, 10**6]),
    st.booleans(),
)
def test_no_byte_depends_on_when_it_is_folded(task, seed, folds, most, corrected):
    log = log_of(task, 10, seed)
    found = {
        "both": history_of(task, 0.5),
        "own": history_of(replace(task, stages="own"), 0.5),
        "shared": history_of(replace(task, stages="shared"), 0.5),
    }
    waiting = found["both"]
    with pytest.MonkeyPatch.context() as patch:
        for kind in (dense, one_hot):
            patch.setattr(kind, "MOST_WAITING", most)  # then a history is folded without a fit
        for k, episode in enumerate(log):
            found = {name: one.absorb(episode) for name, one in found.items()}
            waiting = waiting.absorb(episode)
            if corrected and k == 5:
                found = {name: one.replace(log[2], log[3]) for name, one in found.items()}
                waiting = waiting.replace(log[2], log[3])
            if k in folds:
                found["both"] = found["both"].fold()
    assert contents(found["both"]) == contents(waiting)
    assert contents(waiting.own) == contents(found["own"])
    assert contents(waiting.shared) == contents(found["shared"])


def test_only_the_gram_that_rules_watch_follows_every_episode():
    task = TASKS["one-hot"]
    log = log_of(task, 6, 0)
    both, apart = history_of(task, 1.0, log), history_of(replace(task, stages="own"), 1.0, log)
    assert both.gram.trace.sum() > history_of(task).gram.trace.sum()
    assert (both.own.gram.trace == history_of(task).own.gram.trace).all()
    assert both.fold().own.gram.trace.tobytes() == apart.gram.trace.tobytes()


@BY_TASK
@given(st.integers(0, 10**6), st.data())
def test_order_corrections_and_folds_leave_the_choice(task, seed, data):
    log = log_of(task, 10, seed)
    spare, wrong = log_of(task, 2, seed + 1)
    plain = history_of(task, log=log)
    order = data.draw(st.permutations(range(10)))
    changed = history_of(task).absorb(spare)
    for position in order:
        changed = changed.absorb(wrong if position == 3 else log[position])
        changed = changed.fold() if data.draw(st.booleans()) else changed
    changed = changed.replace(wrong, log[3]).remove(spare)
    found, wanted = (fit(history, RECIPE, 2) for history in (changed, plain))
    assert found.stages == wanted.stages
    np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-7)


@BY_TASK
def test_it_survives_its_arrays_and_goes_on_alike(task):
    log = log_of(task, 30, 3)
    history = history_of(task, log=log[:20]).fold()
    arrays = history.to_arrays()
    learner = rs.Learner(task, rs.EveryEpisode(), RECIPE, warm_start=log[:20])
    copy = rs.Learner.restore(learner.snapshot())
    assert {name.split("/")[0] for name in arrays} == {"own", "shared"}
    for one in log[20:]:
        learner.observe(one)
        copy.observe(one)
        assert copy.policy.to_bytes() == learner.policy.to_bytes()
        assert copy.policy.stages in ("own", "shared")
    assert copy.snapshot() == learner.snapshot()


@BY_TASK
def test_a_refused_episode_leaves_no_trace(task):
    history = history_of(task, log=log_of(task, 5, 1))
    before = contents(history)
    long = rs.Episode(features=np.ones((1, 9)), rewards=[0.0], next_features=[])
    with pytest.raises(ValueError, match="episode must have"):
        history.absorb(log_of(task, 1, 2)[0], long)
    assert contents(history) == before
    assert history.episodes == 5


def test_a_folded_history_is_folded():
    history = history_of(DENSE, log=log_of(DENSE, 5, 1)).fold()
    assert history.fold() is history


@pytest.mark.parametrize("horizon", [1, 2])
def test_one_stage_or_two_have_nothing_to_choose(horizon):
    task = replace(DENSE, horizon=horizon)
    own = replace(task, stages="own")
    learners = [rs.Learner(each, rs.EveryEpisode(), RECIPE) for each in (task, own)]
    for one in learners:
        one.observe(rs.Episode(features=np.eye(3)[:1], rewards=[0.5], next_features=[]))
    assert learners[0].policy.to_bytes() == learners[1].policy.to_bytes()
    assert learners[0].health().sharing is None


@BY_TASK
def test_health_compares_the_kinds_and_is_that_of_the_better(task):
    learner = rs.Learner(task, rs.EveryEpisode(), rs.Recipe.paper(beta=0.5))
    kinds = {
        kind: rs.Learner(replace(task, stages=kind), rs.EveryEpisode(), rs.Recipe.paper(beta=0.5))
        for kind in ("own", "shared")
    }
    for one in log_of(task, 20, 5):
        for each in (learner, *kinds.values()):
            each.observe(one)
    health = learner.health()
    assert health.sharing.better == learner.policy.stages
    assert health.reach == kinds[learner.policy.stages].health().reach
    assert kinds["own"].health().sharing is None
