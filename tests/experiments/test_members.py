"""Members of a mixture against the oblivious adversary: runs, least regret and claims."""

import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import computed, experiment, handmade
from rareswitch.experiments import members
from rareswitch.experiments.run import compute
from rareswitch.experiments.store import cut_into_pieces
from rareswitch.sim import play_adversary

WORLD = '\n[world]\nkind = "oblivious-adversary"\nstates = 2\nhorizon = 3\n'
MIXTURES = """
[[arms]]
name = "mixture-{members}-{horizon}"
schedule = { kind = "uniform-grid", batches = 6 }
exploration = { kind = "ensemble", members = [1, 32, 128] }
world = { horizon = [3, 4] }
"""
BATCH = """
[[arms]]
name = "batch-{horizon}"
schedule = { kind = "uniform-grid", batches = 6 }
beta = 1
world = { horizon = [3, 4] }
"""
ROUNDS = 8
WIDE = np.where(np.arange(ROUNDS) % 2, 1.6, 0.4)[:, None]


def spec(arms=MIXTURES + BATCH, **changes):
    changes = {"rounds": ROUNDS, "episodes": 24, "world": WORLD, "defaults": ""} | changes
    return experiment(arms=arms, **changes)


@pytest.mark.parametrize(
    ("line", "recipe"),
    [
        ("beta = 0.3", rs.Recipe.paper(beta=0.3)),
        ('exploration = { kind = "ensemble", members = 4 }', rs.Recipe(exploration=rs.Ensemble(4))),
        ('exploration = { kind = "bonus", members = 4 }', rs.Recipe(exploration=rs.Bonus(1.0, 4))),
    ],
)
@pytest.mark.parametrize("batches", [2, 7])
@pytest.mark.parametrize("normalized", [False, True])
def test_a_piece_is_the_duel_with_the_oblivious_adversary(line, recipe, batches, normalized):
    arms = f'\n[[arms]]\nname = "a"\nschedule = {{ kind = "uniform-grid", batches = {batches} }}\n'
    world = WORLD + f"normalized = {str(normalized).lower()}\n"
    arrays = compute(cut_into_pieces(spec(arms + line, world=world, rounds=2))[0]).arrays
    for seed in ((0, 0), (0, 1)):
        grid, sizes = rs.UniformGrid(batches=batches), {"states": 2, "horizon": 3}
        task = rs.worlds.lower_bound_family(normalized=normalized, **sizes).task(episodes=24)
        own = rs.Recipe(exploration=recipe.exploration, seed=seed)
        duel = play_adversary(
            rs.Learner(task, grid, own),
            episodes=24,
            starts=grid.starts(task),
            normalized=normalized,
            seed=seed,
            **sizes,
        )
        np.testing.assert_array_equal(arrays["regret"][seed[1]], duel.regret)


@pytest.mark.parametrize("count", [1, 3, 32])
def test_the_least_regret_is_the_sum_over_states_of_their_batches(count):
    runs = handmade(spec(MIXTURES.replace("= 6", "= 5")), [1.0] * 6)
    # Batches of 4 episodes and a last one of 8, for both states in turn; x_0 is left out.
    for arm in runs.arms:
        if arm.world.horizon == 3:
            least = [
                rs.theory.least_expected_regret(horizon=3, lengths=lengths, members=count)
                for lengths in ((4, 4), (4, 8))
            ]
            target = arm.algorithm(runs.task(arm)).batches(runs.task(arm), 2)[1]
            assert target.tolist() == [1, 2, 1, 0, 2]
            assert runs.least_regret(arm, members=count) == pytest.approx(sum(least))


def at(ratios, count):
    """Return runs whose mixtures have these ratios to the least regret with `count` members."""
    runs = handmade(spec(), [0.0] * 8)
    regret = []
    for arm, ratio in zip(runs.arms, ratios, strict=True):
        least = runs.least_regret(arm, members=count or arm.members)
        regret.append(np.asarray(ratio) * least / 24)
    return handmade(runs.experiment, regret)


# Arms come by members, then by horizon; the last two are Batch.
@pytest.mark.parametrize(
    ("three", "four", "verdict"),
    [
        (0.9, 0.5, "holds"),
        (0.9, 1.1, "does not hold"),
        (1.1, 0.9, "does not hold"),
        (WIDE, 0.9, "undecided"),
    ],
)
def test_the_default_mixture_must_beat_one_policy_at_every_horizon(three, four, verdict):
    claim = members.mixture_beats_one_policy(at([9, 9, three, four, 9, 9, 9, 9], 1))
    assert claim.verdict == verdict
    assert "H=3 " in claim.evidence
    assert "H=4 " in claim.evidence


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.0, "holds"), (0.9, "does not hold"), (0.9 * WIDE, "holds")]
)
@pytest.mark.parametrize("place", range(8))
def test_no_arm_may_be_below_the_least(ratio, verdict, place):
    ratios = [1.5] * 8
    ratios[place] = ratio
    assert members.nothing_below_the_least(at(ratios, None)).verdict == verdict


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([9, 9, 1.9, 1.9, 1.9, 1.9, 9, 9], "holds"),
        ([1, 1, 2.1, 1, 1, 1, 1, 1], "does not hold"),
        ([1, 1, 1, 1, 1, 2.1, 1, 1], "does not hold"),
        ([1, 1, 1, 1, 2 * WIDE, 1, 1, 1], "undecided"),
    ],
)
def test_the_law_is_judged_from_the_default_number_of_members_on(ratios, verdict):
    assert members.law_in_members(at(ratios, None)).verdict == verdict


@pytest.mark.parametrize(
    ("many", "verdict"), [(0.99, "holds"), (1.01, "does not hold"), (WIDE, "undecided")]
)
def test_more_members_must_save_regret_at_every_horizon(many, verdict):
    claim = members.more_members_pay(at([9, 9, 1, 1, 0.5, many, 9, 9], 1))
    assert claim.verdict == verdict


def test_on_average_nothing_measured_is_below_the_least(tmp_path):
    runs = computed(spec(rounds=40, episodes=48), tmp_path)
    for i, arm in enumerate(runs.arms):
        total = runs.regret[i].sum(axis=-1)
        error = total.std(ddof=1) / np.sqrt(len(total))
        assert total.mean() >= runs.least_regret(arm, members=arm.members) - 4 * error
