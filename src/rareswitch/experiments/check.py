"""What a spec asks for must be possible: to hold in memory, to build and to draw.

Checked when a spec is read, so that nothing which must fail is begun.
"""

from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.experiments import pieces
from rareswitch.experiments.algorithms import Algorithm, Scheduled
from rareswitch.experiments.simulated import Simulated
from rareswitch.experiments.spec import Arm, Experiment
from rareswitch.experiments.worlds import Adversary
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.memory import require_memory
from rareswitch.sim.rollout import MOST_SUMMED

PLAIN = "the paper's bonus, with one member and no estimate"
# The figures that need no regret.
OF_RETURNS = ("return", "final", "pareto", "switches", "budget")


def check(experiment: Experiment) -> None:
    """Refuse an experiment that cannot be run or drawn; the error names the arm."""
    for arm in experiment.arms:
        try:
            if arm.simulated:
                _check_simulated(experiment, arm)
            else:
                _check_memory(experiment, arm)
                _check_arm(experiment, arm)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise ValueError(f"arm {arm.name!r}: {error}") from None


def piece_memory(experiment: Experiment, arm: Arm) -> float:
    """Estimate the bytes that one piece of the arm takes, from the sizes of its arrays."""
    assert not isinstance(arm.world, Simulated)
    states, actions, dim, horizon = arm.world.sizes
    rows, cells = states * actions, states * arm.members
    world = 3 * horizon * rows * states + rows * dim
    table = cells * (5 * states + 3 * dim)  # what every member does in every state
    learner = horizon * (4 * rows * arm.members + table + 3 * dim + 3 * dim**2)
    summed = 0 if arm.dated else min(cells, MOST_SUMMED)
    ahead = 0.625 * horizon * summed  # visits, until a switch is due
    played = experiment.episodes * (5 * horizon + 6 + ahead)
    return 8.0 * min(pieces.ROUNDS_PER_PIECE, experiment.rounds) * (world + learner + played)


def _check_memory(experiment: Experiment, arm: Arm) -> None:
    """Leave room for two pieces at a time, and for the results while they are drawn."""
    assert not isinstance(arm.world, Simulated)
    K, rounds = experiment.episodes, experiment.rounds
    states, actions, dim, horizon = arm.world.sizes
    require_memory(
        2 * piece_memory(experiment, arm),
        f"two pieces ({states} states, {actions} actions, d={dim}, H={horizon}, "
        f"{min(pieces.ROUNDS_PER_PIECE, rounds)} rounds of {K} episodes)",
    )
    _check_results(experiment)


def _check_results(experiment: Experiment) -> None:
    K, rounds, arms = experiment.episodes, experiment.rounds, len(experiment.arms)
    require_memory(64.0 * arms * rounds * K, f"{arms} arms with {rounds} rounds of {K} episodes")


def _check_simulated(experiment: Experiment, arm: Arm) -> None:
    """Refuse what is asked of a simulated world and only a known one can tell."""
    Recipe(ridge=arm.ridge)
    _check_results(experiment)
    if experiment.figure not in OF_RETURNS:
        raise ValueError(
            f"figure {experiment.figure!r} needs regret, which simulated worlds do not tell; it "
            f"must be one of {', '.join(OF_RETURNS)}"
        )
    if not arm.scheduled:
        raise ValueError(
            f"schedule kind {arm.schedule['kind']} needs a known world; on a simulated one it must "
            "be a switching rule"
        )
    if arm.initial_state or arm.measure_radius:
        raise ValueError("a simulated world has no initial_state and no measure_radius")
    task = arm.task(episodes=experiment.episodes, seed=experiment.seed)
    if task.episodes != experiment.episodes:
        raise ValueError(
            f"the task of the simulator must have {experiment.episodes} episodes; got "
            f"{task.episodes}"
        )
    _check_drawable(experiment, arm, arm.algorithm(task), task)


def _check_arm(experiment: Experiment, arm: Arm) -> None:
    assert not isinstance(arm.world, Simulated)
    Recipe(ridge=arm.ridge)
    world = arm.world.build(experiment.seed)
    task = world.task(episodes=experiment.episodes)
    algorithm = arm.algorithm(task)
    if algorithm.tabular and arm.world.kind != "tabular":
        raise ValueError(f"schedule kind {arm.schedule['kind']} needs a tabular world")
    if isinstance(arm.initial_state, int) and not 0 <= arm.initial_state < world.states:
        raise ValueError(f"initial_state must be from 0 to {world.states - 1}")
    if arm.measure_radius and not isinstance(world, FiniteLinearMDP):
        raise ValueError("measure_radius needs a linear world; here zeta is above 0")
    if arm.measure_radius and arm.scheduled and not arm.plain:
        raise ValueError(f"measure_radius needs {PLAIN}; got {arm.exploration}")
    if isinstance(arm.world, Adversary):
        _check_duel(experiment, arm, arm.world, algorithm)
    _check_drawable(experiment, arm, algorithm, task)


def _check_duel(experiment: Experiment, arm: Arm, world: Adversary, algorithm: Algorithm) -> None:
    if not isinstance(algorithm, Scheduled):
        raise ValueError(
            "the adversary plays against rules with fixed batches, such as uniform-grid"
        )
    if arm.initial_state or arm.measure_radius:
        raise ValueError("the adversary chooses initial states: no initial_state, measure_radius")
    if arm.members > 1:
        raise ValueError(
            "the adversary reads the policy in force: the exploration must have one member, such "
            f"as beta = 1; got {arm.members}"
        )
    batches, need = len(algorithm.starts(experiment.episodes)), world.states * world.horizon
    if batches < need:
        raise ValueError(f"batches must be at least states·horizon = {need}; got {batches}")


def _check_drawable(experiment: Experiment, arm: Arm, algorithm: Algorithm, task: Task) -> None:
    """Some figures have a place for some arms only."""
    needs = {
        "bounds": (
            f"a bound on its regret: a rule that has one, and {PLAIN}",
            algorithm.regret_bound(task) is not None,
        ),
        "lower-bound": (
            "schedule kind uniform-grid on a world of kind adversary",
            (arm.schedule["kind"], arm.world.kind) == ("uniform-grid", "adversary"),
        ),
        "return": ("a simulated world, such as one of kind gymnasium", arm.simulated),
        "budget": ("a schedule with switches", "switches" in arm.schedule),
        "beta": (f"a bonus β: {PLAIN}", arm.plain),
    }
    need, met = needs.get(experiment.figure, ("", True))
    if not met:
        raise ValueError(f"figure {experiment.figure!r} has no place for it: an arm needs {need}")
