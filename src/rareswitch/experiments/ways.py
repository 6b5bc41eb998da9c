"""What an arm of an experiment on mixtures shows: a way to deploy, a sweep, another world.

The home world of an experiment is that of its first arm. The mixture is `Ensemble()`, with nothing
tuned; before every episode one of its members, drawn afresh, is the same in law.
"""

from dataclasses import replace

from rareswitch.core.exploration import Bonus, Ensemble
from rareswitch.core.rules import Row
from rareswitch.experiments.algorithms import EVERY, family_of
from rareswitch.experiments.results import Results
from rareswitch.experiments.spec import Arm
from rareswitch.experiments.worlds import World

MIXTURE = Row(Ensemble, "mixture", "mixture, nothing tuned", "#c2185b", "*")
MEMBERS = Row(Bonus, "bonus-members", "bonus, with members", "#1b7f5c", "^")
ESTIMATE = Row(Bonus, "bonus-estimate", "bonus, with estimates", "#8c6bb1", "v")
RANDOM = "random-policy"


def way_of(arm: Arm) -> Row | None:
    """Return how the arm deploys and explores, if it is one of the ways compared.

    An arm of the paper's bonus, or that does not learn, is known by its family.
    """
    if arm.plain or not arm.scheduled:
        return family_of(arm.schedule["kind"])
    explores = arm.explores()
    fresh = replace(Ensemble(), members=1) if arm.family.name == EVERY else Ensemble()
    if explores in (Ensemble(), fresh):
        return MIXTURE
    if isinstance(explores, Bonus):
        return MEMBERS if explores.members > 1 else ESTIMATE
    return None


def home(runs: Results) -> World:
    """Return the world that most is measured on, that of the first arm."""
    return runs.experiment.arms[0].world


def elsewhere(runs: Results) -> list[World]:
    """Return the other worlds, in the order of the spec."""
    return list(dict.fromkeys(arm.world for arm in runs.experiment.arms))[1:]


def arms_on(runs: Results, world: World, way: str) -> list[int]:
    """Return the positions of the arms of a way, by its name, on a world."""
    arms = enumerate(runs.experiment.arms)
    found = ((i, way_of(arm)) for i, arm in arms if arm.world == world)
    return [i for i, row in found if row and row.name == way]


def swept(runs: Results, argument: str) -> list[tuple[float, int]]:
    """Return (value, position) of the home arms that differ from the mixture in one argument.

    All are on the dates of the first of them, the mixture itself among them; in order of the value.
    """
    arms = [
        (i, arm)
        for i, arm in enumerate(runs.experiment.arms)
        if arm.world == home(runs) and arm.scheduled and arm.family.name != EVERY
    ]
    varied = []
    for i, arm in arms:
        explores = arm.explores()
        if isinstance(explores, Ensemble):
            value = getattr(explores, argument)
            if explores == replace(Ensemble(), **{argument: value}):
                varied.append((float(value), i))
    dates = [runs.experiment.arms[i].schedule for v, i in varied if v != _default(argument)]
    return sorted((v, i) for v, i in varied if runs.experiment.arms[i].schedule in dates[:1])


def declared(runs: Results) -> list[tuple[float, int]]:
    """Return (ridge, position) of the home arms with mixtures whose ridge is declared."""
    found = []
    for i, arm in enumerate(runs.experiment.arms):
        if arm.world == home(runs) and arm.scheduled:
            explores = arm.explores()
            if isinstance(explores, Ensemble) and not explores.estimate:
                found.append((arm.ridge, i))
    return sorted(found)


def name_of(world: World) -> str:
    """Return what a world is called beside others.

    >>> from rareswitch.experiments.worlds import HardToLearn
    >>> name_of(HardToLearn(kind="hard-to-learn", zeta=0.2))
    'misspecified, ζ=0.2'
    """
    zeta = getattr(world, "zeta", 0.0)
    return f"misspecified, ζ={zeta:g}" if zeta else world.kind.replace("-", " ")


def _default(argument: str) -> float:
    return float(getattr(Ensemble(), argument))
