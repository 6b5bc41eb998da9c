"""Snapshots resume exactly, and hostile bytes are refused quickly, with a sentence."""

import json
import subprocess
import sys
from dataclasses import asdict, fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import (
    Asked,
    cheap,
    in_rows,
    opened,
    position_episode,
    ragged_learning,
    replaced,
    sealed,
)
from rareswitch.support import codec

RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=9, spread="balanced"),
    "growth": rs.DeterminantGrowth(eta=2.5),
}


GROWTH = rs.DeterminantGrowth(eta=2.0)


TASK_FIELDS = {field.name for field in fields(rs.Task)}


def make(schedule=None, **changes):
    """Return a learner with these changes of its task and of its recipe."""
    given = {"dim": 3, "horizon": 3, "episodes": 60, "ridge": 0.5, "seed": (4, 2)} | changes
    task = rs.Task(**{name: value for name, value in given.items() if name in TASK_FIELDS})
    rest = {name: value for name, value in given.items() if name not in TASK_FIELDS}
    make_recipe = rs.Recipe if "exploration" in rest else partial(rs.Recipe.paper, beta=0.7)
    return rs.Learner(task, RULES["growth"] if schedule is None else schedule, make_recipe(**rest))


CHILD = """
import json, sys
from pathlib import Path
import rareswitch as rs
from oracles import ragged_learning
folder, stop, out = Path(sys.argv[1]), int(sys.argv[2]), {}
for path in sorted(folder.iterdir()):
    learner = rs.Learner.restore(path.read_bytes())
    rule, start = path.name.split("-")
    digests = ragged_learning(learner, seed=8, start=int(start), stop=stop)
    out[path.name] = [digests, learner.snapshot().hex()]
print(json.dumps(out))
"""


def test_a_snapshot_resumed_in_a_new_process_goes_on_byte_for_byte(tmp_path):
    stop, expected = 25, {}
    for name, rule in RULES.items():
        learner, digests = make(rule), []
        for k in range(stop):
            (tmp_path / f"{name}-{k:02}").write_bytes(learner.snapshot())
            digests += ragged_learning(learner, seed=8, start=k, stop=k + 1)
        assert len(learner.ledger) > 1
        for k in range(stop):
            expected[f"{name}-{k:02}"] = [digests[k:], learner.snapshot().hex()]
    tests = str(Path(__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {tests!r})\n{CHILD}"
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(stop)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert json.loads(child.stdout) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": False},
        {"ties": "lowest"},
        {"horizon": 1},
        {"episodes": 15, "seed": 2**100},
        {"episodes": None, "feature_norm": 2.5},
        {"stages": "auto", "end_reward": 0.25},
    ],
)
def test_a_restored_learner_has_everything(changes):
    learner = make(**changes)
    ragged_learning(learner, seed=9, start=0, stop=10)
    copy = rs.Learner.restore(learner.snapshot())
    for name in ("task", "recipe", "schedule", "ledger", "clock"):
        assert getattr(copy, name) == getattr(learner, name)
    assert copy.episodes == learner.episodes == 10
    assert copy.snapshot() == learner.snapshot()
    assert copy.recommend().digest == learner.recommend().digest
    later = [ragged_learning(each, seed=9, start=10, stop=20) for each in (learner, copy)]
    assert later[0] == later[1]
    assert copy.snapshot() == learner.snapshot()


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("one_hot", [True, False])
def test_corrections_before_and_after_a_snapshot_leave_the_same_bytes(stages, one_hot):
    rng = np.random.default_rng(6)
    log = [position_episode(rng, horizon=3, states=2, actions=2) for _ in range(30)]
    log = log if one_hot else [in_rows(episode, 4) for episode in log]
    never = make(dim=4, one_hot=one_hot, stages=stages, end_reward=0.2, exploration=rs.Ensemble(3))
    resumed, there = rs.Learner.restore(never.snapshot()), []
    for k, episode in enumerate(log):
        there.append(episode)
        old, new = there.pop(k // 4), [None, log[-k]][k % 2]
        there += [] if new is None else [new]
        for learner in (never, resumed):
            learner.observe(episode)
            learner.correct(old, new)
        if k % 3 == 0:
            resumed = rs.Learner.restore(resumed.snapshot())
        assert (resumed.episodes, resumed.clock) == (never.episodes, never.clock)
    assert resumed.snapshot() == never.snapshot()
    assert resumed.fit().to_bytes() == never.fit().to_bytes()
    assert rs.Learner.restore(never.snapshot()).snapshot() == never.snapshot()


def test_a_schedule_of_ones_own_works_and_must_be_given_again():
    own, named = make(Asked(rs.DeterminantGrowth(eta=2.5))), make(rs.DeterminantGrowth(eta=2.5))
    digests = [ragged_learning(each, seed=10, start=0, stop=12) for each in (own, named)]
    assert digests[0] == digests[1]
    stored = own.snapshot()
    with pytest.raises(ValueError, match="schedule must be given: the snapshot has oracles:Asked"):
        rs.Learner.restore(stored)
    copy = rs.Learner.restore(stored, schedule=Asked(rs.DeterminantGrowth(eta=2.5)))
    assert copy.snapshot() == stored
    later = [ragged_learning(each, seed=10, start=12, stop=20) for each in (copy, named)]
    assert later[0] == later[1]


class Every:
    """A rule of one's own that is no dataclass."""

    def __init__(self, n):
        self.n = n

    def due(self, clock):
        return clock.episode % self.n == 0


def test_another_rule_of_ones_own_than_the_stored_one_is_refused():
    learner = make(Every(3))
    ragged_learning(learner, seed=3, start=0, stop=7)
    stored = learner.snapshot()
    with pytest.raises(
        ValueError,
        match=r"schedule must equal the stored schedule, \{.*'n': 3\}; got \{.*'n': 99\}",
    ):
        rs.Learner.restore(stored, schedule=Every(99))
    with pytest.raises(ValueError, match="schedule must equal the stored schedule"):
        rs.Learner.restore(stored, schedule=Asked(Every(3)))
    with pytest.raises(ValueError, match="schedule must equal the stored schedule"):
        rs.Learner.restore(stored, schedule=rs.EveryEpisode())
    copy = rs.Learner.restore(stored, schedule=Every(3))
    assert copy.snapshot() == stored
    inside = make(rs.rules.Capped(Every(3), 2)).snapshot()
    with pytest.raises(ValueError, match="schedule must equal the stored schedule"):
        rs.Learner.restore(inside, schedule=rs.rules.Capped(Every(4), 2))
    assert rs.Learner.restore(inside, schedule=rs.rules.Capped(Every(3), 2)).snapshot() == inside


class Noisy:
    """An exploration of one's own that is no dataclass."""

    beta, members, draws, estimate = 0.0, 1, 1, False

    def __init__(self, size):
        self.size = size

    def perturbations(self, rng, horizon, dim):
        return self.size * rng.standard_normal((1, horizon, 1, dim))


def test_another_exploration_of_ones_own_than_the_stored_one_is_refused():
    stored = make(exploration=Noisy(0.3)).snapshot()
    with pytest.raises(
        ValueError, match=r"exploration must equal the stored exploration, \{.*'size': 0\.3\}"
    ):
        rs.Learner.restore(stored, exploration=Noisy(0.4))
    with pytest.raises(ValueError, match=r"exploration must be given: the snapshot has .*:Noisy"):
        rs.Learner.restore(stored)
    assert rs.Learner.restore(stored, exploration=Noisy(0.3)).snapshot() == stored


def test_a_cap_around_a_schedule_of_ones_own_must_be_given_again():
    rule = rs.rules.Capped(Asked(rs.DeterminantGrowth(eta=1.8)), 4)
    own, named = make(rule), make(rs.rules.Capped(rs.DeterminantGrowth(eta=1.8), 4))
    for each in (own, named):
        ragged_learning(each, seed=2, start=0, stop=6)
    stored = own.snapshot()
    with pytest.raises(ValueError, match="schedule must be given: the snapshot has oracles:Asked"):
        rs.Learner.restore(stored)
    copy = rs.Learner.restore(stored, schedule=rule)
    assert copy.snapshot() == stored
    later = [ragged_learning(each, seed=2, start=6, stop=40) for each in (copy, named)]
    assert later[0] == later[1]
    assert len(copy.ledger) == len(named.ledger) == 5


NEVER = rs.rules.TotalGrowth.for_budget(rs.Task(dim=30, horizon=300, episodes=10**6), switches=1)
SCHEDULES = [
    rs.EveryEpisode(),
    rs.UniformGrid(batches=4),
    rs.UniformGrid(batches=4, spread="balanced"),
    rs.rules.EpisodeGrid(dates=(1, 2, 9, 14)),
    rs.rules.GeometricGrid(batches=6),
    rs.rules.MinimaxGrid(batches=6),
    rs.DeterminantGrowth(eta=2.5),
    rs.rules.TotalGrowth(eta=1.7),
    NEVER,
    rs.rules.AdaptiveBudget(switches=6),
    rs.SpreadBudget(switches=6),
    rs.rules.Capped(rs.DeterminantGrowth(eta=2.5), 3),
    rs.rules.Capped(rs.rules.Capped(rs.rules.EpisodeGrid(dates=(1, 3, 5, 8)), 9), 2),
    rs.rules.Capped(rs.rules.Capped(rs.rules.Capped(rs.rules.AdaptiveBudget(switches=6), 5), 4), 3),
]


@pytest.mark.parametrize(
    "exploration",
    [rs.Bonus(0.7), rs.Bonus(0.7, 3), rs.Perturbation(0.5, draws=3), rs.Ensemble(3)],
    ids=repr,
)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_a_restored_learner_goes_on_byte_for_byte(schedule, exploration):
    learner = make(schedule, exploration=exploration, episodes=28)
    copies = []
    for k in range(0, 28, 7):
        for each in copies:
            ragged_learning(each, seed=3, start=k, stop=k + 7)
        ragged_learning(learner, seed=3, start=k, stop=k + 7)
        stored = learner.snapshot()
        assert [each.snapshot() == stored for each in copies] == [True] * len(copies)
        copies.append(rs.Learner.restore(stored))
        assert (copies[-1].schedule, copies[-1].recipe.exploration) == (schedule, exploration)
        assert copies[-1].snapshot() == stored
    assert len(learner.ledger) > 1 or schedule == NEVER


def test_a_restored_learner_draws_the_perturbations_that_would_have_come_next():
    learner = make(rs.EveryEpisode(), exploration=rs.Perturbation(1.0, draws=2), ties="lowest")
    ragged_learning(learner, seed=1, start=0, stop=5)
    copy = rs.Learner.restore(learner.snapshot())
    before = learner.policy.offsets
    for each in (learner, copy):
        ragged_learning(each, seed=1, start=5, stop=6)
    np.testing.assert_array_equal(learner.policy.offsets, copy.policy.offsets)
    assert (learner.policy.offsets != before).all()


@given(
    st.builds(
        rs.Task,
        dim=st.integers(1, 4),
        horizon=st.integers(1, 4),
        episodes=st.none() | st.integers(1, 2**62),
        feature_norm=st.floats(1.0, 1e100),
        stages=st.sampled_from(["own", "shared", "auto"]),
        one_hot=st.booleans(),
        end_reward=st.floats(0.0, 1.0),
    ),
    st.integers(1, 3),
)
def test_a_task_survives_a_snapshot(task, blocks):
    if not task.one_hot:
        task = replace(task, dim=task.dim * blocks, blocks=blocks)
    learner = rs.Learner(task, rs.EveryEpisode(), rs.Recipe.paper())
    stored = learner.snapshot()
    copy = rs.Learner.restore(stored)
    assert copy.task == task
    assert repr(copy.task) == repr(task)
    assert copy.snapshot() == stored
    plain = opened(stored)[0]["meta"]["task"]
    assert {"blocks": 1} | plain == asdict(task)
    assert ("blocks" in plain) == (task.blocks > 1)


@pytest.mark.parametrize(
    "given",
    [
        {"schedule": rs.DeterminantGrowth(eta=3.0)},
        {"schedule": rs.EveryEpisode()},
        {"exploration": rs.Bonus(0.8)},
        {"exploration": rs.Perturbation(0.7)},
    ],
)
def test_another_rule_than_the_stored_one_is_refused(given):
    stored = make().snapshot()
    with pytest.raises(ValueError, match=r"must equal the stored [a-z]+, \{.*\}; got \{'kind'"):
        rs.Learner.restore(stored, **given)
    same = rs.Learner.restore(stored, schedule=RULES["growth"], exploration=rs.Bonus(0.7))
    assert same.snapshot() == stored


class Quiet:
    """A rule and an exploration of one's own that Python takes for false."""

    beta, members, draws, estimate = 0.7, 1, 0, False

    def __len__(self):
        return 0

    def due(self, clock):
        return clock.episode == 3

    def perturbations(self, rng, horizon, dim):
        raise NotImplementedError


def test_ones_own_may_be_empty():
    learner = make(Quiet(), exploration=Quiet())
    stored, own = learner.snapshot(), Quiet()
    with pytest.raises(ValueError, match="exploration must be given: the snapshot has"):
        rs.Learner.restore(stored, schedule=own)
    copy = rs.Learner.restore(stored, schedule=own, exploration=own)
    assert copy.schedule is copy.recipe.exploration is own
    assert copy.snapshot() == stored


def test_bytes_that_are_not_a_snapshot_are_refused():
    stored = make().snapshot()
    with pytest.raises(ValueError, match="checksum"):
        rs.Learner.restore(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(ValueError, match="data must hold a learner; got a policy"):
        rs.Learner.restore(make().policy.to_bytes())
    with pytest.raises(ValueError, match="something else"):
        rs.Learner.restore(b"")


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (
            {"schedule": rs.UniformGrid(batches=np.int8(2))},
            {"schedule": rs.UniformGrid(batches=2)},
        ),
        ({"schedule": rs.DeterminantGrowth(eta=np.float32(2.0))}, {"schedule": GROWTH}),
        ({"schedule": rs.DeterminantGrowth(eta=Fraction(2))}, {"schedule": GROWTH}),
        ({"schedule": rs.DeterminantGrowth(eta=np.longdouble(2))}, {"schedule": GROWTH}),
        ({"ridge": np.float32(0.5), "beta": Fraction(1, 2)}, {"ridge": 0.5, "beta": 0.5}),
        ({"dim": np.int32(2), "horizon": np.uint8(1)}, {"dim": 2, "horizon": 1}),
        ({"seed": [np.int64(3), 4], "clip": np.True_}, {"seed": (3, 4), "clip": True}),
        ({"feature_norm": np.longdouble(3)}, {"feature_norm": 3.0}),
        ({"episodes": np.uint16(9)}, {"episodes": 9}),
    ],
)
def test_numbers_of_any_kind_are_kept_as_plain_ones(given, plain):
    learner = make(**{"dim": 2, "horizon": 1} | given)
    same = make(**{"dim": 2, "horizon": 1} | plain)
    assert repr(learner) == repr(same)
    assert repr(learner.recipe) == repr(same.recipe)
    assert learner.snapshot() == same.snapshot()
    assert rs.Learner.restore(learner.snapshot()).snapshot() == learner.snapshot()


def learnt(**changes):
    learner = make(RULES["every"], **changes)
    ragged_learning(learner, seed=1, start=0, stop=6)
    return learner


SNAPSHOT = learnt().snapshot()
HEADER, VALUES = opened(SNAPSHOT)
SIZES = {name: shape for name, _, shape in HEADER["arrays"]}
POLICY = np.frombuffer(learnt().policy.to_bytes(), np.uint8)
WIDE = rs.Policy(weights=np.zeros((1, 300)), whitener=np.zeros((1, 300, 300)), beta=0.7)


def changed(meta, name, value):
    """Return plain values with one changed, or one of those inside, as in "task.dim"."""
    outer, _, inner = name.rpartition(".")
    return meta | ({outer: meta[outer] | {inner: value}} if outer else {name: value})


def with_meta(name, value):
    return sealed(HEADER | {"meta": changed(HEADER["meta"], name, value)}, VALUES)


def without(part, name):
    if part == "arrays":
        renamed = [["x", *rest] if old == name else [old, *rest] for old, *rest in HEADER["arrays"]]
        return sealed(HEADER | {"arrays": renamed}, VALUES)
    meta = json.loads(json.dumps(HEADER["meta"]))
    outer, _, inner = name.rpartition(".")
    del (meta[outer] if outer else meta)[inner]
    return sealed(HEADER | {"meta": meta}, VALUES)


def nested(depth):
    """Return a snapshot whose schedule is a cap around a cap around a cap …"""
    cap, end = b'{"kind": "capped", "switches": 1, "schedule": ', b"}"
    text = json.dumps(HEADER | {"meta": HEADER["meta"] | {"schedule": "HERE"}}).encode()
    return sealed(text.replace(b'"HERE"', cap * depth + b"1" + end * depth), VALUES)


NAMES = [
    *HEADER["meta"],
    *(f"{outer}.{inner}" for outer in ("task", "recipe") for inner in HEADER["meta"][outer]),
]
BAD_META = {
    "task": (None, [], {}, 3, "task", {"dim": 3, "horizon": 3}, {"dim": 3}),
    "task.dim": (0, -3, 3.0, True, "3", None, 4, 20_000, 10**400, [3]),
    "task.horizon": (0, 3.0, True, 2, 10**7, 2**70, None),
    "task.feature_norm": (0.0, "1", None, 1e101, float("nan")),
    "task.episodes": (0, False, 2.5, "9", [9], -1, 10**400),
    "task.stages": ("shared", "each", None, 1),
    "task.one_hot": (True, 0, None, "no"),
    "task.end_reward": (-0.1, 1.5, "1", None, float("nan")),
    "task.other": (1,),
    "episodes": (-1, 6.0, True, None, 2, 2**70, "6"),
    "warm_episodes": (-1, 7, 1.0, True, None, 1),
    "recipe": (None, [], {}, "paper", 1.0),
    "recipe.ridge": (0.0, -1.0, "1", None, True, 1e-320, float("inf")),
    "recipe.ties": ("random", None, 3, ["lowest"]),
    "recipe.clip": (1, "no", None),
    "recipe.seed": (-1, 1.5, None, "1", [1], [1, 2, 3], [1, [2]], {"1": 2}, 2**128),
    "recipe.other": (1,),
    "digests": ([], "text", None, [1] * 7, HEADER["meta"]["digests"][:-1], ["a"] * 7, {"a": 1}),
    "schedule": (
        None,
        "every-episode",
        {},
        {"kind": "yearly"},
        {"kind": ["every-episode"]},
        {"kind": "every-episode", "eta": 2.0},
        {"kind": "bonus", "beta": 1.0},
        {"kind": "determinant-growth"},
        {"kind": "determinant-growth", "eta": "2"},
        {"kind": "determinant-growth", "eta": {"kind": "every-episode"}},
        {"kind": "uniform-grid", "batches": 10**12},
        {"kind": "uniform-grid", "batches": 10**400},
        {"kind": "uniform-grid", "batches": 10**12, "spread": "balanced"},
        {"kind": "uniform-grid", "batches": 61},
        {"kind": "uniform-grid", "batches": 5, "episodes": 60},
        {"kind": "uniform-grid", "switches": 5},
        {"kind": "geometric-grid", "batches": 10**12},
        {"kind": "minimax-grid", "batches": 0},
        {"kind": "spread-budget", "switches": 3, "dim": 3},
        {"kind": "episode-grid", "dates": "123"},
        {"kind": "episode-grid", "dates": [1, 1]},
        {"kind": "capped", "schedule": {"kind": "capped"}, "switches": 1},
        {"kind": "capped", "schedule": "every-episode", "switches": 1},
    ),
    "recipe.exploration": (
        None,
        {"kind": "every-episode"},
        {"kind": "perturbation", "scale": 1.0, "draws": 10**9},
        {"kind": "perturbation", "scale": float("nan"), "draws": 2},
        {"kind": "bonus", "beta": -1.0},
        {"kind": "bonus", "beta": 0.7, "members": 10**9, "estimate": False},
        {"kind": "bonus", "beta": 0.7, "members": 1, "estimate": 1},
        {"kind": "ensemble", "members": 10**9, "scale": 0.5, "estimate": True},
        {"kind": "ensemble", "members": 0, "scale": 0.5, "estimate": True},
        {"kind": "ensemble", "members": 4, "scale": float("nan"), "estimate": True},
        {"kind": "ensemble", "members": 4, "scale": 0.5, "estimate": "yes"},
        {"kind": "ensemble", "members": 4, "scale": 0.5, "estimate": True, "beta": 1.0},
    ),
    "other": (1,),
}
BAD_ARRAYS = {
    "whitener": (np.full((3, 3, 3), np.nan), np.zeros((3, 3)), np.zeros((3, 3, 3), np.float32)),
    "logdet": (np.full(3, np.inf), np.zeros(4), np.zeros(3, np.int64)),
    "trace": (np.zeros(()), np.zeros((3, 1))),
    "totals": (np.zeros((3, 5)), np.zeros((2, 3, 3)), np.zeros((2, 3, 5), np.float32)),
    "totals_lost": (np.full((2, 3, 5), np.nan), np.zeros((1, 3, 5))),
    "deployed": (
        np.zeros(7),
        np.arange(7),
        np.arange(1, 7),
        np.array([1, 2, 3, 4, 3, 6, 7]),
        np.array([1, 2, 3, 4, 5, 6, 8]),
        np.array([1, -(2**63), 2**62, 2**62, 5, 6, 7]),
        np.zeros(0, np.int64),
    ),
    "logdet_deployed": (np.zeros((7, 2)), np.full((7, 3), np.nan)),
    "trace_deployed": (np.zeros((6, 3)),),
    "policy": (
        np.zeros(0, np.uint8),
        np.frombuffer(make(dim=2).policy.to_bytes(), np.uint8),
        np.frombuffer(make().policy.to_bytes(), np.uint8),  # not the one in force
        np.frombuffer(WIDE.to_bytes(), np.uint8),
        POLICY[:-1],
        POLICY.astype(np.int64),
    ),
    "next_states/0/lengths": (
        np.zeros(SIZES["next_states/0/lengths"], np.int64),
        np.full(SIZES["next_states/0/lengths"], 2**62),
        np.full(SIZES["next_states/0/lengths"], -1),
        np.zeros(SIZES["next_states/0/lengths"]),
    ),
    "next_states/0/rows": (
        np.zeros((0, 3)),
        np.zeros(SIZES["next_states/0/rows"]),
        np.full(SIZES["next_states/0/rows"], np.nan),
    ),
    "next_states/1/sums": (np.zeros((0, 5)), np.zeros((10**4, 5)), np.zeros((6, 3))),
    "next_states/1/lost": (np.full(SIZES["next_states/1/lost"], np.inf),),
}
HOSTILE = {
    **{
        f"{name}={value!r}"[:70]: with_meta(name, value)
        for name, values in BAD_META.items()
        for value in values
    },
    **{
        f"{name} {i}": replaced(SNAPSHOT, {name: array})
        for name, arrays in BAD_ARRAYS.items()
        for i, array in enumerate(arrays)
    },
    **{f"no meta {name}": without("meta", name) for name in NAMES},
    **{f"no array {name}": without("arrays", name) for name in SIZES},
    "an unknown array": sealed(
        HEADER | {"arrays": [*HEADER["arrays"], ["next_states/2/sums", "<f8", [0]]]}, VALUES
    ),
    "an array twice": sealed(
        HEADER | {"arrays": [*HEADER["arrays"], HEADER["arrays"][0]]}, VALUES + VALUES[:48]
    ),
    "trailing bytes": sealed(HEADER, VALUES + b"\0"),
    "caps without end": nested(100_000),
    "many caps": nested(300),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_are_refused_with_a_sentence_before_memory_is_taken(data):
    allowed = 1.0 + 6 * len(data) / 1e6
    with cheap(megabytes=allowed), pytest.raises(ValueError, match=r"must (be|hold) "):
        rs.Learner.restore(data)


@pytest.mark.parametrize("part", ["policy", "history"])
def test_a_long_horizon_must_come_with_all_of_its_arrays(part):
    horizon = 20_000
    policy = rs.Policy(weights=np.zeros((horizon, 1)), whitener=np.zeros((horizon, 1, 1)), beta=0.7)
    stored = np.frombuffer(policy.to_bytes(), np.uint8)
    arrays = {"policy": stored} if part == "policy" else {"whitener": policy.whitener}
    header, values = opened(replaced(SNAPSHOT, arrays))
    meta = changed(changed(header["meta"], "task.dim", 1), "task.horizon", horizon)
    data = sealed(header | {"meta": meta}, values)
    with cheap(megabytes=5.0), pytest.raises(ValueError, match=r"^data must be a learner; "):
        rs.Learner.restore(data)


def test_a_grid_of_a_trillion_batches_is_restored_without_making_it():
    rule = rs.UniformGrid(batches=10**12)
    data = make(rule, episodes=10**12).snapshot()
    with cheap():
        assert rs.Learner.restore(data).schedule == rule


@given(st.sampled_from(NAMES), st.data())
def test_any_change_of_the_meta_is_refused_or_gives_a_learner(name, data):
    value = data.draw(
        st.none()
        | st.booleans()
        | st.integers(-3, 30)
        | st.floats()
        | st.text(max_size=4)
        | st.lists(st.integers(-1, 5), max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "eta", "beta"]), st.text(max_size=4))
    )
    told = ""
    try:
        learner = rs.Learner.restore(with_meta(name, value))
    except ValueError as error:
        told = str(error)
    if told:
        assert " must " in told
    else:
        learner.fit()
        assert rs.Learner.restore(learner.snapshot()).snapshot() == learner.snapshot()


@given(st.integers(0, 8 * len(SNAPSHOT) - 1))
def test_any_flipped_bit_is_refused(bit):
    altered = bytearray(SNAPSHOT)
    altered[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError, match="data must be"):
        rs.Learner.restore(bytes(altered))


# Learners of other kinds.


def of_kind(**kind):
    """Return a learner that has seen some episodes, each kind of end among them."""
    learner = rs.Learner(
        rs.Task(dim=6, horizon=3, end_reward=0.25, **kind),
        GROWTH,
        rs.Recipe(exploration=rs.Ensemble(3), seed=1),
        warm_start=log_of_kind(0, 3, kind),
    )
    for episode in log_of_kind(1, 8, kind):
        learner.observe(episode)
    return learner


def log_of_kind(seed, count, kind):
    rng = np.random.default_rng(seed)
    log = [position_episode(rng, horizon=3, states=3, actions=2) for _ in range(count)]
    return log if kind["one_hot"] else [in_rows(episode, 6) for episode in log]


KINDS = {
    f"{stages}-{'one_hot' if one_hot else 'rows'}": {"stages": stages, "one_hot": one_hot}
    for stages in ("own", "shared")
    for one_hot in (True, False)
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_learner_of_any_kind_is_restored_with_everything(kind):
    learner = of_kind(**kind)
    copy = rs.Learner.restore(learner.snapshot())
    for name in ("task", "schedule", "recipe", "episodes", "ledger", "clock", "stored_rows"):
        assert getattr(copy, name) == getattr(learner, name)
    assert copy.task == rs.Task(dim=6, horizon=3, end_reward=0.25, **kind)
    assert copy.episodes == 8
    assert copy.policy.to_bytes() == learner.policy.to_bytes()
    for episode in log_of_kind(2, 6, kind):
        assert copy.snapshot() == learner.snapshot()
        assert copy.observe(episode) is learner.observe(episode)
    assert copy.snapshot() == learner.snapshot()
    assert copy.recommend().digest == learner.recommend().digest


ONE_HOT = of_kind(stages="shared", one_hot=True).snapshot()
MOVES = {
    name.removeprefix("moves/0/"): shape
    for name, _, shape in opened(ONE_HOT)[0]["arrays"]
    if name.startswith("moves/0/")
}


def one_hot_with(meta=None, **arrays):
    header, values = opened(replaced(ONE_HOT, arrays))
    for name, value in (meta or {}).items():
        header |= {"meta": changed(header["meta"], name, value)}
    return sealed(header, values)


WIDE_ONE_HOT = rs.Policy(
    weights=np.zeros((3, 3, 20_000)), allocation=3, one_hot=True, directions=np.zeros((3, 20_000))
)
WIDE_ROWS = rs.Policy(
    weights=np.zeros((3, 3, 20_000)), allocation=3, directions=np.zeros((3, 20_000))
)
HOSTILE_ONE_HOT = {
    "rows": one_hot_with({"task.one_hot": False}),
    "own stages": one_hot_with({"task.stages": "own"}),
    "more warm than all": one_hot_with({"warm_episodes": 12}),
    "fewer episodes": one_hot_with({"episodes": 2}),
    # A matrix of so many positions would be of 3 GB.
    "a wide policy of positions for rows": one_hot_with(
        {"task.one_hot": False, "task.dim": 20_000},
        policy=np.frombuffer(WIDE_ONE_HOT.to_bytes(), np.uint8),
    ),
    "a wide policy of rows": one_hot_with(
        {"task.one_hot": False, "task.dim": 20_000},
        policy=np.frombuffer(WIDE_ROWS.to_bytes(), np.uint8),
    ),
    "counts": one_hot_with(counts=np.zeros((3, 6))),
    "negative counts": one_hot_with(counts=np.full((2, 6), -1.0)),
    "nan": one_hot_with(counts=np.full((2, 6), np.nan)),
    "rewards": one_hot_with(rewards=np.zeros((2, 5))),
    "moments": one_hot_with(moments=np.zeros((2, 2))),
    "lengths": one_hot_with(**{"moves/0/lengths": np.zeros(MOVES["lengths"], np.int64)}),
    "huge lengths": one_hot_with(**{"moves/0/lengths": np.full(MOVES["lengths"], 2**62)}),
    "positions": one_hot_with(**{"moves/0/positions": np.full(MOVES["positions"], 6)}),
    "negative": one_hot_with(**{"moves/0/positions": np.full(MOVES["positions"], -1)}),
    "twice": one_hot_with(**{"moves/0/positions": np.zeros(MOVES["positions"], np.int64)}),
    "pairs": one_hot_with(**{"moves/0/pairs": np.zeros(MOVES["pairs"], np.int64)}),
    "no such state": one_hot_with(**{"moves/0/pairs": np.full(MOVES["pairs"], 5)}),
    "sums": one_hot_with(**{"moves/0/sums": np.zeros((1, 2))}),
    "infinite sums": one_hot_with(**{"moves/0/sums": np.full(MOVES["sums"], np.inf)}),
    "floats": one_hot_with(**{"moves/0/pairs": np.zeros(MOVES["pairs"])}),
}


@pytest.mark.parametrize("data", HOSTILE_ONE_HOT.values(), ids=HOSTILE_ONE_HOT)
def test_hostile_bytes_of_one_hot_learners_are_refused_too(data):
    with cheap(megabytes=1.0 + 6 * len(data) / 1e6), pytest.raises(ValueError, match="must "):
        rs.Learner.restore(data)


@given(st.sampled_from(NAMES), st.data())
def test_any_change_of_the_meta_of_a_one_hot_learner_is_refused_or_gives_one(name, data):
    value = data.draw(
        st.none() | st.booleans() | st.integers(-3, 30) | st.sampled_from(["own", "shared", 0.5])
    )
    told = ""
    try:
        learner = rs.Learner.restore(one_hot_with({name: value}))
    except ValueError as error:
        told = str(error)
    if told:
        assert " must " in told
    else:
        learner.fit()
        assert rs.Learner.restore(learner.snapshot()).snapshot() == learner.snapshot()


def test_altering_what_was_read_changes_no_later_restore():
    data = rs.Learner(rs.Task(dim=2, horizon=1), rs.EveryEpisode()).snapshot()
    codec.unpack("learner", data).meta["task"]["dim"] = 99
    assert rs.Learner.restore(data).task.dim == 2


def test_a_restored_learner_does_not_keep_its_snapshot_in_memory():
    learner = rs.Learner.restore(
        rs.Learner(rs.Task(dim=9, horizon=3), rs.EveryEpisode()).snapshot()
    )
    (deployment,) = learner.ledger
    base = deployment.logdet if deployment.logdet.base is None else deployment.logdet.base
    assert base.nbytes <= 3 * 8
