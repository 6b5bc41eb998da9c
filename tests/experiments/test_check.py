import tracemalloc

import pytest

from experiments.miniature import EVERY, GRID, GROWTH, RANDOM, WORLD, experiment, refused, toml
from rareswitch.experiments.check import piece_memory
from rareswitch.experiments.run import compute
from rareswitch.experiments.store import cut_into_pieces

ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
TABULAR = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'


@pytest.mark.parametrize("eta", ["1", "0.5", "-2"])
def test_eta_must_be_above_one(eta):
    refused(toml(arms=GROWTH.replace("[2, 8]", eta)), "eta must be", "above 1", "rareswitch-")


@pytest.mark.parametrize(
    ("batches", "allowed"), [(25, "from 1 to 24"), (0, "at least 1"), (-1, "at least 1")]
)
def test_batches_must_fit_into_the_episodes(batches, allowed):
    arms = EVERY + GRID.replace("[4, 8]", str(batches))
    refused(toml(arms=arms), f"arm 'batch-{batches}'", f"batches must be {allowed}; got {batches}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("beta = -0.1", "beta must be"),
        ("beta = nan", "beta must be a finite number"),
        ("ridge = 0", "ridge must be"),
        ("ridge = 1e-320", "ridge must be"),
        ('exploration = { kind = "perturbation", scale = 1e308 }', "scale must be"),
        ('exploration = { kind = "perturbation", scale = 1, draws = 0 }', "draws must be"),
    ],
)
def test_beta_scale_and_ridge_have_bounds(line, words):
    refused(toml(arms=EVERY + line), "arm 'lsvi-ucb'", words)


def test_an_exploration_is_named_and_needs_its_arguments():
    refused(
        toml(arms=EVERY + 'exploration = { kind = "luck" }'),
        "arm 'lsvi-ucb': exploration: kind must be",
        "'luck'",
    )
    refused(
        toml(arms=EVERY + 'exploration = { kind = "perturbation" }'),
        "exploration: perturbation needs scale",
    )


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize("key", ["beta", "ridge"])
def test_numbers_must_be_finite(key, value):
    refused(toml(arms=EVERY + f"{key} = {value}"), key, "finite number")
    refused(toml(arms=GROWTH.replace("[2, 8]", value)), "eta", "finite number")


@pytest.mark.parametrize("delta", ["0", "0.5", "0.7", "-0.1"])
def test_delta_must_lie_between_zero_and_a_half(delta):
    refused(toml(world=WORLD + f"delta = {delta}"), "lsvi-ucb", "delta must be")


@pytest.mark.parametrize("zeta", ["-0.1", "1.0"])
def test_zeta_must_be_a_fraction(zeta):
    refused(toml(world=WORLD + f"zeta = {zeta}"), "lsvi-ucb", "zeta must be")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ('{ kind = "adaptive-budget", switches = -1 }', "switches must be at least 0"),
        ('{ kind = "uniform-grid", switches = 24 }', "switches must be from 0 to 23"),
        ('{ kind = "determinant-growth", switches = 0 }', "switches must be at least 1"),
        (
            '{ kind = "total-growth", switches = 2, eta = 3 }',
            "total-growth takes switches or eta, not both",
        ),
        ('{ kind = "minimax-grid", switches = 3 }', "no argument 'switches'"),
        ('{ kind = "adaptive-budget" }', "needs switches"),
        ('{ kind = "mvp", scale = -0.1 }', "scale must be"),
        ('{ kind = "eqo", scale = -0.1 }', "scale must be"),
        ('{ kind = "psrl", prior = 0 }', "prior must be"),
        ('{ kind = "psrl", samples = "step" }', "samples must be one of 'batch', 'episode'"),
        ('{ kind = "epsilon-greedy", epsilon = 2 }', "epsilon must be"),
        ('{ kind = "epsilon-greedy", ridge = 0 }', "ridge must be"),
        ('{ kind = "epsilon-greedy", batches = 0 }', "batches must be at least 1"),
        ('{ kind = "epsilon-greedy", batches = 25 }', "batches must be from 1 to 24; got 25"),
        ('{ kind = "layer-by-layer", batches = 25 }', "batches must be from 1 to 24; got 25"),
        ('{ kind = "layer-by-layer", batches = 5, accuracy = 0 }', "accuracy must be"),
        ('{ kind = "layer-by-layer", batches = 5, scale = -1 }', "scale must be"),
        ('{ kind = "layer-by-layer" }', "layer-by-layer needs batches"),
        ('{ kind = "explore-then-commit", explore = 2 }', "explore must be"),
        ('{ kind = "explore-then-commit", ridge = 0 }', "ridge must be"),
        ('{ kind = "lsvi-ucb-plus-plus", scale = -1 }', "scale must be"),
        ('{ kind = "lsvi-ucb-plus-plus", inflation = -1 }', "inflation must be"),
        ('{ kind = "lsvi-ucb-plus-plus", monotone = 1 }', "monotone must be True or False"),
        ('{ kind = "no_such_module:Rule" }', "cannot be imported"),
        ('{ kind = "json:JSONDecoder" }', "must be a class with a method due; it is"),
        ("{ kind = [1] }", "schedule must be a table with a kind, a name; got {'kind': 1}"),
    ],
)
def test_a_rule_that_cannot_be_made_is_refused(schedule, words):
    refused(toml(arms=EVERY.replace('{ kind = "every-episode" }', schedule)), words)


@pytest.mark.parametrize("kind", ["ucb2-hoeffding", "mvp", "eqo", "psrl"])
def test_a_tabular_algorithm_needs_a_tabular_world(kind):
    text = toml(arms=EVERY.replace("every-episode", kind))
    refused(text, f"arm 'lsvi-ucb': schedule kind {kind} needs a tabular world")


def test_the_adversary_needs_a_batch_for_every_state_and_stage():
    enough = GRID.replace("[4, 8]", "6")
    assert experiment(world=ADVERSARY, arms=enough).arms[0].schedule["batches"] == 6
    few = toml(world=ADVERSARY, arms=GRID.replace("[4, 8]", "5"))
    refused(few, "batch-5", "batches must be at least states·horizon = 6")
    late = '[[arms]]\nname = "dates"\nschedule = { kind = "episode-grid", dates = [[%s]] }\n'
    assert experiment(world=ADVERSARY, arms=late % "1, 2, 3, 4, 5, 6, 99")
    refused(toml(world=ADVERSARY, arms=late % "1, 2, 3, 4, 5, 98, 99"), "at least", "got 5")


@pytest.mark.parametrize("arms", [EVERY, GROWTH, RANDOM], ids=["every", "growth", "random"])
def test_the_adversary_plays_against_grids_only(arms):
    refused(toml(world=ADVERSARY, arms=arms), "uniform-grid")


def test_the_oblivious_adversary_plays_against_mixtures_on_any_grid_with_a_batch_for_each_state():
    oblivious = ADVERSARY.replace("adversary", "oblivious-adversary")
    mixture = GRID + 'exploration = { kind = "ensemble", members = 3 }\n'
    enough = mixture.replace("[4, 8]", "2")
    assert experiment(world=oblivious, arms=enough).arms[0].members == 3
    few = toml(world=oblivious, arms=mixture.replace("[4, 8]", "1"))
    refused(few, "batch-1", "batches must be at least states = 2; got 1")
    refused(toml(world=oblivious, arms=GROWTH), "uniform-grid")
    refused(toml(world=oblivious, arms=RANDOM), "uniform-grid")
    refused(toml(world=oblivious, arms=enough + "initial_state = 1"), "chooses initial states")
    refused(toml(figure="members", arms=GRID), "no place", "a world of kind oblivious-adversary")


def test_the_adversary_chooses_the_initial_states():
    arms = GRID.replace("[4, 8]", "8")
    for line in ("initial_state = 1", "measure_radius = true"):
        refused(toml(world=ADVERSARY, arms=arms + line), "the adversary chooses initial states")
    perturbed = arms + 'exploration = { kind = "perturbation", scale = 1 }'
    assert experiment(world=ADVERSARY, arms=perturbed)


@pytest.mark.parametrize("kind", ["ensemble", "bonus"])
def test_the_adversary_plays_against_one_member(kind):
    line = f'exploration = {{ kind = "{kind}", members = 3 }}'
    arms = GRID.replace("[4, 8]", "8") + line
    words = "the adversary reads the policy in force: the exploration must have one member"
    refused(toml(world=ADVERSARY, arms=arms), "batch-8", words, "got 3")
    assert experiment(world=ADVERSARY, arms=arms.replace("members = 3", "members = 1"))


@pytest.mark.parametrize(
    "explores",
    [
        '{ kind = "ensemble", members = 1 }',
        '{ kind = "perturbation", scale = 1 }',
        '{ kind = "bonus", members = 2 }',
        '{ kind = "bonus", estimate = true }',
    ],
)
def test_radius_beta_and_bounds_are_about_the_papers_bonus(explores):
    line = f"exploration = {explores}"
    words = "the paper's bonus, with one member and no estimate"
    refused(toml(arms=EVERY + line + "\nmeasure_radius = true"), "measure_radius needs", words)
    for figure in ("beta", "bounds"):
        refused(toml(arms=GROWTH + line, figure=figure), f"figure '{figure}'", words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"episodes": 10**13},
            ["two pieces (2 states, 4 actions, d=5, H=3, 3 rounds of 10000000000"],
        ),
        (
            {"rounds": 10**5, "episodes": 10**6},
            ["6 arms with 100000 rounds of 1000000 episodes need"],
        ),
        (
            {"world": TABULAR.replace("states = 3", "states = 100_000")},
            ["two pieces (100000 states, 2 actions, d=200000, H=2"],
        ),
    ],
)
def test_what_cannot_fit_into_memory_is_refused_with_the_numbers(changes, words):
    refused(toml(**changes), "arm 'lsvi-ucb'", " GB; this machine has ", *words)


def test_the_estimate_counts_members():
    world = WORLD.replace("d = 5", "d = 13")
    sizes = [
        piece_memory(spec, spec.arms[0])
        for members in (1, 10, 1000)
        for spec in [
            experiment(
                arms=EVERY + f'exploration = {{ kind = "ensemble", members = {members} }}',
                world=world,
            )
        ]
    ]
    assert sizes[0] < sizes[1] / 3 < sizes[2] / 200
    many = EVERY + 'exploration = { kind = "ensemble", members = 10000 }'
    refused(toml(arms=many, world=WORLD.replace("d = 5", "d = 20")), "this machine has")


@pytest.mark.parametrize(
    ("arms", "episodes"),
    [
        (GRID.replace("[4, 8]", "8"), 10_000),
        (GRID.replace("[4, 8]", "8") + 'exploration = { kind = "ensemble" }', 10_000),
        (GROWTH.replace("[2, 8]", "8") + 'exploration = { kind = "ensemble" }', 5_000),
    ],
    ids=["one policy", "mixture", "mixture without dates"],
)
def test_the_estimate_of_a_piece_is_of_the_order_of_what_it_takes(arms, episodes):
    spec = experiment(arms=arms, rounds=10, episodes=episodes)
    (piece,) = cut_into_pieces(spec)
    tracemalloc.start()
    compute(piece)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken / 2 < piece_memory(spec, spec.arms[0]) < 4 * taken


@pytest.mark.parametrize("state", [2, -1])
def test_the_initial_state_must_be_one_of_the_world(state):
    text = toml(arms=EVERY + f"initial_state = {state}")
    refused(text, "lsvi-ucb", "initial_state must be from 0 to 1")
    larger = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'
    assert experiment(world=larger, arms=EVERY + "initial_state = 2").arms[0].initial_state == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(arms=GROWTH.replace("[2, 8]", '"2"')), ["eta must be a finite number", "'2'"]),
        (toml(seed="7"), ["seed must be a whole number", "'7'"]),
        (toml(arms=GRID.replace("[4, 8]", "2.0")), ["batches must be a whole number"]),
        (toml(arms=GRID.replace("[4, 8]", "[]")), ["batches must list at least one value"]),
        (toml(world="\nworld = 3\n"), ["world must be a table; got 3"]),
        (toml(arms=EVERY + "measure_radius = true\nworld = { zeta = 0.1 }"), ["measure_radius"]),
        (toml(figure="bounds", arms=RANDOM), ["figure 'bounds' has no place", "a bound"]),
        (toml(figure="lower-bound", arms=GRID), ["no place", "a world of kind adversary"]),
        (toml(figure="budget", arms=GRID), ["figure 'budget' has no place", "switches"]),
        (toml(figure="beta", arms=RANDOM), ["figure 'beta' has no place", "a bonus β"]),
        (toml(name="pieces"), ["name must not be 'pieces'"]),
        (toml(name="report.html"), ["name must consist of a-z, 0-9 and -", "'report.html'"]),
    ],
)
def test_what_would_fail_later_is_refused_with_its_key(text, words):
    refused(text, *words)
