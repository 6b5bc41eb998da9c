import hashlib
import json
import math
import pickle
import subprocess
import sys
from copy import deepcopy

import pytest

from experiments.miniature import EVERY, GRID, GROWTH, RANDOM, experiment, toml
from rareswitch import EveryEpisode, Recipe, Task, UniformGrid
from rareswitch.core.exploration import Ensemble
from rareswitch.experiments.algorithms import RandomPolicy
from rareswitch.experiments.load import parse_spec
from rareswitch.experiments.spec import canonical_json, read_arm, read_experiment
from rareswitch.rules.words import ForBudget

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
    "members": 3,
    "scale": 0.7,
    "estimate": True,
    "ridge": 2.0,
    "ties": "lowest",
    "initial_state": 1,
    "measure_radius": True,
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


def test_the_digest_is_that_of_the_canonical_json():
    spec = experiment()
    data = json.loads(canonical_json(spec.words))
    compact = json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert spec.digest == hashlib.sha256(compact.encode()).hexdigest()
    assert read_experiment(data) == spec


def test_another_spelling_of_the_same_spec_has_the_same_digest():
    one = experiment(arms=EVERY + RANDOM, seed=0)
    spelled = """
        arms = [
          {label = "LSVI-UCB", name = "lsvi-ucb", schedule.kind = "every-episode"},
          {name = "random", label = "random", schedule.kind = "random-policy", ridge = 1e0},
        ]
        episodes = 2_4
        rounds = 0x3
        title = 'Small'
        figure = "regret"
        name = "mini"
        defaults = {ties = "direction", exploration = {kind = "bonus", estimate = false, beta = 1}}
        # the defaults written out
        world = {horizon = 3, zeta = 0, d = 5, delta = 0.350, kind = "hard-to-learn"}
    """
    other = parse_spec(spelled, source="elsewhere.toml")
    assert canonical_json(other.words) == canonical_json(one.words)
    assert other.digest == one.digest


def test_a_list_and_its_spelled_out_arms_have_the_same_digest():
    spelled = "".join(
        f'[[arms]]\nname = "batch-{b}"\nlabel = "Batch B={b}"\n'
        f'schedule = {{ kind = "uniform-grid", batches = {b} }}\n'
        for b in (4, 8)
    )
    assert experiment(arms=spelled).digest == experiment(arms=GRID).digest


@pytest.mark.parametrize(
    ("plain", "spelled"),
    [
        (EVERY, EVERY + "beta = 1"),
        (EVERY + "beta = 2", EVERY + 'exploration = { kind = "bonus", beta = 2.0 }'),
        (EVERY, EVERY + 'ridge = 1\nties = "direction"\ninitial_state = 0'),
        (GRID, GRID.replace("] }", '], spread = "last" }')),
        (GROWTH.replace("[2, 8]", "2"), GROWTH.replace("[2, 8]", "2.0").replace("{eta}", "2")),
        (EVERY, EVERY + 'exploration = { kind = "bonus", members = 1, estimate = false }'),
        (
            EVERY + 'exploration = { kind = "perturbation", scale = 1 }',
            EVERY + 'exploration = { kind = "perturbation", draws = 10, scale = 1.0 }',
        ),
    ],
)
def test_defaults_spelled_out_give_the_same_digest(plain, spelled):
    assert experiment(arms=plain).digest == experiment(arms=spelled).digest


@pytest.mark.parametrize(
    "spelled",
    [
        'exploration = { kind = "ensemble" }',
        'exploration = { kind = "ensemble", scale = 0.5, members = 32, estimate = true }',
    ],
)
def test_an_arm_without_exploration_deploys_the_mixture(spelled):
    silent = experiment(arms=EVERY, defaults="")
    assert silent.digest == experiment(arms=EVERY + spelled).digest
    assert silent.digest != experiment(arms=EVERY).digest
    assert silent.arms[0].recipe.exploration == Ensemble()
    assert (silent.arms[0].members, silent.arms[0].has_paper_bonus) == (32, False)


def test_the_members_of_an_arm_are_those_of_what_it_deploys():
    plain, random = experiment(arms=EVERY + RANDOM, defaults="").arms
    assert (plain.members, random.members, random.has_paper_bonus) == (32, 1, False)
    (bonus,) = experiment(arms=EVERY + 'exploration = { kind = "bonus", members = 4 }').arms
    assert (bonus.members, bonus.has_paper_bonus) == (4, False)
    (perturbed,) = experiment(
        arms=EVERY + 'exploration = { kind = "perturbation", scale = 1 }'
    ).arms
    assert (perturbed.members, perturbed.has_paper_bonus) == (1, False)
    assert experiment(arms=EVERY).arms[0].has_paper_bonus


def test_defaults_of_a_rule_within_a_rule_are_filled_in_too():
    text = """
        [[arms]]
        name = "capped"
        schedule.kind = "capped"
        schedule.switches = 3
        schedule.schedule = { kind = "uniform-grid", batches = 5 }
    """
    (arm,) = experiment(arms=text).arms
    assert arm.schedule["schedule"] == {"kind": "uniform-grid", "batches": 5, "spread": "last"}


def test_a_rule_within_a_rule_may_ask_for_a_budget():
    text = """
        [[arms]]
        name = "capped"
        schedule.kind = "capped"
        schedule.switches = 3
        schedule.schedule = { kind = "uniform-grid", switches = 7 }
    """
    spec = experiment(arms=text)
    (arm,) = spec.arms
    inner = {"kind": "uniform-grid", "switches": 7}
    assert arm.schedule == {"kind": "capped", "switches": 3, "schedule": inner}
    rule = arm.algorithm(Task(dim=5, horizon=3, episodes=24)).schedule
    assert (rule.switches, rule.schedule) == (3, UniformGrid(batches=8))
    assert pickle.loads(pickle.dumps(arm)) == arm
    assert read_experiment(json.loads(canonical_json(spec.words))).digest == spec.digest


def test_a_bonus_and_its_beta_are_one_thing_and_cannot_be_given_twice():
    (arm,) = experiment(arms=EVERY + "beta = 0.3").arms
    assert arm.exploration == {"kind": "bonus", "beta": 0.3, "members": 1, "estimate": False}
    text = EVERY + 'beta = 0.3\nexploration = { kind = "perturbation", scale = 1 }'
    with pytest.raises(ValueError, match="arm 'lsvi-ucb': beta and exploration exclude each other"):
        experiment(arms=text)


def test_an_arm_knows_its_family():
    every, grid, _, growth, _, random = experiment().arms
    assert [arm.family.name for arm in (every, grid, growth, random)] == [
        "every-episode", "uniform-grid", "determinant-growth", "random-policy",
    ]  # fmt: skip
    assert [arm.learns for arm in (every, grid, growth, random)] == [True, True, True, False]
    assert [arm.dated for arm in (every, grid, growth, random)] == [True, True, False, False]


def test_any_changed_key_gives_another_digest():
    mixture = 'exploration = { kind = "ensemble", estimate = false }'
    spec = experiment(arms=EVERY + GRID + GROWTH + mixture)
    data = json.loads(canonical_json(spec.words))
    digests = {read_experiment(changed(data, path)).digest for path in leaves(data)}
    assert spec.digest not in digests
    assert len(digests) == len(list(leaves(data)))


def test_the_order_of_arms_is_part_of_the_digest():
    assert experiment(arms=EVERY + RANDOM).digest != experiment(arms=RANDOM + EVERY).digest


def test_the_setting_of_an_arm_leaves_out_its_name_and_label_and_nothing_else():
    (arm,) = experiment(arms=GRID.replace("[4, 8]", "4")).arms
    data = arm.words
    for path in leaves(data):
        other = read_arm(changed(data, path))
        assert (other.setting == arm.setting) == (path in [("name",), ("label",)]), path


def test_a_rule_whose_defaults_no_json_can_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    code = "class Rule:\n    def __init__(self, at=object()): ...\n    def due(self, clock): ...\n"
    (tmp_path / "unplain_rule.py").write_text(code)
    arms = EVERY.replace("every-episode", "unplain_rule:Rule")
    with pytest.raises(
        ValueError, match="arm 'lsvi-ucb': values must be numbers, texts, lists or tables"
    ):
        experiment(arms=arms)


OWN = """
class Doubled:
    def __init__(self, every=3):
        self.least = 2 * every

    def due(self, clock):
        return clock.episode - clock.deployed_at >= self.least
"""


@pytest.fixture
def own_folder(tmp_path):
    (tmp_path / "doubled_rule.py").write_text(OWN)
    yield str(tmp_path)
    sys.modules.pop("doubled_rule", None)


def test_an_arm_holds_its_rule_recipe_and_world_and_makes_them_once(own_folder):
    arms = GRID.replace("batches = [4, 8]", "switches = 7").replace("{batches}", "x") + "ridge = 2"
    every, budget, random = experiment(arms=EVERY + arms + RANDOM).arms
    assert (every.rule, every.recipe) == (EveryEpisode(), Recipe.paper(1.0))
    assert isinstance(budget.rule, ForBudget)
    assert (budget.rule.cls, budget.recipe) == (UniformGrid, Recipe.paper(ridge=2.0))
    assert budget.schedule == {"kind": "uniform-grid", "switches": 7}
    assert random.rule == RandomPolicy()
    for arm in (every, budget, random):
        assert arm.rule is arm.rule
        assert arm.recipe is arm.recipe
        assert arm.setting is arm.setting
    task = Task(dim=5, horizon=3, episodes=24)
    assert budget.algorithm(task).schedule == UniformGrid(batches=8)
    assert every.algorithm(task).schedule is every.rule
    assert random.algorithm(task) is random.rule


def test_an_arm_travels_as_words_and_its_rule_is_imported_again(own_folder):
    text = toml(arms=EVERY.replace('"every-episode"', '"doubled_rule:Doubled", every = 4'))
    (arm,) = parse_spec(text, source="x.toml", folders=[own_folder], allow=["doubled_rule"]).arms
    assert arm.schedule == {"kind": "doubled_rule:Doubled", "every": 4}
    assert arm.rule.least == 8
    data = pickle.dumps(arm)
    assert b"least" not in data
    copy = pickle.loads(data)
    assert copy == arm
    assert copy.rule is not arm.rule
    assert copy.rule.least == 8
    code = (
        "import pickle, sys\n"
        "arm = pickle.loads(sys.stdin.buffer.read())\n"
        "assert arm.rule.least == 8\n"
        f"assert {own_folder!r} not in sys.path\n"
    )
    subprocess.run([sys.executable, "-c", code], input=data, check=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('kind = "total-growth", eta = 2', f'kind = "total-growth", log_eta = {math.log(2)}'),
        ('kind = "uniform-grid", batches = 5', 'kind = "rareswitch:UniformGrid", batches = 5'),
        ('kind = "doubled_rule:Doubled"', 'kind = "doubled_rule:Doubled", every = 3'),
    ],
)
def test_rules_that_are_the_same_have_the_same_digest(one, other, own_folder):
    texts = [toml(arms=EVERY.replace('kind = "every-episode"', kind)) for kind in (one, other)]
    own = {"folders": [own_folder], "allow": ["doubled_rule", "rareswitch"]}
    specs = [parse_spec(text, source="x.toml", **own) for text in texts]
    assert specs[0].digest == specs[1].digest
    assert specs[0] == specs[1]
    assert hash(specs[0].arms[0]) == hash(specs[1].arms[0])
