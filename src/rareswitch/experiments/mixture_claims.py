"""Claims about mixtures, none of which the paper makes: do they hold here?"""

from rareswitch import samples
from rareswitch.experiments.algorithms import BATCH, EVERY
from rareswitch.experiments.bounds import batches_of
from rareswitch.experiments.results import Results
from rareswitch.experiments.verdict import Claim, below, stated, worst
from rareswitch.experiments.ways import MIXTURE, arms_on, elsewhere, home, name_of, swept
from rareswitch.experiments.worlds import World

RLSVI = "Osband et al. 2016"


def nine_switches_suffice(runs: Results) -> Claim:
    ratio, low, high = _mixture_ratio(runs, home(runs), batches=10)
    return Claim(
        name="nine-switches-suffice",
        statement="On the hard instance a mixture on a uniform grid of 10 batches, 9 switches with "
        "nothing tuned, has at most the average regret of LSVI-UCB.",
        source=f"not made in the paper; mixtures of this kind: {RLSVI}; few deployments, each of a "
        "randomised policy: Huang et al. 2022",
        verdict=below(high, low, 1.0),
        evidence=f"{stated(ratio, low, high)} times LSVI-UCB's, which made "
        f"{runs.switches[_lsvi_ucb(runs, home(runs))].mean():.0f} switches.",
    )


def four_switches_nearly(runs: Results) -> Claim:
    ratio, low, high = _mixture_ratio(runs, home(runs), batches=5)
    return Claim(
        name="four-switches-nearly",
        statement="With 5 batches, 4 switches, the same mixture has at most 1.3 times the average "
        "regret of LSVI-UCB.",
        source="not made in the paper; few deployments, each of a randomised policy: Huang et al. "
        "2022",
        verdict=below(high, low, 1.3),
        evidence=f"{stated(ratio, low, high)} times LSVI-UCB's.",
    )


def scale_within_two(runs: Results) -> Claim:
    default = _mixture(runs, home(runs), batches=10)
    scale = runs.experiment.arms[default].exploration["scale"]
    verdicts, parts = [], []
    arms = dict(swept(runs, "scale"))
    for words, value in (("half", scale / 2), ("twice", scale * 2)):
        ratio, low, high = samples.ratio_interval(
            runs.final[arms[value]], runs.final[default], runs.weights
        )
        verdicts += [below(high, low, 1.25), below(-low, -high, -0.8)]
        parts.append(f"{words} the scale {stated(ratio, low, high)}")
    return Claim(
        name="scale-within-two",
        statement="With 10 batches, half and twice the scale change the mixture's average regret "
        "by at most a quarter (between 0.8 and 1.25 times as large).",
        source=f"not made in the paper; the scale is that of {RLSVI}",
        verdict=worst(verdicts),
        evidence="Times the regret with the default: " + ", ".join(parts) + ".",
    )


def mixtures_elsewhere(runs: Results) -> Claim:
    verdicts, parts = [], []
    for world in elsewhere(runs):
        ratio, low, high = _mixture_ratio(runs, world, batches=10)
        verdicts.append(below(high, low, 1.0))
        parts.append(f"{name_of(world)} {stated(ratio, low, high)}")
    return Claim(
        name="mixtures-elsewhere",
        statement="On misspecified, random linear and tabular worlds, too, the mixture with 10 "
        "batches has at most the average regret of LSVI-UCB.",
        source="not made in the paper",
        verdict=worst(verdicts),
        evidence="Times LSVI-UCB's: " + ", ".join(parts) + ".",
    )


def _lsvi_ucb(runs: Results, world: World) -> int:
    return arms_on(runs, world, EVERY)[0]


def _mixture(runs: Results, world: World, *, batches: int) -> int:
    """Return the arm that deploys the mixture on a uniform grid of so many batches."""
    arms = ((i, runs.experiment.arms[i]) for i in arms_on(runs, world, MIXTURE.name))
    return next(
        i for i, arm in arms if arm.family.name == BATCH and batches_of(runs, arm) == batches
    )


def _mixture_ratio(runs: Results, world: World, *, batches: int) -> tuple[float, float, float]:
    """Return the mixture's final regret over that of LSVI-UCB, with its paired interval."""
    mixture, lsvi_ucb = _mixture(runs, world, batches=batches), _lsvi_ucb(runs, world)
    return samples.ratio_interval(runs.final[mixture], runs.final[lsvi_ucb], runs.weights)
