"""Features by a word: what each makes of a state, and what is refused."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from rareswitch.features import Cosines, OneHot, Polynomial, features_named
from rareswitch.features.scaling import in_range

BOX = Box(-np.inf, np.inf, (2,))
SEEN = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 40.0]


def named(text, space=BOX, actions=2, **more):
    return features_named(text, space, actions, lambda: SEEN, **more)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("linear", 3),
        ("polynomial", 6),
        ("polynomial,degree=3", 10),
        ("fourier", 1 + 2 * 3 + 9),
        ("fourier,order=2,coupled=1", 5),
        ("fourier,order=9,terms=12", 12),
        ("radial", 3 + 80),
        ("radial,components=5,bandwidths=[1,2,4]", 3 + 15),
        ("radial,components=5,bandwidths=2", 3 + 5),
    ],
)
def test_every_word_makes_blocks_of_bounded_rows(text, size):
    features = named(text, actions=3)
    assert (features.dim, features.actions) == (3 * size, 3)
    assert features.norm <= 1.0 + 1e-12
    for state in (*SEEN, [1e9, -1e9]):
        rows = features(state)
        assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-9
        np.testing.assert_array_equal(rows[1, size : 2 * size], rows[0, :size])
        assert not rows[0, size:].any()


def test_the_numbers_are_those_of_the_bases():
    state = SEEN[7]
    scaled = in_range(BOX, SEEN)(state)
    expected = {
        "linear": [1.0, *scaled],
        "polynomial": Polynomial(inputs=2, degree=2)(scaled),
        "fourier": Cosines.fourier(inputs=2, order=3)(scaled),
    }
    for text, values in expected.items():
        row = named(text)(state)[0, : len(values)]
        np.testing.assert_allclose(row / row[0], values, atol=1e-12)


def test_bandwidths_are_shares_of_the_range_times_the_root_of_the_numbers():
    drawn = Cosines.radial(inputs=2, components=5, bandwidths=0.3 * 2**0.5, seed=4)
    row = named("radial,components=5,bandwidths=0.3,seed=4")(SEEN[7])[0, 3:8]
    expected = drawn(in_range(BOX, SEEN)(SEEN[7]))
    np.testing.assert_allclose(row / row[0], expected / expected[0], atol=1e-12)


def test_observations_of_several_parts_are_laid_flat():
    space = Dict(x=Box(-1.0, 1.0, (1,)), gear=Discrete(3))
    seen = [{"x": [i / 10], "gear": i % 3} for i in range(10)]
    assert features_named("linear", space, 2, lambda: seen).dim == 2 * 5


def test_a_table_asks_for_no_sample():
    found = features_named("one-hot", Discrete(5), 2, lambda: pytest.fail("asked"))
    assert found == OneHot.of(Discrete(5), 2)
    with pytest.raises(ValueError, match="must be countable"):
        named("one-hot")


def test_seeds_draw_other_radial_features():
    assert named("radial").digest == named("radial,seed=0").digest
    assert named("radial").digest != named("radial,seed=1").digest


def test_what_is_no_word_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"one of default, one-hot, linear, .*; got 'tiles'"):
        named("tiles")
    with pytest.raises(ValueError, match="linear has no argument 'order'; it takes none"):
        named("linear,order=3")
    with pytest.raises(ValueError, match="radial has no argument 'order'; it takes components"):
        named("radial,order=3")
    with pytest.raises(ValueError, match=r"got 'linaer'; did you mean linear\?"):
        named("linaer")
    with pytest.raises(ValueError, match="degree must be"):
        named("polynomial,degree=0")


def test_your_own_are_named_by_a_module():
    own = {"allow": ["cli.walk"]}
    assert named("cli.walk:rows", **own).__name__ == "rows"
    assert named("cli.walk:Table", **own).states == 5
    assert named("cli.walk:Table,states=9", **own).states == 9
    with pytest.raises(ValueError, match=r"'cli\.walk:absent' cannot be imported"):
        named("cli.walk:absent", **own)
    with pytest.raises(ValueError, match=r"must name a class; 'cli\.walk:rows' is"):
        named("cli.walk:rows,a=1", **own)


def test_features_that_nobody_allowed_or_that_are_none_are_not_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = 'subprocess:Popen,args=["touch","ran"]'
    with pytest.raises(ValueError, match="features 'subprocess:Popen' names code of the module"):
        named(code)
    with pytest.raises(ValueError, match="'subprocess:Popen' must be a function of your own, or a"):
        named(code, allow=["subprocess"])
    assert not (tmp_path / "ran").exists()
