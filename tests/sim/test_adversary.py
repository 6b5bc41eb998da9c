from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import Starts
from rareswitch.sim import play_adversary
from rareswitch.sim.adversary import target_states

LOWEST = rs.Recipe.paper(beta=1.0, ties="lowest")


def duel_task(states, horizon, episodes=None):
    """Return the task of a learner that plays the adversary, whose features have norm √2."""
    return rs.Task(
        dim=2 * states + 1, horizon=horizon, episodes=episodes, feature_norm=np.sqrt(2.0)
    )


def duel(grid, *, states, horizon, episodes, normalized=False, recipe=LOWEST, seed=None):
    task = duel_task(states, horizon, episodes)
    learner = rs.Learner(task, grid, replace(recipe, seed=1))
    return play_adversary(
        learner,
        states=states,
        horizon=horizon,
        episodes=episodes,
        starts=grid.starts if isinstance(grid, Starts) else tuple(grid.starts(task)),
        normalized=normalized,
        seed=seed,
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
        recipe=rs.Recipe.paper(beta=0.3, ties=ties),
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
    target = target_states(lengths, states, horizon)
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


def test_a_duel_needs_one_policy_at_a_time_or_an_oblivious_adversary():
    learner = rs.Learner(duel_task(2, 2), Starts((1, 6, 11, 16)))
    arguments = {"states": 2, "horizon": 2, "episodes": 20, "starts": (1, 6, 11, 16)}
    with pytest.raises(ValueError, match=r"one policy at a time.*; got a mixture of 32 members"):
        play_adversary(learner, **arguments)
    with pytest.raises(ValueError, match="starts must hold at least states = 2 batches; got 1"):
        play_adversary(learner, **arguments | {"starts": (1,)}, seed=0)
    assert learner.episodes == 0
    play_adversary(learner, **arguments, seed=0)
    assert learner.episodes == 20


@pytest.mark.parametrize("recipe", [LOWEST, rs.Recipe(), rs.Recipe(exploration=rs.Bonus(0.3, 5))])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("dates", [(1, 16, 31, 46), (1, 2, 30, 31, 32, 40, 55), (1, 50)])
def test_the_oblivious_adversary_plays_the_drawn_world(recipe, normalized, dates):
    grid, sizes = Starts(dates), {"states": 2, "horizon": 3}
    outcome = duel(grid, episodes=60, normalized=normalized, recipe=recipe, seed=(5, 2), **sizes)
    world = rs.worlds.lower_bound_family(seed=(5, 2), normalized=normalized, **sizes)
    np.testing.assert_array_equal(outcome.world.transitions, world.transitions)
    run = rs.simulate(
        world, grid, recipe, episodes=60, seed=1, initial_state=outcome.initial_states
    )
    np.testing.assert_array_equal(run.regret, outcome.regret)
    members = recipe.exploration.members
    of_members = (members, 3, 3) if members > 1 else (3, 3)
    assert outcome.policies.shape == (len(dates), *of_members)


class Cover:
    """The best mixture in one state: members share the known stages and divide the next ones.

    With M = 2ᴸ members they try all ways through the next L stages, and guess 0 afterwards.
    """

    def __init__(self, horizon, starts, members):
        self.horizon, self.starts, self.members = horizon, starts, members
        self.known, self.seen, self.episodes = [], [], 0

    @property
    def policy(self):
        free = self.horizon - len(self.known)
        ways = list(product((0, 1), repeat=self.members.bit_length() - 1))
        ways = [(*self.known, *way, *(0,) * free)[: self.horizon] for way in ways]
        weights = [[[0.0, 1.0 - action, action] for action in way] for way in ways]
        if self.members == 1:
            return rs.Policy(weights=weights[0])
        return rs.Policy(weights=weights, allocation=len(self.known))

    def observe(self, episode):
        self.seen.append(episode.features[:, 1:])
        self.episodes += 1
        if self.episodes + 1 in self.starts:
            self.learn()

    def learn(self):
        longest = max(self.seen, key=lambda blocks: blocks.any(axis=1).sum())
        reached = int(longest.any(axis=1).sum())
        actions = longest[:reached].argmax(axis=1).tolist()
        if reached < self.horizon:
            actions[-1] = 1 - actions[-1]  # it fell there
        if reached > len(self.known):
            self.known = actions[: self.horizon]
        self.seen = []


@pytest.mark.parametrize("members", [1, 2, 4])
@pytest.mark.parametrize("lengths", [(60, 60, 60), (80, 50, 90), (70,)])
def test_the_least_expected_regret_is_reached_over_all_right_actions(members, lengths):
    starts, H = tuple(np.cumsum([1, *lengths[:-1]]).tolist()), 4
    lost = {}
    for seed in range(200):
        outcome = play_adversary(
            Cover(H, starts, members),
            states=1,
            horizon=H,
            episodes=sum(lengths),
            starts=starts,
            seed=seed,
        )
        right = tuple(outcome.world.transitions[:, 1, :, 1].argmax(axis=1).tolist())
        lost[right] = outcome.regret.sum()
        if len(lost) == 2**H:
            break
    assert len(lost) == 2**H
    least = rs.theory.least_expected_regret(horizon=H, lengths=lengths, members=members)
    assert np.mean(list(lost.values())) == pytest.approx(least, rel=1e-12)
