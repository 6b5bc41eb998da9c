import copy
import pickle
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

import rareswitch as rs
from oracles import (
    Starts,
    cheap,
    clock_at,
    in_rows,
    interrupted,
    position_episode,
    ragged_episode,
    ragged_learning,
    reference_q,
    unit_rows,
)
from rareswitch.core.policy import fit
from rareswitch.statistics import history_of

RULES = {
    "every": rs.EveryEpisode(),
    "grid": rs.UniformGrid(batches=9, spread="balanced"),
    "growth": rs.DeterminantGrowth(eta=2.5),
}


TASK_FIELDS = {field.name for field in fields(rs.Task)}


def learner_of(schedule, warm_start, changes, **defaults):
    """Return a learner with these changes of its task and of its recipe."""
    given = defaults | changes
    task = rs.Task(**{name: value for name, value in given.items() if name in TASK_FIELDS})
    rest = {name: value for name, value in given.items() if name not in TASK_FIELDS}
    if "exploration" in rest:
        rest.pop("beta", None)
        recipe = rs.Recipe(**rest)
    else:
        recipe = rs.Recipe.paper(**rest)
    return rs.Learner(task, schedule, recipe, warm_start=warm_start)


def make(schedule=None, *, warm_start=(), **changes):
    return learner_of(
        schedule or RULES["growth"],
        warm_start,
        changes,
        dim=3,
        horizon=3,
        episodes=60,
        beta=0.7,
        ridge=0.5,
        seed=(4, 2),
    )


def test_the_first_policy_is_fitted_on_no_data():
    learner = make()
    assert (len(learner.ledger), learner.episodes) == (1, 0)
    assert learner.ledger[0].digest == learner.policy.digest
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
        before, versions = learner.policy, len(learner.ledger)
        switched = learner.observe(episode)
        for h, feature in enumerate(episode.features):
            gram[h] += np.outer(feature, feature)
        logdet = np.linalg.slogdet(gram)[1]
        shown = clock_at(
            logdet - deployed,
            task=learner.task,
            episode=k + 1,
            deployed_at=since,
            logdet=deployed,
        )
        assert switched is rule.due(shown)
        if switched:
            deployed, trace, since = logdet, np.trace(gram, axis1=1, axis2=2), k + 1
        assert (learner.policy is not before) == switched
        assert len(learner.ledger) == versions + switched
        assert learner.episodes == k
        assert learner.clock.episode == k + 1
        np.testing.assert_allclose(learner.clock.logdet, logdet, atol=1e-9)
        np.testing.assert_allclose(learner.clock.logdet_deployed, deployed, atol=1e-9)
        np.testing.assert_allclose(learner.clock.trace_deployed, trace, rtol=1e-12)
        clock = learner.clock
        assert (clock.deployed_at, clock.deployments) == (since, len(learner.ledger))
        assert clock.task is learner.task
        last = learner.ledger[-1]
        assert (last.version, last.episode, last.digest) == (
            len(learner.ledger),
            since,
            learner.policy.digest,
        )


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


def test_a_clock_cannot_change_its_learner():
    for one_hot in (False, True):
        for stages in ("own", "shared"):
            learner = make(one_hot=one_hot, stages=stages)
            features = [1] if one_hot else [[1.0, 0.0, 0.0]]
            for _ in range(2):
                clock = learner.clock
                for array in (clock.logdet, clock.logdet_deployed, clock.trace_deployed):
                    with pytest.raises(ValueError, match="read-only"):
                        array[:] = 99.0
                learner.observe(rs.Episode(features=features, rewards=[1.0], next_features=[]))


def test_recommendations_carry_no_bonus_and_all_data():
    learner = make(Starts([]), ties="lowest")
    rng = np.random.default_rng(2)
    episodes = [ragged_episode(rng, horizon=3, dim=3) for _ in range(30)]
    for episode in episodes:
        learner.observe(episode)
    assert len(learner.ledger) == 1
    advice = learner.recommend()
    assert (advice.beta, advice.directions) == (0.0, None)
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


TASK = rs.Task(dim=3, horizon=3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (({"dim": 3}, RULES["growth"]), TypeError, "task must be a Task; got {'dim': 3}"),
        ((None, RULES["growth"]), TypeError, "task must be a Task; got None"),
        ((3, RULES["growth"]), TypeError, "task must be a Task; got 3"),
        ((TASK, None), TypeError, r"schedule must have a method due\(clock\) -> bool; got None"),
        ((TASK, TASK), TypeError, r"schedule must have a method due"),
        ((TASK, RULES["growth"], rs.Bonus(1.0)), TypeError, "recipe must be a Recipe"),
        ((TASK,), TypeError, "schedule"),
        ((), TypeError, "task"),
        (
            (rs.Task(dim=10**6 + 1, horizon=1, one_hot=True), RULES["growth"], rs.Recipe.paper()),
            ValueError,
            "dim must be from 1 to 1000000; got 1000001",
        ),
    ],
)
def test_a_bad_argument_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        rs.Learner(*arguments)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            rs.Task(dim=10**6, horizon=10),
            "dim × dim Λ of dim = 1000000 and horizon = 10, with policies of 32 members",
        ),
        (rs.Task(dim=10**6, horizon=10, stages="shared"), "dim = 1000000 and horizon = 10"),
        (
            rs.Task(dim=2**12, horizon=10**6, one_hot=True),
            "^Λ of dim = 4096 and horizon = 1000000",
        ),
    ],
    ids=repr,
)
def test_a_learner_that_no_memory_holds_is_refused_at_once(task, message):
    with (
        cheap(megabytes=1.0, seconds=1.0),
        pytest.raises(MemoryError, match=message + ".* need about .* GB; this machine has .* GB"),
    ):
        rs.Learner(task, RULES["growth"])


def test_a_learner_has_no_sizes_of_its_own():
    learner = make()
    assert (learner.task.dim, learner.task.horizon, learner.task.episodes) == (3, 3, 60)
    assert learner.recipe == rs.Recipe.paper(beta=0.7, ridge=0.5, seed=(4, 2))
    for gone in ("dim", "horizon", "stages", "one_hot", "end_reward", "planned_episodes"):
        assert not hasattr(learner, gone)
    for name in ("task", "schedule", "recipe", "ledger", "policy", "clock", "due", "episodes"):
        with pytest.raises(AttributeError):
            setattr(learner, name, None)


EXPLORATIONS = [
    rs.Bonus(0.7),
    rs.Bonus(0.7, members=3),
    rs.Perturbation(0.5, draws=3),
    rs.Ensemble(members=4),
]


def log_of(seed, count=20):
    rng = np.random.default_rng(seed)
    return [ragged_episode(rng, horizon=3, dim=3) for _ in range(count)]


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
def test_fitting_changes_nothing_and_gives_the_same_bytes_again(exploration):
    learner = make(exploration=exploration)
    for episode in log_of(1):
        learner.absorb(episode)
        before = learner.snapshot()
        first = learner.fit()
        assert learner.fit().to_bytes() == first.to_bytes()
        assert learner.snapshot() == before


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
def test_a_candidate_that_is_dropped_leaves_no_trace(exploration):
    quiet, asked = (make(RULES["every"], exploration=exploration) for _ in range(2))
    for episode in log_of(2):
        asked.absorb(episode)
        for _ in range(3):
            asked.fit()
        asked.deploy(asked.fit())
        quiet.observe(episode)
        assert asked.policy.to_bytes() == quiet.policy.to_bytes()
        assert asked.snapshot() == quiet.snapshot()


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_observe_is_absorb_due_fit_deploy(rule, exploration):
    whole, steps = (make(rule, exploration=exploration) for _ in range(2))
    for episode in log_of(3, 25):
        switched = whole.observe(episode)
        steps.absorb(episode)
        due = steps.due
        if due:
            deployment = steps.deploy(steps.fit())
            assert deployment is steps.ledger[-1]
        assert switched is due
        assert whole.snapshot() == steps.snapshot()


def test_a_policy_may_be_deployed_after_more_episodes_came():
    learner, log = make(Starts([])), log_of(4, 8)
    for episode in log[:5]:
        learner.absorb(episode)
    candidate = learner.fit()
    for episode in log[5:]:
        learner.absorb(episode)
    assert learner.policy is not candidate
    deployment = learner.deploy(candidate)
    assert learner.policy is candidate
    assert (deployment.version, deployment.episode) == (2, 9)
    assert deployment.digest == candidate.digest
    # Growth counts from the deployment, not from what the candidate was fitted on.
    assert (learner.clock.logdet_deployed == learner.clock.logdet).all()
    assert (learner.clock.growth == 0.0).all()
    late = make(Starts([]))
    for episode in log:
        late.absorb(episode)
    late.deploy(candidate)
    assert late.snapshot() == learner.snapshot()


def test_a_policy_of_other_sizes_is_not_deployed():
    learner = make()
    before = learner.snapshot()
    for changes in ({"dim": 2}, {"horizon": 2}):
        other = make(**changes).policy
        with pytest.raises(ValueError, match="policy must have horizon 3 and dim 3; got"):
            learner.deploy(other)
    with pytest.raises(TypeError, match="policy must be a Policy; got bytes"):
        learner.deploy(other.to_bytes())
    assert learner.snapshot() == before


def test_after_the_last_episode_nothing_is_due():
    for K in (1, 2, 7):
        learner = make(rs.EveryEpisode(), episodes=np.int32(K))
        switched = [learner.observe(episode) for episode in log_of(5, K + 3)]
        assert switched == [True] * (K - 1) + [False] * 4
        assert [deployment.episode for deployment in learner.ledger] == list(range(1, K + 1))
        assert learner.task.episodes == K


def test_an_open_ended_task_has_no_last_episode():
    learner = make(rs.EveryEpisode(), episodes=None)
    assert all(learner.observe(episode) for episode in log_of(5, 70))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_absorbing_several_episodes_is_absorbing_each(rule):
    one_by_one, at_once, log = make(rule), make(rule), log_of(8, 12)
    for episode in log:
        one_by_one.absorb(episode)
    at_once.absorb(*log[:5])
    at_once.absorb()
    at_once.absorb(*log[5:])
    assert at_once.snapshot() == one_by_one.snapshot()
    assert (at_once.due, at_once.clock) == (one_by_one.due, one_by_one.clock)


def test_of_several_episodes_all_are_absorbed_or_none():
    learner, log = make(), log_of(9, 6)
    learner.absorb(*log[:2])
    before = learner.snapshot()
    for wrong, error in (
        (ragged_episode(np.random.default_rng(0), horizon=3, dim=2), ValueError),
        ("episode", TypeError),
    ):
        for several in ((*log[2:], wrong), (wrong, *log[2:]), (*log[2:4], wrong, *log[4:])):
            with pytest.raises(error, match="episode must"):
                learner.absorb(*several)
            assert learner.snapshot() == before
    learner.absorb(*log[2:])
    other = make()
    other.absorb(*log)
    assert learner.snapshot() == other.snapshot()


def test_a_learner_may_be_amended_and_keeps_its_data():
    learner, log = make(rs.EveryEpisode(), episodes=20), log_of(3, 20)
    for episode in log[:6]:
        learner.observe(episode)
    before, history = learner.snapshot(), learner.recommend().digest
    learner.amend()
    assert learner.snapshot() == before
    learner.amend(schedule=rs.UniformGrid(batches=3), episodes=12)
    assert learner.task == replace(make().task, episodes=12)
    assert learner.schedule == rs.UniformGrid(batches=3)
    assert (learner.episodes, len(learner.ledger)) == (6, 7)
    assert learner.recommend().digest == history
    switched = [learner.observe(episode) for episode in log[6:15]]
    assert [d.episode for d in learner.ledger][7:] == [9]  # dates 1, 5 and 9 of 12 episodes
    assert sum(switched) == 1
    restored = rs.Learner.restore(learner.snapshot())
    assert (restored.task, restored.schedule) == (learner.task, learner.schedule)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"schedule": rs.EveryEpisode}, TypeError, "schedule must be an instance"),
        ({"schedule": "every"}, TypeError, "schedule must have a method due"),
        ({"schedule": rs.UniformGrid(batches=61)}, ValueError, "batches must be from 1 to 60"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"episodes": 2.0}, TypeError, "episodes must be a whole number"),
        ({"schedule": rs.UniformGrid(batches=9), "episodes": 5}, ValueError, "from 1 to 5; got 9"),
    ],
)
def test_a_bad_amendment_is_refused_and_changes_nothing(changes, error, message):
    learner = make()
    learner.observe(log_of(1)[0])
    before = learner.snapshot()
    with pytest.raises(error, match=message):
        learner.amend(**changes)
    assert learner.snapshot() == before
    assert learner.schedule is RULES["growth"]


def failing(error):
    """Return a rule that raises in its third answer."""
    answers = []

    class Failing:
        def due(self, clock):
            answers.append(clock.episode)
            if len(answers) == 3:
                raise error
            return True

    return Failing()


def unsteady(error=None):
    """Return an exploration that fails in its fourth fit: by an error, or by infinite numbers."""
    fits = []

    class Unsteady:
        beta, members, draws, estimate = 0.7, 1, 1, False

        def perturbations(self, rng, horizon, dim):
            fits.append(dim)
            if len(fits) == 4 and error is not None:
                raise error
            return np.full((1, horizon, 1, dim), np.inf if len(fits) == 4 else 0.0)

    return Unsteady()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"schedule": failing(ZeroDivisionError("mine"))}, ZeroDivisionError, "mine"),
        ({"schedule": failing(KeyboardInterrupt())}, KeyboardInterrupt, "^$"),
        (
            {"schedule": rs.EveryEpisode(), "exploration": unsteady()},
            ValueError,
            "perturbations must be finite; got inf",
        ),
        (
            {"schedule": rs.EveryEpisode(), "exploration": unsteady(ZeroDivisionError("mine"))},
            ZeroDivisionError,
            "mine",
        ),
        (
            {"schedule": rs.EveryEpisode(), "exploration": unsteady(KeyboardInterrupt())},
            KeyboardInterrupt,
            "^$",
        ),
    ],
    ids=["rule", "interrupted rule", "fit", "exploration", "interrupted exploration"],
)
def test_what_raises_leaves_the_learner_as_it_was_and_a_retry_counts_once(changes, error, message):
    learner, log = make(**changes), log_of(6, 5)
    # Met before, in another order: a known state, which a retry must find again.
    log[2] = rs.Episode(
        features=log[0].features,
        rewards=log[0].rewards,
        next_features=[rows[::-1].copy() for rows in log[0].next_features],
    )
    for episode in log[:2]:
        learner.observe(episode)
    before = learner.snapshot()
    with pytest.raises(error, match=message):
        learner.observe(log[2])
    assert learner.snapshot() == before
    assert (learner.episodes, len(learner.ledger)) == (2, 3)
    for episode in log[2:]:
        assert learner.observe(episode) is True
    smooth = make(rs.EveryEpisode(), **{k: v for k, v in changes.items() if k != "schedule"})
    for episode in log:
        smooth.observe(episode)
    assert smooth.policy.to_bytes() == learner.policy.to_bytes()
    assert smooth.ledger == learner.ledger


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda learner: pickle.loads(pickle.dumps(learner)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(
    "rule",
    [*RULES.values(), Starts([4, 9]), rs.rules.Capped(Starts([4, 9]), 1)],
    ids=[*RULES, "own", "capped own"],
)
def test_a_copy_goes_on_byte_for_byte_and_shares_nothing(rule, copied):
    learner, log = make(rule), log_of(7)
    for episode in log[:8]:
        learner.observe(episode)
    before = learner.snapshot()
    twin = copied(learner)
    assert twin.snapshot() == before
    for episode in log[8:]:
        twin.observe(episode)
    assert learner.snapshot() == before
    for episode in log[8:]:
        learner.observe(episode)
    assert twin.snapshot() == learner.snapshot()
    assert twin.policy.digest == learner.policy.digest


def test_a_learner_tells_what_it_is():
    learner = make(rs.DeterminantGrowth(eta=np.float32(2.5)))
    learner.observe(log_of(1)[0])
    assert repr(learner) == (
        "Learner(Task(dim=3, horizon=3, episodes=60), DeterminantGrowth(eta=2.5), episodes=1, "
        f"version={len(learner.ledger)})"
    )


def test_the_rows_that_a_fit_values_are_counted():
    learner = rs.Learner(rs.Task(dim=2, horizon=3, feature_norm=2.0), rs.EveryEpisode())
    rng = np.random.default_rng(0)
    repeated = rs.Episode(features=np.eye(2), rewards=[0, 1], next_features=[np.eye(2)])
    for expected in (2, 2, 2):
        learner.observe(repeated)
        assert learner.stored_rows == expected
    for expected in (5, 8):  # a state that was never seen before
        rows = rng.random((3, 2))
        learner.observe(rs.Episode(features=np.eye(2), rewards=[0, 1], next_features=[rows]))
        assert learner.stored_rows == expected
    assert rs.Learner.restore(learner.snapshot()).stored_rows == 8


@pytest.mark.parametrize("known", [True, False])
def test_an_interruption_at_any_line_leaves_the_learner_whole(known):
    rows = np.array([[0.6, 0.8], [0.8, 0.6]])
    seen, new = (
        rs.Episode(features=rows, rewards=[0.5, 1.0], next_features=[following])
        for following in (rows, rows / 2)
    )
    base = rs.Learner(rs.Task(dim=2, horizon=2), rs.EveryEpisode())
    base.observe(seen)
    before, done = base.snapshot(), copy.deepcopy(base)
    episode = seen if known else new
    done.observe(episode)
    lines, taken_back, goes_on = int(known) - 2, 0, True
    while goes_on:
        lines += 3  # odd and even lines alike, in a third of the time
        learner = rs.Learner.restore(before)
        goes_on = interrupted(partial(learner.observe, episode), lines)
        assert learner.snapshot() in (before, done.snapshot()), lines
        taken_back += learner.snapshot() == before
    assert taken_back > 33


class Kept(rs.Learner):
    """A learner of one's own."""


def test_copies_of_a_learner_of_ones_own_are_of_its_kind():
    assert type(copy.deepcopy(Kept(rs.Task(dim=2, horizon=1), rs.EveryEpisode()))) is Kept


def test_features_longer_than_the_task_says_are_refused():
    for schedule in (rs.SpreadBudget(switches=3), rs.rules.Capped(rs.EveryEpisode(), 2)):
        task = rs.Task(dim=2, horizon=1, episodes=9, feature_norm=0.5)
        learner = rs.Learner(task, schedule)
        long = rs.Episode(features=[[0.3, 0.41]], rewards=[1.0], next_features=[])
        with pytest.raises(ValueError, match=r"no longer than feature_norm = 0\.5; got"):
            learner.observe(long)
        rounded = rs.Episode(features=[[0.5 + 1e-12, 0.0]], rewards=[1.0], next_features=[])
        learner.observe(rounded)
        rs.Learner(replace(task, feature_norm=2.0), schedule).observe(long)


# Stages that share, features by position, ends that are worth something, and a warm start.

KINDS = [
    {"stages": stages, "one_hot": one_hot}
    for stages in ("own", "shared")
    for one_hot in (True, False)
]
BY_KIND = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: f"{kind['stages']}-{'one_hot' if kind['one_hot'] else 'rows'}"
)


def made(kind, schedule=None, *, warm_start=(), **changes):
    return learner_of(
        schedule or RULES["growth"],
        warm_start,
        kind | changes,
        dim=4,
        horizon=3,
        exploration=rs.Ensemble(3),
        seed=7,
    )


def small_log(seed, count, *, one_hot, **rest):
    """Return episodes in which few states are met again, their actions in another order."""
    rng = np.random.default_rng(seed)
    sizes = {"horizon": 3, "states": 2, "actions": 2} | rest
    log = [position_episode(rng, **sizes) for _ in range(count)]
    return log if one_hot else [in_rows(episode, 4) for episode in log]


@BY_KIND
def test_a_warm_start_is_absorbed_before_the_first_policy_and_not_counted(kind):
    warm, log = small_log(1, 6, one_hot=kind["one_hot"]), small_log(2, 12, one_hot=kind["one_hot"])
    learner = made(kind, warm_start=iter(warm), end_reward=0.2)
    assert (learner.episodes, learner.clock.episode, len(learner.ledger)) == (0, 1, 1)
    assert learner.ledger[0].episode == 1
    assert learner.policy.weights.any()
    assert learner.health().reach is not None
    absorbed = made(kind, Starts([]), end_reward=0.2)
    for episode in warm:
        absorbed.absorb(episode)
    np.testing.assert_array_equal(learner.clock.logdet, absorbed.clock.logdet)
    np.testing.assert_array_equal(learner.ledger[0].logdet, absorbed.clock.logdet)
    assert (learner.clock.growth == 0.0).all()
    assert learner.recommend().to_bytes() == absorbed.recommend().to_bytes()
    cold = made(kind, end_reward=0.2)
    assert (cold.policy.directions == learner.policy.directions).all()  # version 1 of the seed
    for k, episode in enumerate(log, start=1):
        learner.observe(episode)
        absorbed.observe(episode)
        assert (learner.episodes, absorbed.episodes) == (k, k + 6)
        assert learner.recommend().to_bytes() == absorbed.recommend().to_bytes()
    assert len(learner.ledger) > 1
    assert learner.ledger[-1].episode <= 13


@BY_KIND
def test_the_first_version_is_the_fit_on_the_warm_start(kind):
    warm = small_log(1, 6, one_hot=kind["one_hot"])
    learner = made(kind, warm_start=warm)
    history = history_of(rs.Task(dim=4, horizon=3, **kind), log=warm)
    assert learner.policy.to_bytes() == fit(history, learner.recipe, version=1).to_bytes()


@BY_KIND
@pytest.mark.parametrize("warm", [0, 5])
def test_a_learner_of_any_kind_resumes_byte_for_byte(kind, warm):
    log = small_log(3, 24, one_hot=kind["one_hot"])
    learner = made(kind, warm_start=log[:warm], end_reward=0.4, episodes=15, seed=10 ** (warm + 3))
    for k, episode in enumerate(log[5:], start=1):
        twin = (rs.Learner.restore(learner.snapshot()), copy.deepcopy(learner))[k % 2]
        for name in ("task", "schedule", "recipe", "episodes", "ledger", "clock"):
            assert getattr(twin, name) == getattr(learner, name), name
        assert twin.snapshot() == learner.snapshot()
        assert twin.observe(episode) is learner.observe(episode)
        assert twin.snapshot() == learner.snapshot()
        learner = twin
    assert learner.episodes == 19
    assert max(deployment.episode for deployment in learner.ledger) <= 15


def test_a_warm_start_does_not_use_up_the_episodes_of_the_task():
    warm, log = log_of(1, 10), log_of(2, 8)
    learner = make(RULES["every"], episodes=5, warm_start=warm)
    switched = [learner.observe(episode) for episode in log]
    assert switched == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("warm_start", "error", "message"),
    [
        (5, TypeError, "warm_start must be episodes; got 5"),
        (None, TypeError, "warm_start must be episodes; got None"),
        (["x"], TypeError, "episode must be an Episode; got str"),
        (
            [rs.Episode(features=[0], rewards=[1.0], next_features=[])],
            ValueError,
            "episode must have rows of features; got positions",
        ),
        (
            [rs.Episode(features=np.eye(2), rewards=[1.0, 0.0], next_features=[np.eye(2)])],
            ValueError,
            "episode must have features of dimension 3; got 2",
        ),
    ],
)
def test_a_bad_warm_start_is_refused(warm_start, error, message):
    with pytest.raises(error, match=message):
        make(warm_start=warm_start)


class Balks:
    """A rule that raises before some episodes, once each."""

    def __init__(self, *episodes):
        self.left = set(episodes)

    def due(self, clock):
        if clock.episode in self.left:
            self.left.remove(clock.episode)
            raise KeyboardInterrupt
        return clock.episode % 3 == 0


@BY_KIND
def test_an_episode_that_was_interrupted_leaves_no_trace_then_or_later(kind):
    for seed in range(8):
        log = small_log(seed, 14, steps=3, one_hot=kind["one_hot"], states=1, actions=4)
        tried = made(kind, schedule=Balks(2, 3, 4, 6, 9))
        plain = made(kind, schedule=Balks())
        for k, episode in enumerate(log, start=1):
            try:
                tried.observe(log[-k])  # another episode: it comes to nothing, or it counts
            except KeyboardInterrupt:
                tried.observe(episode)
                plain.observe(episode)
            else:
                plain.observe(log[-k])
            assert tried.clock == plain.clock
            assert tried.policy.to_bytes() == plain.policy.to_bytes()
        assert [d.episode for d in tried.ledger] == [d.episode for d in plain.ledger]


def test_a_list_of_episodes_is_refused_with_the_right_call():
    learner = make()
    with pytest.raises(TypeError, match=r"separate arguments, as in absorb\(\*episodes\); got \["):
        learner.absorb([])
    assert learner.episodes == 0


def absorbed_by(learner):
    """Return an episode that the learner below has absorbed."""
    return small_log(5, 6, one_hot=learner.task.one_hot, steps=3)[1]


DOES = {
    "observe": lambda learner, episode: learner.observe(episode),
    "absorb": lambda learner, episode: learner.absorb(episode),
    "absorb several": lambda learner, episode: learner.absorb(episode, episode),
    "correct": lambda learner, episode: learner.correct(absorbed_by(learner), episode),
    "withdraw": lambda learner, episode: learner.correct(absorbed_by(learner), None),
    "fit": lambda learner, episode: learner.fit(),
    "snapshot": lambda learner, episode: learner.snapshot(),
    "recommend": lambda learner, episode: learner.recommend(),
    "amend": lambda learner, episode: learner.amend(schedule=rs.EveryEpisode(), episodes=99),
    "deploy": lambda learner, episode: learner.deploy(learner.policy),
}


@BY_KIND
@pytest.mark.parametrize("what", DOES)
def test_an_interruption_at_any_line_leaves_all_or_nothing_and_the_learner_goes_on(kind, what):
    """Also with episodes that wait, and a schedule that is due."""
    log, do = small_log(5, 6, one_hot=kind["one_hot"], steps=3), DOES[what]
    recipe = {"exploration": rs.Bonus(0.5)}

    def start():
        learner = made(kind, rs.EveryEpisode(), episodes=50, **recipe)
        learner.observe(log[0])
        learner.absorb(log[1], log[2])
        return learner

    def go_on(learner):
        learner.observe(log[4])
        learner.observe(log[5])
        return learner.snapshot()

    untouched, done = start(), start()
    do(done, log[3])
    before, after = untouched.snapshot(), done.snapshot()
    later = {before: go_on(untouched), after: go_on(done)}
    place = KINDS.index(kind)  # other lines for each kind, and all lines of the learner by some
    for within, step, lines in (
        ("learning/learner.py", 3, 1 + place % 3),
        ("rareswitch", 21, 1 + 5 * place),
    ):
        seen, goes_on = set(), True
        while goes_on:
            learner = start()
            goes_on = interrupted(partial(do, learner, log[3]), lines, within)
            found = learner.snapshot()
            assert found in later, lines
            seen.add(found)
            assert go_on(learner) == later[found], lines
            assert goes_on or found == after
            lines += step
        assert before in seen
        assert lines > 3


# Corrections of absorbed episodes.


@BY_KIND
@pytest.mark.parametrize("warm", [0, 4])
@pytest.mark.parametrize(
    "exploration", [rs.Bonus(0.5), rs.Bonus(0.5, estimate=True), rs.Ensemble(3)], ids=repr
)
def test_a_corrected_learner_fits_the_corrected_log_and_keeps_its_dates(kind, warm, exploration):
    rng, changes = np.random.default_rng(3), {"end_reward": 0.3, "exploration": exploration}
    log = small_log(3, 24, one_hot=kind["one_hot"])
    learner = made(kind, Starts([4, 9, 17]), warm_start=log[:warm], **changes)
    for episode in log[warm:]:
        learner.observe(episode)
    before, policy = learner.clock, learner.policy.digest
    ledger = list(learner.ledger)
    now = list(log)
    for i in (0, 5, 11, 23):
        now[i] = replace(log[i], rewards=rng.random(len(log[i])))
        learner.correct(log[i], now[i])
    for i, new in zip((2, 7, 20), small_log(4, 3, one_hot=kind["one_hot"]), strict=True):
        now[i] = new
        learner.correct(log[i], new)
    for i in (1, 8):
        now[i] = None
        learner.correct(log[i], None)
    [again] = small_log(6, 1, one_hot=kind["one_hot"])
    learner.correct(now[5], again)  # a correction of a correction
    now[5] = again
    assert (learner.episodes, learner.clock.episode) == (24 - warm, before.episode)
    assert (list(learner.ledger), learner.policy.digest) == (ledger, policy)
    assert (learner.clock.logdet_deployed == before.logdet_deployed).all()
    other = made(kind, Starts([]), **changes)
    other.absorb(*(episode for episode in now if episode is not None))
    np.testing.assert_allclose(learner.clock.logdet, other.clock.logdet, atol=1e-9)
    found, wanted = learner.recommend(), other.recommend()
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-9, atol=1e-9)
    assert learner.due is False


@BY_KIND
def test_a_correction_that_is_refused_changes_nothing(kind):
    log = small_log(3, 6, one_hot=kind["one_hot"])
    learner = made(kind)
    learner.absorb(*log)
    before = learner.snapshot()
    for old, new, error in (
        (log[0], "episode", TypeError),
        (None, log[0], TypeError),
        (log[0], small_log(1, 1, one_hot=not kind["one_hot"])[0], ValueError),
        (log[0], small_log(1, 1, one_hot=kind["one_hot"], horizon=4, steps=4)[0], ValueError),
    ):
        with pytest.raises(error, match="episode must"):
            learner.correct(old, new)
        assert (learner.snapshot(), learner.episodes) == (before, 6)


@BY_KIND
def test_withdrawing_everything_leaves_a_learner_that_acts_as_a_new_one(kind):
    log = small_log(3, 12, one_hot=kind["one_hot"])
    learner, new = made(kind, Starts([])), made(kind, Starts([]))
    learner.absorb(*log)
    for episode in log:
        learner.correct(episode, None)
    assert (learner.episodes, learner.clock.episode) == (12, 13)
    np.testing.assert_allclose(learner.clock.growth, 0.0, atol=1e-12)
    np.testing.assert_allclose(learner.fit().weights, new.fit().weights, atol=1e-9)
    rows = np.arange(4) if kind["one_hot"] else np.eye(4)
    policies = learner.fit(), new.fit()
    for h in range(3):
        assert (policies[0].choices(h, rows) == policies[1].choices(h, rows)).all()
    assert learner.health().reach is None


def test_a_withdrawal_may_undo_growth_but_not_a_deployment():
    one, other = (rs.Episode(features=[row], rewards=[1.0], next_features=[]) for row in np.eye(2))
    learner = rs.Learner(rs.Task(dim=2, horizon=1), rs.DeterminantGrowth(eta=1.5))
    learner.absorb(one)
    assert learner.due
    learner.correct(one, None)
    assert not learner.due
    assert learner.observe(other)
    learner.correct(other, None)
    assert (len(learner.ledger), learner.clock.growth.round(9).tolist()) == (2, [-0.693147181])
    assert not learner.observe(one)  # no more is known than at the deployment


@BY_KIND
def test_a_policy_of_the_other_kind_is_not_deployed(kind):
    learner, other = made(kind), made(kind | {"one_hot": not kind["one_hot"]})
    before = learner.snapshot()
    with pytest.raises(
        ValueError,
        match=f"policy must have one_hot = {kind['one_hot']}, like the task; got "
        f"{not kind['one_hot']}",
    ):
        learner.deploy(other.policy)
    assert learner.snapshot() == before
    learner.deploy(made(kind | {"stages": "own"}, seed=3).policy)  # what a policy does is all


def test_the_clock_says_how_many_steps_an_episode_adds_at_the_most():
    assert make(horizon=3).clock.task.pools.steps.tolist() == [1.0, 1.0, 1.0]
    assert make(horizon=3, stages="shared").clock.task.pools.steps.tolist() == [2.0, 3.0]
    assert make(horizon=1, stages="shared").clock.task.pools.steps.tolist() == [1.0]


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
def test_a_single_stage_has_nothing_to_share(exploration):
    own, shared = (
        make(horizon=1, exploration=exploration, stages=stages) for stages in ("own", "shared")
    )
    rng = np.random.default_rng(4)
    for _ in range(15):
        episode = ragged_episode(rng, horizon=1, dim=3)
        assert own.observe(episode) is shared.observe(episode)
        assert own.policy.to_bytes() == shared.policy.to_bytes()
    assert own.ledger == shared.ledger
    assert own.health() == shared.health()
    assert (own.task.stages, shared.task.stages) == ("own", "shared")


@BY_KIND
def test_ends_that_are_worth_something_make_ending_early_worth_it(kind):
    """Of two actions, one goes on for nothing and the other ends."""
    cheap_end, dear_end = (made(kind, end_reward=worth, horizon=4) for worth in (0.0, 0.9))
    stays, ends = ([0, 0, 0, 0], [1]) if kind["one_hot"] else (np.eye(4)[[0] * 4], np.eye(4)[[1]])
    menu = [0, 1] if kind["one_hot"] else np.eye(4)[:2]
    for learner in (cheap_end, dear_end):
        for _ in range(30):
            going_on = [menu] * 3
            learner.absorb(rs.Episode(features=stays, rewards=[0.1] * 4, next_features=going_on))
            learner.absorb(rs.Episode(features=ends, rewards=[0.1], next_features=[]))
    assert cheap_end.recommend().act(0, menu) == 0
    assert dear_end.recommend().act(0, menu) == 1
