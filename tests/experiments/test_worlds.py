"""Known worlds, and worlds that are only simulated: Gymnasium's, and functions of your own."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
from experiments.miniature import Inline, computed, experiment, handmade, refused, toml
from rareswitch.compute.local import local_pool
from rareswitch.experiments import figures, worlds
from rareswitch.experiments.load import load_spec, parse_spec
from rareswitch.experiments.results import load_results
from rareswitch.experiments.run import find_versions, run
from rareswitch.experiments.spec import ArmError
from rareswitch.experiments.store import cut_into_pieces, own_code
from rareswitch.gym.simulator import world_simulator
from rareswitch.support import drawing

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "frozen_lake.toml"
PAGE = ROOT / "docs" / "experiments" / "own-simulators.md"
LAKE = """
[world]
kind = "gymnasium"
env = "FrozenLake-v1"
horizon = 5
"""
BUDGETS = """
[[arms]]
name = "{kind}-{switches}"
schedule = { kind = ["spread-budget", "uniform-grid"], switches = [2, 4] }
"""
ONE = BUDGETS.replace('["spread-budget", "uniform-grid"]', '"uniform-grid"').replace("[2, 4]", "2")
SMALL = {"world": LAKE, "arms": BUDGETS, "defaults": "", "episodes": 20, "rounds": 2}
OWN = """
import numpy as np

import rareswitch as rs
from rareswitch.sim.outcome import Outcome


class Coin:
    def __init__(self, bias, episodes):
        self.bias = bias
        self.task = rs.Task(dim=2, horizon=3, episodes=episodes)

    def __call__(self, task, schedule, recipe, seeds):
        assert task == self.task
        assert (recipe.ridge, recipe.ties) == (2.0, "lowest")
        K = self.task.episodes
        return [
            Outcome(
                regret=0.0, deployments=2, switches=1,
                returns=(np.random.default_rng(seed).random(K) < self.bias) * 1.0,
                deployment_episodes=[1, 3], switch_episodes=[3],
            )
            for seed in seeds
        ]


def coin(*, bias, episodes):
    return Coin(bias, episodes)


def rows(state):
    return np.eye(4)


def taciturn(*, episodes):
    def play(task, schedule, recipe, seeds):
        return [Outcome(regret=0.0, deployments=2, switches=1) for _ in seeds]

    play.task = rs.Task(dim=2, horizon=3, episodes=episodes)
    return play


def shorter(*, episodes):
    simulator = Coin(0.5, episodes - 1)
    simulator.task = rs.Task(dim=2, horizon=3, episodes=episodes)
    simulator.__class__ = type("Short", (Coin,), {"__call__": short})
    return simulator


def short(self, task, schedule, recipe, seeds):
    fewer = Coin(self.bias, self.task.episodes - 1)
    return fewer(fewer.task, schedule, rs.Recipe(ridge=2.0, ties="lowest"), seeds)


def without_task(*, episodes):
    return lambda task, schedule, recipe, seeds: []


def another_task(*, episodes):
    return Coin(0.5, episodes + 1)


def silent(*, episodes):
    play = lambda task, schedule, recipe, seeds: []
    play.task = rs.Task(dim=2, horizon=3, episodes=episodes)
    return play
"""


@pytest.fixture(autouse=True)
def no_simulator_is_left():
    yield
    worlds._simulator.cache_clear()


@pytest.fixture
def undrawn(monkeypatch):
    """Save no pictures: a moment for each format."""
    monkeypatch.setattr(drawing, "save_figure", lambda figure, folder: None)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return the name of a module in the current folder with simulators."""
    name = "simulators_of_my_own"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / f"{name}.py").write_text(OWN)
    yield name
    sys.modules.pop(name, None)


def own_world(own, function, *rest):
    return "\n".join(["", "[world]", f'kind = "{own}:{function}"', *rest, ""])


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_round_is_that_of_the_simulator(tmp_path):
    spec = experiment(**SMALL, seed=7)
    runs = computed(spec, tmp_path)
    assert runs.measure == "return"
    for i, arm in enumerate(spec.arms):
        simulator = world_simulator("FrozenLake-v1", episodes=20, horizon=5)
        cls = rs.SpreadBudget if i < 2 else rs.UniformGrid
        rule = cls.for_budget(simulator.task, switches=arm.schedule["switches"])
        outcomes = simulator(simulator.task, rule, rs.Recipe(), [(7, 0), (7, 1)])
        for round_, outcome in enumerate(outcomes):
            np.testing.assert_array_equal(runs.values[i, round_], outcome.returns)
            for made, dates in (
                (runs.deployed, outcome.deployment_episodes),
                (runs.switched, outcome.switch_episodes),
            ):
                assert (np.flatnonzero(made[i, round_]) + 1).tolist() == list(dates)
    np.testing.assert_allclose(runs.final, runs.values.mean(axis=-1))
    with pytest.raises(ValueError, match="regret is unknown"):
        _ = runs.regret


def test_the_arms_settings_reach_the_learner(tmp_path):
    given = ONE + 'beta = 0.5\nridge = 0.1\nties = "lowest"\n'
    runs = computed(experiment(**SMALL | {"arms": given}), tmp_path)
    simulator = world_simulator("FrozenLake-v1", episodes=20, horizon=5)
    rule = rs.UniformGrid.for_budget(simulator.task, switches=2)
    recipe = rs.Recipe.paper(0.5, ridge=0.1, ties="lowest")
    outcomes = simulator(simulator.task, rule, recipe, [(0, 0), (0, 1)])
    np.testing.assert_array_equal(runs.values[0], [outcome.returns for outcome in outcomes])


def test_all_keys_of_an_environment_are_used(own, tmp_path):
    world = LAKE + "\n".join([
        'arguments = { is_slippery = false, map_name = "8x8" }',
        f'features = "{own}:rows"',
        "rewards = { low = -1, high = 3 }",
        'stages = "own"',
    ])  # fmt: skip
    (arm,) = experiment(**SMALL | {"world": world, "arms": ONE}).arms
    simulator = arm.simulator(20)
    assert simulator.setting.features.dim == simulator.task.dim == 4
    assert simulator.task.stages == "own"
    assert (simulator.setting.rewards.low, simulator.setting.rewards.high) == (-1.0, 3.0)
    made = simulator.round.make((0, 0)).unwrapped
    assert made.observation_space.n == 64
    assert len(made.P[0][0]) == 1  # not slippery


def test_arguments_may_be_listed_and_stand_in_names():
    world = LAKE + 'arguments = { is_slippery = [true, false], map_name = "4x4" }'
    arms = ONE.replace("{switches}", "{map_name}-{is_slippery}")
    spec = experiment(**SMALL | {"world": world, "arms": arms})
    assert [arm.name for arm in spec.arms] == ["uniform-grid-4x4-true", "uniform-grid-4x4-false"]
    assert [arm.world.arguments["is_slippery"] for arm in spec.arms] == [True, False]


def test_defaults_left_out_or_spelled_out_are_one_spec():
    spelled = LAKE + 'arguments = {}\nfeatures = "default"\nstages = "shared"'
    assert experiment(**SMALL).digest == experiment(**SMALL | {"world": spelled}).digest
    assert (
        experiment(**SMALL).digest == experiment(**SMALL, figure="return").digest
    )  # what is drawn if nothing is said
    other = LAKE.replace("horizon = 5", "horizon = 6")
    assert experiment(**SMALL).digest != experiment(**SMALL | {"world": other}).digest


def test_workers_interruptions_and_order_change_no_byte(tmp_path, undrawn):
    spec = experiment(**SMALL | {"arms": ONE, "rounds": 3})
    run([spec], tmp_path / "whole", Inline())
    with local_pool(2) as pool:
        run([spec], tmp_path / "pool", pool)

    def interrupt(done, total, piece):
        if piece is not None:
            raise KeyboardInterrupt

    for _ in range(2):  # one more round is kept each time
        with pytest.raises(KeyboardInterrupt):
            run([spec], tmp_path / "resumed", Inline(), interrupt)
    last = Inline()
    run([spec], tmp_path / "resumed", last)
    assert len(last.submitted) == 1
    for name in ("runs.npz", "summary.csv"):
        whole = (tmp_path / "whole" / "mini" / name).read_bytes()
        assert (tmp_path / "pool" / "mini" / name).read_bytes() == whole
        assert (tmp_path / "resumed" / "mini" / name).read_bytes() == whole


def test_a_piece_is_one_round_and_kept(tmp_path, undrawn):
    spec = experiment(**SMALL | {"arms": ONE, "rounds": 3})
    assert [piece.rounds for piece in cut_into_pieces(spec)] == [range(r, r + 1) for r in range(3)]
    first, again = Inline(), Inline()
    run([experiment(**SMALL | {"arms": ONE, "rounds": 2})], tmp_path, first)
    run([spec], tmp_path, again)
    assert [piece.first for piece in first.submitted] == [0, 1]
    assert [piece.first for piece in again.submitted] == [2]


def test_results_are_saved_under_the_name_of_what_they_are(tmp_path, undrawn):
    spec = experiment(**SMALL)
    results = run([spec], tmp_path, Inline())["mini"]
    with np.load(tmp_path / "mini" / "runs.npz") as archive:
        assert "regret" not in archive.files
        np.testing.assert_array_equal(archive["returns"], results.values)
    loaded = load_results(tmp_path / "mini")
    assert loaded.measure == "return"
    np.testing.assert_array_equal(loaded.values, results.values)
    assert np.isnan(loaded.local_switches).all()
    assert loaded.summary() == results.summary()
    assert '"measure": "return"' in (tmp_path / "mini" / "manifest.json").read_text()
    (found,) = loaded.versions
    assert found.keys() - find_versions().keys() == {"gymnasium"}


@pytest.mark.parametrize("figure", ["return", "final", "pareto", "switches", "budget"])
def test_figures_of_returns_say_return(figure):
    spec = experiment(**SMALL, figure=figure)
    below_zero = [np.full(20, -3.0), np.full(20, -2.0), np.full(20, 1.0), np.full(20, 2.0)]
    drawn = figures.draw(handmade(spec, below_zero, switches=[1, 2, 1, 2]))
    drawn.draw_without_rendering()
    said = [text for axis in drawn.axes for text in (axis.get_xlabel(), axis.get_ylabel())]
    assert not any("regret" in text.lower() for text in said)
    if figure == "switches":
        return
    assert any("average return" in text for text in said)
    ends = drawn.axes[0].get_xlim() if figure == "final" else drawn.axes[0].get_ylim()
    assert ends[0] < -2.9  # returns may be negative


def test_the_curve_is_the_running_mean_of_returns(tmp_path):
    spec = experiment(**SMALL | {"arms": ONE})
    runs = computed(spec, tmp_path)
    line = figures.draw(runs).axes[0].get_lines()[0]
    mean = runs.values[0].mean(axis=0)
    np.testing.assert_allclose(line.get_ydata(), mean.cumsum() / np.arange(1, 21))


def test_the_task_of_an_arm_is_that_of_the_environment(tmp_path):
    spec = experiment(**SMALL | {"arms": ONE})
    runs = computed(spec, tmp_path)
    expected = rs.Task(dim=64, horizon=5, episodes=20, stages="shared", one_hot=True)
    assert runs.task(spec.arms[0]) == expected


def test_a_simulator_of_your_own_runs_from_toml_to_figure(own, tmp_path):
    world = own_world(own, "coin", "bias = [0.25, 0.75]")
    arms = ONE.replace("{switches}", "{bias}") + 'ridge = 2\nties = "lowest"\n'
    spec = experiment(**SMALL | {"world": world, "arms": arms})
    with local_pool(1) as pool:
        results = run([spec], tmp_path / "out", pool)["mini"]
    for i, bias in enumerate((0.25, 0.75)):
        for round_ in range(2):
            expected = np.random.default_rng((0, round_)).random(20) < bias
            np.testing.assert_array_equal(results.values[i, round_], expected)
    assert results.deployments.tolist() == [[2, 2], [2, 2]]
    assert results.switches.tolist() == [[1, 1], [1, 1]]
    assert (tmp_path / "out" / "mini" / "figure.svg").exists()


def test_code_of_your_own_that_changes_is_computed_anew(own, tmp_path):
    worlds = {
        "kind": own_world(own, "coin", "bias = 0.5"),
        "features": LAKE + f'features = "{own}:rows"',
    }
    for world in worlds.values():
        arms = ONE + 'ridge = 2\nties = "lowest"\n'
        spec = experiment(**SMALL | {"world": world, "arms": arms})
        before = cut_into_pieces(spec)[0].key
        assert cut_into_pieces(spec)[0].key == before
        path = tmp_path / f"{own}.py"
        path.write_text(path.read_text() + "\n# another thought\n")
        assert cut_into_pieces(spec)[0].key != before
    assert own_code(experiment(**SMALL).arms[0]) == []


def test_an_environment_of_your_own_counts_as_code():
    world = LAKE.replace("FrozenLake-v1", "small_worlds:Door") + "rewards = { low = 0, high = 2 }"
    spec = experiment(**SMALL | {"world": world})
    assert len(own_code(spec.arms[0])) == 1


KNOWN = """
[[arms]]
name = "known"
schedule = { kind = "every-episode" }
world = { kind = "tabular", states = 2, actions = 2, horizon = 2 }
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms": BUDGETS + KNOWN}, ["all on known worlds", "or all on simulated"]),
        ({"figure": "regret"}, ["figure 'regret' needs regret", "return, final, pareto"]),
        ({"figure": "mixtures"}, ["needs regret"]),
        ({"figure": "beta"}, ["needs regret"]),
        ({"arms": '[[arms]]\nname = "a"\nschedule = { kind = "random-policy" }'},
         ["random-policy needs a known world"]),
        ({"arms": ONE + "initial_state = 1"}, ["no initial_state"]),
        ({"arms": ONE + "measure_radius = true"}, ["no initial_state and no measure_radius"]),
        ({"arms": ONE + "ridge = 0"}, ["ridge must be"]),
        ({"world": LAKE + "slippery = true"}, ["gymnasium has no argument 'slippery'"]),
        ({"world": LAKE.replace("FrozenLake-v1", "Nowhere-v1")}, ["uniform-grid-2", "Nowhere"]),
        ({"world": LAKE.replace("FrozenLake-v1", "no_such:World")}, ["no_such"]),
        ({"world": LAKE.replace("horizon = 5", "horizon = 0")}, ["horizon must be from 1"]),
        ({"world": LAKE + 'features = "nothing"'}, ["features must be one of default"]),
        ({"world": LAKE + 'stages = "some"'}, ["stages"]),
        ({"world": LAKE + "rewards = { low = 1 }"}, ["high must be given; it is a required"]),
        ({"world": '\n[world]\nkind = "no_such:function"\n'}, ["'no_such' cannot be imported"]),
        ({"world": '\n[world]\nkind = "json:nothing"\n'}, ["json", "nothing"]),
        ({"world": '\n[world]\nkind = "gym"\n'}, ["kind must be one of hard-", "got 'gym'"]),
        ({"world": "\n[world]\nkind = 3\n"}, ["kind must be one of hard-to-learn"]),
        ({"world": "\n[world]\nhorizon = 3\n"}, ["kind must be one of hard-to-learn"]),
    ],
)  # fmt: skip
def test_a_mistake_is_named_before_anything_runs(changes, words):
    text = toml(**SMALL | {"arms": ONE} | changes)
    refused(text, *words)


def test_a_figure_of_returns_needs_a_simulated_world():
    refused(toml(figure="return"), "figure 'return' has no place for it", "gymnasium")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("without_task", ["must return a simulator", "attribute task"]),
        ("another_task", ["must have 20 episodes; got 21"]),
        ("coin", ["bias"]),
    ],
)
def test_a_simulator_that_cannot_be_is_refused_when_the_spec_is_read(own, function, words):
    refused(toml(**SMALL | {"world": own_world(own, function), "arms": ONE}), *words)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("taciturn", "simulator must give the returns of an Outcome"),
        ("silent", "one Outcome for each of 1 seeds"),
        ("shorter", "returns must hold 20 episodes; got 19"),
    ],
)
def test_a_simulator_that_does_not_keep_its_word_is_told_so(own, tmp_path, function, message):
    spec = experiment(**SMALL | {"world": own_world(own, function), "arms": ONE})
    with pytest.raises(ArmError, match=f"arm 'uniform-grid-2': .*{message}"):
        run([spec], tmp_path / "out", Inline())


@pytest.mark.parametrize(
    ("world", "message"),
    [
        ("Door", r"reward must be from 0 to 1; got 2.0.*episode \d+, step 0"),
        (
            "Broken",
            r"small_worlds:Broken raised UnpicklableError: stuck and locked.*"
            r"small_worlds.py, line \d+, in step",
        ),
    ],
)
def test_an_error_of_a_world_is_told_and_breaks_no_pool(tmp_path, world, message):
    own = LAKE.replace("FrozenLake-v1", f"small_worlds:{world}")
    own += "rewards = { low = 0, high = 1 }"
    spec = experiment(**SMALL | {"world": own, "arms": ONE})
    found = re.compile(f"arm 'uniform-grid-2': {message}", re.DOTALL)
    with pytest.raises(ArmError, match=found), local_pool(1) as pool:
        run([spec], tmp_path, pool)


def test_the_example_runs(tmp_path, undrawn):
    spec = load_spec(EXAMPLE, {"rounds": 1, "episodes": 40})
    assert (spec.measure, spec.figure, len(spec.arms)) == ("return", "return", 6)
    some = replace(spec, arms=spec.arms[::3])
    runs = run([some], tmp_path, Inline())["frozen-lake"]
    assert runs.deployments.tolist() == [[4], [4]]
    figures.draw(runs)


def test_the_text_of_a_spec_may_come_from_anywhere():
    assert parse_spec(EXAMPLE.read_text(), source="").digest == load_spec(EXAMPLE).digest


def test_the_page_shows_the_example_and_a_simulator_that_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    example = "".join(EXAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)[1:])
    assert ("toml", example) in blocks
    (code,) = [text for kind, text in blocks if kind == "python" and "class Ward" in text]
    (world,) = [text for kind, text in blocks if kind == "toml" and "ward:ward" in text]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "ward.py").write_text(code, encoding="utf-8")
    spec = experiment(**SMALL | {"world": "\n" + world, "arms": ONE, "episodes": 200})
    try:
        runs = computed(spec, tmp_path / "out")
    finally:
        sys.modules.pop("ward", None)
    assert runs.deployments.tolist() == [[3, 3]]
    assert runs.values.mean() > 0.4
