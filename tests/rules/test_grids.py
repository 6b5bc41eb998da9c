import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import followed
from rareswitch.rules.grids import MinimaxGrid
from rareswitch.testing import check_schedule

MAKERS = {"geometric": rs.rules.GeometricGrid, "minimax": MinimaxGrid}


def task_of(episodes):
    return rs.Task(dim=2, horizon=1, episodes=episodes)


@given(st.sampled_from(sorted(MAKERS)), st.data(), st.integers(1, 400))
def test_grids_increase_from_1_and_have_no_more_than_their_batches(name, data, episodes):
    batches = data.draw(st.integers(1, episodes))
    starts = MAKERS[name](batches=batches).starts(task_of(episodes))
    assert starts[0] == 1
    assert (np.diff(starts) > 0).all()
    assert starts[-1] <= episodes
    assert len(starts) <= batches
    if name == "geometric":
        assert len(starts) == batches


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("episodes", [1, 2, 7, 300])
def test_one_batch_is_one_date(make, episodes):
    assert make(batches=1).starts(task_of(episodes)) == (1,)


@pytest.mark.parametrize("episodes", [1, 2, 3, 7, 50])
def test_as_many_batches_as_episodes_is_every_episode(episodes):
    grid = rs.rules.GeometricGrid(batches=episodes)
    assert grid.starts(task_of(episodes)) == tuple(range(1, episodes + 1))


@pytest.mark.parametrize(
    ("episodes", "batches", "geometric", "minimax"),
    [
        (10_000, 4, (1, 10, 100, 1000), (1, 100, 1000, 3162)),
        (1024, 5, (1, 4, 16, 64, 256), (1, 32, 181, 431, 664)),
        (2500, 2, (1, 50), (1, 50)),
        (2500, 3, (1, 14, 184), (1, 50, 354)),
        (16, 8, (1, 2, 3, 4, 5, 6, 8, 11), (1, 4, 8, 11, 13, 15, 16)),
        (8, 3, (1, 2, 4), (1, 3, 5)),
    ],
)
def test_dates_are_those_of_the_formulas(episodes, batches, geometric, minimax):
    task = task_of(episodes)
    assert rs.rules.GeometricGrid(batches=batches).starts(task) == geometric
    assert MinimaxGrid(batches=batches).starts(task) == minimax


@pytest.mark.parametrize(("episodes", "batches"), [(100_000, 10), (1_000_000, 6)])
def test_far_apart_dates_are_the_rounded_powers(episodes, batches):
    exponents = np.arange(1, batches)
    spread = episodes ** (exponents / batches)
    starts = rs.rules.GeometricGrid(batches=batches).starts(task_of(episodes))
    np.testing.assert_allclose(starts[1:], spread, atol=0.5)
    ratios = np.array(starts[3:]) / starts[2:-1]
    np.testing.assert_allclose(ratios, episodes ** (1 / batches), rtol=0.1)
    starts = MinimaxGrid(batches=batches).starts(task_of(episodes))
    np.testing.assert_allclose(starts[1:], episodes ** (1 - 0.5**exponents), atol=0.5)


GRIDS = {
    "1 date": (rs.rules.EpisodeGrid(dates=(1,)), 200),
    "5 dates": (rs.rules.EpisodeGrid(dates=(1, 2, 3, 17, 100)), 200),
    "5 dates, open-ended": (rs.rules.EpisodeGrid(dates=(1, 2, 3, 17, 100)), None),
    "geometric": (rs.rules.GeometricGrid(batches=9), 200),
    "minimax": (MinimaxGrid(batches=4), 200),
    "all": (rs.rules.GeometricGrid(batches=30), 30),
}


@pytest.mark.parametrize(("grid", "episodes"), GRIDS.values(), ids=GRIDS)
def test_a_grid_is_due_at_its_dates_and_names_the_next(grid, episodes):
    task = task_of(episodes)
    starts = grid.starts(task)
    assert followed(grid, 220, task) == list(starts)
    for k in range(220):
        later = [start for start in starts if start > k]
        assert grid.upcoming(task, k) == (later[0] if later else None)
    check_schedule(grid, task)


@pytest.mark.parametrize(("grid", "episodes"), GRIDS.values(), ids=GRIDS)
def test_a_simulation_fits_at_the_dates(grid, episodes):
    world = rs.worlds.hard_to_learn(d=4, horizon=2)
    run = rs.simulate(world, grid, episodes=40)
    starts = grid.starts(world.task(episodes=40))
    assert list(run.deployment_episodes) == [start for start in starts if start <= 40]


def test_dates_after_the_last_episode_do_not_count():
    grid = rs.rules.EpisodeGrid(dates=(1, 9, 50, 51))
    limits = [grid.deployment_limit(task_of(k)) for k in (8, 9, 49, 50, 51, None)]
    assert limits == [0, 1, 1, 2, 3, 3]


def test_a_grid_of_even_dates_is_the_uniform_grid():
    uniform = rs.UniformGrid(batches=6)
    own = rs.rules.EpisodeGrid(dates=tuple(uniform.starts(task_of(40))))
    world = rs.worlds.hard_to_learn(d=5, horizon=3)
    runs = [rs.simulate(world, grid, episodes=40, seed=2) for grid in (uniform, own)]
    assert runs[0].policy.digest == runs[1].policy.digest
    np.testing.assert_array_equal(runs[0].states, runs[1].states)


def test_a_list_of_dates_becomes_a_tuple_of_ints():
    grid = rs.rules.EpisodeGrid(dates=list(np.array([1, 4, 9])))
    assert grid == rs.rules.EpisodeGrid(dates=(1, 4, 9))
    assert all(type(start) is int for start in grid.dates)
    hash(grid)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rs.rules.EpisodeGrid(dates=()),
            ValueError,
            r"dates must increase from 1; got \(\)",
        ),
        (lambda: rs.rules.EpisodeGrid(dates=(2, 3)), ValueError, "dates must increase from 1"),
        (lambda: rs.rules.EpisodeGrid(dates=(1, 3, 3)), ValueError, "dates must increase from 1"),
        (lambda: rs.rules.EpisodeGrid(dates=(1, 5, 4)), ValueError, "dates must increase from 1"),
        (
            lambda: rs.rules.EpisodeGrid(dates=(0, 1)),
            ValueError,
            "dates must be at least 1; got 0",
        ),
        (lambda: rs.rules.EpisodeGrid(dates=(1, 2.5)), TypeError, "dates must be a whole number"),
        *(
            (
                lambda make=make, b=b: make(batches=b).starts(task_of(5)),
                ValueError,
                f"batches must be from 1 to {5 if b else 100000}; got {b}",
            )
            for make in MAKERS.values()
            for b in (0, 6)
        ),
        *(
            (lambda make=make: make(batches=10**5 + 1), ValueError, "from 1 to 100000; got 100001")
            for make in MAKERS.values()
        ),
        *(
            (lambda make=make: make(batches=1).starts(task_of(10**16)), ValueError, "episodes must")
            for make in MAKERS.values()
        ),
        (
            lambda: rs.rules.EpisodeGrid(dates="123"),
            TypeError,
            "dates must be a whole number.*got '1'",
        ),
        (
            lambda: rs.rules.EpisodeGrid(dates=3),
            TypeError,
            "dates must be a list of episodes; got 3",
        ),
        (lambda: MAKERS["minimax"](batches=2.0), TypeError, "batches must be a whole"),
    ],
)
def test_a_bad_grid_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_grids_are_values_that_keep_their_arguments():
    grid = rs.rules.GeometricGrid(batches=np.uint8(4))
    assert repr(grid) == "GeometricGrid(batches=4)"
    assert grid == rs.rules.GeometricGrid(batches=4) != MinimaxGrid(batches=4)
    assert hash(grid) == hash(rs.rules.GeometricGrid(batches=4))


def test_the_geometric_grid_of_a_budget_has_one_more_batch():
    task = rs.Task(dim=2, horizon=2, episodes=40)
    for budget in (0, 1, 7, 39):
        grid = rs.rules.GeometricGrid.for_budget(task, switches=budget)
        assert grid == rs.rules.GeometricGrid(batches=budget + 1)
    with pytest.raises(ValueError, match="switches must be from 0 to 39; got 40"):
        rs.rules.GeometricGrid.for_budget(task, switches=40)
