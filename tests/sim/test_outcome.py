import numpy as np
import pytest

from rareswitch.sim.outcome import MEASURES, Outcome

PLAIN = {"regret": 1.0, "deployments": 3, "switches": 1}
TOLD = PLAIN | {
    "returns": [0.5, 0.0, -2.0, 1.0],
    "deployment_episodes": [1, 2, 4],
    "switch_episodes": [4],
}


def test_an_outcome_may_leave_out_the_fits_and_the_episodes():
    outcome = Outcome(**PLAIN)
    assert outcome.optimistic is outcome.returns is outcome.mean_return is None
    assert outcome.deployment_episodes is outcome.switch_episodes is None
    assert outcome.measure == "regret"


def test_what_is_told_of_episodes_is_kept_and_cannot_be_changed():
    returns = np.array(TOLD["returns"])
    outcome = Outcome(**TOLD | {"returns": returns})
    returns[0] = 9.0
    assert outcome.returns.tolist() == TOLD["returns"]
    assert not outcome.returns.flags.writeable
    assert outcome.mean_return == -0.125
    assert outcome.deployment_episodes == (1, 2, 4)
    assert outcome.switch_episodes == (4,)


def test_outcomes_are_equal_if_all_they_tell_is():
    assert Outcome(**TOLD) == Outcome(**TOLD)
    assert hash(Outcome(**TOLD)) == hash(Outcome(**TOLD))
    assert Outcome(**TOLD) != Outcome(**TOLD | {"returns": [0.5, 0.0, -2.0, 1.5]})
    assert Outcome(**TOLD) != Outcome(**TOLD | {"measure": "shortfall"})
    assert Outcome(**TOLD) != TOLD


def test_every_measure_is_said_in_words():
    assert list(MEASURES) == ["regret", "shortfall"]
    assert "regret is not known" in MEASURES["shortfall"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regret": -1.0}, "regret must be a finite number at least 0; got -1.0"),
        ({"regret": float("nan")}, "regret must be"),
        ({"regret": float("inf")}, "regret must be"),
        ({"deployments": 0}, "deployments must be at least 1; got 0"),
        ({"switches": 3}, "switches must be from 0 to 2; got 3"),
        ({"switches": -1}, "switches must be from 0 to 2; got -1"),
        ({"optimistic": 1.5}, "optimistic must be"),
        ({"measure": "loss"}, "measure must be one of 'regret', 'shortfall'; got 'loss'"),
        ({"returns": []}, "returns must not be empty"),
        ({"returns": [[1.0]]}, "returns must have shape"),
        ({"returns": [float("nan")]}, "returns must be finite"),
        ({"deployment_episodes": [1, 2]}, "must be 3 different episodes in order; got \\(1, 2\\)"),
        ({"deployment_episodes": [1, 2, 2]}, "must be 3 different episodes"),
        ({"deployment_episodes": [0, 2, 4]}, "deployment_episodes must be from 1 to 4; got 0"),
        ({"switch_episodes": [5]}, "switch_episodes must be from 1 to 4; got 5"),
        ({"switch_episodes": []}, "switch_episodes must be 1 different episodes"),
        ({"returns": None}, "deployment_episodes must come with returns; got no returns"),
    ],
)
def test_an_impossible_outcome_is_refused_where_it_is_made(changes, message):
    with pytest.raises(ValueError, match=message):
        Outcome(**TOLD | changes)
