import sys

import pytest

from experiments.miniature import ALL, EVERY, GRID, RANDOM, WORLD, experiment, refused, toml
from rareswitch.experiments.load import load_spec, parse_spec


def test_a_list_stands_for_one_arm_for_each_value_named_by_its_template():
    arms = experiment(arms=GRID).arms
    assert [(a.name, a.label, a.schedule["batches"]) for a in arms] == [
        ("batch-4", "Batch B=4", 4),
        ("batch-8", "Batch B=8", 8),
    ]


def test_several_lists_stand_for_every_combination():
    arms = experiment(
        arms='[[arms]]\nname = "e{eta}-z{zeta}-b{beta}"\nbeta = [1, 2]\nworld = { zeta = [0, 0.1] }'
        '\nschedule = { kind = "determinant-growth", eta = [2, 4, 8] }'
    ).arms
    found = [(arm.schedule["eta"], arm.world.zeta, arm.exploration["beta"]) for arm in arms]
    assert sorted(found) == [(e, z, b) for e in (2, 4, 8) for z in (0, 0.1) for b in (1, 2)]
    assert {arm.name for arm in arms} >= {"e2-z0-b1", "e8-z0.1-b2"}
    assert all(arm.label == arm.name for arm in arms)


def test_arms_inherit_the_world_and_the_defaults_and_may_replace_parts_of_them():
    defaults = "[defaults]\nbeta = 3\nridge = 2\n"
    (arm,) = experiment(arms=EVERY + "beta = 5\nworld = { d = 6 }\n", defaults=defaults).arms
    assert (arm.exploration["beta"], arm.recipe.ridge, arm.world.d, arm.world.horizon) == (
        5,
        2,
        6,
        3,
    )


@pytest.mark.parametrize(
    ("defaults", "own", "kind"),
    [
        ("beta = 3", "", "bonus"),
        ("beta = 3", 'exploration = { kind = "ensemble" }', "ensemble"),
        ('exploration = { kind = "perturbation", scale = 1 }', "beta = 2", "bonus"),
        ('exploration = { kind = "perturbation", scale = 1 }', "", "perturbation"),
        ("ridge = 3", "", "ensemble"),
    ],
)
def test_an_exploration_replaces_a_default_beta_and_the_other_way(defaults, own, kind):
    (arm,) = experiment(arms=EVERY + own, defaults=f"\n[defaults]\n{defaults}\n").arms
    assert arm.exploration["kind"] == kind


def test_a_world_of_another_kind_stands_alone():
    tabular = 'world = { kind = "tabular", states = 2, actions = 2, horizon = 2 }\n'
    same = 'world = { kind = "hard-to-learn", d = 6 }\n'
    other, changed = experiment(arms=EVERY + tabular + GRID.replace("[4, 8]", "4") + same).arms
    assert other.world.words() == {
        "kind": "tabular", "states": 2, "actions": 2, "horizon": 2,
    }  # fmt: skip
    assert (changed.world.d, changed.world.horizon) == (6, 3)


def test_lists_are_spelled_out_in_every_table_and_kinds_like_any():
    arms = experiment(
        arms="""
            [[arms]]
            name = "{kind}-{switches}-s{scale}"
            schedule = { kind = ["total-growth", "uniform-grid"], switches = [3, 5] }
            exploration = { kind = "perturbation", scale = [0, 1] }
        """
    ).arms
    found = [
        (arm.schedule["kind"], arm.schedule["switches"], arm.exploration["scale"]) for arm in arms
    ]
    assert sorted(found) == [
        (k, b, s) for k in ("total-growth", "uniform-grid") for b in (3, 5) for s in (0, 1)
    ]
    assert arms[0].name == "total-growth-3-s0"


def test_a_list_within_a_list_is_one_value():
    arms = experiment(
        arms='[[arms]]\nname = "dates"\nschedule = { kind = "episode-grid", dates = [[1, 5, 9]] }'
    ).arms
    assert [arm.schedule["dates"] for arm in arms] == [[1, 5, 9]]


@pytest.mark.parametrize("key", ["name", "label"])
@pytest.mark.parametrize(
    "template",
    ["{foo}", "a{", "{kind.foo}", "{kind.__class__}", "{kind[0]}", "{kind!r}", "{kind:9}"],
)
def test_a_template_holds_keys_of_the_arm_and_nothing_else(key, template):
    arms = EVERY.replace(f'{key} = "lsvi-ucb"', f'{key} = "{template}"')
    arms = arms.replace(f'{key} = "LSVI-UCB"', f'{key} = "{template}"')
    refused(toml(arms=arms), f"arms: {key} '{template}' cannot be filled in")


def test_a_label_may_hold_braces_and_formulas():
    arms = EVERY.replace('"LSVI-UCB"', "'$x_{{1}}$ {kind}'")
    assert experiment(arms=arms).arms[0].label == "$x_{1}$ every-episode"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(toml(), encoding="utf-8-sig")
    assert load_spec(path) == experiment()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(name="n" * 101), ["name must have at most 100 characters; got 101"]),
        (
            toml(arms=EVERY.replace("lsvi-ucb", "n" * 101)),
            ["arm 'nnn", "name must have at most 100"],
        ),
        (toml(title="$\\\\fraq{1}$"), ["title holds a formula that cannot be drawn"]),
        (
            toml(arms=EVERY.replace('"LSVI-UCB"', "'$x^{{$'")),
            ["arm 'lsvi-ucb': label holds a formula"],
        ),
        (
            toml(arms=EVERY.replace('"LSVI-UCB"', "'_hidden'")),
            ["arm 'lsvi-ucb': label must not", "'_hidden'"],
        ),
        (toml(arms=EVERY.replace('"LSVI-UCB"', "''")), ["arm 'lsvi-ucb': label must not be empty"]),
        (toml(arms=EVERY + "world = { kind = 'a:b', when = 2026-01-01 }"), ["lsvi-ucb", "JSON"]),
    ],
)
def test_names_and_texts_that_could_not_be_drawn_or_stored_are_refused(text, words):
    assert len(refused(text, *words)) < 400


def test_a_dollar_alone_is_a_dollar():
    assert experiment(title="worth 5 $").title == "worth 5 $"


def test_overrides_replace_top_level_keys():
    spec = parse_spec(toml(), source="x", overrides={"rounds": 9, "episodes": None, "seed": 2})
    assert spec == experiment(rounds=9, seed=2)
    assert parse_spec(toml(seed=5), source="x", overrides={"seed": 0}) == experiment(seed=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(nonsense=1), ["nonsense is not a key of an experiment; its keys are name, title"]),
        (toml(arms=EVERY + "nonsense = 1"), ["arm 'lsvi-ucb': nonsense is not a key of an arm"]),
        (
            toml(world=WORLD + "nonsense = 1"),
            ["arm 'lsvi-ucb': hard-to-learn has no argument 'nonsense'; it takes d, horizon"],
        ),
        (
            toml(arms=EVERY.replace(" }", ", eta = 2 }")),
            ["arm 'lsvi-ucb': schedule: every-episode has no argument 'eta'"],
        ),
    ],
)
def test_an_unknown_key_is_refused_wherever_it_stands(text, words):
    refused(text, *words)


@pytest.mark.parametrize("key", ["rounds", "episodes"])
@pytest.mark.parametrize("value", [0, -3])
def test_rounds_and_episodes_must_be_positive(key, value):
    refused(toml(**{key: value}), f"{key} must be", "1", f"got {value}")


def test_a_negative_seed_is_refused():
    refused(toml(seed=-1), "seed must be at least 0; got -1")


@pytest.mark.parametrize("key", ["name", "title", "rounds", "episodes"])
def test_a_missing_key_is_named(key):
    lines = toml().splitlines()
    without = "\n".join(line for line in lines[:4] if not line.startswith(key))
    refused(
        without + "\n".join(["", *lines[4:]]),
        f"{key} must be given; it is a required key of an experiment",
    )


def test_an_experiment_needs_arms():
    refused(toml(arms=""), "arms must not be empty")


def test_an_arm_needs_a_schedule_and_a_world():
    refused(toml(arms='[[arms]]\nname = "a"'), "arm 'a': schedule must be given")
    refused(toml(arms='[[arms]]\nname = "a"\nschedule = {}'), "arm 'a': schedule must be a table")
    refused(toml(world="\n"), "arm 'lsvi-ucb': world kind must be one of")
    hard = '\n[world]\nkind = "hard"\n'  # its name on the command line
    refused(toml(world=hard), "got 'hard'; did you mean hard-to-learn?")
    refused(toml(arms=EVERY.replace("name =", "ridge =")), "name must be given")


def test_a_required_key_of_a_world_is_named():
    world = '\n[world]\nkind = "tabular"\nstates = 3\nhorizon = 2\n'
    refused(toml(world=world), "arm 'lsvi-ucb': tabular needs actions")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (toml(rounds="many"), ["rounds must be a whole number", "'many'"]),
        (toml(episodes=2.5), ["episodes must be a whole number", "2.5"]),
        (
            toml(arms=EVERY + 'beta = "large"'),
            ["arm 'lsvi-ucb': exploration: beta", "number", "'large'"],
        ),
        (
            toml(arms=EVERY + 'ties = "highest"'),
            ["arm 'lsvi-ucb': ties must be one of", "lowest", "'highest'"],
        ),
        (
            toml(arms=GRID.replace("[4, 8]", '"few"')),
            ["arm 'batch-few': schedule: batches must be", "'few'"],
        ),
        (
            toml(world=WORLD + 'reading = "mine"'),
            ["arm 'lsvi-ucb': reading must be one of", "'mine'"],
        ),
        (toml(figure="pie"), ["figure must be one of regret, regret-log", "'pie'"]),
        (
            toml(arms=EVERY.replace("every-episode", "never")),
            ["arm 'lsvi-ucb': schedule: kind", "random-policy", "mvp", "'never'"],
        ),
        (
            toml(world=WORLD.replace("hard-to-learn", "easy")),
            ["arm 'lsvi-ucb': world kind must be one of", "'easy'"],
        ),
        (toml(name="Big Name"), ["name must consist of", "'Big Name'"]),
        (
            toml(arms=EVERY.replace("lsvi-ucb", "../up")),
            ["arm '../up': name must consist of", "'../up'"],
        ),
        ("arms = 3\n" + toml(arms=""), ["arms must be a list of tables; got 3"]),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_came(text, words):
    refused(text, *words)


def test_two_arms_of_the_same_name_are_refused():
    refused(toml(arms=EVERY + RANDOM + EVERY), "different names", "lsvi-ucb comes twice")
    refused(toml(arms=GRID.replace("batch-{batches}", "batch")), "batch comes twice")


@pytest.mark.parametrize("text", ["name = ", "[[arms]", "just words", 'name = "a"\nname = "b"'])
def test_what_is_not_toml_is_said_to_be_none(text):
    assert "is not TOML" in refused(text)


def test_an_error_tells_about_the_first_of_many_faults_only():
    message = refused(toml(rounds=0, episodes=0, arms=ALL + "beta = -1"))
    assert message.startswith("bad.toml: arm 'random': exploration: beta must be")
    assert message.count("must be") == 1


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


def test_lists_that_make_too_many_arms_are_refused_before_they_are_made():
    numbers = list(range(1, 31))
    lists = dict.fromkeys(("a", "b", "c", "d", "e", "f"), numbers)
    arm = "".join(f"{key} = {value}\n" for key, value in lists.items())
    text = f'name = "x"\ntitle = "x"\nrounds = 1\nepisodes = 1\n[[arms]]\nname = "y"\n{arm}'
    with pytest.raises(ValueError, match="lists must make at most 10000 arms; got 729000000"):
        parse_spec(text, source="x.toml")


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        (EVERY + "betta = 2", "betta is not a key of an arm; did you mean beta?"),
        (EVERY + "lambda = 0.1", "lambda is not a key of an arm; did you mean ridge?"),
        (EVERY + "tie = 'lowest'", "tie is not a key of an arm; did you mean ties?"),
        (EVERY.replace("schedule", "rule"), "rule is not a key of an arm; did you mean schedule?"),
    ],
)
def test_a_misspelt_key_is_told_the_right_one(arms, words):
    refused(toml(figure="paretto"), "got 'paretto'; did you mean pareto?")
    refused(
        toml(world='\n[world]\nkind = "frozenlake"\n'),
        "got 'frozenlake'; did you mean frozen-lake?",
    )
    refused(
        toml(world='\n[world]\nkind = "frozen-lake"\nhorizn = 8\n'),
        "no argument 'horizn'; it takes chance, horizon; did you mean horizon?",
    )
    refused(
        toml(arms=EVERY.replace("every-episode", "rareswitch.rules:UniformGird")),
        "module rareswitch.rules has no 'UniformGird'); did you mean UniformGrid?",
    )
    refused(toml(episode=3), "episode is not a key of an experiment; did you mean episodes?")
    message = refused(toml(arms=arms), f"arm 'lsvi-ucb': {words}")
    assert "permitted" not in message
    assert "Field" not in message


def test_code_is_looked_for_beside_the_file_and_the_search_path_stays_as_it_was(tmp_path):
    code = "class Never:\n    def due(self, clock):\n        return False\n"
    (tmp_path / "rule_beside_the_file.py").write_text(code)
    path = tmp_path / "my.toml"
    path.write_text(toml(arms=EVERY.replace("every-episode", "rule_beside_the_file:Never")))
    before = list(sys.path)
    try:
        (arm,) = load_spec(path, allow=["rule_beside_the_file"]).arms
    finally:
        sys.modules.pop("rule_beside_the_file", None)
    assert type(arm.rule).__name__ == "Never"
    assert sys.path == before
    refused(path.read_text(), "arm 'lsvi-ucb': schedule: kind 'rule_beside_the_file' cannot be")
