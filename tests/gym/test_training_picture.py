"""The picture of a training: what is drawn is what was met."""

import gymnasium
import numpy as np
import pytest

from rareswitch.gym import Returns, Training, evaluate, train
from rareswitch.gym.exact import known_returns
from rareswitch.gym.picture import draw_training, running_mean, save_picture


@pytest.fixture(scope="module")
def lake():
    return gymnasium.make("FrozenLake-v1")


@pytest.fixture(scope="module")
def training(lake):
    return train(lake, episodes=60, switches=3, horizon=10)


@pytest.fixture(scope="module")
def beside(training, lake):
    agent = training.agent
    return {
        "known": known_returns(agent.policy, lake, agent.features),
        "fresh": evaluate(agent, lake, episodes=30),
    }


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_mean_is_of_each_episode_and_those_before_it():
    totals = np.random.default_rng(0).normal(size=40)
    for window in (1, 7, 40, 100):
        literal = [totals[max(0, k + 1 - window) : k + 1].mean() for k in range(40)]
        np.testing.assert_allclose(running_mean(totals, window), literal, atol=1e-12)


def test_returns_switches_and_the_distance_from_the_optimum_are_drawn(training, beside):
    figure = draw_training(training, title="Lake", **beside, random=beside["known"].random)
    above, below = figure.axes
    lines = {line.get_label(): line for line in above.get_lines()}
    mean = lines["return, mean of 20 episodes"]
    np.testing.assert_array_equal(mean.get_xdata(), np.arange(1, 61))
    np.testing.assert_array_equal(mean.get_ydata(), running_mean(training.totals, 20))
    upright = [line for line in above.get_lines() if line.get_label().startswith("_child")]
    marked = [line.get_xdata()[0] for line in upright if len(set(line.get_xdata())) == 1]
    assert marked[:3] == training.switch_episodes
    assert lines["optimum"].get_ydata()[0] == beside["known"].optimum
    assert lines["random"].get_ydata()[0] == beside["known"].random
    (missed,) = below.get_lines()
    expected = np.cumsum(beside["known"].optimum - training.totals)
    np.testing.assert_array_equal(missed.get_ydata(), expected)
    assert "regret" not in below.get_ylabel()
    assert figure.get_suptitle() == "Lake"
    assert labels(figure) == [
        "return, mean of 20 episodes",
        "3 switches",
        "optimum",
        "random",
        "recommended, 30 fresh episodes",
    ]


def test_what_is_not_known_is_not_drawn(training):
    figure = draw_training(training, title="Lake")
    assert len(figure.axes) == 1
    assert labels(figure) == ["return, mean of 20 episodes", "3 switches"]


def test_an_interval_that_misses_its_mean_by_rounding_is_drawn(training):
    totals, above = np.full(3, 0.1), np.nextafter(0.1, 1.0)
    fresh = Returns(totals=totals, mean=0.1, low=above, high=above)
    assert draw_training(training, title="Lake", fresh=fresh).axes


def test_the_same_training_gives_the_same_bytes(training, beside, tmp_path):
    for name in ("one.png", "two.png"):
        save_picture(draw_training(training, title="Lake", **beside), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_a_training_without_an_episode_has_no_picture(training):
    with pytest.raises(ValueError, match="at least one episode to draw; got 0"):
        draw_training(Training(training.setting, training.learner), title="Lake")
