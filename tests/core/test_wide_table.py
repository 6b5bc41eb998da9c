"""Draws for the positions of a wide table are as good as Gaussian draws, and policies keep them."""

import copy
import math
import pickle
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.core import wide_table
from rareswitch.core.wide_table import WideTable
from rareswitch.support import codec

POSITIONS = np.array([3, 5, 70_000])


def table_of(**changes):
    return WideTable(**{"dim": 10**5, "positions": POSITIONS, "seed": 7} | changes)


def policy_of(members=4, **changes):
    rng = np.random.default_rng(1)
    lead = (members,) if members > 1 else ()
    given = {
        "weights": rng.normal(size=(*lead, 2, 4)),
        "levels": rng.uniform(size=(*lead, 2)),
        "allocation": 9 if members > 1 else None,
        "one_hot": True,
        "table": table_of(members=members),
    }
    return rs.Policy(**given | changes)


# The draws.


def gaussian_distance(drawn):
    """Return √n times the distance of Kolmogorov and Smirnov from a standard Gaussian."""
    ends = np.sort(drawn, axis=None)
    normal = NormalDist()
    wanted = np.array([normal.cdf(end) for end in ends])
    places = np.arange(len(ends) + 1) / len(ends)
    return math.sqrt(len(ends)) * max((places[1:] - wanted).max(), (wanted - places[:-1]).max())


@pytest.mark.parametrize("common", [0.0, 0.25])
def test_draws_are_gaussian(common):
    table = table_of(members=20, common=common)
    drawn = table.perturbations(np.arange(10)[:, None], 0, np.arange(500) * 13)
    assert drawn.shape == (20, 10, 500)
    assert gaussian_distance(drawn[:, 0]) < 1.63  # once in a hundred
    assert gaussian_distance(table.directions(3, np.arange(10_000))) < 1.63
    for moment, wanted, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        # Each of the 10⁴ columns of stages counts once: their common part makes them dependent.
        found = (drawn**moment).mean()
        assert abs(found - wanted) < 4.0 * math.sqrt(variance / 10_000)
    assert np.abs(drawn).max() > 3.8


def test_draws_reach_the_tails():
    drawn = table_of(members=50).perturbations(np.arange(20)[:, None], 0, np.arange(2000))
    beyond = np.abs(drawn) > 4.0
    assert beyond.mean() == pytest.approx(2.0 * NormalDist().cdf(-4.0), rel=0.25)


def test_draws_of_other_members_stages_draws_and_positions_are_independent():
    table = table_of(members=12)
    drawn = table.perturbations(np.arange(8)[:, None, None], np.arange(3)[:, None], np.arange(4096))
    ties = table.directions(0, np.arange(4096))
    streams = [
        drawn.reshape(-1, 4096),
        ties,
        table_of(seed=8, members=2).directions(0, np.arange(4096)),
    ]
    streams = np.concatenate(
        [*streams, np.roll(streams[0][:40], 1, axis=1), np.roll(streams[0][:40], 2, axis=1)]
    )
    for values in (streams, streams**2):
        correlations = np.corrcoef(values)[np.triu_indices(len(values), k=1)]
        assert np.abs(correlations).max() < 6.0 / 64.0
        assert correlations.std() == pytest.approx(1.0 / 64.0, rel=0.05)


def test_stages_share_a_quarter_of_the_variance():
    table = table_of(common=0.25)
    drawn = table.perturbations(np.arange(6)[:, None], 0, np.arange(20_000))
    correlations = np.corrcoef(drawn)[np.triu_indices(6, k=1)]
    np.testing.assert_allclose(correlations, 0.25, atol=0.03)
    np.testing.assert_allclose(drawn.var(axis=1), 1.0, atol=0.05)


def test_a_draw_depends_on_nothing_but_its_place(monkeypatch):
    table = table_of(members=5, common=0.25)
    stages, draws, rows = np.arange(4)[:, None, None], np.arange(3)[:, None], np.arange(90)
    drawn = table.perturbations(stages, draws, rows)
    ties = table.directions(2, rows)
    for member in range(5):
        own = table.member(member)
        for h, j, position in ((0, 0, 0), (3, 2, 89), (2, 1, 17)):
            np.testing.assert_array_equal(
                own.perturbations(h, j, np.array([position])), drawn[member, h, j, position]
            )
        np.testing.assert_array_equal(own.directions(2, rows[5:7]), ties[member, 5:7])
    assert table.member(3).member(0) == table.member(3) != table.member(2)
    monkeypatch.setattr(wide_table, "AT_ONCE", 10)
    np.testing.assert_array_equal(table.perturbations(stages, draws, rows), drawn)


def split_mix(seed, number):
    """Return one output of SplitMix64, in whole numbers of Python."""
    bits = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


def test_draws_are_those_of_the_published_generators():
    # The first outputs of SplitMix64 with seed 1234567, as they are published.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [split_mix(1234567, number) for number in range(3)] == published
    table, member, stage, draw, position = table_of(members=3, seed=2**63 - 9), 2, 5, 7, 99_998

    def literal(purpose):
        stream = ((purpose * 10_000 + member) * 2**20 + stage) * 2**14 + draw
        bits = split_mix(split_mix(table.seed, stream), position)
        radius, angle = (bits // 2**32 + 0.5) / 2**32, bits % 2**32 / 2**32
        return math.sqrt(-2.0 * math.log(radius)) * math.cos(2.0 * math.pi * angle)

    rows = np.array([position])
    assert table.perturbations(stage, draw, rows)[member, 0] == pytest.approx(literal(0), rel=1e-12)
    draw = 0
    assert table.directions(stage, rows)[member, 0] == pytest.approx(literal(2), rel=1e-12)


# The table and its policy.


def test_columns_are_those_of_the_positions_and_one_for_all_others():
    rows = np.array([[5, 4, 70_000], [0, 99_999, 3]])
    np.testing.assert_array_equal(table_of().columns(rows), [[1, 3, 2], [3, 3, 0]])
    np.testing.assert_array_equal(table_of(positions=np.arange(0)).columns(rows), [[0] * 3] * 2)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"positions": [3, 3]}, ValueError, "positions must be ascending and distinct"),
        ({"positions": [5, 3]}, ValueError, "positions must be ascending and distinct"),
        ({"positions": [10**5]}, ValueError, "positions must be positions from 0 to 99999"),
        ({"positions": [-1]}, ValueError, "positions must be positions from 0 to 99999"),
        ({"positions": [0.5]}, TypeError, "positions must be the positions of ones"),
        ({"dim": 0}, ValueError, "dim must be at least 1; got 0"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"seed": 2**63}, ValueError, "seed must be from 0 to"),
        ({"members": 0}, ValueError, "members must be from 1 to 10000"),
        ({"first": 9_999, "members": 2}, ValueError, "first must be from 0 to 9998"),
        ({"common": 1.5}, ValueError, "common must be a finite number at least 0 and at most 1"),
        ({"ties": 1}, TypeError, "ties must be True or False"),
    ],
    ids=repr,
)
def test_a_bad_table_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        table_of(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"table": 3}, TypeError, "table must be a WideTable; got 3"),
        ({"one_hot": False}, ValueError, "table must be of one-hot features"),
        ({"directions": np.zeros((2, 4))}, ValueError, "without directions"),
        (
            {"weights": np.zeros((4, 2, 5))},
            ValueError,
            "weights must have a column for each of the 3",
        ),
        ({"table": table_of(members=3)}, ValueError, "same first axis"),
        ({"table": table_of()}, ValueError, "same first axis"),
        ({"allocation": None}, ValueError, "allocation must be given for a mixture"),
        (
            {"weights": np.ones((2, 4)), "levels": None},
            ValueError,
            "weights must be of 4 members, as the table's draws are",
        ),
        (
            {"weights": np.zeros((2, 4)), "levels": None, "offsets": np.ones((2, 3, 4))},
            ValueError,
            "offsets must be of 4 members",
        ),
    ],
    ids=repr,
)
def test_a_policy_that_does_not_fit_its_table_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        policy_of(**changes)


@pytest.mark.parametrize(
    "policy",
    [
        policy_of(),
        policy_of(1),
        policy_of(1, weights=np.zeros((2, 4)), offsets=np.ones((2, 3, 4))),
        policy_of(weights=np.zeros((2, 4)), levels=None),
        policy_of(table=table_of(members=4, ties=False)),
        policy_of(2, whitener=np.ones((2, 4)), beta=0.5),
    ],
    ids=lambda policy: f"{policy.members} members",
)
def test_a_wide_policy_survives_its_bytes(policy):
    rows = np.array([3, 70_000, 70_001, 0])
    for again in (
        rs.Policy.from_bytes(policy.to_bytes()),
        pickle.loads(pickle.dumps(policy)),
        copy.deepcopy(policy),
    ):
        assert (again.digest, again.dim, again.table) == (policy.digest, 10**5, policy.table)
        np.testing.assert_array_equal(again.q_values(1, rows), policy.q_values(1, rows))
        for member in range(policy.members):
            one = rs.Policy.from_bytes(again.member(member).to_bytes())
            assert (one.members, one.dim) == (1, 10**5)
            values = policy.q_values(1, rows)
            np.testing.assert_array_equal(
                one.q_values(1, rows), values[member] if values.ndim > 1 else values
            )
            for few in (rows, rows[2:], rows[1:3]):
                assert one.act(np.int64(0), few) == policy.choices(0, few)[member]
    other = replace(policy.table, seed=8)
    changed = {name: getattr(policy, name) for name in rs.core.policy.FIELDS} | {"table": other}
    assert rs.Policy(**changed).digest != policy.digest
    with pytest.raises(ValueError, match="features must be positions from 0 to 99999; got 100000"):
        policy.choices(0, [10**5])


def test_members_of_a_wide_policy_break_ties_differently():
    policy = policy_of(weights=np.zeros((2, 4)), levels=None)
    assert policy.members == 4
    rows = np.arange(40)
    assert len({*policy.choices(0, rows).tolist()}) > 2
    lowest = policy_of(
        table=table_of(members=4, ties=False), weights=np.zeros((4, 2, 4)), levels=None
    )
    assert lowest.choices(1, rows).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta, arrays: meta["table"].update(dim=10), "positions must be positions"),
        (lambda meta, arrays: meta["table"].update(seed=2.5), "seed must be a whole number"),
        (lambda meta, arrays: meta["table"].update(members=3), "same first axis"),
        (lambda meta, arrays: meta["table"].update(more=3), "table must have dim, seed"),
        (lambda meta, arrays: meta["table"].pop("common"), "table must have dim, seed"),
        (lambda meta, arrays: meta.update(table=None), "table must have dim, seed"),
        (lambda meta, arrays: meta.pop("table"), "KeyError|table"),
        (lambda meta, arrays: meta.pop("one_hot"), "table must be of one-hot features"),
        (lambda meta, arrays: arrays.pop("positions"), "it has no positions"),
        (
            lambda meta, arrays: arrays.update(positions=np.array([5, 3, 70_000])),
            "positions must be ascending",
        ),
        (
            lambda meta, arrays: arrays.update(positions=np.array([3.0, 5.0, 7.0])),
            "whose positions is <i8",
        ),
        (lambda meta, arrays: arrays.update(positions=np.array([3, 5])), "weights must have a"),
    ],
)
def test_altered_bytes_of_a_wide_policy_are_refused(change, message):
    parts = codec.unpack("policy", policy_of().to_bytes())
    change(parts.meta, parts.arrays)
    with pytest.raises(ValueError, match=f"data must be a policy.*({message})"):
        rs.Policy.from_bytes(codec.pack("policy", parts.meta, parts.arrays))
