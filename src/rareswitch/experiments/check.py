"""Check before a run that an experiment fits in memory and can be run and drawn."""

from rareswitch.core.task import Task
from rareswitch.experiments import store
from rareswitch.experiments.algorithms import Algorithm, Scheduled
from rareswitch.experiments.figures import FIGURES
from rareswitch.experiments.spec import Arm, Experiment, explain_error
from rareswitch.experiments.worlds import Adversary, ObliviousAdversary, Simulated, build_world
from rareswitch.sim.mdp import FiniteLinearMDP
from rareswitch.sim.rollout import MOST_SUMMED
from rareswitch.support.arguments import did_you_mean, require_memory
from rareswitch.testing import refuse_faulty_rule


def check(experiment: Experiment) -> None:
    """Raise ValueError if an experiment cannot be run or drawn; the error names the arm."""
    if experiment.figure not in list(FIGURES):
        raise ValueError(
            f"figure must be one of {', '.join(FIGURES)}; got {experiment.figure!r}"
            f"{did_you_mean(experiment.figure, FIGURES)}"
        )
    for arm in experiment.arms:
        try:
            _check_memory(experiment, arm)
            if arm.simulated:
                _check_simulated(experiment, arm)
            else:
                _check_known(experiment, arm)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise ValueError(f"arm {arm.name!r}: {error}") from None
        except Exception as error:
            if not arm.own_names:
                raise
            reason = explain_error(error, arm.own_names, arm.folders, arm.allow)
            raise ValueError(f"arm {arm.name!r}: {reason}") from None


def piece_memory(experiment: Experiment, arm: Arm) -> float:
    """Estimate the bytes of one piece of the arm from the sizes of its arrays."""
    assert not isinstance(arm.world, Simulated)
    states, actions, dim, horizon = arm.world.sizes
    rows, cells = states * actions, states * arm.members
    world = 3 * horizon * rows * states + rows * dim
    table = cells * (5 * states + 3 * dim)  # the action of every member in every state
    learner = horizon * (4 * rows * arm.members + table + 3 * dim + 3 * dim**2)
    summed = 0 if arm.dated else min(cells, MOST_SUMMED)
    ahead = 0.625 * horizon * summed  # visits, until a switch is due
    played = experiment.episodes * (5 * horizon + 6 + ahead)
    return 8.0 * min(store.ROUNDS_PER_PIECE, experiment.rounds) * (world + learner + played)


def _check_memory(experiment: Experiment, arm: Arm) -> None:
    """Check the memory for two pieces at a time, and for drawing the results."""
    K, rounds, arms = experiment.episodes, experiment.rounds, len(experiment.arms)
    if not isinstance(arm.world, Simulated):
        states, actions, dim, horizon = arm.world.sizes
        require_memory(
            2 * piece_memory(experiment, arm),
            f"two pieces ({states} states, {actions} actions, d={dim}, H={horizon}, "
            f"{min(store.ROUNDS_PER_PIECE, rounds)} rounds of {K} episodes)",
        )
    require_memory(64.0 * arms * rounds * K, f"{arms} arms with {rounds} rounds of {K} episodes")


def _check_simulated(experiment: Experiment, arm: Arm) -> None:
    """Raise ValueError for settings that need a known world."""
    if FIGURES[experiment.figure].needs_regret:
        others = ", ".join(name for name, figure in FIGURES.items() if not figure.needs_regret)
        raise ValueError(
            f"figure {experiment.figure!r} needs regret, which is unknown in simulated worlds; it "
            f"must be one of {others}"
        )
    if not arm.scheduled:
        raise ValueError(
            f"schedule kind {arm.family.name} needs a known world; on a simulated one it must be a "
            "switching rule"
        )
    if arm.initial_state or arm.measure_radius:
        raise ValueError("a simulated world has no initial_state and no measure_radius")
    task = arm.task(episodes=experiment.episodes, seed=experiment.seed)
    if task.episodes != experiment.episodes:
        raise ValueError(
            f"the task of the simulator must have {experiment.episodes} episodes; got "
            f"{task.episodes}"
        )
    _check_algorithm(experiment, arm, task)


def _check_known(experiment: Experiment, arm: Arm) -> None:
    assert not isinstance(arm.world, Simulated)
    world = build_world(arm.world, (experiment.seed, 0))
    task = world.task(episodes=experiment.episodes)
    algorithm = _check_algorithm(experiment, arm, task)
    if algorithm.tabular and not world.tabular:
        raise ValueError(f"schedule kind {arm.family.name} needs a tabular world")
    if isinstance(arm.initial_state, int) and not 0 <= arm.initial_state < world.states:
        raise ValueError(
            f"initial_state must be from 0 to {world.states - 1}; got {arm.initial_state}"
        )
    if arm.measure_radius and not isinstance(world, FiniteLinearMDP):
        raise ValueError("measure_radius needs a linear world; here zeta is above 0")
    if arm.measure_radius and arm.scheduled and not arm.has_paper_bonus:
        raise ValueError(
            "measure_radius needs the paper's bonus, with one member and no estimate; got "
            f"{arm.exploration}"
        )
    if isinstance(arm.world, ObliviousAdversary):
        _check_duel(arm, arm.world, algorithm, task)


def _check_duel(arm: Arm, world: ObliviousAdversary, algorithm: Algorithm, task: Task) -> None:
    if not isinstance(algorithm, Scheduled):
        raise ValueError(
            "the adversary plays against rules with fixed batches, such as uniform-grid"
        )
    if arm.initial_state or arm.measure_radius:
        raise ValueError("the adversary chooses initial states: no initial_state, measure_radius")
    adaptive = isinstance(world, Adversary)
    if adaptive and arm.members > 1:
        raise ValueError(
            "the adversary reads the policy in force: the exploration must have one member, such "
            f"as beta = 1, or the world kind oblivious-adversary; got {arm.members}"
        )
    need, words = world.states, "states"
    if adaptive:
        need, words = need * world.horizon, "states·horizon"
    if (batches := len(algorithm.starts(task))) < need:
        raise ValueError(f"batches must be at least {words} = {need}; got {batches}")


def _check_algorithm(experiment: Experiment, arm: Arm, task: Task) -> Algorithm:
    """Return the algorithm of an arm, or raise ValueError if task or figure do not suit it."""
    algorithm = arm.algorithm(task)
    algorithm.check(task)
    if isinstance(algorithm, Scheduled):
        refuse_faulty_rule(algorithm.schedule, task)
    figure = FIGURES[experiment.figure]
    if not figure.accepts(arm, algorithm, task):
        raise ValueError(
            f"figure {experiment.figure!r} has no place for it: an arm needs {figure.need}"
        )
    return algorithm
