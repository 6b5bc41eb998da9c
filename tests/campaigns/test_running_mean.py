"""The interval that holds at every look: against the theorem, written out, and by simulation."""

import math

import numpy as np
import pytest

from rareswitch.campaigns.rulebook.running_mean import RunningMean


def seen(values):
    mean = RunningMean()
    for x in values:
        mean = mean.after(x)
    return mean


def theorem(values, alpha):
    """Return the interval of Waudby-Smith and Ramdas (2023), Theorem 2, from all observations.

    λ_t = √(2 log(2/0.05) / (σ²_{t−1} t log(1+t))) ∧ ½, with estimates of mean and variance that
    start from one observation of ½ and a variance of ¼, and ψ_E(λ) = (−log(1−λ) − λ)/4 times
    v_t = 4·(x_t − μ_{t−1})².
    """
    x = np.asarray(values, float)
    n = len(x)
    mu = [(0.5 + x[:t].sum()) / (t + 1) for t in range(n + 1)]
    var = [(0.25 + sum((x[i] - mu[i + 1]) ** 2 for i in range(t))) / (t + 1) for t in range(n + 1)]
    lam = [
        min(math.sqrt(2 * math.log(2 / 0.05) / (var[t - 1] * t * math.log(1 + t))), 0.5)
        for t in range(1, n + 1)
    ]
    psi_e = [(-math.log(1 - one) - one) / 4 for one in lam]
    v = [4 * (x[t - 1] - mu[t - 1]) ** 2 for t in range(1, n + 1)]
    centre = sum(a * b for a, b in zip(lam, x, strict=True)) / sum(lam)
    width = (math.log(2 / alpha) + sum(a * b for a, b in zip(v, psi_e, strict=True))) / sum(lam)
    return max(0.0, centre - width), min(1.0, centre + width)


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.4])
@pytest.mark.parametrize("kind", ["uniform", "rare", "constant", "ends"])
def test_it_is_the_interval_of_the_theorem(kind, alpha):
    rng = np.random.default_rng(3)
    values = {
        "uniform": rng.random(80),
        "rare": (rng.random(80) < 0.05).astype(float),
        "constant": np.full(80, 0.375),
        "ends": np.arange(80) % 2.0,
    }[kind]
    for n in (1, 2, 3, 10, 80):
        found = seen(values[:n])
        assert found.bounds(1 - alpha) == pytest.approx(theorem(values[:n], alpha), abs=1e-12)
        assert found.mean == pytest.approx(values[:n].mean())


def test_without_an_observation_nothing_is_known():
    assert RunningMean().bounds(0.95) == (0.0, 1.0)
    assert RunningMean().mean is None


@pytest.mark.parametrize("chance", [0.02, 0.5, 0.9])
def test_it_covers_the_mean_at_all_looks_together(chance):
    """Of 400 paths, at most 1 − confidence may miss the mean at any of 500 looks.

    The number that miss is at most binomial with that chance; it exceeds its mean by five standard
    deviations with a chance below 10⁻⁵. A fixed-size interval of the same confidence misses in more
    than a third of the paths, which is why it is not used.
    """
    paths, looks, confidence = 400, 500, 0.8
    rng = np.random.default_rng(17)
    misses = naive = 0
    for _ in range(paths):
        values = (rng.random(looks) < chance).astype(float)
        found, missed = RunningMean(), False
        for x in values.tolist():
            found = found.after(x)
            low, high = found.bounds(confidence)
            missed |= not low <= chance <= high
        misses += missed
        counts = np.arange(1, looks + 1)
        means = np.cumsum(values) / counts
        errors = 1.2816 * np.sqrt(chance * (1 - chance) / counts)  # 80% at one look
        naive += bool((np.abs(means - chance) > errors).any())
    expected = (1 - confidence) * paths
    assert misses <= expected + 5 * math.sqrt(expected * confidence)
    assert naive > paths / 3


def test_it_becomes_narrow():
    """With n observations of variance σ² the width falls as √(log n / n) does, not slower."""
    rng = np.random.default_rng(0)
    found = seen((rng.random(20_000) < 0.5).astype(float).tolist())
    low, high = found.bounds(0.95)
    assert high - low < 0.04
    quiet = seen([0.5] * 20_000)
    low, high = quiet.bounds(0.95)
    assert high - low < 0.002


def test_an_observation_is_replaced_and_removed_in_its_place():
    """Sums with λ as it was settled: written out over all observations, whatever the order."""
    rng = np.random.default_rng(8)
    first, places, found = rng.random(60), [], RunningMean()
    for x in first.tolist():
        places.append(found.next_place)
        found = found.after(x)
    now = dict(enumerate(first.tolist()))
    for k in rng.permutation(60)[:25].tolist():
        found = found.add(places[k], now[k], -1)
        if k % 2:
            now[k] = float(rng.random())
            found = found.add(places[k], now[k], 1)
        else:
            del now[k]
    weights = {k: places[k].weight for k in now}
    total = sum(weights.values())
    centre = sum(weights[k] * x for k, x in now.items()) / total
    spread = sum((x - places[k].mean) ** 2 * (-math.log(1 - weights[k]) - weights[k])
                 for k, x in now.items())  # fmt: skip
    width = (math.log(2 / 0.05) + spread) / total
    assert found.observations == len(now)
    assert found.mean == pytest.approx(sum(now.values()) / len(now))
    assert found.bounds(0.95) == pytest.approx((centre - width, centre + width), abs=1e-12)
    for k in sorted(now):
        found = found.add(places[k], now[k], -1)
    assert found.bounds(0.95) == (0.0, 1.0)
    assert found.mean is None


def test_it_covers_the_mean_at_all_looks_with_withdrawals():
    """A fifth of the observations is withdrawn, and a fifth corrected, at random times later.

    The corrected values and those that stay have the mean; the weights were settled before.
    """
    paths, looks, confidence, chance = 300, 400, 0.8, 0.3
    rng = np.random.default_rng(23)
    misses = 0
    for _ in range(paths):
        found, missed, coming = RunningMean(), False, {}
        values = (rng.random(looks) < chance).astype(float).tolist()
        for t, x in enumerate(values):
            place, found = found.next_place, found.after(x)
            fate = rng.random()
            if fate < 0.4:
                new = None if fate < 0.2 else float(rng.random() < chance)
                coming.setdefault(t + 1 + int(rng.integers(30)), []).append((place, x, new))
            for where, before, after in coming.pop(t, ()):
                found = found.add(where, before, -1)
                if after is not None:
                    found = found.add(where, after, 1)
            low, high = found.bounds(confidence)
            missed |= not low <= chance <= high
        misses += missed
    expected = (1 - confidence) * paths
    assert misses <= expected + 5 * math.sqrt(expected * confidence)
