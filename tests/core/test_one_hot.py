"""Features given by the positions of their ones are the one-hot rows written out."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from oracles import cheap, in_rows, interrupted, position_episode
from rareswitch.core import codec
from rareswitch.core.dense import DenseSums
from rareswitch.core.gram import Gram
from rareswitch.core.one_hot import OneHotGram, OneHotSums
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import take_back

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


def pair_of(schedule, **changes):
    """Return a learner that is given rows and one that is given positions."""
    arguments = {"dim": D, "horizon": H, "schedule": schedule, "ridge": 0.7, "seed": 5} | changes
    return rs.Learner(**arguments), rs.Learner(one_hot=True, **arguments)


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
        exploration=exploration,
        stages=stages,
        end_reward=end_reward,
        ridge=ridge,
        clip=clip,
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
        rs.SpreadBudget(switches=4, episodes=20, dim=D),
        rs.AdaptiveBudget(switches=6, episodes=20, dim=D),
        rs.TotalGrowth(4.0),
    ],
    ids=repr,
)
def test_every_rule_switches_on_the_same_dates(rule, stages):
    rows, positions = pair_of(rule, stages=stages, beta=0.5)
    for episode in log_of(3, 20):
        assert positions.observe(episode) is rows.observe(in_rows(episode, D))
    assert len(positions.ledger) > 2


@STAGES
def test_a_member_that_plays_by_positions_plays_as_by_rows(stages):
    rows, positions = pair_of(rs.EveryEpisode(), stages=stages, exploration=rs.Ensemble(5))
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
            dim=dim,
            horizon=8,
            schedule=rs.EveryEpisode(),
            exploration=rs.Ensemble(4),
            stages="shared",
            one_hot=True,
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


def sums_of(kind, log, stages):
    sums = kind(Pools(H, stages), D, 0.4)
    for episode in log:
        sums.absorb([episode], [])
    return sums


def contents(sums):
    return {name: array.tobytes() for name, array in sums.to_arrays().items()}


@given(st.integers(0, 10**6), st.sampled_from(["own", "shared"]), st.integers(0, 12))
def test_sums_by_position_are_those_of_rows(seed, stages, count):
    log = log_of(seed, count)
    found = sums_of(OneHotSums, log, stages)
    wanted = sums_of(DenseSums, [in_rows(e, D) for e in log], stages)
    np.testing.assert_allclose(found.step_sums, wanted.step_sums, atol=1e-12)
    np.testing.assert_allclose(found.reward_sums, wanted.reward_sums, atol=1e-12)
    rng = np.random.default_rng(seed)
    for members in ((), (4,)):
        following = Stage(rng.standard_normal((*members, D)), None, None, 0.0, None, 2.0)
        for pool in range(Pools(H, stages).count - 1):
            np.testing.assert_allclose(
                found.value_sums(pool, following, 0.3),
                wanted.value_sums(pool, following, 0.3),
                atol=1e-11,
            )
    assert found.stored_rows == wanted.stored_rows


@given(st.integers(0, 10**6), st.sampled_from([1e-6, 0.3, 1.0, 40.0]))
def test_diagonals_are_those_of_the_matrices(seed, ridge):
    rng = np.random.default_rng(seed)
    diagonal, full = OneHotGram(2, 4, ridge), Gram((2,), 4, ridge)
    for name in ("logdet", "trace"):
        np.testing.assert_allclose(getattr(diagonal, name), getattr(full, name), rtol=1e-14)
    for _ in range(6):
        count = int(rng.integers(0, 7))
        pool, position = rng.integers(0, 2, count), rng.integers(0, 4, count)
        read, copies = diagonal.arrays, {n: a.copy() for n, a in diagonal.arrays.items()}
        diagonal.absorb(pool, position)
        features = np.zeros((2, count, 4))
        features[pool, np.arange(count), position] = 1.0
        full.absorb_block(features)
        np.testing.assert_allclose(diagonal.logdet, full.logdet, atol=1e-8)
        np.testing.assert_allclose(diagonal.trace, full.trace, rtol=1e-12)
        inverse = np.square(diagonal.whitener)[..., None] * np.eye(4)
        np.testing.assert_allclose(inverse, full.whitener.mT @ full.whitener, atol=1e-9 / ridge)
        for name, array in read.items():
            assert (array == copies[name]).all()
            with pytest.raises(ValueError, match="read-only"):
                diagonal.arrays[name][...] = 0.0
    diagonal.take_over(read)
    assert diagonal.arrays == read


@STAGES
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 3))
def test_episodes_taken_back_leave_no_trace_then_or_later(stages, seed, before, count):
    log = log_of(seed, before + count)
    kept, tried = log[:before], log[before:]
    sums, untouched = (sums_of(OneHotSums, kept, stages) for _ in range(2))
    undo = []
    for episode in tried:
        sums.absorb([episode], undo)
    take_back(undo)
    assert contents(sums) == contents(untouched)
    for episode in [*reversed(tried), *log_of(seed + 1, 2), *kept]:
        sums.absorb([episode], [])
        untouched.absorb([episode], [])
        assert contents(sums) == contents(untouched)


@STAGES
def test_sums_survive_their_arrays_and_go_on_alike(stages):
    log = log_of(6, 30)
    sums, copy = sums_of(OneHotSums, log[:15], stages), OneHotSums(Pools(H, stages), D, 0.4)
    copy.fill(codec.unpack("sums", codec.pack("sums", {}, sums.to_arrays())))
    for episode in log[15:]:
        assert contents(copy) == contents(sums)
        copy.absorb([episode], [])
        sums.absorb([episode], [])
    assert contents(copy) == contents(sums)


@STAGES
def test_an_interruption_at_any_line_leaves_the_sums_whole(stages):
    log, lines, goes_on = log_of(9, 6), 0, True
    done = contents(sums_of(OneHotSums, log, stages))
    before = contents(sums_of(OneHotSums, log[:-1], stages))
    last, taken_back = log[-1], 0
    while goes_on:
        lines += 1
        sums, undo = sums_of(OneHotSums, log[:-1], stages), []
        goes_on = interrupted(partial(sums.absorb, [last], undo), lines)
        if goes_on:
            take_back(undo)
            assert contents(sums) == before, lines
            taken_back += 1
            sums.absorb([last], [])
        assert contents(sums) == done, lines
    assert taken_back > 30
