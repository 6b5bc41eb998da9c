import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
from oracles import Asked, Starts, ragged_episode, ragged_learning, reference_q, unit_rows

RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(episodes=25, batches=4, spread="balanced"),
    "growth": rs.DeterminantGrowth(eta=2.5),
}


def make(schedule=None, **changes):
    arguments = {"dim": 3, "horizon": 3, "beta": 0.7, "ridge": 0.5, "seed": (4, 2)}
    return rs.Learner(schedule=schedule or RULES["growth"], **(arguments | changes))


def test_the_first_policy_is_fitted_on_no_data():
    learner = make()
    assert (learner.versions, learner.episodes) == (1, 0)
    assert learner.policy.version == 1
    assert not learner.policy.weights.any()
    assert learner.clock.episode == 1
    np.testing.assert_allclose(learner.clock.logdet, 3 * np.log(0.5))
    assert (learner.clock.logdet == learner.clock.logdet_deployed).all()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_versions_episodes_and_clock_follow_the_rule(rule):
    learner = make(rule)
    rng = np.random.default_rng(0)
    gram = np.stack([0.5 * np.eye(3)] * 3)
    deployed, trace, since = np.linalg.slogdet(gram)[1], np.full(3, 1.5), 1
    for k in range(1, 26):
        episode = ragged_episode(rng, horizon=3, dim=3)
        before = learner.policy
        switched = learner.observe(episode)
        for h, feature in enumerate(episode.features):
            gram[h] += np.outer(feature, feature)
        logdet = np.linalg.slogdet(gram)[1]
        shown = rs.Clock(episode=k + 1, logdet=logdet, logdet_deployed=deployed)
        assert switched is rule.due(shown)
        if switched:
            deployed, trace, since = logdet, np.trace(gram, axis1=1, axis2=2), k + 1
        assert (learner.policy is not before) == switched
        assert learner.policy.version == learner.versions == before.version + switched
        assert learner.episodes == k
        assert learner.clock.episode == k + 1
        np.testing.assert_allclose(learner.clock.logdet, logdet, atol=1e-9)
        np.testing.assert_allclose(learner.clock.logdet_deployed, deployed, atol=1e-9)
        np.testing.assert_allclose(learner.clock.trace_deployed, trace, rtol=1e-12)
        assert (learner.clock.deployed, learner.clock.updates) == (since, learner.versions)


def test_a_new_policy_is_fitted_on_everything_seen():
    learner = make(Starts([6]), ties="lowest")
    rng = np.random.default_rng(1)
    episodes = [ragged_episode(rng, horizon=3, dim=3) for _ in range(5)]
    switches = [learner.observe(episode) for episode in episodes]
    assert switches == [False] * 4 + [True]
    expected = reference_q(episodes, horizon=3, dim=3, beta=0.7, ridge=0.5)
    for h in range(3):
        rows = unit_rows(rng, 5, 3)
        np.testing.assert_allclose(learner.policy.q_values(h, rows), expected(h, rows), atol=1e-9)


def test_changing_a_clock_changes_no_learner():
    learner = make()
    learner.clock.logdet[:] = 99.0
    learner.clock.logdet_deployed[:] = -99.0
    assert learner.snapshot() == make().snapshot()


def test_recommendations_carry_no_bonus_and_all_data():
    learner = make(Starts([]), ties="lowest")
    rng = np.random.default_rng(2)
    episodes = [ragged_episode(rng, horizon=3, dim=3) for _ in range(30)]
    for episode in episodes:
        learner.observe(episode)
    assert learner.versions == 1
    advice = learner.recommend()
    assert (advice.beta, advice.version) == (0.0, 0)
    greedy = reference_q(episodes, horizon=3, dim=3, beta=0.0, ridge=0.5)
    for h in range(3):
        rows = unit_rows(rng, 6, 3)
        np.testing.assert_allclose(advice.q_values(h, rows), greedy(h, rows), atol=1e-9)
        assert advice.act(h, rows) == greedy(h, rows).argmax()


def test_asking_for_a_recommendation_does_not_disturb_the_learner():
    quiet, asked = make(), make()
    for k in range(15):
        asked.recommend()
        ragged_learning(quiet, seed=5, start=k, stop=k + 1)
        ragged_learning(asked, seed=5, start=k, stop=k + 1)
        assert asked.snapshot() == quiet.snapshot()


def test_a_tie_direction_is_drawn_for_each_fit_from_the_seed():
    first, same, other = make(), make(), make(seed=(4, 3))
    directions = []
    for learner in (first, same, other):
        ragged_learning(learner, seed=6, start=0, stop=12)
        directions.append(learner.policy.directions)
    assert (directions[0] == directions[1]).all()
    assert (directions[0] != directions[2]).all()
    assert (directions[0] != make().policy.directions).all()
    assert make(ties="lowest").policy.directions is None


def test_directions_are_the_ties_stream_one_draw_for_each_fit():
    rng = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(2, 2)))
    learner = make(rs.EveryEpisode())
    for k in range(4):
        assert (learner.policy.directions == rng.standard_normal((3, 3))).all()
        ragged_learning(learner, seed=7, start=k, stop=k + 1)


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
        assert learner.versions > 1
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


@pytest.mark.parametrize("changes", [{"clip": False}, {"ties": "lowest"}, {"horizon": 1}])
def test_a_restored_learner_has_everything(changes):
    learner = make(**changes)
    ragged_learning(learner, seed=9, start=0, stop=10)
    copy = rs.Learner.restore(learner.snapshot())
    for name in ("dim", "horizon", "optimism", "ridge", "ties", "clip", "schedule", "versions"):
        assert getattr(copy, name) == getattr(learner, name)
    assert copy.episodes == learner.episodes == 10
    assert copy.snapshot() == learner.snapshot()
    assert copy.recommend().digest == learner.recommend().digest
    later = [ragged_learning(each, seed=9, start=10, stop=20) for each in (learner, copy)]
    assert later[0] == later[1]
    assert copy.snapshot() == learner.snapshot()


def test_a_schedule_of_ones_own_works_and_must_be_given_again():
    own, named = make(Asked(rs.DeterminantGrowth(eta=2.5))), make(rs.DeterminantGrowth(eta=2.5))
    digests = [ragged_learning(each, seed=10, start=0, stop=12) for each in (own, named)]
    assert digests[0] == digests[1]
    stored = own.snapshot()
    with pytest.raises(ValueError, match="schedule must be given"):
        rs.Learner.restore(stored)
    copy = rs.Learner.restore(stored, Asked(rs.DeterminantGrowth(eta=2.5)))
    assert copy.snapshot() == stored
    later = [ragged_learning(each, seed=10, start=12, stop=20) for each in (copy, named)]
    assert later[0] == later[1]


def test_a_schedule_given_to_restore_replaces_the_stored_one():
    copy = rs.Learner.restore(make(rs.EveryEpisode()).snapshot(), rs.DeterminantGrowth(eta=3.0))
    assert copy.schedule == rs.DeterminantGrowth(eta=3.0)


def test_bytes_that_are_not_a_snapshot_are_refused():
    stored = make().snapshot()
    with pytest.raises(ValueError, match="checksum"):
        rs.Learner.restore(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(ValueError, match="data must hold a learner; got a policy"):
        rs.Learner.restore(make().policy.to_bytes())
    with pytest.raises(ValueError, match="something else"):
        rs.Learner.restore(b"")


@pytest.mark.parametrize(
    ("episode", "error", "message"),
    [
        (
            lambda: ragged_episode(np.random.default_rng(0), horizon=4, dim=3, steps=4),
            ValueError,
            "episode must have at most 3 steps; got 4",
        ),
        (
            lambda: ragged_episode(np.random.default_rng(0), horizon=3, dim=2),
            ValueError,
            "episode must have features of dimension 3; got 2",
        ),
        (lambda: {"features": []}, TypeError, "episode must be an Episode; got dict"),
        (lambda: None, TypeError, "episode must be an Episode; got NoneType"),
    ],
)
def test_a_bad_episode_is_refused_and_leaves_the_learner_as_it_was(episode, error, message):
    learner = make()
    ragged_learning(learner, seed=11, start=0, stop=5)
    before = learner.snapshot()
    with pytest.raises(error, match=message):
        learner.observe(episode())
    assert learner.snapshot() == before


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"ridge": 0.0}, ValueError, "ridge must be a finite number above 0; got 0.0"),
        ({"ridge": -1.0}, ValueError, "ridge must be a finite number above 0; got -1.0"),
        ({"ridge": np.inf}, ValueError, "ridge must be a finite number above 0; got inf"),
        ({"beta": -0.1}, ValueError, "beta must be a finite number at least 0; got -0.1"),
        ({"beta": np.nan}, ValueError, "beta must be a finite number at least 0; got nan"),
        ({"dim": 0}, ValueError, "dim must be at least 1; got 0"),
        ({"horizon": 0}, ValueError, "horizon must be at least 1; got 0"),
        ({"horizon": 2.0}, TypeError, "horizon must be a whole number"),
        ({"ties": "random"}, ValueError, "ties must be one of 'direction', 'lowest'"),
        ({"schedule": "every"}, TypeError, "schedule must have a method due.*got 'every'"),
        ({"seed": -3}, ValueError, "seed must be at least 0; got -3"),
    ],
)
def test_a_bad_argument_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        make(**changes)


@pytest.mark.parametrize(
    "rule",
    [
        rs.UniformGrid(episodes=np.int64(10), batches=np.int64(2)),
        rs.DeterminantGrowth(eta=np.float32(2.0)),
    ],
)
def test_a_rule_made_of_numpy_numbers_can_be_stored(rule):
    learner = rs.Learner(dim=2, horizon=1, schedule=rule)
    assert rs.Learner.restore(learner.snapshot()).snapshot() == learner.snapshot()
