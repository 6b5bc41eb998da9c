import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rareswitch.core.control import Control
from rareswitch.core.policy import Policy
from rareswitch.evaluation import compare
from rareswitch.evaluation.interval import Resampling, interval_of
from rareswitch.evaluation.weights import Weights, describe_weights
from rareswitch.trajectories import Trajectory


def described(weights, members=1):
    """Return what weights (N, H) amount to, by one member of a log whose actions have p = 1e-6."""
    likelihood = np.full(weights.shape, 1e-6)
    return describe_weights((weights * likelihood)[..., None], likelihood)


@pytest.mark.parametrize(
    ("last", "effective"),
    [([1, 1, 1, 1], 4.0), ([3, 3, 3, 3], 4.0), ([5, 0, 0, 0], 1.0), ([2, 2, 0, 0], 2.0),
     ([1, 2, 3, 4], 100 / 30), ([0, 0, 0, 0], 0.0)],
)  # fmt: skip
def test_the_effective_number_of_episodes(last, effective):
    found = described(np.column_stack([np.ones(4), last]))
    assert found.effective.tolist() == pytest.approx([4.0, effective])
    assert (found.largest, found.mean) == pytest.approx((max(last), np.mean(last)))
    assert found.error == pytest.approx(np.std(last) / 2)


@given(hnp.arrays(np.float64, (6, 3), elements=st.floats(0, 1e3).map(lambda x: round(x, 6))))
def test_it_is_never_more_than_there_are_episodes(weights):
    effective = described(weights).effective
    assert (effective <= 6 + 1e-9).all()
    assert ((effective >= 1 - 1e-9) == weights.any(axis=0)).all()


def test_untried_is_what_no_episode_shows():
    agrees = np.zeros((5, 4, 2), bool)
    agrees[3, :, 0] = True  # one member is shown to the end
    agrees[1, :1, 1] = True  # the other in its first stage only
    assert describe_weights(agrees + 0.0, np.ones((5, 4))).untried == pytest.approx(3 / 8)


def of_one_step(chances, propensities):
    """Return the weights of one-step episodes: the policy's and the log's chance of each action."""
    return describe_weights(
        np.array(chances, float)[:, None, None], np.array(propensities)[:, None]
    )


def test_actions_that_could_not_happen_are_told_from_those_that_did_not():
    # A log that always did the same; the policy does it in half of the states.
    certain = of_one_step([1, 0] * 50, [1.0] * 100)
    assert (certain.impossible, certain.missing) == (0.5, 0.5)
    # The same, where the log could have done something else.
    could = of_one_step([1, 0] * 50, [0.99] * 100)
    assert (could.impossible, could.missing) == (0.0, pytest.approx(1 - 0.5 / 0.99))
    assert could.possible == pytest.approx(1 / 0.01)
    words = [found.warnings("the candidate")[-1] for found in (certain, could)]
    assert words[0].endswith(
        "50% of its behaviour is not in the log; all of it because the log's policy could not take "
        "those actions"
    )
    assert words[1].endswith("49% of its behaviour is not in the log")


def test_a_large_weight_that_was_possible_and_did_not_happen_is_told():
    # In 1 of 10 states the policy does what the log does with probability 0.001; it never did.
    found = of_one_step(([0.5] * 1 + [1.0] * 9) * 20, [0.999] * 200)
    assert found.effective[-1] > 190
    assert not found.missing
    assert found.largest == pytest.approx(1 / 0.999)
    assert found.possible == pytest.approx(0.5 / 0.001)
    # E w² = 0.9/0.999 + 0.1·(0.25/0.999 + 0.25/0.001), nearly all of it unseen.
    assert found.possible_error == pytest.approx(np.sqrt((0.9259 + 25.0 - 1.0) / 200), rel=1e-3)
    assert found.narrow
    assert found.error < 0.02


def test_what_happened_as_often_as_it_should_hides_nothing():
    rng = np.random.default_rng(0)
    common = rng.random(2000) < 0.9
    found = of_one_step([0.5] * 2000, np.where(common, 0.9, 0.1))
    assert (found.possible, found.largest) == pytest.approx((5.0, 5.0))
    assert found.possible_error == pytest.approx(found.error, rel=0.1)
    assert not found.narrow


def test_over_several_steps_the_unseen_branch_of_the_last_counts():
    # Two steps with p = 0.5, both as the policy does: w² is 16 here, and 0 on the other branches.
    found = describe_weights(np.ones((100, 2, 1)), np.tile([0.5, 0.25], (100, 1)))
    assert found.possible == found.largest == 4.0
    assert found.possible_error == pytest.approx(np.sqrt((4.0 * 1.0 / 0.5 - 1.0) / 100))


def test_intervals_without_a_warning_hold_the_truth_where_weights_have_heavy_tails():
    """Rare actions whose reward matters: what is shown without a warning can be believed."""
    shown = held = all_held = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        episodes, rarity, share = 200, (0.1, 0.03, 0.01)[seed % 3], (0.05, 0.2)[seed % 2]
        special, rare = rng.random(episodes) < share, rng.random(episodes) < rarity
        propensities = np.where(rare, rarity, 1.0 - rarity)
        chances = np.where(special, 0.5, propensities)  # in special states the policy tosses a coin
        found = of_one_step(chances, propensities)
        rewards = 4.0 * (special & rare) + rng.normal(0.0, 1.0, episodes)
        columns = (chances / propensities * rewards)[:, None]
        _, low, high = interval_of(0.0, Resampling(episodes, rng).means(columns)[:, 0])
        inside = low <= 4.0 * 0.5 * share <= high
        all_held += inside
        if found.warnings("the policy") == ():
            shown, held = shown + 1, held + inside
    assert all_held < 0.75 * 150
    assert shown > 50
    assert held > 0.9 * shown


def some(**change):
    known = {
        "episodes": 100, "effective": np.array([90.0, 60.0, 40.0]), "largest": 3.0, "mean": 1.0,
        "error": 0.1, "untried": 0.0, "possible": 4.0, "impossible": 0.0, "possible_error": 0.1,
    }  # fmt: skip
    return Weights(**known | change)


def test_there_is_nothing_to_say_where_weights_are_well():
    assert some().reach == 3
    assert some().warnings("the candidate") == ()
    assert some(mean=0.8, untried=0.04).warnings("the candidate") == ()
    assert some(mean=0.8).missing == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"effective": np.array([90.0, 21.0, 7.0])},
            "the log can judge stages 1 to 2 of 3; after stage 2 fewer than 20 effective episodes "
            "agree with the candidate",
        ),
        (
            {"effective": np.array([20.0, 7.0])},
            "the log can judge stage 1 of 2; after stage 1 fewer than 20 effective episodes agree "
            "with the candidate",
        ),
        (
            {"effective": np.array([7.0, 2.0])},
            "the log cannot judge the candidate: only 7.0 effective episodes of 100 agree with it "
            "at stage 1 of 2, and 20 are needed",
        ),
        (
            {"untried": 0.25},
            "at 25% of the stages, on average over members, no logged episode follows the "
            "candidate from its first step on",
        ),
        (
            {"mean": 0.5, "impossible": 0.4},
            "the mean weight for the candidate is 0.50 and should be 1: 50% of its behaviour is "
            "not in the log; 80% of it because the log's policy could not take those actions",
        ),
        (
            {"possible_error": 0.21, "possible": 38.2},
            "the candidate takes actions that are rare in the log and hardly happened, with "
            "weights up to 38.2: the interval may be too narrow",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(change, words):
    assert some(**change).warnings("the candidate") == (words,)


def test_the_reach_ends_at_the_first_stage_with_too_few():
    assert some(effective=np.array([5.0, 50.0, 50.0])).reach == 0
    assert some(effective=np.array([50.0, 5.0, 50.0])).reach == 1


def log_without_action_0(episodes=400, horizon=2, seed=0):
    """Return trajectories with actions 1 to 3 only, whose propensities add up to 1."""
    rng = np.random.default_rng(seed)
    chances = np.array([0.5, 0.3, 0.2])
    log = []
    for _ in range(episodes):
        actions = rng.choice(3, size=horizon, p=chances)
        log.append(
            Trajectory(
                observations=rng.integers(4, size=horizon + 1).tolist(),
                actions=(actions + 1).tolist(),
                rewards=rng.random(horizon).tolist(),
                propensities=chances[actions],
                terminated=True,
            )
        )
    return log


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.4])
def test_actions_that_the_log_never_takes_are_counted_exactly(share):
    def mostly_2(observation, stage):
        return [share if stage == 0 else 0.0, 0.0, 1.0 - (share if stage == 0 else 0.0), 0.0]

    found = compare(mostly_2, log_without_action_0())
    assert found.candidate.weights.unlogged == pytest.approx(share)
    assert ("never takes" in " ".join(found.warnings)) == (share > 0.005)
    if share > 0.05:
        assert found.verdict.startswith("the log says nothing about")


def test_players_of_a_mixture_count_with_their_shares():
    """One of two members takes action 0, the control action 2, and the floor each action alike."""
    weights = np.zeros((2, 2, 4))
    weights[0, :, 0], weights[1, :, 1] = 1.0, 1.0
    control = Control(2, share=0.2)
    policy = Policy(weights=weights, allocation=0, control=control, floor=0.4)
    found = compare(policy, log_without_action_0(), features=lambda state: np.eye(4))
    first = 0.4 * 0.5 + 0.4 / 4  # learned members, and the floor
    later = 0.4 * 0.75 / 4  # a member that took another action takes another again
    assert found.candidate.weights.unlogged == pytest.approx(first + later, abs=0.02)


def test_places_among_different_offers_are_no_names_of_actions():
    log = [
        Trajectory(observations=[n % 2, 0], actions=[0], rewards=[0.5], propensities=[0.5],
                   terminated=True)
        for n in range(40)
    ]  # fmt: skip
    policy = Policy(weights=[[0.0, 1.0]])
    found = compare(policy, log, features=lambda state: np.eye(2)[: 1 + state])
    assert found.candidate.weights.unlogged == 0.0
