"""Features given by the positions of their ones are the one-hot rows written out."""

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from oracles import cheap, in_rows, interrupted, position_episode
from rareswitch.core.lsvi import QFunction
from rareswitch.statistics import history_of
from rareswitch.statistics import one_hot as module
from rareswitch.support import codec

STATES, ACTIONS, H = 3, 3, 3
D = STATES * ACTIONS
MENUS = [s * ACTIONS + np.arange(ACTIONS) for s in range(STATES)]
STAGES = pytest.mark.parametrize("stages", ["own", "shared"])
EXPLORATIONS = [
    rs.Bonus(0.6),
    rs.Bonus(0.6, members=3),
    rs.Bonus(0.6, estimate=True),
    rs.Perturbation(0.5, draws=3),
    rs.Perturbation(0.5, draws=3, estimate=True),
    rs.Ensemble(4),
    rs.Ensemble(4, estimate=False),
]


def episode_of(rng, **changes):
    return position_episode(rng, **{"horizon": H, "states": STATES, "actions": ACTIONS} | changes)


def log_of(seed, count):
    rng = np.random.default_rng(seed)
    return [episode_of(rng) for _ in range(count)]


def pair_of(schedule, recipe, *, episodes=None, **task):
    """Return a learner that is given rows and one that is given positions."""
    by_rows = rs.Task(dim=D, horizon=H, episodes=episodes, **task)
    tasks = by_rows, replace(by_rows, one_hot=True)
    recipe = replace(recipe, seed=5)
    return tuple(rs.Learner(task, schedule, recipe) for task in tasks)


def assert_same_policy(rows, positions):
    """Compare what two policies say of every state, one given rows and one positions."""
    unit = np.eye(D)
    assert (positions.one_hot, rows.one_hot) == (True, False)
    assert (positions.members, positions.allocation) == (rows.members, rows.allocation)
    for h in range(H):
        for menu in (MENUS[1], MENUS[0][:1], np.arange(D)[::-1]):
            q_values = positions.q_values(h, menu)
            np.testing.assert_allclose(q_values, rows.q_values(h, unit[menu]), atol=1e-9)
            np.testing.assert_array_equal(positions.choices(h, menu), rows.choices(h, unit[menu]))
            np.testing.assert_array_equal(
                positions.propensities(h, menu), rows.propensities(h, unit[menu])
            )
            value = rows.value(h, unit[menu])
            assert positions.value(h, menu) == pytest.approx(value, abs=1e-9)
    steps = [(MENUS[h], h) for h in range(H)]
    assert positions.likelihood(steps) == rows.likelihood([(unit[menu], a) for menu, a in steps])


@settings(max_examples=30)
@given(
    st.integers(0, 10**6),
    st.sampled_from(EXPLORATIONS),
    st.sampled_from(["own", "shared"]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.02, 1.0, 5.0]),
    st.booleans(),
)
def test_a_learner_given_positions_is_one_given_rows(
    seed, exploration, stages, end_reward, ridge, clip
):
    rows, positions = pair_of(
        rs.DeterminantGrowth(eta=2.0),  # reached exactly where the ridge is 1
        rs.Recipe(exploration=exploration, ridge=ridge, clip=clip),
        stages=stages,
        end_reward=end_reward,
    )
    for k, episode in enumerate(log_of(seed, 14)):
        written_out = in_rows(episode, D)
        if k == 7:
            rows, positions = (rs.Learner.restore(one.snapshot()) for one in (rows, positions))
        assert positions.observe(episode) is rows.observe(written_out)
        np.testing.assert_allclose(positions.clock.logdet, rows.clock.logdet, atol=1e-10)
    assert [d.episode for d in positions.ledger] == [d.episode for d in rows.ledger]
    for one, other in zip(positions.ledger, rows.ledger, strict=True):
        np.testing.assert_allclose(one.logdet, other.logdet, atol=1e-10)
        np.testing.assert_allclose(one.trace, other.trace, rtol=1e-12)
    assert len(positions.ledger) > 1
    assert_same_policy(rows.policy, positions.policy)
    assert_same_policy(rows.recommend(), positions.recommend())
    wanted, found = rows.health(), positions.health()
    assert found.reach == pytest.approx(wanted.reach, rel=1e-9)
    assert (found.idle, found.warnings) == (wanted.idle, wanted.warnings)
    assert positions.stored_rows == rows.stored_rows


@STAGES
@pytest.mark.parametrize(
    "rule",
    [
        rs.EveryEpisode(),
        rs.SpreadBudget(switches=4),
        rs.rules.AdaptiveBudget(switches=6),
        rs.rules.TotalGrowth(eta=4.0),
    ],
    ids=repr,
)
def test_every_rule_switches_on_the_same_dates(rule, stages):
    recipe = rs.Recipe.paper(beta=0.5, ridge=0.7)
    rows, positions = pair_of(rule, recipe, episodes=20, stages=stages)
    for episode in log_of(3, 20):
        assert positions.observe(episode) is rows.observe(in_rows(episode, D))
    assert len(positions.ledger) > 2


@STAGES
def test_a_member_that_plays_by_positions_plays_as_by_rows(stages):
    recipe = rs.Recipe(exploration=rs.Ensemble(5), ridge=0.7)
    rows, positions = pair_of(rs.EveryEpisode(), recipe, stages=stages)
    rng = np.random.default_rng(8)
    for k in range(25):
        path = rng.integers(0, STATES, H + 1)
        member, same = positions.policy.draw(k), rows.policy.draw(k)
        taken = [member.act(h, MENUS[path[h]]) for h in range(H)]
        assert taken == [same.act(h, np.eye(D)[MENUS[path[h]]]) for h in range(H)]
        episode = rs.Episode(
            features=[MENUS[s][a] for s, a in zip(path[:-1], taken, strict=True)],
            rewards=[float(s == a) for s, a in zip(path[:-1], taken, strict=True)],
            next_features=[MENUS[s] for s in path[1:]],
        )
        positions.observe(episode)
        rows.observe(in_rows(episode, D))


def test_three_thousand_positions_need_no_matrices():
    dim = 3000
    with cheap(megabytes=40.0, seconds=30.0):
        learner = rs.Learner(
            rs.Task(dim=dim, horizon=8, stages="shared", one_hot=True),
            rs.EveryEpisode(),
            rs.Recipe(exploration=rs.Ensemble(4)),
        )
        for k in range(3):
            learner.observe(
                rs.Episode(
                    features=np.arange(8) * 300 + k,
                    rewards=np.zeros(8),
                    next_features=[np.arange(6) + 6 * h for h in range(8)],
                )
            )
        copy = rs.Learner.restore(learner.snapshot())
    assert copy.policy.dim == dim


# The sums themselves.


def task_of(stages, **changes):
    return rs.Task(**{"dim": D, "horizon": H, "stages": stages, "one_hot": True} | changes)


def contents(history):
    return {name: array.tobytes() for name, array in history.fold().to_arrays().items()}


@given(st.integers(0, 10**6), st.sampled_from(["own", "shared"]), st.integers(0, 12))
def test_sums_by_position_are_those_of_rows(seed, stages, count):
    log, task = log_of(seed, count), task_of(stages, end_reward=0.3)
    found = history_of(task, 0.4, log).fold()
    wanted = history_of(replace(task, one_hot=False), 0.4, [in_rows(e, D) for e in log]).fold()
    np.testing.assert_allclose(found.step_sums, wanted.step_sums, atol=1e-12)
    np.testing.assert_allclose(found.reward_sums, wanted.reward_sums, atol=1e-12)
    rng = np.random.default_rng(seed)
    for members in ((), (4,)):
        following = QFunction(rng.standard_normal((*members, D)), None, None, 0.0, None, 2.0)
        for h in range(H - 1):
            np.testing.assert_allclose(
                found.next_value_sums(h, following),
                wanted.next_value_sums(h, following),
                atol=1e-11,
            )
    assert found.stored_rows == wanted.stored_rows


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 3), st.booleans())
def test_episodes_that_were_tried_leave_no_trace_then_or_later(stages, seed, before, count, fold):
    log = log_of(seed, before + count)
    kept, tried = log[:before], log[before:]
    found, untouched = (history_of(task_of(stages), 0.4, kept) for _ in range(2))
    longer = found
    for episode in tried:
        longer = longer.absorb(episode)
        longer = longer.fold() if fold else longer
    assert contents(found) == contents(untouched)
    for episode in [*reversed(tried), *log_of(seed + 1, 2), *kept]:
        found, untouched = found.absorb(episode), untouched.absorb(episode)
        assert contents(found) == contents(untouched)
    assert contents(longer) == contents(history_of(task_of(stages), 0.4, log))


@STAGES
def test_a_history_survives_its_arrays_and_goes_on_alike(stages):
    log, empty = log_of(6, 30), history_of(task_of(stages), 0.4)
    kept = empty.absorb(*log[:15]).fold()
    copy = empty.filled(codec.unpack("sums", codec.pack("sums", {}, kept.to_arrays())))
    for episode in log[15:]:
        assert contents(copy) == contents(kept)
        copy, kept = copy.absorb(episode), kept.absorb(episode)
    assert contents(copy) == contents(kept)


@STAGES
def test_an_interruption_at_any_line_leaves_the_history_whole(stages):
    log, lines, goes_on = log_of(9, 6), 0, True
    done = contents(history_of(task_of(stages), 0.4, log))
    before = contents(history_of(task_of(stages), 0.4, log[:-1]))
    last, stopped = log[-1], 0
    while goes_on:
        lines += 1
        found = history_of(task_of(stages), 0.4, log[:-1])
        goes_on = interrupted(lambda found=found: found.absorb(last).fold(), lines)
        if goes_on:
            assert contents(found) == before, lines
            stopped += 1
        assert contents(found.absorb(last)) == done, lines
    assert stopped > 30


def test_episodes_wait_until_they_are_many(monkeypatch):
    log = log_of(1, 40)
    plain = history_of(task_of("own"), 0.4, log)
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    found = history_of(task_of("own"), 0.4)
    for episode in log:
        found = found.absorb(episode)
        assert found._waiting_numbers <= 10
    assert contents(found) == contents(plain)


def cost_of(call):
    """Return the most memory, in bytes, that a call takes beside what there was."""
    call()  # what is cached once is cached
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Growing:
    """A history, of which the newest version alone is held."""

    def __init__(self, task, *log):
        self.history = history_of(task, 0.4, log)

    def absorb(self, episode):
        self.history = self.history.absorb(episode)

    def absorb_and_fold(self, episode):
        self.history = self.history.absorb(episode).fold()


@STAGES
@pytest.mark.parametrize("how", ["absorb", "absorb_and_fold"])
def test_an_episode_costs_its_steps_whatever_the_dimension(stages, how):
    steps = 10
    episode = rs.Episode(
        features=np.arange(steps) * 90,
        rewards=np.linspace(0.0, 1.0, steps),
        next_features=[np.arange(3) + 3 * h for h in range(steps - 1)],
    )
    costs = {}
    for dim in (10**3, 10**6):
        growing = Growing(task_of(stages, dim=dim, horizon=steps), episode)
        costs[dim] = cost_of(partial(getattr(growing, how), episode))
        assert growing.history.episodes == 3
        assert growing.history.gram.trace.sum() == pytest.approx(
            growing.history.pools.count * dim * 0.4 + 3 * growing.history.pools.steps.sum()
        )
    assert costs[10**6] < 40_000  # an array of d numbers is 8 MB
    assert costs[10**6] < 1.5 * costs[10**3] + 1000


@STAGES
def test_a_learner_asks_its_rule_after_each_episode_at_the_cost_of_its_steps(stages):
    task = task_of(stages, dim=10**5, horizon=4)
    learner = rs.Learner(task, rs.DeterminantGrowth(eta=1e9), rs.Recipe.paper(beta=0.5))
    episode = rs.Episode(features=[0, 9, 3, 7], rewards=np.zeros(4), next_features=[[1, 2]] * 3)
    learner.observe(episode)
    assert cost_of(partial(learner.observe, episode)) < 40_000
    assert (learner.episodes, len(learner.ledger)) == (3, 1)
