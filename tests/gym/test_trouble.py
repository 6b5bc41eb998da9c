"""An error about an environment says where it happened."""

import pickle

from rareswitch.gym import WorldError
from rareswitch.gym.episode import Place, RangeError


class Underway:
    step = 7


def test_the_message_names_episode_and_step():
    error = WorldError(ValueError("reward must be finite; got nan"), episode=3, step=12)
    assert str(error) == "reward must be finite; got nan (episode 3, step 12)"
    assert (error.episode, error.step) == (3, 12)
    assert isinstance(error, ValueError)


def test_it_survives_the_way_from_another_process():
    error = WorldError(ValueError("reward must be finite"), episode=3, step=12)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is WorldError
    assert str(copy) == str(error)
    assert (copy.episode, copy.step) == (3, 12)


def test_a_reward_outside_the_range_keeps_its_value():
    copy = pickle.loads(pickle.dumps(RangeError("reward must be from 0 to 1", 3, 12, 7.0)))
    assert (type(copy), copy.reward, copy.step) == (RangeError, 7.0, 12)
    assert str(copy) == "reward must be from 0 to 1 (episode 3, step 12)"


def test_a_place_is_in_the_first_step_until_an_episode_is_under_way():
    place = Place(4)
    assert (place.episode, place.step) == (4, 0)
    assert str(place) == "in episode 4, step 0"
    place.playing = Underway()
    assert str(place) == "in episode 4, step 7"
