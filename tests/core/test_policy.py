import copy
import dataclasses
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import cheap, opened, ragged_learning, replaced, sealed
from rareswitch.core import policy as policy_module
from rareswitch.core.policy import FIELDS, TIE_TOLERANCE, member_of
from rareswitch.support import codec


def make(seed=0, *, horizon=3, dim=2, **changes):
    rng = np.random.default_rng(seed)
    arguments = {
        "weights": rng.standard_normal((horizon, dim)),
        "whitener": rng.standard_normal((horizon, dim, dim)),
        "beta": 0.1,
        "directions": rng.standard_normal((horizon, dim)),
    }
    return rs.Policy(**(arguments | changes))


def plain(values, directions=None, **changes):
    """Return a policy of one stage, and rows to which it gives these values."""
    policy = rs.Policy(
        weights=[[1.0, 0.0]],
        whitener=np.zeros((1, 2, 2)),
        beta=0.0,
        directions=directions,
        **changes,
    )
    return policy, np.column_stack([values, np.zeros(len(values))])


PACKED = make().to_bytes()


def test_q_values_are_the_clipped_mean_and_bonus():
    policy = make(horizon=4, dim=3)
    rows = np.random.default_rng(1).standard_normal((50, 3)) * 20
    for h in range(4):
        inverse = policy.whitener[h].T @ policy.whitener[h]
        bonus = 0.1 * np.sqrt(np.einsum("ad,de,ae->a", rows, inverse, rows))
        raw = rows @ policy.weights[h] + bonus
        found = policy.q_values(h, rows)
        np.testing.assert_allclose(found, np.clip(raw, 0.0, 4 - h), atol=1e-12)
        assert found.min() == 0.0
        assert found.max() == 4 - h
        unclipped = dataclasses.replace(policy, clip=False)
        np.testing.assert_allclose(unclipped.q_values(h, rows), raw, atol=1e-12)
        assert policy.value(h, rows) == found.max()


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ([0.1, 0.5, 0.3], 1),
        ([0.5, 0.5, 0.5], 0),
        ([0.5 - 0.9 * TIE_TOLERANCE, 0.5], 0),
        ([0.5 - 1.1 * TIE_TOLERANCE, 0.5], 1),
        ([0.4, 2.0, 3.0, 1.5], 1),
        ([-3.0, -2.0, -1.0], 0),
    ],
)
def test_without_directions_the_lowest_tied_index_wins(values, chosen):
    policy, rows = plain(values)
    assert policy.act(0, rows) == chosen


def test_among_tied_actions_the_one_furthest_along_the_direction_wins_then_the_lowest_index():
    policy, rows = plain([0.5, 0.5, 0.5 - 0.5e-9, 0.4, 0.5], directions=[[0.0, 1.0]])
    rows[:, 1] = 1.0, 3.0, 5.0, 7.0, 5.0
    assert policy.act(0, rows) == 2
    rows[2, 0] = 0.5 - 2e-9
    assert policy.act(0, rows) == 4
    assert policy.act(0, rows[::-1]) == 0
    opposite = dataclasses.replace(policy, directions=[[0.0, -1.0]])
    assert opposite.act(0, rows) == 0


def test_projections_closer_than_the_tolerance_leave_it_to_the_lowest_index():
    policy, rows = plain([0.5, 0.5], directions=[[0.0, 1.0]])
    rows[:, 1] = 1.0 - 0.9 * TIE_TOLERANCE, 1.0
    assert policy.act(0, rows) == 0
    rows[0, 1] = 1.0 - 1.1 * TIE_TOLERANCE
    assert policy.act(0, rows) == 1


def test_values_above_the_cap_and_below_zero_are_tied():
    policy, rows = plain([5.0, 1.0, 0.9, 7.0], directions=[[0.0, 1.0]])
    rows[:, 1] = 1.0, 4.0, 9.0, 2.0
    assert policy.act(0, rows) == 1
    rows[:, 0] *= -1.0
    assert policy.act(0, rows) == 2
    unclipped = dataclasses.replace(policy, clip=False)
    assert unclipped.act(0, rows) == 2
    rows[:, 0] *= -1.0
    assert unclipped.act(0, rows) == 3


def test_each_stage_has_its_own_weights_whitener_and_direction():
    policy = rs.Policy(
        weights=[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        whitener=np.stack([np.zeros((2, 2)), np.diag([0.0, 1.0]), np.zeros((2, 2))]),
        beta=0.5,
        directions=[[0.0, 0.0], [0.0, 0.0], [-1.0, 0.0]],
    )
    rows = np.array([[0.2, 0.1], [0.3, 0.0], [0.1, 0.8]])
    assert [policy.act(h, rows) for h in range(3)] == [1, 2, 2]
    np.testing.assert_allclose(policy.q_values(1, rows), [0.05, 0.0, 0.4])


def test_the_feasible_set_may_differ_at_every_call():
    policy = make()
    rows = np.random.default_rng(2).standard_normal((9, 2))
    values = policy.q_values(0, rows)
    for chosen in ([3], [5, 1], [8, 7, 6, 0], range(9)):
        subset = list(chosen)
        np.testing.assert_allclose(policy.q_values(0, rows[subset]), values[subset], rtol=1e-14)
        assert 0 <= policy.act(0, rows[subset]) < len(subset)


@pytest.mark.parametrize(
    ("h", "features", "error", "message"),
    [
        (3, np.eye(2), ValueError, "h must be from 0 to 2; got 3"),
        (-1, np.eye(2), ValueError, "h must be from 0 to 2; got -1"),
        (1.0, np.eye(2), TypeError, "h must be a whole number"),
        (0, np.eye(3), ValueError, r"features must have shape \(A, 2\); got \(3, 3\)"),
        (0, [1.0, 0.0], ValueError, r"features must have shape \(A, 2\); got \(2,\)"),
        (0, np.zeros((0, 2)), ValueError, "features must have at least one row.*empty feasible"),
        (0, [[np.nan, 0.0]], ValueError, "features must be finite; got nan"),
        (0, [[0.0, np.inf]], ValueError, "features must be finite; got inf"),
    ],
)
def test_a_bad_question_is_refused(h, features, error, message):
    policy = make()
    for ask in (policy.q_values, policy.act, policy.value):
        with pytest.raises(error, match=message):
            ask(h, features)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": -1.0}, "beta must be a finite number at least 0; got -1.0"),
        ({"beta": np.inf}, "beta must be a finite number at least 0; got inf"),
        ({"weights": np.zeros((0, 2))}, "weights must have a stage and a dimension"),
        ({"offsets": np.zeros((3, 0, 2))}, "offsets must hold at least one estimate; got none"),
        ({"weights": np.zeros(3)}, r"weights must have shape \(H, d\)"),
        ({"whitener": np.zeros((3, 2))}, r"whitener must have shape \(3, 2, 2\)"),
        ({"directions": np.zeros((2, 2))}, r"directions must have shape \(3, 2\)"),
        ({"weights": np.full((3, 2), np.nan)}, "weights must be finite"),
    ],
)
def test_a_bad_policy_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_a_policy_is_frozen():
    policy = make()
    for array in (policy.weights, policy.whitener, policy.directions):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.beta = 2.0


def test_a_policy_does_not_share_the_arrays_it_was_given():
    weights, whitener = np.ones((1, 2)), np.ones((1, 2, 2))
    policy = rs.Policy(weights=weights, whitener=whitener, beta=1.0)
    before = policy.to_bytes()
    weights[:], whitener[:] = 7.0, 7.0
    assert policy.to_bytes() == before


def test_nothing_that_a_learner_does_later_changes_its_policy():
    learner = rs.Learner(rs.Task(dim=3, horizon=2), rs.EveryEpisode())
    ragged_learning(learner, seed=1, start=0, stop=3)
    policy = learner.policy
    before = policy.to_bytes()
    ragged_learning(learner, seed=1, start=3, stop=20)
    assert learner.policy is not policy
    assert policy.to_bytes() == before


@pytest.mark.parametrize("changes", [{}, {"directions": None}, {"clip": False}])
def test_bytes_survive_exactly(changes):
    policy = make(**changes)
    back = rs.Policy.from_bytes(policy.to_bytes())
    assert back.to_bytes() == policy.to_bytes()
    assert back.digest == policy.digest == hashlib.sha256(policy.to_bytes()).hexdigest()
    assert back.weights.tobytes() == policy.weights.tobytes()
    assert back.whitener.tobytes() == policy.whitener.tobytes()
    assert (back.beta, back.clip) == (policy.beta, policy.clip)
    assert (back.directions is None) == (policy.directions is None)
    rows = np.random.default_rng(3).standard_normal((20, 2))
    for h in range(3):
        assert back.act(h, rows) == policy.act(h, rows)
        assert (back.q_values(h, rows) == policy.q_values(h, rows)).all()


def test_policies_that_differ_have_different_digests():
    digests = {
        make(**changes).digest
        for changes in ({}, {"beta": 0.2}, {"clip": False}, {"directions": None})
    }
    assert len(digests) == 4


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_bytes_altered_anywhere_are_refused(position, change):
    altered = bytearray(PACKED)
    altered[position] ^= change
    with pytest.raises(ValueError, match="data must be"):
        rs.Policy.from_bytes(bytes(altered))


@given(st.integers(0, len(PACKED) - 1))
def test_truncated_bytes_are_refused(length):
    with pytest.raises(ValueError, match="data must be"):
        rs.Policy.from_bytes(PACKED[:length])


def test_other_bytes_are_refused():
    learner = rs.Learner(rs.Task(dim=2, horizon=1), rs.EveryEpisode())
    with pytest.raises(ValueError, match="data must hold a policy; got a learner"):
        rs.Policy.from_bytes(learner.snapshot())
    with pytest.raises(ValueError, match="bytes of a rareswitch policy; got something else"):
        rs.Policy.from_bytes(b"not a policy")
    with pytest.raises(TypeError, match="data must be bytes; got str"):
        rs.Policy.from_bytes("text")


def test_a_policy_of_another_format_is_refused(monkeypatch):
    monkeypatch.setattr(codec, "FORMAT", 99)
    newer = make().to_bytes()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="format 1; got format 99"):
        rs.Policy.from_bytes(newer)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
    "bytes": lambda policy: rs.Policy.from_bytes(policy.to_bytes()),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_are_frozen_too_and_have_the_right_digest(copied):
    policy = make(offsets=np.ones((3, 2, 2)))
    digest = policy.digest
    back = copied(policy)
    assert back.to_bytes() == policy.to_bytes()
    assert back.digest == digest == hashlib.sha256(back.to_bytes()).hexdigest()
    for name in ("weights", "whitener", "directions", "offsets"):
        array = getattr(back, name)
        assert not np.shares_memory(array, getattr(policy, name))
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_arguments_are_converted_once():
    policy = make(beta=np.float32(0.5), clip=np.False_)
    assert (type(policy.beta), policy.clip) == (float, False)
    assert policy.to_bytes() == make(beta=0.5, clip=False).to_bytes()
    with pytest.raises(TypeError, match="clip must be True or False; got 'no'"):
        make(clip="no")
    with pytest.raises(TypeError, match="beta must be a finite number at least 0; got True"):
        make(beta=True)


def test_a_policy_tells_what_it_is():
    policy = make()
    assert repr(policy) == f"Policy(dim=2, horizon=3, digest={policy.digest[:12]})"


HEADER, VALUES = opened(PACKED)
WEIGHTS, WHITENER, DIRECTIONS = HEADER["arrays"]


def with_arrays(*listed, values=VALUES):
    return sealed(HEADER | {"arrays": list(listed)}, values)


def with_shape(shape):
    return with_arrays(["weights", "<f8", shape], WHITENER, DIRECTIONS)


HOSTILE = {
    **{
        f"shape {shape!r}": with_shape(shape)
        for shape in (
            [-3, 2],
            [-3, -2],
            [3.0, 2],
            [True, 6],
            ["3", 2],
            [3, None],
            3,
            None,
            "32",
            {"3": 2},
            [],
            [3],
            [3, 2, 1],
            [10**8, 0],
            [0, 0],
            [2**63, 2],
            [10**30, 10**30],
            [2**47, 2**47, 0],
            [1] * 40,
            [3, 3],
        )
    },
    "no whitener": with_arrays(WEIGHTS, values=VALUES[: 3 * 2 * 8]),
    "no array": with_arrays(values=b""),
    "one twice": with_arrays(WEIGHTS, WEIGHTS, WHITENER, values=VALUES),
    "an unknown one": with_arrays(WEIGHTS, WHITENER, DIRECTIONS, ["other", "<f8", [0]]),
    "a nameless one": with_arrays(["", "<f8", [0]], WEIGHTS, WHITENER, DIRECTIONS),
    "a number for a name": with_arrays([3, "<f8", [3, 2]], WHITENER, DIRECTIONS),
    "too few entries": with_arrays(WEIGHTS[:2], WHITENER, DIRECTIONS),
    "no list": with_arrays("weights", WHITENER, DIRECTIONS),
    "arrays by name": sealed(HEADER | {"arrays": {"weights": WEIGHTS}}, VALUES),
    "trailing bytes": sealed(HEADER, VALUES + b"\0" * 8),
    "missing bytes": sealed(HEADER, VALUES[:-8]),
    **{
        f"dtype {dtype}": with_arrays(["weights", dtype, [3, 2]], WHITENER, DIRECTIONS)
        for dtype in (">f8", "<i8", "|u1", "<f4", "|O", "<U9", "<c16", "float64", None, ["<f8"])
    },
    "float32": replaced(PACKED, {"weights": np.zeros((3, 2), np.float32)}),
    "whole numbers": replaced(PACKED, {"weights": np.zeros((3, 2), np.int64)}),
    "bytes": replaced(PACKED, {"weights": np.zeros((3, 2), np.uint8)}),
    "NaN whitener": replaced(PACKED, {"whitener": np.full((3, 2, 2), np.nan)}),
    "infinite weights": replaced(PACKED, {"weights": np.full((3, 2), np.inf)}),
    "other sizes": replaced(PACKED, {"whitener": np.zeros((3, 3, 3))}),
    "other directions": replaced(PACKED, {"directions": np.zeros((2, 2))}),
    **{
        f"meta {name}={value!r}"[:60]: sealed(
            HEADER | {"meta": HEADER["meta"] | {name: value}}, VALUES
        )
        for name, value in (
            ("beta", "0.1"),
            ("beta", True),
            ("beta", None),
            ("beta", -1.0),
            ("beta", float("nan")),
            ("beta", float("inf")),
            ("beta", 10**400),
            ("beta", [0.1]),
            ("clip", 1),
            ("clip", "no"),
            ("clip", None),
            ("version", 1),
        )
    },
    "no meta": sealed(HEADER | {"meta": {}}, VALUES),
    "meta no table": sealed(HEADER | {"meta": [1]}, VALUES),
    "another format": sealed(HEADER | {"format": 2}, VALUES),
    "a true format": sealed(HEADER | {"format": True}, VALUES),
    "no format": sealed({k: v for k, v in HEADER.items() if k != "format"}, VALUES),
    "a kind of its own": sealed(HEADER | {"kind": ["policy"]}, VALUES),
    "a list for a header": sealed(b"[1]", VALUES),
    "a number for a header": sealed(b"3", VALUES),
    "no JSON": sealed(b"{", VALUES),
    "no UTF-8": sealed(b'{"kind": "\xff"}', VALUES),
    "no header": sealed(b"", VALUES),
    "deep nesting": sealed(b"[" * 200_000, b""),
    "deep meta": sealed(b'{"meta": ' * 100_000 + b"1" + b"}" * 100_000, b""),
    "a number without end": sealed(b'{"format": ' + b"9" * 10_000 + b"}", b""),
    "a header beyond the data": (lambda body: body + hashlib.sha256(body).digest())(
        b"rareswitch\xff\xff\xff\xff{}"
    ),
    "nothing after the magic": (lambda body: body + hashlib.sha256(body).digest())(b"rareswitch"),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_are_refused_with_a_sentence_before_memory_is_taken(data):
    allowed = 1.0 + 6 * len(data) / 1e6
    with cheap(megabytes=allowed), pytest.raises(ValueError, match=r"^data must (be|hold) "):
        rs.Policy.from_bytes(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["<f8", "<i8", "|u1", "weights", "whitener", "policy", 0, 1, 2, 3]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def places(value, path=()):
    """Yield the path to every part of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(value, path, new):
    if not path:
        return new
    changes = copy.copy(value)
    changes[path[0]] = changed(value[path[0]], path[1:], new)
    return changes


@given(st.data())
def test_any_change_of_the_header_is_refused_or_gives_a_policy(data):
    path = data.draw(st.sampled_from(list(places(HEADER))))
    header = changed(HEADER, path, data.draw(json_values))
    told = ""
    try:
        policy = rs.Policy.from_bytes(sealed(header, VALUES))
    except ValueError as error:
        told = str(error)
    if told:
        assert told.startswith("data must ")
    else:
        assert rs.Policy.from_bytes(policy.to_bytes()).digest == policy.digest


def mixture(seed=0, *, members=5, horizon=3, dim=2, own=("weights", "directions"), **changes):
    """Return a mixture in which some arrays are the members' own and others are shared."""
    rng = np.random.default_rng(seed)
    shapes = {
        "weights": (horizon, dim),
        "levels": (horizon,),
        "whitener": (horizon, dim, dim),
        "directions": (horizon, dim),
        "offsets": (horizon, 2, dim),
    }
    arrays = {
        name: 0.4 * rng.standard_normal((members, *shape) if name in own else shape)
        for name, shape in shapes.items()
    }
    return rs.Policy(**(arrays | {"beta": 0.1, "allocation": 7} | changes))


OWN = {
    "weights": ("weights",),
    "directions": ("directions",),
    "weights and directions": ("weights", "directions"),
    "weights and levels": ("weights", "levels", "directions"),
    "weights and whitener": ("weights", "whitener"),
    "weights and offsets": ("weights", "offsets"),
    "all": ("weights", "levels", "whitener", "directions", "offsets"),
}
# Weights that all share, beside what is the members' own.
SHARED = {"levels": ("levels",), "whitener": ("whitener",), "offsets": ("offsets", "directions")}


@pytest.mark.parametrize("own", (OWN | SHARED).values(), ids=OWN | SHARED)
def test_a_mixture_is_its_members(own):
    policy = mixture(own=own)
    assert (policy.members, policy.horizon, policy.dim) == (5, 3, 2)
    members = [policy.member(m) for m in range(5)]
    rows = np.random.default_rng(1).standard_normal((6, 2))
    for m, member in enumerate(members):
        assert (member.members, member.allocation) == (1, None)
        for name in ("weights", "levels", "whitener", "directions", "offsets"):
            whole = getattr(policy, name)
            expected = whole[m] if name in own else whole
            np.testing.assert_array_equal(getattr(member, name), expected)
    for h in range(3):
        values = np.array([member.q_values(h, rows) for member in members])
        found = np.broadcast_to(policy.q_values(h, rows), (5, 6))
        np.testing.assert_allclose(found, values, atol=1e-14)
        assert policy.value(h, rows) == pytest.approx(values.max(axis=1).mean())
        taken = [member.act(h, rows) for member in members]
        shares = [taken.count(a) / 5 for a in range(6)]
        assert policy.propensities(h, rows).tolist() == shares
        assert policy.propensities(h, rows).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("own", (OWN | SHARED).values(), ids=OWN | SHARED)
def test_a_mixture_survives_its_bytes(own):
    policy = mixture(own=own)
    back = rs.Policy.from_bytes(policy.to_bytes())
    assert back.to_bytes() == policy.to_bytes()
    assert back.digest == policy.digest == hashlib.sha256(policy.to_bytes()).hexdigest()
    assert (back.members, back.allocation) == (5, 7)
    for key in range(50):
        assert back.allocate(key) == policy.allocate(key)
        assert back.draw(key).digest == policy.draw(key).digest
    for copied in COPIES.values():
        twin = copied(policy)
        assert (twin.digest, twin.members) == (policy.digest, 5)
        with pytest.raises(ValueError, match="read-only"):
            twin.weights[...] = 0.0
    assert mixture(own=own, allocation=8).digest != policy.digest
    assert mixture(seed=1, own=own).digest != policy.digest


def test_a_draw_is_the_member_allocated_to_the_key():
    policy = mixture()
    for key in ("ada", " ", 0, 3, "3", np.int64(4), 10**30):
        member = policy.allocate(key)
        assert member == member_of(7, key, 5)
        assert policy.draw(key).digest == policy.member(member).digest
    assert policy.draw(3).digest == policy.draw("3").digest
    assert len({policy.draw(k).digest for k in range(200)}) == 5
    elsewhere = mixture(allocation=8)
    assert {elsewhere.allocate(k) == policy.allocate(k) for k in range(200)} == {True, False}


@pytest.mark.parametrize("key", [None, 1.5, True, b"a", ["a"]])
def test_a_bad_key_is_refused_by_name(key):
    for policy in (make(), mixture()):
        for ask in (policy.draw, policy.allocate):
            with pytest.raises(
                TypeError, match=r"key must be a text or a whole number; got .*: use"
            ):
                ask(key)


def test_one_policy_is_its_own_only_member():
    policy = make()
    assert (policy.members, policy.allocate("ada"), policy.allocation) == (1, 0, None)
    assert policy.draw("ada") is policy.member(0) is policy
    rows = np.random.default_rng(2).standard_normal((4, 2))
    assert policy.propensities(1, rows).tolist() == [
        float(a == policy.act(1, rows)) for a in range(4)
    ]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (5, ValueError, "index must be from 0 to 4; got 5"),
        (-1, ValueError, "index must be from 0 to 4; got -1"),
        (1.0, TypeError, "index must be a whole number"),
    ],
)
def test_a_member_that_is_not_there_is_refused(index, error, message):
    with pytest.raises(error, match=message):
        mixture().member(index)


def test_a_mixture_acts_through_a_draw_and_says_so():
    with pytest.raises(ValueError, match=r"a mixture of 5 members acts .*policy\.draw\(key\)\.act"):
        mixture().act(0, np.eye(2))
    assert repr(mixture()).startswith("Policy(dim=2, horizon=3, members=5, digest=")


def test_how_often_an_action_is_taken_is_its_propensity():
    policy, keys = mixture(members=32), 100_000
    rows = np.random.default_rng(5).standard_normal((4, 2))
    allocated = np.bincount([policy.allocate(k) for k in range(keys)], minlength=32)
    for h in range(3):
        shares = policy.propensities(h, rows)
        assert (shares > 0).sum() > 1
        taken = np.zeros(4)
        np.add.at(taken, [policy.member(m).act(h, rows) for m in range(32)], allocated)
        error = np.sqrt(shares * (1 - shares) / keys)
        assert (np.abs(taken / keys - shares) <= 5 * error).all()


def menu_after(actions):
    """Return the rows of the state after these actions: how many and which depends on them."""
    rng = np.random.default_rng([9, *actions])
    return rng.standard_normal((2 + sum(actions) % 2, 2))


def endings(actions=()):
    """Yield every sequence of three actions."""
    if len(actions) == 3:
        yield actions
        return
    for action in range(len(menu_after(actions))):
        yield from endings((*actions, action))


def test_the_likelihood_is_the_share_of_members_that_take_all_actions():
    policy = mixture(members=12)
    total, products = 0.0, {}
    for actions in endings():
        steps = [(menu_after(actions[:h]), actions[h]) for h in range(3)]
        agree = [
            all(policy.member(m).act(h, rows) == a for h, (rows, a) in enumerate(steps))
            for m in range(12)
        ]
        found = policy.likelihood(steps)
        assert found == np.mean(agree)
        assert policy.likelihood(iter([list(step) for step in steps])) == found
        # A prefix is at least as likely as any of its endings.
        assert policy.likelihood(steps[:2]) >= found
        total += found
        product = np.prod([policy.propensities(h, rows)[a] for h, (rows, a) in enumerate(steps)])
        products[actions] = product, found
    assert total == pytest.approx(1.0)
    assert any(abs(product - found) > 0.05 for product, found in products.values())
    assert policy.likelihood([]) == 1.0
    one = policy.member(3)
    assert {one.likelihood([(menu_after(()), a)]) for a in range(2)} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ([np.eye(2)[0]], TypeError, r"steps must be pairs \(features, action\); got"),
        ([(np.eye(2),)], TypeError, r"steps must be pairs \(features, action\)"),
        ([(np.eye(2), 0, 1)], TypeError, r"steps must be pairs \(features, action\)"),
        ([(np.eye(2), 2)], ValueError, "action must be from 0 to 1; got 2"),
        ([(np.eye(2), -1)], ValueError, "action must be from 0 to 1; got -1"),
        ([(np.eye(2), 0.0)], TypeError, "action must be a whole number"),
        ([(np.eye(3), 0)], ValueError, r"features must have shape \(A, 2\)"),
        ([(np.zeros((0, 2)), 0)], ValueError, "features must have at least one row"),
        ([(np.eye(2), 0)] * 4, ValueError, "h must be from 0 to 2; got 3"),
    ],
)
def test_steps_that_are_none_are_refused(steps, error, message):
    for policy in (make(), mixture()):
        with pytest.raises(error, match=message):
            policy.likelihood(steps)


M5 = {"weights": np.zeros((5, 3, 2))}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            M5 | {"directions": np.zeros((4, 3, 2))},
            ValueError,
            r"members must have the same first axis; got \{'weights': 5, 'directions': 4",
        ),
        (
            {"levels": np.zeros((2, 3))},
            ValueError,
            "all arrays of members must have the same first axis",
        ),
        ({"weights": np.zeros((1, 3, 2))}, ValueError, "weights must be of two members or more"),
        ({"weights": np.zeros((0, 3, 2))}, ValueError, "weights must (be of two|have a)"),
        ({"levels": np.zeros((1, 3))}, ValueError, "levels must be of two members or more"),
        ({"levels": np.zeros(4)}, ValueError, r"levels must have shape \(3,\); got \(4,\)"),
        ({"levels": np.zeros((5, 4))}, ValueError, r"levels must have shape \(M, 3\)"),
        ({"whitener": np.zeros((5, 3, 2, 3))}, ValueError, r"whitener must have shape \(M, 3"),
        ({"weights": np.zeros((2, 5, 3, 2))}, ValueError, r"weights must have shape \(M, H, d\)"),
        ({"offsets": np.zeros((5, 3, 0, 2))}, ValueError, "offsets must hold at least one"),
        ({"allocation": None}, ValueError, "allocation must be given for a mixture; got None"),
        ({"allocation": -1}, ValueError, "allocation must be at least 0; got -1"),
        ({"allocation": 2**63}, ValueError, "allocation must be .*; got 9223372036854775808"),
        ({"allocation": 1.0}, TypeError, "allocation must be a whole number"),
        ({"allocation": True}, TypeError, "allocation must be a whole number"),
        ({"whitener": None}, ValueError, "whitener must be given for a bonus with beta = 0.1"),
        ({"own": ()}, ValueError, "allocation must be None for one policy; got 7"),
    ],
)
def test_a_bad_mixture_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        mixture(**changes)
    if "own" not in changes:
        assert mixture(whitener=None, beta=0.0, levels=None, offsets=None).members == 5


MIXED = mixture().to_bytes()
MIXED_HEADER, MIXED_VALUES = opened(MIXED)


@pytest.mark.parametrize("allocation", [None, -1, 2**63, 1.5, "7", True, [7]])
def test_a_mixture_with_another_allocation_in_its_bytes_is_refused(allocation):
    meta = MIXED_HEADER["meta"] | {"allocation": allocation}
    with pytest.raises(ValueError, match="data must be a policy; allocation must be"):
        rs.Policy.from_bytes(sealed(MIXED_HEADER | {"meta": meta}, MIXED_VALUES))


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights": np.zeros((4, 3, 2))},
        {"weights": np.zeros((1, 3, 2))},
        {"weights": np.zeros((0, 3, 2))},
        {"weights": np.zeros((3, 2)), "directions": np.zeros((3, 2))},
        {"levels": np.zeros((2, 3))},
        {"levels": np.full(3, np.nan)},
    ],
)
def test_a_mixture_with_other_arrays_in_its_bytes_is_refused(arrays):
    with pytest.raises(ValueError, match=r"^data must be a policy"):
        rs.Policy.from_bytes(replaced(MIXED, arrays))


@given(st.integers(0, len(MIXED) - 1), st.integers(1, 255))
def test_bytes_of_a_mixture_altered_anywhere_are_refused(position, change):
    altered = bytearray(MIXED)
    altered[position] ^= change
    with pytest.raises(ValueError, match="data must be"):
        rs.Policy.from_bytes(bytes(altered))


def test_levels_are_added_before_the_clip():
    policy = rs.Policy(weights=[[1.0], [1.0]], levels=[0.5, -0.25])
    rows = np.array([[0.25], [3.0], [-3.0]])
    assert policy.q_values(0, rows).tolist() == [0.75, 2.0, 0.0]
    assert policy.q_values(1, rows).tolist() == [0.0, 1.0, 0.0]
    back = rs.Policy.from_bytes(policy.to_bytes())
    assert back.levels.tolist() == [0.5, -0.25]
    assert back.digest != rs.Policy(weights=[[1.0], [1.0]]).digest


# One-hot features by their positions, and many states at once.


def one_hot_parts(members=()):
    rng = np.random.default_rng(3)
    return {
        "weights": rng.standard_normal((*members, 2, 4)),
        "whitener": rng.random((*members, 2, 4)),
        "levels": rng.random((*members, 2)),
        "directions": rng.standard_normal((*members, 2, 4)),
        "offsets": rng.standard_normal((*members, 2, 3, 4)),
        "beta": 0.3,
        "one_hot": True,
        "allocation": 8 if members else None,
        "clip": False,
    }


def in_full(parts):
    return parts | {"one_hot": False, "whitener": parts["whitener"][..., None] * np.eye(4)}


@pytest.mark.parametrize("members", [(), (5,)], ids=["one", "mixture"])
def test_a_policy_of_positions_is_that_of_the_rows_written_out(members):
    parts = one_hot_parts(members)
    policy, full = rs.Policy(**parts), rs.Policy(**in_full(parts))
    assert (policy.dim, policy.horizon, policy.members) == (4, 2, full.members)
    for h in (0, 1):
        for menu in ([0, 1, 2, 3], [2], [3, 0], [1, 1]):
            rows = np.eye(4)[menu]
            np.testing.assert_allclose(policy.q_values(h, menu), full.q_values(h, rows), atol=1e-12)
            assert (policy.choices(h, menu) == full.choices(h, rows)).all()
            assert (policy.propensities(h, menu) == full.propensities(h, rows)).all()
            member, same = policy.draw("ada"), full.draw("ada")
            assert member.one_hot
            assert member.act(h, menu) == same.act(h, rows)


@pytest.mark.parametrize("members", [(), (5,)], ids=["one", "mixture"])
def test_a_policy_of_positions_survives_its_bytes(members):
    policy = rs.Policy(**one_hot_parts(members))
    copy = rs.Policy.from_bytes(policy.to_bytes())
    assert copy.one_hot
    assert (copy.digest, copy.to_bytes()) == (policy.digest, policy.to_bytes())
    assert (copy.choices(1, [0, 3]) == policy.choices(1, [0, 3])).all()
    full = rs.Policy(**in_full(one_hot_parts(members)))
    assert full.digest != policy.digest
    assert b"one_hot" not in full.to_bytes()


def test_ties_of_positions_are_broken_by_their_directions():
    directions = np.array([[0.1, 0.9, 0.5]])
    policy = rs.Policy(weights=np.zeros((1, 3)), directions=directions, one_hot=True)
    assert [policy.act(0, menu) for menu in ([0, 1, 2], [2, 0], [0, 2])] == [1, 0, 1]
    lowest = rs.Policy(weights=np.zeros((1, 3)), one_hot=True)
    assert [lowest.act(0, menu) for menu in ([0, 1, 2], [2, 0], [0, 2])] == [0, 0, 0]


@pytest.mark.parametrize("members", [(), (5,)], ids=["one", "mixture"])
@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_many_states_at_once_are_each_by_itself(members, one_hot, tied):
    parts = one_hot_parts(members)
    if tied:
        parts = {
            name: parts[name] for name in ("weights", "directions", "one_hot", "allocation")
        } | {"weights": np.zeros((*members, 2, 4))}
        policy = rs.Policy(**parts | {"one_hot": one_hot})
    else:
        policy = rs.Policy(**(parts if one_hot else in_full(parts)))
    menus = np.array([[0, 1], [3, 2], [2, 2], [1, 3], [0, 3]])
    states = menus if one_hot else np.eye(4)[menus]
    found = policy.choices(1, states)
    assert found.shape == (policy.members, 5)
    for s, menu in enumerate(states):
        assert (found[:, s] == policy.choices(1, menu)).all()
    assert (policy.choices(1, list(states[:1])) == found[:, :1]).all()


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ([0, 4], ValueError, "features must be positions from 0 to 3; got 4"),
        ([-1], ValueError, "features must be positions from 0 to 3; got -1"),
        ([0.0, 1.0], TypeError, "features must be the positions of ones.*got float64"),
        ([True, False], TypeError, "features must be the positions of ones.*got bool"),
        (np.eye(4), TypeError, r"features must be the positions of ones.*float64"),
        ([], ValueError, "features must have at least one row; got an empty feasible set"),
        ([[0], [1, 2]], TypeError, "features must be an array of whole numbers"),
        (np.zeros((0, 2), int), TypeError, r"features must be .*int64 of shape \(0, 2\)"),
        (None, TypeError, "features must be the positions of ones"),
    ],
)
def test_features_that_are_no_positions_are_refused(features, error, message):
    policy = rs.Policy(**one_hot_parts())
    for ask in (policy.q_values, policy.act, policy.choices, policy.propensities, policy.value):
        with pytest.raises(error, match=message):
            ask(0, features)


def test_one_state_is_asked_for_where_one_is_meant():
    one_hot, full = rs.Policy(**one_hot_parts()), rs.Policy(**in_full(one_hot_parts()))
    positions, rows = np.array([[0, 1], [2, 3]]), np.eye(4).reshape(2, 2, 4)
    for name in ("act", "propensities", "q_values", "value"):
        with pytest.raises(TypeError, match=r"features must be .*int64 of shape \(2, 2\)"):
            getattr(one_hot, name)(0, positions)
        with pytest.raises(ValueError, match=r"features must have shape \(A, 4\); got \(2, 2, 4\)"):
            getattr(full, name)(0, rows)
    with pytest.raises(ValueError, match=r"features must have shape \(A, 4\); got \(2, 2, 4\)"):
        full.likelihood([(rows, 0)])
    with pytest.raises(ValueError, match=r"features must have shape \(A, 4\); got \(2,\)"):
        full.act(0, [0, 1])
    for wrong in (np.zeros((0, 2, 4)), np.zeros((3, 2, 5)), [[[0.0] * 4], [[0.0] * 4] * 2]):
        with pytest.raises((TypeError, ValueError), match="features must "):
            full.choices(0, wrong)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"one_hot": 1}, TypeError, "one_hot must be True or False; got 1"),
        ({"whitener": np.zeros((2, 3))}, ValueError, r"whitener must have shape \(2, 4\)"),
        ({"whitener": np.zeros((2, 4, 4))}, ValueError, r"whitener must have shape \(M, 2, 4\)"),
    ],
)
def test_a_bad_policy_of_positions_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        rs.Policy(**one_hot_parts() | changes)


def test_a_view_made_before_an_array_was_set_read_only_cannot_change_a_policy():
    arrays = {
        "weights": np.ones((5, 3, 2)),
        "whitener": np.ones((3, 2, 2)),
        "levels": np.ones((5, 3)),
        "directions": np.ones((3, 2)),
        "offsets": np.ones((5, 3, 4, 2)),
    }
    views = [array[:] for array in arrays.values()]
    for array in arrays.values():
        array.flags.writeable = False
    policy = rs.Policy(**arrays, beta=0.5, allocation=7)
    before = policy.to_bytes()
    for view in views:
        view[:] = 0.0
    assert policy.to_bytes() == before
    for name in arrays:
        assert (getattr(policy, name) == 1.0).all()
        assert not getattr(policy, name).flags.writeable


@pytest.mark.parametrize("ask", ["act", "q_values", "value", "choices", "propensities"])
def test_truths_are_no_features(ask):
    with pytest.raises(TypeError, match="features must be an array of real numbers; got bool"):
        getattr(make(), ask)(0, np.eye(2) > 0.5)


@pytest.fixture
def checks(monkeypatch):
    """Count how often a policy, or an array, is checked."""
    counted = {"policies": 0, "arrays": 0}
    original, floats = rs.Policy.__post_init__, policy_module.floats

    def post_init(self):
        counted["policies"] += 1
        original(self)

    def counting(*arguments, **others):
        counted["arrays"] += 1
        return floats(*arguments, **others)

    monkeypatch.setattr(rs.Policy, "__post_init__", post_init)
    monkeypatch.setattr(policy_module, "floats", counting)
    monkeypatch.setattr("rareswitch.support.arguments.floats", counting)
    return counted


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_neither_draw_nor_act_checks_a_policy_again(own, checks):
    policy, rows = mixture(own=own), np.random.default_rng(3).standard_normal((4, 2))
    made = dict(checks)
    assert made["policies"] == 1  # the count works
    for key in range(20):
        member = policy.draw(key)
        for h in range(policy.horizon):
            member.act(h, rows)
        policy.choices(0, rows)
        policy.propensities(0, rows)
    assert checks == made
    for name in ("weights", "levels", "whitener", "directions", "offsets"):  # nothing is copied
        assert np.shares_memory(getattr(member, name), getattr(policy, name))
        assert not getattr(member, name).flags.writeable


def test_a_fit_makes_a_policy_without_checking_it_and_it_is_the_checked_one(checks):
    learner = rs.Learner(rs.Task(dim=3, horizon=2), rs.EveryEpisode())
    ragged_learning(learner, seed=1, start=0, stop=6)
    assert checks["policies"] == 0
    policy = learner.policy
    again = rs.Policy(**{name: getattr(policy, name) for name in FIELDS})
    assert checks["policies"] == 1
    assert again.to_bytes() == policy.to_bytes()
    for name in FIELDS:
        array = getattr(policy, name)
        assert not (isinstance(array, np.ndarray) and array.flags.writeable), name
        assert type(array) is type(getattr(again, name)), name
