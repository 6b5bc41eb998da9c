import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import Starts
from rareswitch.sim import play_adversary
from rareswitch.sim.adversary import _targets


def duel_task(states, horizon, episodes=None):
    """Return the task of a learner that plays the adversary, whose features have norm √2."""
    return rs.Task(
        dim=2 * states + 1, horizon=horizon, episodes=episodes, feature_norm=np.sqrt(2.0)
    )


def duel(grid, *, states, horizon, episodes, normalized=False, beta=1.0, ties="lowest"):
    task = duel_task(states, horizon, episodes)
    learner = rs.Learner(task, grid, rs.Recipe.paper(beta=beta, ties=ties, seed=1))
    return play_adversary(
        learner,
        states=states,
        horizon=horizon,
        episodes=episodes,
        starts=grid.starts if isinstance(grid, Starts) else tuple(grid.starts(task)),
        normalized=normalized,
    )


UNIFORM = [
    # states, horizon, episodes, batches
    (1, 2, 20, 2),
    (2, 3, 60, 6),
    (2, 4, 80, 16),
    (3, 5, 60, 15),
    (1, 7, 70, 7),
    (3, 2, 60, 60),
    (2, 3, 67, 7),
]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("states", "horizon", "episodes", "batches"), UNIFORM)
def test_on_a_uniform_grid_both_bounds_are_forced(states, horizon, episodes, batches, normalized):
    sizes = {"states": states, "horizon": horizon, "episodes": episodes}
    grid = rs.UniformGrid(batches=batches)
    outcome = duel(grid, normalized=normalized, **sizes)
    assert outcome.regret.shape == outcome.initial_states.shape == (episodes,)
    total = outcome.regret.sum()
    assert total >= rs.theory.lower_bound(batches=batches, **sizes) - 1e-9
    assert total >= rs.theory.lower_bound(batches=batches, uniform=True, **sizes) - 1e-9
    assert outcome.world.violations == () or not normalized


@pytest.mark.parametrize("ties", ["lowest", "direction"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("states", "horizon", "episodes", "batches"), UNIFORM)
def test_the_settled_world_played_afresh_gives_the_same_regret(
    states, horizon, episodes, batches, normalized, ties
):
    grid = rs.UniformGrid(batches=batches)
    outcome = duel(
        grid,
        states=states,
        horizon=horizon,
        episodes=episodes,
        normalized=normalized,
        ties=ties,
        beta=0.3,
    )
    run = rs.simulate(
        outcome.world,
        grid,
        rs.Recipe.paper(beta=0.3, ties=ties),
        episodes=episodes,
        seed=1,
        initial_state=outcome.initial_states,
    )
    np.testing.assert_array_equal(run.regret, outcome.regret)


@given(st.data(), st.integers(1, 2), st.integers(2, 5))
def test_on_any_grid_the_general_bound_is_forced(data, states, horizon):
    least = states * horizon
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=least, max_size=least + 4))
    episodes = sum(lengths)
    grid = Starts(np.cumsum([1, *lengths[:-1]]).tolist())
    sizes = {"states": states, "horizon": horizon, "episodes": episodes}
    outcome = duel(grid, **sizes)
    bound = rs.theory.lower_bound(batches=len(lengths), **sizes)
    assert outcome.regret.sum() >= bound - 1e-9
    run = rs.simulate(
        outcome.world,
        grid,
        rs.Recipe.paper(beta=1.0, ties="lowest"),
        episodes=episodes,
        initial_state=outcome.initial_states,
    )
    np.testing.assert_array_equal(run.regret, outcome.regret)


@given(st.data(), st.integers(1, 3), st.integers(2, 7))
def test_the_certain_loss_of_the_chosen_batches_reaches_the_bound(data, states, horizon):
    least = states * horizon
    lengths = np.array(
        data.draw(st.lists(st.integers(1, 1000), min_size=least, max_size=least + 20))
    )
    target = _targets(lengths, states, horizon)
    loss = 0
    for j in range(1, states + 1):
        mine = lengths[target == j]
        assert len(mine) <= horizon
        loss += sum((horizon - i) * n for i, n in enumerate(mine, start=1))
    T = lengths.sum() * horizon
    assert loss >= states * horizon * T / (4 * len(lengths)) - 1e-9


def test_regret_is_certain_in_every_episode_of_a_chosen_batch():
    grid = rs.UniformGrid(batches=6)
    outcome = duel(grid, states=2, horizon=3, episodes=60)
    batches = outcome.regret.reshape(6, 10)
    assert (batches == batches[:, :1]).all()
    assert (outcome.initial_states[::10] == outcome.initial_states.reshape(6, 10).T).all()
    at_x0 = outcome.initial_states == 0
    assert (outcome.regret[at_x0] == 0.0).all()


def test_with_one_stage_nothing_is_lost():
    grid = rs.UniformGrid(batches=4)
    assert duel(grid, states=3, horizon=1, episodes=12).regret.sum() == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": (1, 3, 5)}, "starts must hold at least states·horizon = 4 batches; got 3"),
        ({"starts": (2, 3, 5, 7)}, r"starts must increase from 1; got \(2, 3"),
        ({"starts": (1, 3, 3, 7)}, "starts must increase from 1"),
        ({"starts": (1, 5, 3, 7)}, "starts must increase from 1"),
        ({"starts": (1, 5, 9, 21)}, "starts must be at most episodes = 20; got 21"),
        ({"states": 1}, "the learner must have dim 2·states\\+1 = 3 and horizon 2; got 5 and 2"),
        ({"starts": ()}, "starts must increase from 1"),
        ({"states": 0}, "states must be at least 1; got 0"),
        ({"horizon": 0}, "horizon must be at least 1; got 0"),
        ({"episodes": 0}, "episodes must be at least 1; got 0"),
    ],
)
def test_a_bad_duel_is_refused(change, message):
    arguments = {"states": 2, "horizon": 2, "episodes": 20, "starts": (1, 6, 11, 16)}
    learner = rs.Learner(duel_task(2, 2), Starts(arguments["starts"]), rs.Recipe.paper(beta=1.0))
    with pytest.raises(ValueError, match=message):
        play_adversary(learner, **(arguments | change))
    assert learner.episodes == 0


def test_a_duel_needs_one_policy_at_a_time():
    learner = rs.Learner(duel_task(2, 2), Starts((1, 6, 11, 16)))
    with pytest.raises(ValueError, match=r"one policy at a time.*; got a mixture of 32 members"):
        play_adversary(learner, states=2, horizon=2, episodes=20, starts=(1, 6, 11, 16))
    assert learner.episodes == 0
