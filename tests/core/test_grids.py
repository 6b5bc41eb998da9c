import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import followed
from rareswitch.core.grids import MinimaxGrid
from rareswitch.testing import check_schedule

MAKERS = {"geometric": rs.GeometricGrid, "minimax": MinimaxGrid}


@given(st.sampled_from(sorted(MAKERS)), st.data(), st.integers(1, 400))
def test_grids_increase_from_1_and_have_no_more_than_their_batches(name, data, episodes):
    batches = data.draw(st.integers(1, episodes))
    starts = MAKERS[name](episodes=episodes, batches=batches).starts
    assert starts[0] == 1
    assert (np.diff(starts) > 0).all()
    assert starts[-1] <= episodes
    assert len(starts) <= batches
    if name == "geometric":
        assert len(starts) == batches


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("episodes", [1, 2, 7, 300])
def test_one_batch_is_one_date(make, episodes):
    assert make(episodes=episodes, batches=1).starts == (1,)


@pytest.mark.parametrize("episodes", [1, 2, 3, 7, 50])
def test_as_many_batches_as_episodes_is_every_episode(episodes):
    grid = rs.GeometricGrid(episodes=episodes, batches=episodes)
    assert grid.starts == tuple(range(1, episodes + 1))


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
    sizes = {"episodes": episodes, "batches": batches}
    assert rs.GeometricGrid(**sizes).starts == geometric
    assert MinimaxGrid(**sizes).starts == minimax


@pytest.mark.parametrize(("episodes", "batches"), [(100_000, 10), (1_000_000, 6)])
def test_far_apart_dates_are_the_rounded_powers(episodes, batches):
    exponents = np.arange(1, batches)
    spread = episodes ** (exponents / batches)
    grid = rs.GeometricGrid(episodes=episodes, batches=batches)
    np.testing.assert_allclose(grid.starts[1:], spread, atol=0.5)
    ratios = np.array(grid.starts[3:]) / grid.starts[2:-1]
    np.testing.assert_allclose(ratios, episodes ** (1 / batches), rtol=0.1)
    grid = MinimaxGrid(episodes=episodes, batches=batches)
    np.testing.assert_allclose(grid.starts[1:], episodes ** (1 - 0.5**exponents), atol=0.5)


GRIDS = [
    rs.EpisodeGrid(starts=(1,)),
    rs.EpisodeGrid(starts=(1, 2, 3, 17, 100)),
    rs.GeometricGrid(episodes=200, batches=9),
    MinimaxGrid(episodes=200, batches=4),
    rs.GeometricGrid(episodes=30, batches=30),
]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: str(len(grid.starts)))
def test_a_grid_is_due_at_its_dates_and_names_the_next(grid):
    assert followed(grid, 220) == list(grid.starts)
    for k in range(220):
        later = [start for start in grid.starts if start > k]
        assert grid.upcoming(k) == (later[0] if later else None)
    check_schedule(grid)


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: str(len(grid.starts)))
def test_a_simulation_fits_at_the_dates(grid):
    world = rs.instances.hard_to_learn(d=4, horizon=2)
    run = rs.simulate(world, grid, episodes=40)
    assert list(run.deployment_episodes) == [start for start in grid.starts if start <= 40]


def test_a_grid_of_even_dates_is_the_uniform_grid():
    uniform = rs.UniformGrid(episodes=40, batches=6)
    own = rs.EpisodeGrid(starts=tuple(uniform.starts))
    world = rs.instances.hard_to_learn(d=5, horizon=3)
    runs = [rs.simulate(world, grid, episodes=40, seed=2) for grid in (uniform, own)]
    assert runs[0].policy.digest == runs[1].policy.digest
    np.testing.assert_array_equal(runs[0].states, runs[1].states)


def test_a_list_of_dates_becomes_a_tuple_of_ints():
    grid = rs.EpisodeGrid(starts=list(np.array([1, 4, 9])))
    assert grid == rs.EpisodeGrid(starts=(1, 4, 9))
    assert all(type(start) is int for start in grid.starts)
    hash(grid)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rs.EpisodeGrid(starts=()), ValueError, r"starts must increase from 1; got \(\)"),
        (lambda: rs.EpisodeGrid(starts=(2, 3)), ValueError, "starts must increase from 1"),
        (lambda: rs.EpisodeGrid(starts=(1, 3, 3)), ValueError, "starts must increase from 1"),
        (lambda: rs.EpisodeGrid(starts=(1, 5, 4)), ValueError, "starts must increase from 1"),
        (lambda: rs.EpisodeGrid(starts=(0, 1)), ValueError, "starts must be at least 1; got 0"),
        (lambda: rs.EpisodeGrid(starts=(1, 2.5)), TypeError, "starts must be a whole number"),
        *(
            (lambda make=make, b=b: make(episodes=5, batches=b), ValueError, f"1 to 5; got {b}")
            for make in MAKERS.values()
            for b in (0, 6)
        ),
        *(
            (lambda make=make: make(episodes=0, batches=1), ValueError, "episodes must be from 1")
            for make in MAKERS.values()
        ),
        *(
            (lambda make=make: make(episodes=10**16, batches=1), ValueError, "episodes must be")
            for make in MAKERS.values()
        ),
        (lambda: rs.EpisodeGrid(starts="123"), TypeError, "starts must be a whole number.*got '1'"),
        (lambda: rs.EpisodeGrid(starts=3), TypeError, "starts must be a list of episodes; got 3"),
        (lambda: MAKERS["minimax"](episodes=5, batches=2.0), TypeError, "batches must be a whole"),
    ],
)
def test_a_bad_grid_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_grids_are_values_that_keep_their_arguments():
    grid = rs.GeometricGrid(episodes=np.int32(50), batches=np.uint8(4))
    assert repr(grid) == "GeometricGrid(episodes=50, batches=4)"
    assert grid == rs.GeometricGrid(episodes=50, batches=4) != MinimaxGrid(episodes=50, batches=4)
    assert hash(grid) == hash(rs.GeometricGrid(episodes=50, batches=4))


def test_the_geometric_grid_of_a_budget_has_one_more_batch():
    task = rs.Task(dim=2, horizon=2, episodes=40)
    for budget in (0, 1, 7, 39):
        grid = rs.GeometricGrid.for_budget(task, switches=budget)
        assert grid == rs.GeometricGrid(episodes=40, batches=budget + 1)
    with pytest.raises(ValueError, match="switches must be from 0 to 39; got 40"):
        rs.GeometricGrid.for_budget(task, switches=40)
