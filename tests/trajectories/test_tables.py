"""Tables with one row a step, read as a log."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rareswitch.trajectories import Trajectory, read_log

STEPS = {
    "episode": ["ada", "ben", "ada"],
    "step": [0, 0, 1],
    "obs_x": [0.1, 0.2, 0.3],
    "obs_y": [1.0, 2.0, 3.0],
    "action": [0, 1, 2],
    "reward": [0.0, 0.5, 1.0],
    "terminated": [0, 1, 1],
    "propensity": [0.5, 0.25, 1.0],
    "version": [1, 2, 1],
}
LOG = [
    Trajectory(
        observations=[[0.1, 1.0], [0.3, 3.0], [0.3, 3.0]], actions=[0, 2], rewards=[0.0, 1.0],
        terminated=True, propensities=[0.5, 1.0], key="ada", version=1,
    ),
    Trajectory(
        observations=[[0.2, 2.0], [0.2, 2.0]], actions=[1], rewards=[0.5], terminated=True,
        propensities=[0.25], key="ben", version=2,
    ),
]  # fmt: skip


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_data_frames_are_read_as_they_are(make):
    assert list(read_log(make(STEPS))) == LOG


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_rows_are_sorted_by_their_step(order):
    frame = pd.DataFrame(STEPS).iloc[order]
    assert sorted(read_log(frame), key=lambda each: each.key) == LOG


def test_files_of_steps_are_recognised(tmp_path):
    frame = pl.DataFrame(STEPS)
    frame.write_parquet(tmp_path / "steps.parquet")
    frame.write_csv(tmp_path / "steps.csv")
    for name in ("steps.parquet", "steps.csv"):
        assert list(read_log(tmp_path / name)) == LOG
    (tmp_path / "words.csv").write_text(
        "episode,obs,action,reward,done\n1,low,0,1,FALSE\n1,high,1,0.5,TRUE\n"
    )
    (one,) = read_log(tmp_path / "words.csv")
    assert (one.observations, one.total, one.key) == (("low", "high", "high"), 1.5, 1)


def test_lists_in_one_column_are_observations(tmp_path):
    frame = pl.DataFrame(
        {name: column for name, column in STEPS.items() if not name.startswith("obs")}
        | {"observation": [[0.1, 1.0], [0.2, 2.0], [0.3, 3.0]]}
    )
    frame.write_parquet(tmp_path / "steps.parquet")
    assert list(read_log(tmp_path / "steps.parquet")) == LOG
    assert list(read_log(frame)) == LOG
    assert list(read_log(frame.to_pandas())) == LOG


def test_columns_of_other_names_are_named():
    renamed = pd.DataFrame(STEPS).rename(
        columns={"episode": "patient", "obs_x": "age", "obs_y": "weight", "reward": "outcome"}
    )
    columns = {"episode": "patient", "observation": ["age", "weight"], "reward": "outcome"}
    assert list(read_log(renamed, columns=columns)) == LOG
    with pytest.raises(ValueError, match="from_steps") as caught:
        read_log(renamed)
    assert str(caught.value) == (
        "table must be a log of episodes, or a table of steps with a column for each of episode, "
        "observation, action, reward, terminated; it has patient, step, age, weight, action, "
        "outcome, terminated, propensity, version, and lacks episode, observation, reward. Name "
        'them: read_log(…, columns={"episode": "…", "observation": "…", "reward": "…"}), with '
        "rareswitch compare --columns episode=… --columns observation=… --columns reward=…, or "
        "give them to from_steps"
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"patient": "episode"}, "columns must name episode, observation, .*; got patient"),
        ({"episode": "patient"}, "columns must name columns of table, which has episode, .*; got "
         "patient for episode"),
        ({"observation": ["obs_x", "age"]}, "got age for observation"),
    ],
)  # fmt: skip
def test_columns_that_are_not_there_are_named(columns, message):
    with pytest.raises(ValueError, match=message):
        read_log(STEPS, columns=columns)


def test_a_file_of_steps_without_an_episode_is_named(tmp_path):
    path = tmp_path / "steps.parquet"
    pl.DataFrame(STEPS).drop("episode").write_parquet(path)
    message = "steps.parquet must be a log of episodes, .* lacks episode.*from_steps"
    with pytest.raises(ValueError, match=message):
        read_log(path)
    (tmp_path / "torn.csv").write_text("episode,action\n1,2,3\n")
    with pytest.raises(
        ValueError, match=r"torn.csv must have a header, and the same number of cells"
    ):
        read_log(tmp_path / "torn.csv")


MASKED = "episode,state,action,reward,terminated,{}\n0,1,0,1,0,{}\n0,2,1,0,1,{}\n"


def test_masks_of_a_csv_file_have_a_column_for_each_action(tmp_path):
    path = tmp_path / "masked.csv"
    path.write_text(MASKED.format("mask_0,mask_1", "1,0", "1,1"))
    (one,) = read_log(path)
    assert one.masks.tolist() == [[True, False], [True, True], [True, True]]
    path.write_text(MASKED.format("mask", '"[1, 0]"', '"[1, 1]"'))
    told = r"mask must be a column of 0 and 1 for each action, such as mask_0, .* got '\[1, 0\]'"
    with pytest.raises(ValueError, match=told):
        read_log(path)


def test_masks_after_each_action_need_masks_before(tmp_path):
    path = tmp_path / "masked.csv"
    path.write_text(MASKED.format("next_mask_0,next_mask_1", "1,0", "1,1"))
    with pytest.raises(ValueError, match="mask must be given with next_mask: name the column"):
        read_log(path)


def test_several_columns_of_an_observation_are_numbers():
    table = {"episode": [0, 0], "obs_sex": ["f", "m"], "obs_age": [30, 40], "action": [0, 1],
             "reward": [0.0, 1.0], "done": [0, 1]}  # fmt: skip
    told = "columns obs_sex, obs_age; got texts in obs_sex: replace them by numbers"
    for given in (table, pl.DataFrame(table)):
        with pytest.raises(ValueError, match=told):
            read_log(given)
    (one,) = read_log({name: column for name, column in table.items() if name != "obs_age"} | {
        "observation": ["f", "m"]
    })  # fmt: skip
    assert one.observations == ("f", "m", "m")


def test_done_is_not_taken_for_an_end_beside_truncated():
    table = {
        "episode": [1, 1], "observation": [0.0, 1.0], "action": [0, 1], "reward": [0.0, 1.0],
        "done": [0, 1], "truncated": [0, 1],
    }  # fmt: skip
    with pytest.raises(ValueError, match="must distinguish terminated from truncated"):
        list(read_log(table))
    (one,) = read_log(table, columns={"terminated": "done"})
    assert one.terminated
    del table["truncated"]
    assert list(read_log(table)) == [one]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([0, 0, 0], r"'ada' \(rows 0 to 2\): every step must come once; step 0 comes twice"),
        ([1, 0, 3], r"'ada' \(rows 0 to 2\): steps must have no gaps; step 2 is missing"),
        ([0.5, 0.0, 0.5], "every step must come once; step 0.5 comes twice"),
    ],
)
def test_rows_that_come_twice_or_are_missing_are_named(steps, message):
    with pytest.raises(ValueError, match=message):
        read_log(pd.DataFrame(STEPS | {"step": steps}))


def test_times_of_steps_may_have_gaps():
    for times in ([20260101, 20260101, 20260108], [0.0, 0.0, 7.5]):
        assert list(read_log(STEPS | {"step": times})) == LOG


def test_an_error_names_the_rows_of_the_table_and_not_of_the_sorted_one():
    frame = pd.DataFrame(STEPS | {"terminated": [1, 1, 1]}).iloc[[1, 0, 2]]
    with pytest.raises(ValueError, match=r"episode 'ada' \(rows 1 to 2\): terminated"):
        read_log(frame)


def test_actions_may_be_whole_numbers_as_floats():
    assert list(read_log(STEPS | {"action": [0.0, 1.0, 2.0]})) == LOG
    with pytest.raises((TypeError, ValueError), match="actions"):
        read_log(STEPS | {"action": [0.0, 1.5, 2.0]})
