"""One training owns a run: stopped, resumed, surprised by rewards, judged, or read from a log."""

import json
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gym_worlds import Walk, blocks
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from threadpoolctl import threadpool_info

import rareswitch as rs
from rareswitch.gym import Returns, Rewards, Step, evaluate, train
from rareswitch.gym.judge import Cohort, Judged, best_cohort
from rareswitch.trajectories import episode_of, read_log, write_log

SMALL = rs.Recipe(exploration=rs.Ensemble(8))
GIVEN = {"episodes": 30, "horizon": 6, "switches": 3, "recipe": SMALL}


class Prize(gymnasium.Env):
    """Right is paid at the end of a corridor: random play meets at most small costs."""

    observation_space, action_space = Discrete(9), Discrete(2)

    def __init__(self, prize=10.0):
        self.prize = prize

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place = self.place + 1 if action else 0
        won = self.place == 8
        return self.place, self.prize if won else -0.01 * action, won, False, {}


CORRIDOR = {"episodes": 60, "horizon": 12, "switches": 6, "recipe": SMALL, "rewards": (-0.01, 1.0)}


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def stopping(at):
    return lambda game: game.number == at


# In a folder.


@pytest.mark.parametrize("make", [Walk, lambda: SyncVectorEnv([Walk] * 4)], ids=["one", "vector"])
def test_a_run_that_a_callback_stops_goes_on_to_the_same_bytes(tmp_path, make):
    whole = train(make(), **GIVEN, fresh=25, folder=tmp_path / "whole")
    part = train(make(), **GIVEN, fresh=25, folder=tmp_path / "part", callback=stopping(13))
    copies = getattr(part.world, "num_envs", 1)
    assert len(part.totals) == part.learner.episodes == -(-13 // copies) * copies
    assert not (tmp_path / "part" / "summary.json").exists()
    again = train(make(), **GIVEN, fresh=25, folder=tmp_path / "part")
    assert again.totals.tolist() == whole.totals.tolist()
    assert again.summary == whole.summary
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_without_a_folder_keeps_the_training(error):
    def press(game):
        if game.number == 13:
            raise error

    with pytest.raises(error) as caught:
        train(Walk(), **GIVEN, callback=press)
    training = caught.value.training
    assert len(training.totals) == training.learner.episodes == 12
    assert training.run(30)
    assert training.learner.snapshot() == train(Walk(), **GIVEN).learner.snapshot()


def test_progress_tells_every_phase_and_stops_fresh_episodes(tmp_path):
    steps = []
    training = train(
        Walk("array"), **GIVEN, features="linear", fresh=25, folder=tmp_path / "walk",
        progress=lambda step: steps.append(step) or step[:2] == ("fresh episodes", 5),
    )  # fmt: skip
    phases = list(dict.fromkeys(step.phase for step in steps))
    assert phases == ["random play", "begun", "episodes", "fresh episodes"]
    assert steps[-1] == Step("fresh episodes", 5, 50)  # random play comes after
    written = json.loads((tmp_path / "walk" / "summary.json").read_text())
    assert written["finished"] is False
    assert written["recommended"]["digest"] == training.agent.policy.digest
    assert rs.Agent.load(tmp_path / "walk" / "agent.bin").predict(np.zeros(2)) in (0, 1, 2)


def test_agent_summary_and_picture_are_there_before_fresh_episodes(tmp_path):
    def look(step):
        if step.phase == "fresh episodes":
            names = {path.name for path in (tmp_path / "walk").iterdir()}
            assert {"agent.bin", "summary.json", "picture.png", "learner.bin"} <= names

    training = train(Walk(), **GIVEN, fresh=3, folder=tmp_path / "walk", progress=look)
    assert training.summary["sharing"] is not None
    without = train(Walk(), **GIVEN, fresh=0, folder=tmp_path / "other")
    assert without.summary["recommended"]["fresh"] is None


def test_an_environment_may_be_made_by_a_function_or_named_with_arguments():
    one = train(lambda: Walk(), **GIVEN)
    assert one.learner.snapshot() == train(Walk(), **GIVEN).learner.snapshot()
    dry = train("FrozenLake-v1", arguments={"is_slippery": False}, **GIVEN)
    assert dry.world.unwrapped.P[0][2] == [(1.0, 1, 0, False)]


def test_a_rule_may_be_given_in_words():
    words = {"schedule": "uniform-grid,batches=3", "episodes": 30, "horizon": 4, "recipe": SMALL}
    assert train(Walk(), **words).switch_episodes == [11, 21]
    with pytest.raises(ValueError, match="schedule never: kind must be one of"):
        train(Walk(), **words | {"schedule": "never"})


def test_linear_algebra_has_one_thread():
    threads = []

    def look(game):
        threads.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")

    train(Walk(), **GIVEN | {"episodes": 2, "switches": 0}, callback=look)
    assert set(threads) == {1}


def test_it_shows_itself():
    training = train(Walk(), **GIVEN)
    page = training._repr_html_()
    assert repr(training) in page
    assert page.count("<tr>") == 1 + len(training.cohorts())
    assert training.picture().get_suptitle() == "3 switches"


# Rewards that surprise.


def test_a_reward_outside_the_range_widens_it_and_the_log_is_learnt_anew():
    said = []
    training = train(Prize(), **CORRIDOR, progress=lambda step: said.append(step))
    assert training.setting.rewards == Rewards(-0.01, 10.0)
    (note,) = [step.text for step in said if step.phase == "note"]
    number = int(np.argmax(training.totals > 1.0)) + 1
    assert note == (
        f"reward 10 in episode {number} is outside -0.01 to 1: the range is -0.01 to 10 from there "
        "on"
    )
    assert training.notes[0] == note
    assert len(training.totals) == 60
    assert len(training.switch_episodes) == 6
    by_hand = training.setting.learner(rs.EveryEpisode(), SMALL, episodes=60)
    by_hand.absorb(*(
        episode_of(one, training.setting.features, training.setting.rewards, 12)
        for one in training.log
    ))  # fmt: skip
    assert by_hand.recommend().digest == training.agent.policy.digest


def test_a_range_far_wider_than_the_rewards_is_noted(tmp_path):
    given = GIVEN | {"rewards": (-1.0, 9.0), "fresh": 0, "folder": tmp_path / "walk"}
    training = train(Walk(), **given, callback=stopping(7))
    (note,) = [note for note in training.notes if "--rewards LOW HIGH" in note]
    low, high = (f"{end:g}" for end in span_of_log(training.log))
    assert note.startswith(f"the rewards, with 0, span {low} to {high}, ")
    assert note.endswith(
        "of the range -1 to 9: this slows learning down. If no others can occur, give the range: "
        "rewards=(low, high), or --rewards LOW HIGH"
    )
    again = train(Walk(), **given, callback=stopping(8))
    assert "--rewards LOW HIGH" in str(again.notes)
    learnt = train(list(training.log), rewards=(-1.0, 9.0), horizon=4)
    assert note in learnt.notes


def test_a_range_that_the_rewards_fill_to_a_fifth_has_no_note():
    low, high = span_of_log(train(Walk(), **GIVEN).log)
    for width, noted in ((4.9, False), (5.1, True)):
        rewards = (low, low + width * (high - low))
        notes = train(Walk(), **GIVEN | {"rewards": rewards}).notes
        assert ("--rewards LOW HIGH" in str(notes)) is noted


def span_of_log(log):
    rewards = np.concatenate([[0.0], *(one.rewards for one in log)])
    return float(rewards.min()), float(rewards.max())


@pytest.mark.parametrize("vector", [False, True], ids=["one", "vector"])
def test_observations_outside_their_space_are_noted_with_their_share(vector):
    world = SyncVectorEnv([lambda: Walk("array")] * 2) if vector else Walk("array")
    given = GIVEN | {"horizon": 12, "rewards": (0.0, 1.0), "features": "linear"}
    training = train(world, **given)
    seen = np.concatenate([
        one.observations[:-1] if one.terminated else one.observations for one in training.log
    ])  # fmt: skip
    share = (seen[:, 1] > 6.0).mean()  # of the declared Box(0, 6)
    assert share > 0.0
    (note,) = [note for note in training.notes if "outside the bounds" in note]
    assert note == (
        f"{100 * share:.2g}% of the observations are outside the bounds of the observation space: "
        "features scaled to the bounds clip them. Declare wider bounds"
    )
    short = train(world, **given | {"horizon": 6})
    assert "outside the bounds" not in str(short.notes)  # six steps stay inside
    own = train(world, **given | {"features": lambda seen: np.eye(3) * seen[0] / 6.0})
    assert "outside the bounds" not in str(own.notes)  # features of one's own need not clip


def test_policies_in_force_and_deployments_stay_when_the_range_widens():
    before = train(Prize(), **CORRIDOR, callback=lambda game: game.total > 1.0)
    first = len(before.totals)
    calm = train(Prize(prize=1.0), **CORRIDOR, callback=stopping(first))
    kept = [deployment.digest for deployment in calm.learner.ledger if deployment.episode < first]
    assert len(kept) > 1
    assert [one.digest for one in before.learner.ledger[: len(kept)]] == kept


@pytest.mark.parametrize("after", [-1, 0, 1])
def test_a_run_with_a_widened_range_resumes_to_the_same_bytes(tmp_path, after):
    given = CORRIDOR | {"fresh": 0}
    whole = train(Prize(), **given, folder=tmp_path / "whole")
    at = int(np.argmax(whole.totals > 1.0)) + 1 + after
    train(Prize(), **given, folder=tmp_path / "part", callback=stopping(at))
    again = train(Prize(), **given, folder=tmp_path / "part")
    assert again.notes == whole.notes
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_a_wider_range_given_later_holds_from_there_on(tmp_path):
    given = CORRIDOR | {"fresh": 0, "folder": tmp_path / "corridor"}
    train(Prize(), **given, callback=stopping(3))
    with pytest.raises(ValueError, match="has rewards"):
        train(Prize(), **given | {"rewards": (0.0, 1.0)})
    train(Prize(), **given | {"rewards": (-1.0, 30.0)}, callback=stopping(5))
    again = train(Prize(), **given)
    assert again.setting.rewards == Rewards(-1.0, 30.0)
    assert not [note for note in again.notes if "outside" in note]
    assert again.learner.task.end_reward == again.setting.rewards.end


def test_a_warm_start_is_scaled_anew_too():
    log = list(train(Walk(), **GIVEN).log)

    class Rich(Walk):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, 50.0 * reward, *rest

    training = train(Rich(), **GIVEN, rewards=(0.0, 1.0), warm_start=log)
    assert training.setting.rewards == Rewards(0.0, 50.0)
    setting, scale = training.setting, training.setting.rewards
    by_hand = setting.learner(
        rs.EveryEpisode(), SMALL,
        warm_start=[episode_of(one, setting.features, scale, 6) for one in [*log, *training.log]],
    )  # fmt: skip
    assert by_hand.recommend().digest == training.agent.policy.digest


def test_a_learner_succeeds_only_one_of_the_same_episodes():
    training = train(Walk(), **GIVEN)
    other = training.setting.learner(rs.EveryEpisode(), SMALL)
    with pytest.raises(ValueError, match="other must have 0 episodes of dim 18; got 30 of 18"):
        other.succeed(training.learner)


def test_the_range_holds_the_rewards_of_a_warm_start_from_the_start():
    log = list(train(Walk(), **GIVEN).log)
    training = train(Walk(), **GIVEN, rewards=(0.0, 0.5), warm_start=log)
    assert training.setting.rewards == Rewards(0.0, 1.0)
    reasons = training.setting.reasons
    assert reasons["rewards"] == "as given; widened by the warm start"
    assert reasons["warm start"] == "30 episodes are learnt from before the first"


def test_large_files_are_announced_before_they_are_written(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr("rareswitch.gym.training.LARGE", 0.001)
    train(Walk(), **GIVEN, fresh=0, folder=tmp_path / "walk", progress=steps.append)
    (begun,) = [step for step in steps if step.phase == "begun"]
    assert begun.text.startswith("up to 4 policies of about 0 MB each")


@pytest.mark.parametrize("folder", [False, True])
def test_the_memory_of_a_learner_whose_states_are_all_new_is_announced(
    folder, tmp_path, monkeypatch
):
    """8·(2·d/A + A) numbers for each next state in A blocks, and the blocks of Λ."""
    steps = []
    monkeypatch.setattr("rareswitch.gym.training.LARGE", 0.001)
    given = {"folder": tmp_path / "cart"} if folder else {}
    train(
        "CartPole-v1", episodes=30, horizon=20, stages="shared", fresh=0, policies=False,
        progress=steps.append, **given,
    )  # fmt: skip
    (begun,) = [step for step in steps if step.phase == "begun"]
    most = 8 * (2 * 160 * 80 + 30 * 20 * (2 * 80 + 2)) / 1e6
    where = "memory and learner.bin" if folder else "memory"
    assert begun.text == (
        f"the learner takes about {most:.0f} MB of {where} at most, if no state comes twice"
    )


# Judgement.


def test_the_best_version_is_the_one_whose_return_is_surely_highest():
    def cohort(version, mean, low):
        sizes = {"first": 1, "episodes": 30, "high": None if low is None else mean + 1.0}
        return Cohort(version=version, mean=mean, low=low, **sizes)

    cohorts = [cohort(1, 9.0, None), cohort(2, 5.0, 1.0), cohort(3, 4.0, 3.0), cohort(4, 4.0, 3.0)]
    assert best_cohort(cohorts).version == 3
    assert best_cohort(cohorts[:1]) is None


def test_the_best_version_plays_the_same_fresh_episodes_as_the_recommended_policy(tmp_path):
    given = {"episodes": 80, "horizon": 8, "switches": 2, "recipe": SMALL, "seed": 1}
    training = train("FrozenLake-v1", **given, fresh=40, folder=tmp_path / "lake")
    lows = {one.version: one.low for one in training.cohorts() if one.low is not None}
    version, agent = training.best
    assert lows[version] == max(lows.values())
    assert agent.policy.digest == training.learner.ledger[version - 1].digest
    fresh = evaluate(agent, training.world, episodes=40, seed=1)
    best, recommended = training.summary["best"], training.summary["recommended"]
    assert (best["version"], best["fresh"]["mean"]) == (version, fresh.mean)
    gain = best["gain"]["mean"]
    assert gain == pytest.approx(fresh.mean - recommended["fresh"]["mean"], abs=1e-12)
    in_memory = train("FrozenLake-v1", **given)
    assert in_memory.best[0] == version
    assert in_memory.best[1].policy.digest == agent.policy.digest


def test_a_version_that_is_measurably_better_is_told():
    training = train(Walk(), **GIVEN)
    totals = np.random.default_rng(0).normal(size=50)

    def returns(shift):
        moved = totals + shift
        return Returns(totals=moved, mean=float(moved.mean()), low=None, high=None)

    training.evaluate(2)
    agent = training.agent
    training._judged = Judged(agent=agent, fresh=returns(0.0))
    for shift, told in ((0.0, False), (0.5, True), (-0.5, False)):
        training._rival = Judged(agent=agent, version=2, fresh=returns(shift))
        better = [note for note in training.notes if "version 2 earns 0.5" in note]
        assert bool(better) is told


class Lying(FrozenLakeEnv):
    """A lake whose model does not say that every step costs a little."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - 0.1, *rest


def test_an_environment_that_does_not_do_what_its_model_says_is_told():
    given = {"episodes": 20, "horizon": 10, "switches": 1, "rewards": (-0.1, 1.0)}
    for world, wrong in ((Lying(), True), (FrozenLakeEnv(), False)):
        training = train(world, **given)
        training.evaluate(100)
        assert training.summary["recommended"]["exact"] is not None
        assert any("does not do what its model P says" in note for note in training.notes) is wrong


def test_exact_returns_heed_the_limit_of_a_wrapper():
    cut_off = TimeLimit(FrozenLakeEnv(), 10)
    training = train(cut_off, episodes=20, horizon=20, switches=1)
    assert training.summary["recommended"]["exact"] is None
    assert train(cut_off, episodes=20, switches=1).summary["optimum"] is not None


# Logs.


def test_a_log_gives_the_rows_that_were_played():
    class Single(gymnasium.Env):
        observation_space, action_space = Box(0.0, 1.0, (2,), np.float32), Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.random(2).astype(np.float32), {}

        def step(self, action):
            shown = self.np_random.random(2).astype(np.float32)
            return shown, float(shown[0]), False, False, {}

    def rows(shown):
        return np.outer([1.0, 0.3], shown * shown / 3)

    games = []
    training = train(
        Single(), episodes=5, horizon=4, switches=0, features=rows, callback=games.append
    )
    for game in games:
        again = episode_of(game.trajectory, training.setting.features, training.setting.rewards, 4)
        assert again.features.tobytes() == game.playing.episode().features.tobytes()


def test_a_log_alone_is_learnt(tmp_path):
    played = train(Walk(), **GIVEN | {"episodes": 80})
    log = list(played.log)
    training = train(log, recipe=SMALL)
    assert training.setting.features.name == played.setting.features.name
    assert training.setting.reasons["horizon"] == "the longest episode of the log"
    assert training.totals.tolist() == played.totals.tolist()
    assert training.agent.begin("ada").act(0) in (0, 1, 2)
    assert training.best is training.summary["deployment_limit"] is None
    assert training.summary["switches"] == 0
    with pytest.raises(ValueError, match="world must be given; this training has a log"):
        training.evaluate(5)
    assert training.evaluate(25, world=Walk()).mean > 0.0
    write_log(tmp_path / "played.jsonl", log)
    again = train(tmp_path / "played.jsonl", recipe=SMALL)
    assert again.agent.policy.digest == training.agent.policy.digest
    assert len(list(read_log(tmp_path / "played.jsonl"))) == 80


def test_a_log_of_arrays_gets_features_or_takes_them():
    log = list(train(Walk("array"), **GIVEN, features="linear").log)
    assert not train(log, recipe=SMALL).setting.features.one_hot
    assert train(log, features=blocks()).setting.features.dim == blocks().dim
    dicts = list(train(Walk("dict"), **GIVEN, features="linear").log)
    assert train(dicts, recipe=SMALL).setting.features.actions == 3
    texts = [replace(one, observations=list(map(str, one.observations))) for one in log]
    with pytest.raises(TypeError, match=r"got Text\(\): write a function from an observation"):
        train(texts)


@pytest.mark.parametrize(
    ("world", "given", "message"),
    [
        (Walk(), {}, "episodes must be given for an environment"),
        ([], {}, "world must be an environment or a log"),
        ([3], {}, "world must be an environment or a log"),
        (3, {"episodes": 2}, "world must have Gymnasium's reset and step; got 3"),
    ],
)
def test_what_is_neither_an_environment_nor_a_log_is_refused(world, given, message):
    with pytest.raises(TypeError, match=message):
        train(world, **given)


def test_an_interruption_says_where_the_episodes_are_kept(tmp_path):
    def interrupt(played):
        if played.number == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        train(Walk(), **GIVEN, folder=tmp_path / "walk", callback=interrupt)
    (note,) = caught.value.__notes__
    assert note.endswith(f"episodes are kept in {tmp_path / 'walk'}; the same call resumes")


def test_a_log_says_which_actions_it_never_takes():
    log = list(train(Walk(), **GIVEN).log)
    shifted = [replace(one, actions=one.actions + 1, masks=None) for one in log]
    training = train(shifted, recipe=SMALL)
    reasons, note = training.setting.reasons, "the log never takes action 0: if its actions count"
    assert note in str(training.notes)
    assert note not in str(train(log, recipe=SMALL).notes)
    assert (
        reasons["actions"]
        == "4, numbered from 0 to the largest of the log; the log never takes 0: "
        "are its actions counted from 1?"
    )
