"""A learner of a wide table costs what it has seen, resumes exactly, and works everywhere else."""

import copy
import pickle

import numpy as np
import pytest

import rareswitch as rs
from oracles import cheap
from rareswitch.core.task import WIDE
from rareswitch.core.wide_table import WideTable
from rareswitch.statistics import WideHistory, history_of
from rareswitch.support import codec

DIM, ACTIONS, H = 10**6, 4, 5
STAGES = pytest.mark.parametrize("stages", ["own", "shared", "auto"])


def menu(state):
    """Return the positions of a state: neighbouring states are far apart."""
    return state * 7919 % (DIM // ACTIONS) * ACTIONS + np.arange(ACTIONS)


def play(learner, seed, episodes, *, states=12):
    """Observe episodes of the learner's own policies; return whether each led to a switch."""
    rng, switched = np.random.default_rng(seed), []
    for k in range(episodes):
        member, state = learner.policy.draw(f"{seed}/{k}"), int(rng.integers(states))
        features, rewards, following = [], [], []
        for h in range(int(rng.integers(1, H + 1))):
            action = member.act(h, menu(state))
            features.append(menu(state)[action])
            rewards.append(float(rng.random() < 0.2 + 0.2 * action))
            state = (3 * state + action) % states
            following.append(menu(state))
        last = len(features) - (len(features) == H or k % 2)
        episode = rs.Episode(features=features, rewards=rewards, next_features=following[:last])
        switched.append(learner.observe(episode))
        if k % 5 == 4:
            learner.correct(episode, None)
    return switched


def learner_of(stages="own", exploration=None, **changes):
    task = rs.Task(dim=DIM, horizon=H, one_hot=True, stages=stages)
    explores = rs.Ensemble(3) if exploration is None else exploration
    recipe = rs.Recipe(exploration=explores, seed=(4, 2), **changes)
    return rs.Learner(task, rs.DeterminantGrowth(eta=4.0), recipe)


def test_only_large_tables_are_wide():
    assert [rs.Task(dim=dim, horizon=2, one_hot=True).wide for dim in (WIDE, WIDE + 1)] == [0, 1]
    assert not rs.Task(dim=WIDE + 1, horizon=2).wide
    narrow = rs.Learner(rs.Task(dim=99, horizon=2, one_hot=True), rs.EveryEpisode())
    assert (narrow.policy.table, narrow.policy.weights.shape) == (None, (32, 2, 99))
    assert isinstance(history_of(learner_of().task), WideHistory)


@STAGES
def test_a_wide_learner_costs_what_it_has_seen(stages):
    with cheap(megabytes=4.0, seconds=30.0):
        learner = learner_of(stages)
        play(learner, seed=1, episodes=60)
        assert len(learner.ledger) > 3
        assert len(learner.snapshot()) < 200_000
        assert len(learner.policy.to_bytes()) < 20_000
        learner.health(), learner.recommend(), rs.Learner.restore(learner.snapshot())
    assert learner.policy.dim == DIM
    assert learner.policy.weights.shape == (3, H, len(learner.policy.table.positions) + 1)
    assert len(learner.policy.table.positions) <= 12 * ACTIONS


@STAGES
@pytest.mark.parametrize(
    "exploration",
    [rs.Ensemble(3), rs.Bonus(0.5, members=2), rs.Perturbation(0.5, draws=2)],
    ids=repr,
)
def test_a_wide_learner_resumes_byte_for_byte(stages, exploration):
    straight, stopped = (learner_of(stages, exploration) for _ in range(2))
    for part in range(4):
        assert play(straight, part, 15) == play(stopped, part, 15)
        assert stopped.snapshot() == straight.snapshot()
        data = stopped.snapshot() if part % 2 else pickle.dumps(stopped)
        stopped = rs.Learner.restore(data) if part % 2 else pickle.loads(data)
    assert stopped.fit().digest == straight.fit().digest == copy.copy(straight).fit().digest
    assert stopped.recommend().digest == straight.recommend().digest
    assert stopped.health() == straight.health()
    assert len(straight.ledger) > 3


def test_an_untried_action_of_a_wide_table_is_tried():
    learner = learner_of("shared")
    play(learner, seed=2, episodes=60)
    assert learner.health().good
    policy, unseen = learner.policy, np.arange(ACTIONS) + DIM - ACTIONS
    assert (policy.table.columns(unseen) == len(policy.table.positions)).all()
    values = policy.q_values(0, unseen)
    assert values.shape == (3, ACTIONS)
    assert len(np.unique(values.round(6))) > ACTIONS
    greedy = learner.recommend()
    assert len({*greedy.q_values(0, unseen).tolist()}) == 1
    assert greedy.act(0, unseen) == 0


def test_an_exploration_of_the_users_own_is_refused_for_a_wide_table():
    class Own(rs.Ensemble):
        members, draws, beta, estimate = 2, 1, 0.0, False

        def perturbations(self, rng, horizon, dim):
            return np.zeros((2, horizon, 1, dim))

    with pytest.raises(TypeError, match="exploration must be a Bonus, a Perturbation or an Ensemb"):
        learner_of(exploration=Own())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: arrays.pop("counts/places"), "it has no counts/places"),
        (lambda arrays: arrays.pop("rewards/numbers"), "it has no rewards/numbers"),
        (lambda arrays: arrays.update(counts=np.zeros(3)), "unknown counts"),
        (lambda arrays: arrays["counts/places"].__setitem__(0, -1), "places of counts must be asc"),
        (lambda arrays: arrays["counts/places"].__setitem__(-1, H * DIM), "from 0 to 4999999"),
        (lambda arrays: arrays["counts/places"].__setitem__(1, 0), "places of counts must be asc"),
        (lambda arrays: arrays["rewards/places"].__setitem__(0, -1), "places of rewards must be"),
        (lambda arrays: arrays["counts/numbers"].__setitem__(0, -2.0), "counts must be at least 0"),
        (lambda arrays: arrays["counts/numbers"].__setitem__(0, np.inf), "finite numbers"),
        (
            lambda arrays: arrays.update({"counts/numbers": np.ones(2)}),
            "counts/numbers is <f8 of shape",
        ),
        (lambda arrays: arrays["moves/0/positions"].__setitem__(0, DIM), "positions must be from"),
    ],
)
def test_an_altered_snapshot_of_a_wide_table_is_refused(change, message):
    learner = learner_of()
    play(learner, seed=3, episodes=20)
    parts = codec.unpack("learner", learner.snapshot())
    arrays = {name: array.copy() for name, array in parts.arrays.items()}
    change(arrays)
    with pytest.raises(ValueError, match=f"data must be a learner.*{message}"):
        rs.Learner.restore(codec.pack("learner", parts.meta, arrays))


def test_a_table_of_another_size_does_not_fit_the_task():
    learner = learner_of()
    other = rs.Policy(
        weights=np.zeros((H, 1)),
        one_hot=True,
        table=WideTable(dim=DIM - 1, positions=np.arange(0), seed=1),
    )
    with pytest.raises(ValueError, match="dim 1000000; got 5 and 999999"):
        learner.deploy(other)
