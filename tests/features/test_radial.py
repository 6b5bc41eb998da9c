import numpy as np
import pytest

from rareswitch.features import Radial


def test_equal_seeds_draw_equal_features_and_others_do_not():
    first, again, other = (
        Radial.drawn(inputs=2, components=4, bandwidths=1.0, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_bandwidths_have_directions_of_their_own():
    basis = Radial.drawn(inputs=2, components=4, bandwidths=(1.0, 2.0))
    assert not np.allclose(basis.weights[:, :4], 2.0 * basis.weights[:, 4:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidths": 0.0}, "bandwidths must be a finite number above 0"),
        ({"bandwidths": ()}, "bandwidths must hold at least one"),
        ({"bandwidths": 1.0, "components": 0}, "components must be at least 1"),
        ({"bandwidths": 1.0, "inputs": 0}, "inputs must be at least 1"),
        ({"bandwidths": 1.0, "seed": -1}, "seed must be at least 0"),
    ],
)
def test_what_is_drawn_must_make_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        Radial.drawn(**{"inputs": 2, "components": 3} | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": np.zeros((2, 0)), "offsets": []}, "weights must have a row and a column"),
        ({"weights": [[1.0, 2.0]], "offsets": [0.0]}, r"offsets must have shape \(2,\)"),
        ({"weights": [[1.0]], "offsets": [0.0], "amplitude": 0.0}, "amplitude must be"),
    ],
)
def test_arrays_must_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        Radial(**{"amplitude": 1.0} | arguments)
