import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ragged_episode, reference_q, unit_rows
from rareswitch.core.gram import Gram
from rareswitch.core.history import History
from rareswitch.core.lsvi import backward, fit
from rareswitch.core.policy import Policy
from rareswitch.core.pools import Pools
from rareswitch.core.recipe import Recipe
from rareswitch.core.regression import regression_of


class Scripted:
    """Statistics of three stages with Λ_h = 2, whose next values are ten times the weights."""

    pools, one_hot = Pools(3), False

    def __init__(self):
        gram = Gram((3,), 1, 1.0)
        gram.absorb(np.ones((3, 1)))
        self.whitener = gram.whitener
        self.reward_sums = np.array([[0.1], [0.2], [0.4]])
        self.asked = []

    def next_value_sums(self, h, following):
        self.asked.append((h, following))
        return 10 * following.weights


WEIGHTS = [(0.1 + 10 * 1.1) / 2, (0.2 + 10 * 0.2) / 2, 0.4 / 2]


@pytest.mark.parametrize("clip", [True, False])
def test_backward_regresses_on_the_stage_that_follows(clip):
    statistics = Scripted()
    regression = regression_of(statistics, rs.Bonus(0.7))
    stages = backward(statistics, regression, beta=0.7, clip=clip)
    np.testing.assert_allclose([stage.weights[0] for stage in stages], WEIGHTS)
    assert [h for h, _ in statistics.asked] == [1, 0]
    assert all(following is stages[h + 1] for h, following in statistics.asked)
    for h, stage in enumerate(stages):
        assert (stage.whitener == statistics.whitener[h]).all()
        assert (stage.levels, stage.offsets, stage.beta) == (None, None, 0.7)
        assert stage.cap == (3 - h if clip else None)
    assert statistics.reward_sums.tolist() == [[0.1], [0.2], [0.4]]  # untouched


@pytest.mark.parametrize("members", [1, 4])
def test_of_several_draws_the_largest_counts_and_weights_are_those_of_the_data(members):
    statistics, drawn = Scripted(), np.random.default_rng(0).standard_normal((members, 3, 2, 1))
    regression = regression_of(statistics, rs.Perturbation(1.0, draws=2))
    stages = backward(statistics, regression, beta=0.0, perturbations=drawn)
    for h, stage in enumerate(stages):
        found = np.broadcast_to(stage.weights, (members, 1))
        np.testing.assert_allclose(found, np.full((members, 1), WEIGHTS[h]))
        np.testing.assert_allclose(stage.offsets, drawn[:, h] / np.sqrt(2.0))  # Λ = 2
        assert stage.whitener is None  # without a bonus nobody needs it


def test_one_draw_is_added_to_the_weights_on_which_the_stage_before_regresses():
    statistics, drawn = Scripted(), np.random.default_rng(0).standard_normal((4, 3, 1, 1))
    regression = regression_of(statistics, rs.Ensemble(4, estimate=False))
    stages = backward(statistics, regression, beta=0.0, perturbations=drawn)
    expected = np.zeros((4, 1))
    for h in (2, 1, 0):
        data = statistics.reward_sums[h] + (10 * expected if h < 2 else 0.0)
        expected = data / 2 + drawn[:, h, 0] / np.sqrt(2.0)
        np.testing.assert_allclose(stages[h].weights, expected)
        assert stages[h].offsets is None


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 5.0]), st.booleans())
def test_fit_is_the_regression_on_the_raw_history(seed, beta, clip):
    rng = np.random.default_rng(seed)
    episodes = [ragged_episode(rng, horizon=3, dim=3) for _ in range(15)]
    history = History.from_log(episodes, dim=3, horizon=3, ridge=0.5)
    recipe = Recipe(exploration=rs.Bonus(beta), ridge=0.5, clip=clip, ties="lowest")
    policy = fit(history, recipe, version=7)
    expected = reference_q(episodes, horizon=3, dim=3, beta=beta, ridge=0.5, clip=clip)
    for h in range(3):
        rows = unit_rows(rng, 8, 3)
        np.testing.assert_allclose(policy.q_values(h, rows), expected(h, rows), atol=1e-9)
    assert (policy.beta, policy.clip, policy.directions) == (beta, clip, None)


@pytest.mark.parametrize(
    "exploration",
    [rs.Bonus(0.5), rs.Bonus(0.5, 4), rs.Perturbation(0.5, draws=3), rs.Ensemble(4)],
    ids=repr,
)
def test_fit_is_a_pure_function_of_statistics_recipe_and_version(exploration):
    rng = np.random.default_rng(1)
    log = [ragged_episode(rng, horizon=3, dim=3) for _ in range(9)]
    history = History.from_log(log, dim=3, horizon=3)
    recipe = Recipe(exploration=exploration, seed=3)
    first = fit(history, recipe, version=2)
    other = fit(history, recipe, version=3)
    assert fit(history, recipe, version=2).to_bytes() == first.to_bytes()
    assert other.to_bytes() != first.to_bytes()
    anew = Recipe(exploration=exploration, seed=3)
    assert fit(history, anew, version=3).to_bytes() == other.to_bytes()
    assert (first.directions == recipe.directions(2, 3, 3)).all()
    assert (first.members, first.allocation) == (exploration.members, recipe.allocation(2))


def test_without_data_weights_are_zero_and_bonuses_are_those_of_the_ridge():
    history = History(dim=3, horizon=2, ridge=4.0, feature_norm=1.0)
    policy = fit(history, Recipe(exploration=rs.Bonus(0.5), ridge=4.0), version=1)
    assert isinstance(policy, Policy)
    assert not policy.weights.any()
    np.testing.assert_allclose(policy.q_values(0, np.eye(3)), 0.5 / np.sqrt(4.0))


def test_a_recipe_with_another_ridge_than_the_statistics_is_refused():
    history = History.from_log([], dim=2, horizon=1, ridge=0.5)
    assert fit(history, Recipe(ridge=0.5), version=1).horizon == 1
    with pytest.raises(ValueError, match=r"ridge must be that of the statistics, 0\.5; .* has 1"):
        fit(history, Recipe(), version=1)


class Shared(Scripted):
    """The same of two pools, with Λ = 2 and Λ = 4, for stages that share their steps."""

    pools = Pools(3, "shared")

    def __init__(self):
        gram = Gram((2,), 1, 1.0)
        gram.absorb(np.array([[1.0], [np.sqrt(3.0)]]))
        self.whitener = gram.whitener
        self.reward_sums = np.array([[0.2], [0.4]])
        self.asked = []


def test_stages_that_share_regress_on_their_pool_each_with_the_stage_that_follows():
    statistics = Shared()
    stages = backward(statistics, regression_of(statistics, rs.Bonus(0.7)), beta=0.7)
    last = 0.4 / 4
    middle = (0.2 + 10 * last) / 2
    first = (0.2 + 10 * middle) / 2
    np.testing.assert_allclose([stage.weights[0] for stage in stages], [first, middle, last])
    assert [h for h, _ in statistics.asked] == [1, 0]
    assert all(following is stages[h + 1] for h, following in statistics.asked)
    assert [stage.cap for stage in stages] == [3.0, 2.0, 1.0]
    for stage, pool in zip(stages, (0, 0, 1), strict=True):
        assert (stage.whitener == statistics.whitener[pool]).all()


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("exploration", [rs.Bonus(0.5), rs.Bonus(0.5, estimate=True)], ids=repr)
def test_the_whitener_of_a_policy_has_a_part_for_each_stage(exploration, stages, one_hot):
    history = History.from_log([], dim=2, horizon=4, stages=stages, one_hot=one_hot)
    policy = fit(history, Recipe(exploration=exploration), version=1)
    assert policy.one_hot is one_hot
    assert policy.whitener.shape == ((4, 2) if one_hot else (4, 2, 2))
    assert policy.weights.shape == (4, 2)
    mixture = fit(history, Recipe(exploration=rs.Ensemble(3)), version=1)
    assert (mixture.weights.shape, mixture.levels.shape) == ((3, 4, 2), (3, 4))
    assert mixture.whitener is None
