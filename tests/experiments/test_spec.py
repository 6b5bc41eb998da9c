import hashlib
import json
from copy import deepcopy
from pathlib import Path

import pytest

from experiments.miniature import ALL, EVERY, GRID, GROWTH, RANDOM, WORLD, experiment, toml
from rareswitch.experiments import spec as module
from rareswitch.experiments.spec import (
    PAPER,
    Adversary,
    DeterminantGrowthSpec,
    EveryEpisodeSpec,
    Experiment,
    HardToLearn,
    RandomPolicySpec,
    UniformGridSpec,
    load_spec,
    paper_specs,
    parse_spec,
)

# Another valid value for every key of a spec.
OTHER = {
    "name": "other",
    "title": "Another",
    "about": "words",
    "figure": "final",
    "rounds": 7,
    "episodes": 30,
    "seed": 9,
    "label": "another",
    "beta": 0.5,
    "ridge": 2.0,
    "ties": "lowest",
    "initial_state": 1,
    "measure_radius": True,
    "perturbation": {"sigma": 0.5},
    "batches": 5,
    "spread": "balanced",
    "eta": 3.0,
    "d": 6,
    "horizon": 4,
    "delta": 0.2,
    "reading": "padded",
    "normalized": True,
    "zeta": 0.1,
}
ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'


def paper(name):
    return parse_spec(paper_specs()[name], source=f"{name}.toml")


def leaves(value, path=()):
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from leaves(inner, (*path, key))
    elif path[-1] != "kind":
        yield path


def changed(data, path):
    data = deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    assert inner[path[-1]] != OTHER[path[-1]]
    inner[path[-1]] = OTHER[path[-1]]
    return data


def refused(text, *words):
    """Check that the text is refused in one line that names the file and these words."""
    with pytest.raises(ValueError, match="bad") as caught:
        parse_spec(text, source="bad.toml")
    message = str(caught.value)
    assert message.count("bad.toml") == 1
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


@pytest.mark.parametrize("name", PAPER)
def test_every_experiment_of_the_paper_is_valid_and_named_after_its_file(name):
    spec = paper(name)
    assert spec.name == name
    assert spec.title
    assert spec.about


def test_the_listed_experiments_are_the_files_of_the_package():
    assert list(paper_specs()) == list(PAPER)
    folder = Path(module.__file__).parent / "paper"
    assert {path.stem for path in folder.iterdir()} == set(PAPER)


@pytest.mark.parametrize("name", ["figure1", "figure2"])
def test_figures_1_and_2_have_the_arms_and_sizes_of_the_paper(name):
    spec = paper(name)
    assert (spec.rounds, spec.episodes) == (50, 2500)
    kinds = [arm.schedule for arm in spec.arms]
    assert sum(isinstance(kind, EveryEpisodeSpec) for kind in kinds) == 1
    assert [k.batches for k in kinds if isinstance(k, UniformGridSpec)] == [10, 20, 30, 40, 50]
    assert [k.eta for k in kinds if isinstance(k, DeterminantGrowthSpec)] == [2, 4, 8, 16, 32]
    assert sum(isinstance(kind, RandomPolicySpec) for kind in kinds) == 1
    assert len(kinds) == 12
    worlds = {arm.world for arm in spec.arms}
    assert worlds == {HardToLearn(kind="hard-to-learn", d=13, horizon=10, delta=0.35)}
    assert {(arm.beta, arm.ridge, arm.initial_state) for arm in spec.arms} == {(1.0, 1.0, 0)}


def test_figure_2_shows_the_runs_of_figure_1():
    one, two = paper("figure1"), paper("figure2")
    assert two.figure == "regret-log"
    assert one.arms == two.arms
    assert one.seed == two.seed


def test_figure_3_corrupts_batch_and_rareswitch_by_every_zeta():
    spec = paper("figure3")
    zetas = {}
    for arm in spec.arms:
        zetas.setdefault(type(arm.schedule), []).append(arm.world.zeta)
    assert zetas == {
        UniformGridSpec: [0.0, 0.05, 0.1, 0.2, 0.4],
        DeterminantGrowthSpec: [0.0, 0.05, 0.1, 0.2, 0.4],
        RandomPolicySpec: [0.0, 0.4],
    }
    assert {a.schedule.batches for a in spec.arms if "batch" in a.name} == {50}
    assert {a.schedule.eta for a in spec.arms if "rareswitch" in a.name} == {8}
    assert (spec.rounds, spec.episodes) == (50, 2500)


def test_the_lower_bound_is_played_by_the_adversary_on_grids_that_divide_the_episodes():
    spec = paper("lower-bound")
    for arm in spec.arms:
        assert isinstance(arm.world, Adversary)
        assert arm.schedule.batches >= arm.world.states * arm.world.horizon
        assert spec.episodes % arm.schedule.batches == 0


def test_pareto_switches_and_bounds_reuse_the_arms_of_figure_1():
    figure1 = {arm.setting() for arm in paper("figure1").arms}
    assert figure1 < {arm.setting() for arm in paper("pareto").arms}
    assert {arm.setting() for arm in paper("switches").arms} < figure1
    assert {arm.setting() for arm in paper("bounds").arms} < figure1


def test_beta_sweeps_and_measures_the_radius_of_every_arm():
    spec = paper("beta")
    assert all(arm.measure_radius for arm in spec.arms)
    assert {arm.beta for arm in spec.arms} >= {0.1, 1.0, 10.0, 527.0}


def test_readings_vary_every_choice_that_the_paper_leaves_open():
    arms = paper("readings").arms
    assert {arm.world.reading for arm in arms} == {"completed", "padded", "compact"}
    assert {arm.world.normalized for arm in arms} == {False, True}
    assert {arm.ties for arm in arms} == {"direction", "lowest"}
    assert {arm.initial_state for arm in arms} == {0, 1, "uniform"}
    spreads = {a.schedule.spread for a in arms if isinstance(a.schedule, UniformGridSpec)}
    assert spreads == {"last", "balanced"}


def test_a_list_stands_for_one_arm_for_each_value_named_by_its_template():
    arms = experiment(arms=GRID).arms
    assert [(a.name, a.label, a.schedule.batches) for a in arms] == [
        ("batch-4", "Batch B=4", 4),
        ("batch-8", "Batch B=8", 8),
    ]


def test_several_lists_stand_for_every_combination():
    arms = experiment(
        arms='[[arms]]\nname = "e{eta}-z{zeta}-b{beta}"\nbeta = [1, 2]\nworld = { zeta = [0, 0.1] }'
        '\nschedule = { kind = "determinant-growth", eta = [2, 4, 8] }'
    ).arms
    found = [(arm.schedule.eta, arm.world.zeta, arm.beta) for arm in arms]
    assert sorted(found) == [(e, z, b) for e in (2, 4, 8) for z in (0, 0.1) for b in (1, 2)]
    assert {arm.name for arm in arms} >= {"e2-z0-b1", "e8-z0.1-b2"}
    assert all(arm.label == arm.name for arm in arms)


def test_arms_inherit_the_world_and_the_defaults_and_may_replace_parts_of_them():
    text = "[defaults]\nbeta = 3\nridge = 2\n" + EVERY + "beta = 5\nworld = { d = 6 }\n"
    (arm,) = experiment(arms=text).arms
    assert (arm.beta, arm.ridge, arm.world.d, arm.world.horizon) == (5, 2, 6, 3)


def test_the_digest_is_that_of_the_canonical_json():
    spec = experiment()
    data = json.loads(spec.canonical())
    compact = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert spec.digest == hashlib.sha256(compact.encode()).hexdigest()
    assert Experiment.model_validate(data) == spec


def test_another_spelling_of_the_same_spec_has_the_same_digest():
    one = experiment(arms=EVERY + RANDOM, seed=0)
    spelled = """
        arms = [
          {label = "LSVI-UCB", name = "lsvi-ucb", schedule.kind = "every-episode", beta = 1},
          {name = "random", label = "random", schedule.kind = "random-policy", ridge = 1e0},
        ]
        episodes = 2_4
        rounds = 0x3
        title = 'Small'
        figure = "regret"
        name = "mini"
        defaults = {ties = "direction"}
        # the defaults written out
        world = {horizon = 3, zeta = 0, d = 5, delta = 0.350, kind = "hard-to-learn"}
    """
    other = parse_spec(spelled, source="elsewhere.toml")
    assert other.canonical() == one.canonical()
    assert other.digest == one.digest


def test_a_list_and_its_spelled_out_arms_have_the_same_digest():
    spelled = "".join(
        f'[[arms]]\nname = "batch-{b}"\nlabel = "Batch B={b}"\n'
        f'schedule = {{ kind = "uniform-grid", batches = {b} }}\n'
        for b in (4, 8)
    )
    assert experiment(arms=spelled).digest == experiment(arms=GRID).digest


def test_any_changed_key_gives_another_digest():
    spec = experiment(arms=EVERY + GRID + GROWTH)
    data = json.loads(spec.canonical())
    digests = {Experiment.model_validate(changed(data, path)).digest for path in leaves(data)}
    assert spec.digest not in digests
    assert len(digests) == len(list(leaves(data)))


def test_the_order_of_arms_is_part_of_the_digest():
    assert experiment(arms=EVERY + RANDOM).digest != experiment(arms=RANDOM + EVERY).digest


def test_the_setting_of_an_arm_leaves_out_its_name_and_label_and_nothing_else():
    (arm,) = experiment(arms=GRID.replace("[4, 8]", "4")).arms
    data = arm.model_dump(mode="json")
    for path in leaves(data):
        other = type(arm).model_validate(changed(data, path))
        assert (other.setting() == arm.setting()) == (path in [("name",), ("label",)]), path


def test_overrides_replace_top_level_keys():
    spec = parse_spec(toml(), source="x", overrides={"rounds": 9, "episodes": None, "seed": 2})
    assert spec == experiment(rounds=9, seed=2)
    assert parse_spec(toml(seed=5), source="x", overrides={"seed": 0}) == experiment(seed=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(nonsense=1), ["nonsense"]),
        (toml(arms=EVERY + "nonsense = 1"), ["arms.0", "nonsense"]),
        (toml(world=WORLD + "nonsense = 1"), ["arms.0.world", "nonsense"]),
        (toml(arms=EVERY.replace(" }", ", eta = 2 }")), ["arms.0.schedule", "eta"]),
    ],
)
def test_an_unknown_key_is_refused_wherever_it_stands(text, words):
    refused(text, *words)


@pytest.mark.parametrize("eta", ["1", "0.5", "-2"])
def test_eta_must_be_above_one(eta):
    refused(toml(arms=GROWTH.replace("[2, 8]", eta)), "eta must be", "above 1", "rareswitch-")


@pytest.mark.parametrize("batches", [25, 0, -1])
def test_batches_must_fit_into_the_episodes(batches):
    arms = EVERY + GRID.replace("[4, 8]", str(batches))
    refused(toml(arms=arms), f"batch-{batches}", "batches must be from 1 to 24", f"got {batches}")


@pytest.mark.parametrize("key", ["rounds", "episodes"])
@pytest.mark.parametrize("value", [0, -3])
def test_rounds_and_episodes_must_be_positive(key, value):
    refused(toml(**{key: value}), f"{key}:", "greater than or equal to 1", str(value))


def test_a_negative_seed_is_refused():
    refused(toml(seed=-1), "seed:", "-1")


@pytest.mark.parametrize("key", ["name", "title", "rounds", "episodes"])
def test_a_missing_key_is_named(key):
    lines = toml().splitlines()
    without = "\n".join(line for line in lines[:4] if not line.startswith(key))
    refused(without + "\n".join(["", *lines[4:]]), f"{key}: Field required")


def test_an_experiment_needs_arms():
    refused(toml(arms=""), "arms:")


def test_an_arm_needs_a_schedule_and_a_world():
    refused(toml(arms='[[arms]]\nname = "a"'), "arms.0.schedule", "kind")
    refused(toml(world="\n"), "arms.0.world", "kind")


def test_a_required_key_of_a_world_is_named():
    world = '\n[world]\nkind = "tabular"\nstates = 3\nhorizon = 2\n'
    refused(toml(world=world), "arms.0.world", "actions: Field required")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(rounds="many"), ["rounds:", "integer", "'many'"]),
        (toml(episodes=2.5), ["episodes:", "2.5"]),
        (toml(arms=EVERY + 'beta = "large"'), ["arms.0.beta:", "number", "'large'"]),
        (toml(arms=EVERY + 'ties = "highest"'), ["arms.0.ties:", "lowest", "'highest'"]),
        (toml(arms=GRID.replace("[4, 8]", '"few"')), ["arms.0.schedule", "batches", "'few'"]),
        (toml(world=WORLD + 'reading = "mine"'), ["arms.0.world", "reading", "'mine'"]),
        (toml(figure="pie"), ["figure:", "'pie'"]),
        (toml(arms=EVERY.replace("every-episode", "never")), ["arms.0.schedule", "'never'"]),
        (toml(world=WORLD.replace("hard-to-learn", "easy")), ["arms.0.world", "'easy'"]),
        (toml(name="Big Name"), ["name:", "'Big Name'"]),
        (toml(arms=EVERY.replace("lsvi-ucb", "../up")), ["arms.0.name:", "'../up'"]),
        ("arms = 3\n" + toml(arms=""), ["arms:"]),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_came(text, words):
    refused(text, *words)


@pytest.mark.parametrize(
    ("line", "word"), [("beta = -0.1", "beta"), ("ridge = 0", "ridge"), ("beta = nan", "beta")]
)
def test_beta_and_ridge_have_bounds(line, word):
    refused(toml(arms=EVERY + line), f"arms.0.{word}:")


def test_two_arms_of_the_same_name_are_refused():
    refused(toml(arms=EVERY + RANDOM + EVERY), "different names", "lsvi-ucb comes twice")
    refused(toml(arms=GRID.replace("batch-{batches}", "batch")), "batch comes twice")


@pytest.mark.parametrize("text", ["name = ", "[[arms]", "just words", 'name = "a"\nname = "b"'])
def test_what_is_not_toml_is_said_to_be_none(text):
    assert "is not TOML" in refused(text)


@pytest.mark.parametrize("delta", ["0", "0.5", "0.7", "-0.1"])
def test_delta_must_lie_between_zero_and_a_half(delta):
    refused(toml(world=WORLD + f"delta = {delta}"), "lsvi-ucb", "delta must be")


@pytest.mark.parametrize("zeta", ["-0.1", "1.0"])
def test_zeta_must_be_a_fraction(zeta):
    refused(toml(world=WORLD + f"zeta = {zeta}"), "lsvi-ucb", "zeta must be")


@pytest.mark.parametrize(
    "rule", ["adaptive", "total-growth", "any-stage", "uniform-grid", "geometric-grid"]
)
def test_a_budget_names_its_rule_and_builds_it_for_the_world_of_the_arm(rule):
    arms = f"""
        [[arms]]
        name = "budget-{{switches}}"
        schedule = {{ kind = "budget", rule = "{rule}", switches = [5, 9] }}
    """
    assert [arm.schedule.switches for arm in experiment(arms=arms).arms] == [5, 9]
    refused(toml(arms=arms.replace(rule, "spend-all")), "arms.0.schedule", "rule", "spend-all")
    refused(toml(arms=arms.replace("5,", "-5,")), "arms.0.schedule", "switches", "-5")


def test_a_tabular_algorithm_needs_a_tabular_world():
    refused(toml(arms=EVERY.replace("every-episode", "mvp")), "lsvi-ucb", "tabular world")


def test_the_adversary_needs_a_batch_for_every_state_and_stage():
    enough = GRID.replace("[4, 8]", "6")
    assert experiment(world=ADVERSARY, arms=enough).arms[0].schedule.batches == 6
    few = toml(world=ADVERSARY, arms=GRID.replace("[4, 8]", "5"))
    refused(few, "batch-5", "batches must be at least states·horizon = 6")


@pytest.mark.parametrize("arms", [EVERY, GROWTH, RANDOM], ids=["every", "growth", "random"])
def test_the_adversary_plays_against_grids_only(arms):
    refused(toml(world=ADVERSARY, arms=arms), "uniform-grid")


@pytest.mark.parametrize("state", [2, -1])
def test_the_initial_state_must_be_one_of_the_world(state):
    text = toml(arms=EVERY + f"initial_state = {state}")
    refused(text, "lsvi-ucb", "initial_state must be from 0 to 1")
    larger = '\n[world]\nkind = "tabular"\nstates = 3\nactions = 2\nhorizon = 2\n'
    assert experiment(world=larger, arms=EVERY + "initial_state = 2").arms[0].initial_state == 2


def test_an_error_tells_about_the_first_of_many_faults_only():
    message = refused(toml(rounds=0, episodes=0, arms=ALL + "beta = -1"))
    assert message.startswith("bad.toml: rounds:")


def test_a_spec_is_loaded_from_its_file(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(toml(), encoding="utf-8")
    assert load_spec(path) == experiment()


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_an_unreadable_file_is_named(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(ValueError, match="cannot be read") as caught:
        load_spec(path)
    assert str(path) in str(caught.value)


def test_a_fault_in_a_file_names_its_path(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(toml(rounds=0), encoding="utf-8")
    with pytest.raises(ValueError, match="rounds") as caught:
        load_spec(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize("key", ["beta", "ridge"])
def test_numbers_must_be_finite(key, value):
    refused(toml(arms=EVERY + f"{key} = {value}"), f"arms.0.{key}", "finite number")
    refused(toml(arms=GROWTH.replace("[2, 8]", value)), "eta", "finite number")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(arms=GROWTH.replace("[2, 8]", '"2"')), ["eta", "valid number", "'2'"]),
        (toml(seed="7"), ["seed", "valid integer", "'7'"]),
        (toml(arms=GRID.replace("[4, 8]", "2.0")), ["batches", "valid integer"]),
        (toml(arms=GRID.replace("[4, 8]", "[]")), ["batches must list at least one value"]),
        (toml(arms=EVERY.replace("lsvi-ucb", "a{")), ["name 'a{' cannot be filled in"]),
        (toml(arms=EVERY.replace("lsvi-ucb", "{foo}")), ["name '{foo}' cannot be filled in"]),
        (toml(world="\nworld = 3\n"), ["world: must be a table; got 3"]),
        (toml(arms=EVERY + "measure_radius = true\nworld = { zeta = 0.1 }"), ["measure_radius"]),
        (toml(figure="bounds", arms=EVERY), ["figure 'bounds' has no place", "every-episode"]),
        (toml(figure="lower-bound", arms=GRID), ["needs worlds of kind 'adversary'"]),
        (toml(name="pieces"), ["name must not be 'pieces'"]),
        (toml(name="report.html"), ["name: String should match pattern"]),
    ],
)
def test_what_would_fail_later_is_refused_with_its_key(text, words):
    refused(text, *words)
