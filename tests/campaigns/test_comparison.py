"""The difference of learned members and the concurrent control, and its two kinds of interval."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.comparison import (
    RATES,
    Arm,
    Stratum,
    bounds_at_any_time,
    difference_at_the_end,
    largest_difference,
    least_difference,
    log_evidence,
    student_quantile,
)
from rareswitch.core.control import CONTROL, FLOOR, LEARNED


def arm(values):
    found = Arm()
    for value in values:
        found = found.add(float(value))
    return found


def stratum(learned, control, centre=0.5):
    return Stratum(centre, arm(learned), arm(control))


def literal_evidence(episodes, share, margin):
    """Multiply the supermartingale out, episode by episode; each is (centre, role, return)."""
    logs = np.full(len(RATES), -math.log(len(RATES)))
    for centre, role, x in episodes:
        score = (x - centre) / (1 - share) if role == LEARNED else -(x - centre) / share
        c = max((1 - centre) / share, centre / (1 - share))
        assert score >= -c - 1e-12
        for place, rate in enumerate(RATES):
            scaled = rate * min(share, 1 - share)
            psi = (-math.log(1 - c * scaled) - c * scaled) / c**2
            logs[place] += scaled * (score - margin) - psi * score**2
    return float(np.logaddexp.reduce(logs))


returns = st.lists(st.floats(0.0, 1.0), max_size=12)


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), returns, returns), min_size=1, max_size=4),
    st.floats(0.05, 0.95),
    st.floats(-0.5, 0.5),
)
def test_the_evidence_is_the_product_over_episodes(versions, share, margin):
    episodes = [
        (centre, role, x)
        for centre, learned, control in versions
        for role, values in ((LEARNED, learned), (CONTROL, control))
        for x in values
    ]
    strata = [stratum(learned, control, centre) for centre, learned, control in versions]
    want = literal_evidence(episodes, share, margin)
    assert log_evidence(strata, share, margin) == pytest.approx(want, abs=1e-8)


@given(st.floats(0.0, 5.0), st.floats(0.0, 0.99))
def test_each_factor_of_the_evidence_is_below_its_line(deviation, rate):
    """exp(λD − ψ(λ)D²) ≤ 1 + λD for D ≥ −1 and λ < 1: the inequality that everything rests on."""
    psi = -math.log1p(-rate) - rate
    for score in (deviation - 1.0, deviation):
        assert math.exp(rate * score - psi * score**2) <= 1.0 + rate * score + 1e-12


@given(returns.filter(len), returns.filter(len), st.floats(0.1, 0.9), st.floats(0.001, 0.2))
def test_a_bound_is_where_the_evidence_reaches_the_error(learned, control, share, error):
    strata = [stratum(learned, control)]
    least = least_difference(strata, share, error)
    most = largest_difference(strata, share, error)
    assert -1.0 <= least <= most <= 1.0
    if least > -1.0:
        assert log_evidence(strata, share, least) == pytest.approx(-math.log(error), abs=1e-6)
    exchanged = [stratum(control, learned)]
    assert most == pytest.approx(-least_difference(exchanged, 1.0 - share, error), abs=1e-12)


def test_nothing_is_known_without_outcomes():
    assert bounds_at_any_time([], 0.2, 0.95) == (-1.0, 1.0)
    assert bounds_at_any_time([Stratum(0.5)], 0.2, 0.95) == (-1.0, 1.0)
    assert difference_at_the_end([Stratum(0.5, Arm(3, 1.0, 1.0))], 0.95).value is None


def test_one_version_has_the_interval_of_a_t_test():
    """A role's variance is its own, but not below that of both together."""
    rng = np.random.default_rng(1)
    learned, control = rng.random(40), 0.8 * rng.random(15)
    found = difference_at_the_end([stratum(learned, control)], 0.95)
    both = (learned.var() * 40 + control.var() * 15) / 53
    own = [max(one.var(ddof=1), both) / len(one) for one in (learned, control)]
    width = stats.t.ppf(0.975, 53) * math.sqrt(sum(own))
    assert found.value == pytest.approx(learned.mean() - control.mean())
    assert (found.low, found.high) == pytest.approx((found.value - width, found.value + width))
    # With equal variances it is Student's interval.
    alike = difference_at_the_end([stratum(learned, 1.0 - learned)], 0.95)
    student = stats.ttest_ind(learned, 1.0 - learned).confidence_interval(0.95)
    assert (alike.low, alike.high) == pytest.approx((student.low, student.high), rel=1e-4)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.9])
def test_rare_outcomes_and_a_small_control_do_not_make_claims(rate):
    """A one-sided error of 1.5% holds on both sides, but for chance: four standard errors."""
    rng, above, below, repeated = np.random.default_rng(7), 0, 0, 2000
    for _ in range(repeated):
        strata = []
        for size in (80, 80, 80, 90):
            few = rng.binomial(size, 0.22)
            wins = rng.binomial(size - few, rate), rng.binomial(few, rate)
            strata.append(
                Stratum(0.5, *(Arm(n, w, w) for n, w in zip((size - few, few), wins, strict=True)))
            )
        found = difference_at_the_end(strata, 0.97)
        above += found.low is not None and found.low > 0.0
        below += found.high is not None and found.high < 0.0
    limit = repeated * (0.015 + 4 * math.sqrt(0.015 / repeated))
    assert above <= limit
    assert below <= limit


def test_versions_are_weighted_by_their_episodes_and_compared_within():
    """An outcome that drifts by version leaves the difference as it is."""
    low, high = ([0.2, 0.4], [0.1, 0.3]), ([0.8, 1.0, 0.6, 0.8], [0.7, 0.9])
    found = difference_at_the_end([stratum(*low), stratum(*high)], 0.95)
    assert found.value == pytest.approx((4 * 0.1 + 6 * 0.0) / 10)
    assert found.episodes == 10
    # A version without a control's outcome does not enter.
    alone = difference_at_the_end([stratum(*low), stratum(*high), stratum([0.0] * 9, [])], 0.95)
    assert alone == found


@pytest.mark.parametrize(
    ("learned", "control"), [([0.1, 0.9], [0.5]), ([0.5] * 20, [0.5] * 20), ([0.1, 0.9], [0.5] * 3)]
)
def test_too_few_or_equal_returns_have_no_interval(learned, control):
    found = difference_at_the_end([stratum(learned, control)], 0.95)
    assert found.value == pytest.approx(0.0)
    assert found.low is found.high is None


def test_a_control_without_a_success_has_an_interval():
    found = difference_at_the_end([stratum([0.0, 1.0] * 30, [0.0] * 20)], 0.95)
    assert found.low > 0.0


@pytest.mark.parametrize("freedom", [5, 8.5, 30, 1000])
@pytest.mark.parametrize("probability", [0.9, 0.975, 0.995])
def test_the_quantile_of_student(probability, freedom):
    want = stats.t.ppf(probability, freedom)
    assert student_quantile(probability, freedom) == pytest.approx(want, rel=1e-2)
    if probability < 0.99:
        assert student_quantile(probability, freedom) == pytest.approx(want, rel=1.2e-3)


class Study:
    """Studies of a few versions whose level drifts, drawn at once; returns are 0 or 1."""

    def __init__(self, *, share, gains, levels, sizes, seed, missing=0.0):
        self.share, self.gains, self.levels, self.sizes = share, gains, levels, sizes
        self.rng, self.missing = np.random.default_rng(seed), missing

    def play(self):
        """Count a study outcome by outcome; yield the cohorts after each."""
        seen = Cohorts(horizon=1, control=self.share)
        for version, (gain, level, size) in enumerate(
            zip(self.gains, self.levels, self.sizes, strict=True), start=1
        ):
            for _ in range(size):
                control = self.rng.random() < self.share
                outcome = self.rng.random() < level + (0.0 if control else gain)
                if self.rng.random() >= self.missing:
                    seen.record(version, float(outcome), CONTROL if control else LEARNED)
                    yield seen


STUDIES = {
    "null": {"gains": (0.0, 0.0, 0.0), "levels": (0.5, 0.5, 0.5)},
    "effect": {"gains": (0.0, 0.1, 0.2), "levels": (0.5, 0.5, 0.5)},
    "drift": {"gains": (0.0, 0.1, 0.1), "levels": (0.2, 0.5, 0.8)},
    "missing": {"gains": (0.0, 0.1, 0.2), "levels": (0.5, 0.5, 0.5), "missing": 0.2},
}
REPEATED = 600


@pytest.mark.parametrize("name", STUDIES)
def test_the_interval_at_the_end_covers(name):
    """95% intervals hold the truth in 94% of studies, but for chance: four standard errors."""
    study = Study(share=0.25, sizes=(40, 80, 160), seed=5, **STUDIES[name])
    hits = 0
    for _ in range(REPEATED):
        *_, seen = study.play()
        strata = [seen.strata[version] for version in sorted(seen.strata)]
        count = sum(one.episodes for one in strata)
        truth = sum(one.episodes * g for one, g in zip(strata, study.gains, strict=True)) / count
        found = difference_at_the_end(strata, 0.95)
        hits += found.low <= truth <= found.high
    assert hits / REPEATED >= 0.94 - 4 * math.sqrt(0.94 * 0.06 / REPEATED)
    assert hits < REPEATED  # an interval that always holds is too wide


@pytest.mark.parametrize("name", STUDIES)
def test_the_interval_valid_at_any_time_covers_at_all_looks(name):
    """The share of studies in which it fails at any look is at most its error, 20% here."""
    study = Study(share=0.4, sizes=(20, 40, 40), seed=9, **STUDIES[name])
    missed = 0
    for _ in range(150):
        for looks, seen in enumerate(study.play()):
            if looks % 4:
                continue
            strata = list(seen.strata.values())
            count = sum(one.episodes for one in strata)
            parts = zip(strata, study.gains, strict=False)
            truth = sum(one.episodes * gain for one, gain in parts) / count
            low, high = bounds_at_any_time(strata, 0.4, 0.8)
            if not low - 1e-12 <= truth <= high + 1e-12:
                missed += 1
                break
    assert missed / 150 <= 0.2
    assert high - low < 1.0  # it learns something


def test_the_centre_is_settled_before_the_first_outcome_of_a_version():
    seen = Cohorts(horizon=2, control=0.2)
    seen.record(1, 2.0, FLOOR)
    seen.record(1, 1.0, LEARNED)
    assert seen.strata[1] == Stratum(0.5, Arm(1, 0.5, 0.25))
    seen.record(2, 0.0, CONTROL)
    seen.record(2, 2.0, LEARNED)
    assert seen.strata[2] == Stratum((0.5 + 1.5) / 3, Arm(1, 1.0, 1.0), Arm(1, 0.0, 0.0))


def test_a_correction_and_a_withdrawal_change_their_arm_alone():
    seen = Cohorts(horizon=1, control=0.5)
    places = [seen.record(1, x, role) for x, role in zip((1.0, 0.0, 1.0), "abc", strict=True)]
    assert seen.strata[1].episodes == 0  # of no arm
    first = seen.record(1, 1.0, CONTROL)
    second = seen.record(1, 1.0, LEARNED)
    seen.correct(1, first, 1.0, 0.25, CONTROL)
    seen.correct(1, second, 1.0, None, LEARNED)
    assert seen.strata[1].control == Arm(1, 0.25, 0.0625)
    assert seen.strata[1].learned.episodes == 0
    assert len(places) == 3


def test_without_a_control_no_arms_are_counted():
    seen = Cohorts(horizon=1)
    seen.record(1, 1.0, LEARNED)
    assert seen.strata == {}


def test_more_rows_make_the_interval_narrower():
    widths = []
    for count in (50, 200, 800, 3200):
        one = Stratum(0.5, Arm(count, 0.6 * count, 0.6 * count), Arm(count, count / 2, count / 2))
        low, high = bounds_at_any_time([one], 0.5, 0.95)
        widths.append(high - low)
    assert all(later < 0.6 * earlier for earlier, later in pairwise(widths))
