import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from trajectory_strategies import logs

from rareswitch.trajectories import Trajectory, from_steps

TABLE = {
    "patient": ["ada", "ben", "ada", "ada", "ben"],
    "x": [0.1, 0.2, 0.3, 0.4, 0.5],
    "y": [1.0, 2.0, 3.0, 4.0, 5.0],
    "dose": [0, 1, 2, 1, 0],
    "outcome": [0.0, 0.5, 1.0, -1.0, 2.0],
    "done": [False, False, False, True, True],
    "p": [0.5, 0.25, 1.0, 0.125, 1.0],
}
ADA = Trajectory(
    observations=[[0.1, 1.0], [0.3, 3.0], [0.4, 4.0], [0.4, 4.0]], actions=[0, 2, 1],
    rewards=[0.0, 1.0, -1.0], terminated=True, propensities=[0.5, 1.0, 0.125], key="ada",
)  # fmt: skip


def read(frame, observation, **more):
    return from_steps(
        episode=frame["patient"], observation=observation, action=frame["dose"],
        reward=frame["outcome"], terminated=frame["done"], propensity=frame["p"], **more,
    )  # fmt: skip


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_columns_of_data_frames_become_trajectories_in_the_order_of_their_beginning(make):
    frame = make(TABLE)
    ada, ben = read(frame, frame[["x", "y"]])
    assert ada == ADA
    assert (ben.key, ben.actions.tolist(), ben.terminated) == ("ben", [1, 0], True)


def test_plain_lists_arrow_columns_and_nullable_columns_will_do():
    rows = [[x, y] for x, y in zip(TABLE["x"], TABLE["y"], strict=True)]
    assert read(TABLE, rows)[0] == ADA
    table = pa.table(TABLE)
    assert read(table, np.column_stack([table["x"], table["y"]]))[0] == ADA
    frame = pd.DataFrame(TABLE).convert_dtypes()
    assert read(frame, pd.Series(rows))[0] == ADA
    assert read(pl.DataFrame(TABLE), pl.Series(rows))[0] == ADA


def test_an_episode_cut_off_needs_what_came_after():
    table = TABLE | {"done": [False, False, False, False, True]}
    message = "episode 'ada' .rows 0 to 3.: next_observation must be given"
    with pytest.raises(ValueError, match=message):
        read(table, table["x"])
    ada, ben = read(table, table["x"], next_observation=[9.0, 9.1, 9.2, 9.3, 9.4])
    assert (ada.observations.tolist(), ada.terminated) == ([0.1, 0.3, 0.4, 9.3], False)
    assert ben.observations.tolist() == [0.2, 0.5, 9.4]
    masks = np.ones((5, 3), bool)
    with pytest.raises(ValueError, match="next_mask must be given"):
        read(table, table["x"], next_observation=table["x"], mask=masks)
    last = np.array([[True, False, False]] * 5)
    ada, _ = read(table, table["x"], next_observation=table["x"], mask=masks, next_mask=last)
    assert ada.masks.tolist() == [[True] * 3] * 3 + [[True, False, False]]


@pytest.mark.parametrize("ends", [[0, 0, 0, 1, 1], [0.0, 0.0, 0.0, 1.0, 1.0]])
def test_databases_have_0_and_1(ends):
    assert read(TABLE | {"done": ends}, TABLE["x"]) == read(TABLE, TABLE["x"])
    masks = np.ones((5, 3), int)
    assert read(TABLE, TABLE["x"], mask=masks)[0].masks.dtype == bool


def test_versions_are_the_same_in_an_episode():
    versions = [1, 2, 1, 1, 2]
    assert [each.version for each in read(TABLE, TABLE["x"], version=versions)] == [1, 2]
    with pytest.raises(ValueError, match=r"'ada' .*version must be the same at every step"):
        read(TABLE, TABLE["x"], version=[1, 2, 1, 2, 2])


def test_observations_may_be_texts_or_dicts():
    words = ["low", "high", "low", "low", "high"]
    assert read(TABLE, words)[1].observations == ("high", "high", "high")
    assert read(TABLE, [{"level": word} for word in words])[0].observations[0] == {"level": "low"}


@given(logs())
def test_a_log_taken_apart_step_by_step_is_put_together_again(log):
    columns = {name: [] for name in ("episode", "action", "reward", "terminated")}
    before, after = [], []
    for number, each in enumerate(log):
        for t in range(len(each)):
            columns["episode"].append(number)
            columns["action"].append(each.actions[t])
            columns["reward"].append(each.rewards[t])
            columns["terminated"].append(each.terminated and t + 1 == len(each))
            before.append(each.observations[t])
            after.append(each.observations[t + 1])
    again = from_steps(observation=objects(before), next_observation=objects(after), **columns)
    for number, (one, other) in enumerate(zip(log, again, strict=True)):
        assert other == Trajectory(
            observations=one.observations, actions=one.actions, rewards=one.rewards,
            terminated=one.terminated, key=number,
        )  # fmt: skip


def objects(values):
    """Return a column that holds each value as it is."""
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"done": [True, False, False, True, True]}, "'ada' .*terminated must be .* False before"),
        ({"done": [0, 0, 0, 2, 1]}, "terminated must be True or False, or 1 or 0, at every step"),
        ({"done": ["no", "no", "no", "yes", "yes"]}, "terminated must be True or False"),
        ({"outcome": [0.0, 0.5, np.nan, 0.0, 0.0]}, r"'ada' .*rewards must be finite; got nan"),
        ({"dose": [0, 1, np.nan, 1, 0]}, "'ada' .*actions must be a list of whole numbers"),
        ({"p": [1.0, 0.0, 1.0, 1.0, 1.0]}, "'ben' .*propensities must be above 0"),
        ({"p": [1.0]}, "propensity must have an entry for each of the 5 steps of episode; got 1"),
        ({"dose": 3}, "action must be a column with an entry for every step; got 3"),
        ({"patient": []}, "episode must be a column with an entry for every step"),
        ({"patient": [0.5, 1.5, 0.5, 0.5, 1.5]}, "episode 0.5 .*key must be a whole number"),
    ],
)
def test_what_is_wrong_names_the_episode_and_the_field(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read(TABLE | change, TABLE["x"])
