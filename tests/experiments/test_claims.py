import numpy as np
import pytest

from experiments.miniature import EVERY, GRID, GROWTH, RANDOM, WORLD, experiment, handmade
from rareswitch.experiments import claims, mixtures, report

ROUNDS = 10
# Rounds that differ so much that an interval around their mean, 1, is wide.
WIDE = np.where(np.arange(ROUNDS) % 2, 1.6, 0.4)[:, None]
ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
ZETAS = GRID.replace('"batch-{batches}"', '"batch-{zeta}"').replace("[4, 8]", "4") + (
    "world = { zeta = [0.0, 0.1, 0.4] }\n"
    + GROWTH.replace('"rareswitch-{eta}"', '"rareswitch-{zeta}"').replace("[2, 8]", "2")
    + "world = { zeta = [0.0, 0.1, 0.4] }\n"
)


def figure(arms, regret, *, episodes=25, world=WORLD, **counts):
    spec = experiment(arms=arms, world=world, rounds=ROUNDS, episodes=episodes)
    return handmade(spec, regret, **counts)


def grids(*batches):
    return GRID.replace("[4, 8]", str(list(batches)))


def rules(*etas):
    return GROWTH.replace("[2, 8]", str(list(etas)))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 0.9, "holds"),
        (0.5, 1.0, "holds"),
        (1.1, 1.2, "does not hold"),
        (0.9, 1.1, "undecided"),
        (1.0, 1.1, "undecided"),
    ],
)
def test_at_most_is_judged_by_the_whole_interval(low, high, verdict):
    assert claims.judge_at_most((0.95, low, high), 1.0) == verdict


def test_a_claim_about_several_is_as_good_as_the_worst():
    for verdicts, worst in (
        (["holds", "holds"], "holds"),
        (["holds", "undecided"], "undecided"),
        (["undecided", "does not hold", "holds"], "does not hold"),
    ):
        found = claims.judge_parts([(verdict, verdict) for verdict in verdicts], "Found: ")
        assert found == {"verdict": worst, "evidence": f"Found: {', '.join(verdicts)}."}


@pytest.mark.parametrize(
    ("batch", "verdict"),
    [(1.49, "holds"), (1.51, "does not hold"), (1.5 * WIDE, "undecided"), (0.2, "holds")],
)
def test_batch_ends_close_looks_at_the_grid_nearest_to_the_root_of_k(batch, verdict):
    runs = figure(EVERY + grids(2, 5, 20), [1.0, 9.0, batch, 9.0])
    claim = claims.batch_ends_close(runs)
    assert claim.name == "batch-ends-close"
    assert claim.verdict == verdict
    assert "Batch B=5" in claim.evidence


def test_batch_ends_close_compares_the_averages_at_the_end_and_tells_of_the_last_fifth():
    regret = np.where(np.arange(25) < 20, 3.0, 1.0)
    claim = claims.batch_ends_close(figure(EVERY + grids(5), [1.0, regret]))
    assert claim.verdict == "does not hold"
    assert "2.60 [2.60, 2.60] times" in claim.evidence
    assert "1.00 [1.00, 1.00] times in the last 5 episodes" in claim.evidence


@pytest.mark.parametrize(
    ("eight", "thirty_two", "verdict"),
    [
        (1.5, 1.99, "holds"),
        (1.5, 2.01, "does not hold"),
        (1.5, 2.0 * WIDE, "undecided"),
        (2.01, 2.0 * WIDE, "does not hold"),
    ],
)
def test_rareswitch_is_of_the_same_order_if_every_eta_is(eight, thirty_two, verdict):
    runs = figure(EVERY + grids(5) + rules(8, 32), [1.0, 50.0, eight, thirty_two])
    claim = claims.rareswitch_same_order(runs)
    assert claim.verdict == verdict
    assert "RareSwitch η=8 " in claim.evidence
    assert "RareSwitch η=32 " in claim.evidence


def throughout(rare, batch):
    """Return the claim for a RareSwitch arm with as many switches as Batch, and a bad one."""
    runs = figure(
        EVERY + grids(10) + rules(2, 8),
        [1.0, batch, 9.0, rare],
        episodes=100,
        switches=[99, 9, 60, 10],
    )
    return claims.rareswitch_close_throughout(runs)


LATE = np.where(np.arange(100) < 20, 3.0, 1.0)


@pytest.mark.parametrize(
    ("rare", "batch", "verdict"),
    [
        (1.49, LATE, "holds"),
        (1.51, LATE, "does not hold"),
        (np.where(np.arange(100) < 4, 1.6, 1.0), LATE, "does not hold"),
        (np.where(np.arange(100) < 4, 1.0, 1.53), LATE, "does not hold"),
        (1.5 * WIDE, LATE, "undecided"),
        (1.2, 3.0, "undecided"),
        (1.2, np.where(np.arange(100) < 20, 1.0, 3.0), "does not hold"),
    ],
)
def test_close_throughout_means_at_every_check_and_batch_only_late(rare, batch, verdict):
    claim = throughout(rare, batch)
    assert claim.verdict == verdict
    assert "RareSwitch η=8 against Batch B=10" in claim.evidence
    for k in (4, 20, 50, 100):
        assert f"k={k}:" in claim.evidence


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [
        ([1.0, 3.0, 1.5, 1.2, 2.0], "holds"),
        ([1.0, 1.1, 1.5, 1.2, 2.0], "does not hold"),
        ([1.0, 3.0, 1.5, 1.2, 1.1], "does not hold"),
        ([1.3, 3.0, 1.5, 1.2, 2.0], "does not hold"),
        ([1.0, 1.5 + WIDE - 1.0, 1.5, 1.2, 2.0], "undecided"),
    ],
)
def test_less_adaptivity_costs_more_if_every_step_down_in_deployments_does(finals, verdict):
    arms = EVERY + grids(4, 8) + rules(2, 8)
    runs = figure(arms, finals, deployments=[25, 4, 8, 12, 6])
    claim = claims.less_adaptivity_costs_more(runs)
    assert claim.verdict == verdict
    assert ("All 4 paired differences" in claim.evidence) == (verdict == "holds")
    shown = claim.evidence.count(" minus ")
    assert claim.evidence.startswith(f"{shown} of 4 differences: ") == (0 < shown < 4)


def test_less_adaptivity_is_judged_by_paired_differences():
    base = 5.0 * WIDE
    arms = EVERY + grids(4)
    runs = figure(arms, [base, base + 0.01], deployments=[25, 4])
    assert claims.less_adaptivity_costs_more(runs).verdict == "holds"


def falling(power, episodes=100):
    """Return the regret whose running average is k to that power."""
    k = np.arange(1.0, episodes + 1)
    return np.diff(k ** (1.0 + power), prepend=0.0)


MIXED = np.stack([falling(-0.6), falling(-0.3)] * (ROUNDS // 2))


@pytest.mark.parametrize(
    ("powers", "verdict"),
    [
        ((-0.5, -0.5), "holds"),
        ((-0.41, -0.59), "holds"),
        ((-0.5, -0.39), "does not hold"),
        ((-0.61, -0.5), "does not hold"),
    ],
)
def test_slopes_must_lie_within_a_tenth_of_minus_one_half(powers, verdict):
    regret = [falling(powers[0]), falling(powers[1]), 1.0]
    runs = figure(EVERY + grids(10) + RANDOM, regret, episodes=100)
    claim = claims.slopes_near_half(runs)
    assert claim.verdict == verdict
    assert "random" not in claim.evidence


def test_slopes_are_undecided_where_their_interval_crosses_an_end():
    runs = figure(EVERY, [MIXED], episodes=100)
    _, low, high = runs.slope(0)
    assert low < -0.4 < high
    assert claims.slopes_near_half(runs).verdict == "undecided"


@pytest.mark.parametrize(
    ("regret", "verdict"),
    [
        ([1.0, 1.5, 1.99, 3.0, 4.0, 5.99], "holds"),
        ([1.0, 1.5, 2.01, 3.0, 4.0, 5.0], "does not hold"),
        ([1.0, 1.5, 1.8, 3.0, 6.03, 5.0], "does not hold"),
        ([1.0, 1.5, 2.0 * WIDE, 3.0, 4.0, 5.0], "undecided"),
    ],
)
def test_misspecification_is_judged_against_the_exact_world_of_the_same_algorithm(regret, verdict):
    claim = claims.graceful_under_misspecification(figure(ZETAS, regret))
    assert claim.verdict == verdict
    assert "ζ=0: " in claim.evidence


@pytest.mark.parametrize(
    ("batch", "rare", "verdict"),
    [(4, 21, "holds"), (5, 21, "does not hold"), (4, 22, "does not hold")],
)
def test_switches_keep_their_bound_if_no_run_exceeds_it(batch, rare, verdict):
    spec = experiment(arms=EVERY + grids(5) + rules(8), rounds=ROUNDS, episodes=25)
    limit = handmade(spec, [0.0] * 3).switch_limit(spec.arms[2])
    assert limit == 21
    counts = np.ones((3, ROUNDS), int)
    counts[0] = 24
    counts[1, 3], counts[2, 7] = batch, rare
    claim = claims.switches_within_bound(handmade(spec, [0.0] * 3, switches=counts))
    assert claim.verdict == verdict
    assert f"of {limit:.0f}" in claim.evidence


@pytest.mark.parametrize(
    ("rare", "verdict"),
    [(0.9, "holds"), (1.1, "does not hold"), (WIDE, "undecided")],
)
def test_matched_budget_compares_arms_with_about_as_many_switches(rare, verdict):
    runs = figure(
        grids(4, 8, 20) + rules(2, 4, 8),
        [1.0, 1.0, 1.0, 9.0, rare, 9.0],
        switches=[3, 7, 20, 14, 8, 5],
    )
    claim = claims.matched_budget(runs)
    assert claim.verdict == verdict
    assert claim.evidence.count("minus") == 1
    assert "RareSwitch η=4 (8) minus Batch B=8 (7)" in claim.evidence


@pytest.mark.parametrize(("total", "verdict"), [(18.0, "holds"), (17.9, "does not hold")])
def test_the_lower_bound_must_be_forced_in_every_round(total, verdict):
    regret = np.full((ROUNDS, 24), 2.0)
    regret[4] = total / 24
    runs = figure(grids(8), [regret], world=ADVERSARY, episodes=24)
    claim = claims.lower_bound_forced(runs)
    assert claim.verdict == verdict
    assert f"{total:.0f} against 18" in claim.evidence


MIXTURE = """
[[arms]]
name = "mixture-{batches}"
schedule = { kind = "uniform-grid", batches = [10, 5] }
exploration = { kind = "ensemble" }
"""
SCALES = """
[[arms]]
name = "scale-{scale}"
schedule = { kind = "uniform-grid", batches = 10 }
exploration = { kind = "ensemble", scale = [0.125, 0.25, 1, 2] }
"""
FRESH = """
[[arms]]
name = "fresh"
schedule = { kind = "every-episode" }
exploration = { kind = "ensemble", members = 1 }
"""


@pytest.mark.parametrize(
    ("ten", "verdict"),
    [(0.99, "holds"), (1.0, "holds"), (1.01, "does not hold"), (WIDE, "undecided")],
)
def test_nine_switches_suffice_if_the_untuned_mixture_is_no_worse_than_lsvi_ucb(ten, verdict):
    arms = FRESH + EVERY + grids(10) + MIXTURE + SCALES
    runs = figure(arms, [9.0, 1.0, 9.0, ten, 9.0, 0.1, 0.1, 0.1, 0.1], switches=[24, 20, *[9] * 7])
    claim = mixtures.nine_switches_suffice(runs)
    assert claim.verdict == verdict
    assert "times LSVI-UCB's, which made 20 switches" in claim.evidence
    assert claim.source.startswith("not made in the paper")


@pytest.mark.parametrize(
    ("five", "verdict"),
    [(1.29, "holds"), (1.31, "does not hold"), (1.3 * WIDE, "undecided")],
)
def test_four_switches_are_judged_by_the_grid_of_five(five, verdict):
    claim = mixtures.four_switches_nearly(figure(EVERY + MIXTURE, [1.0, 9.0, five]))
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("half", "twice", "verdict"),
    [
        (0.81, 1.24, "holds"),
        (1.24, 0.81, "holds"),
        (0.79, 1.0, "does not hold"),
        (1.0, 0.79, "does not hold"),
        (1.26, 1.0, "does not hold"),
        (1.0, 1.26, "does not hold"),
        (1.0, 1.2 * WIDE, "undecided"),
        (0.8 * WIDE, 1.0, "undecided"),
    ],
)
def test_half_and_twice_the_scale_may_change_a_quarter(half, twice, verdict):
    runs = figure(EVERY + MIXTURE + SCALES, [9.0, 1.0, 9.0, 7.0, half, twice, 7.0])
    claim = mixtures.scale_within_two(runs)
    assert claim.verdict == verdict
    assert "half the scale" in claim.evidence
    assert "twice the scale" in claim.evidence


OTHER_WORLDS = (
    "{ zeta = 0.2 }",
    '{ kind = "random-linear", states = 3, actions = 2, d = 3, horizon = 2 }',
    '{ kind = "tabular", states = 2, actions = 2, horizon = 2 }',
)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((0.9, 0.5, 0.99), "holds"),
        ((1.01, 0.5, 0.9), "does not hold"),
        ((0.9, 1.01, 0.9), "does not hold"),
        ((0.9, 0.5, 1.01), "does not hold"),
        ((WIDE, 0.5, 0.9), "undecided"),
        ((WIDE, 0.5, 1.01), "does not hold"),
    ],
)
def test_mixtures_hold_elsewhere_if_they_do_on_each_of_the_other_worlds(ratios, verdict):
    there = [
        text.replace('name = "', f'name = "w{n}-').replace("[10, 5]", "10") + f"world = {world}\n"
        for n, world in enumerate(OTHER_WORLDS)
        for text in (EVERY, MIXTURE)
    ]
    regret = [part for ratio in ratios for part in (3.0, 3.0 * np.asarray(ratio))]
    runs = figure(EVERY + MIXTURE + "".join(there), [1.0, 9.0, 9.0, *regret])
    claim = mixtures.mixtures_elsewhere(runs)
    assert claim.verdict == verdict
    for world in ("misspecified, ζ=0.2 ", "random linear ", "tabular "):
        assert world in claim.evidence


def test_every_verdict_says_where_the_claim_stands_and_what_was_measured():
    for claim in (throughout(1.2, LATE), throughout(9.0, LATE)):
        assert claim.statement
        assert claim.source
        assert claim.evidence.endswith(".")


def test_the_claims_of_the_experiments_at_hand_are_checked():
    adversary = figure(grids(8), [2.0], world=ADVERSARY, episodes=24)
    order = figure(EVERY + grids(5) + rules(2), [1.0, 1.2, 1.1], deployments=[25, 5, 8])
    found = report.check_claims({"lower-bound": adversary, "figure1": order, "mine": order})
    assert [claim.name for claim in found] == [
        "batch-ends-close",
        "rareswitch-same-order",
        "close-throughout",
        "less-adaptivity-costs-more",
        "lower-bound-forced",
    ]
    assert report.check_claims({"mine": order}) == []
    assert set(report.CLAIMS) >= {
        "figure1", "figure2", "figure3", "mixtures", "switches", "pareto", "lower-bound",
    }  # fmt: skip


def test_budgets_that_match_nowhere_leave_the_claim_undecided():
    claim = claims.matched_budget(figure(grids(4) + rules(2), [1.0, 9.0], switches=[3, 20]))
    assert claim.verdict == "undecided"
    assert claim.evidence == "No two arms make about as many switches."
