"""The paper's experiments, as they come with the package."""

from pathlib import Path

import pytest

from experiments.miniature import experiment
from rareswitch.core.exploration import Ensemble
from rareswitch.experiments import PAPER, load
from rareswitch.experiments.algorithms import BATCH, EVERY, RARE
from rareswitch.experiments.load import paper_specs, parse_spec
from rareswitch.experiments.worlds import Adversary, HardToLearn


def paper(name):
    return parse_spec(paper_specs()[name], source=f"{name}.toml")


@pytest.mark.parametrize("name", PAPER)
def test_every_experiment_of_the_paper_is_valid_and_named_after_its_file(name):
    spec = paper(name)
    assert spec.name == name
    assert spec.title
    assert spec.about


def test_the_listed_experiments_are_the_files_of_the_package():
    assert list(paper_specs()) == list(PAPER)
    assert len(PAPER) == 15
    folder = Path(load.__file__).parent / "paper"
    files = sorted(path.name for path in folder.iterdir())
    assert files == [f"{n:02}-{name}.toml" for n, name in enumerate(PAPER, 1)]


@pytest.mark.parametrize("name", ["figure1", "figure2"])
def test_figures_1_and_2_have_the_arms_and_sizes_of_the_paper(name):
    spec = paper(name)
    assert (spec.rounds, spec.episodes) == (50, 2500)
    assert [arm.schedule for arm in spec.arms] == [
        {"kind": "every-episode"},
        *({"kind": "uniform-grid", "batches": b, "spread": "last"} for b in (10, 20, 30, 40, 50)),
        *({"kind": "determinant-growth", "eta": eta} for eta in (2, 4, 8, 16, 32)),
        {"kind": "random-policy"},
    ]
    worlds = {arm.world for arm in spec.arms}
    assert worlds == {HardToLearn(d=13, horizon=10, delta=0.35)}
    assert {
        (arm.exploration["beta"], arm.recipe.ridge, arm.initial_state) for arm in spec.arms
    } == {(1.0, 1.0, 0)}


def test_figure_2_shows_the_runs_of_figure_1():
    one, two = paper("figure1"), paper("figure2")
    assert two.figure == "regret-log"
    assert one.arms == two.arms
    assert one.seed == two.seed


def test_figure_3_corrupts_batch_and_rareswitch_by_every_zeta():
    spec = paper("figure3")
    zetas = {}
    for arm in spec.arms:
        zetas.setdefault(arm.schedule["kind"], []).append(arm.world.zeta)
    assert zetas == {
        "uniform-grid": [0.0, 0.05, 0.1, 0.2, 0.4],
        "determinant-growth": [0.0, 0.05, 0.1, 0.2, 0.4],
        "random-policy": [0.0, 0.4],
    }
    assert {a.schedule["batches"] for a in spec.arms if "batch" in a.name} == {50}
    assert {a.schedule["eta"] for a in spec.arms if "rareswitch" in a.name} == {8}
    assert (spec.rounds, spec.episodes) == (50, 2500)


def test_the_lower_bound_is_played_by_the_adversary_on_grids_that_divide_the_episodes():
    spec = paper("lower-bound")
    for arm in spec.arms:
        assert isinstance(arm.world, Adversary)
        assert arm.schedule["batches"] >= arm.world.states * arm.world.horizon
        assert spec.episodes % arm.schedule["batches"] == 0


def test_pareto_switches_and_bounds_reuse_the_arms_of_figure_1():
    figure1 = {arm.setting for arm in paper("figure1").arms}
    assert figure1 < {arm.setting for arm in paper("pareto").arms}
    assert {arm.setting for arm in paper("switches").arms} < figure1
    assert {arm.setting for arm in paper("bounds").arms} < figure1


def test_beta_sweeps_and_measures_the_radius_of_every_arm():
    spec = paper("beta")
    assert all(arm.measure_radius for arm in spec.arms)
    assert {arm.exploration["beta"] for arm in spec.arms} >= {0.1, 1.0, 10.0, 527.0}


def test_readings_vary_every_choice_that_the_paper_leaves_open():
    arms = paper("readings").arms
    assert {arm.world.reading for arm in arms} == {"completed", "padded", "compact"}
    assert {arm.world.normalized for arm in arms} == {False, True}
    assert {arm.recipe.ties for arm in arms} == {"direction", "lowest"}
    assert {arm.initial_state for arm in arms} == {0, 1, "uniform"}
    spreads = {a.schedule["spread"] for a in arms if a.family.name == "uniform-grid"}
    assert spreads == {"last", "balanced"}


def test_budget_asks_every_rule_for_every_budget():
    spec = paper("budget")
    asked = {(arm.schedule["kind"], arm.schedule["switches"]) for arm in spec.arms}
    assert len(asked) == len(spec.arms) == 6 * 8
    assert {kind for kind, _ in asked} == {
        "adaptive-budget", "spread-budget", "total-growth", "determinant-growth", "uniform-grid",
        "geometric-grid",
    }  # fmt: skip


def test_optimism_compares_a_bonus_and_perturbations_on_the_same_dates():
    arms = paper("exploration").arms
    assert {(arm.exploration["kind"], arm.schedule["batches"]) for arm in arms} == {
        (kind, batches) for kind in ("bonus", "perturbation") for batches in (50, 200)
    }
    scales = {a.exploration["scale"]: a.name for a in arms if "scale" in a.exploration}
    assert scales.keys() == {0.1, 0.3, 1}
    assert scales[0.3] == "perturbation-0.3-batch-200"


@pytest.mark.parametrize(
    "name", [name for name in PAPER if name not in ("mixtures", "members", "exploration", "worth")]
)
def test_all_but_four_experiments_are_of_the_papers_bonus_alone(name):
    assert all(arm.has_paper_bonus for arm in paper(name).arms if arm.scheduled)


def test_mixtures_come_directly_after_the_figures_of_the_paper():
    assert tuple(PAPER)[:4] == ("figure1", "figure2", "figure3", "mixtures")


def test_mixtures_have_nothing_tuned_and_stand_beside_the_papers_algorithms():
    spec = paper("mixtures")
    assert (spec.rounds, spec.episodes, spec.seed) == (20, 2500, 0)
    here = [a for a in spec.arms if a.world == HardToLearn()]
    assert {a.schedule.get("batches") for a in here if a.recipe.exploration == Ensemble()} == {
        2, 3, 5, 10, 20, 50, None,
    }  # fmt: skip
    bonus = [a for a in here if a.has_paper_bonus]
    assert {a.family.name for a in bonus} == {EVERY, BATCH, RARE}
    assert {a.exploration["beta"] for a in bonus} == {1}
    at_ten = [a for a in here if a.schedule.get("batches") == 10]
    kinds = [a.recipe.exploration for a in at_ten]
    for scale in (0.125, 0.25, 1, 2):
        assert Ensemble(scale=scale) in kinds
    for members in (1, 2, 4, 8, 16, 64):
        assert Ensemble(members=members) in kinds
    declared = [
        a.recipe.ridge
        for a in at_ten
        if a.recipe.exploration == Ensemble(scale=0.2, estimate=False)
    ]
    assert declared == [0.01, 0.1, 1, 10]


def test_mixtures_are_compared_on_three_other_worlds():
    spec = paper("mixtures")
    others = {}
    for arm in spec.arms:
        way = (
            arm.family.name
            if arm.has_paper_bonus or not arm.scheduled
            else f"mixture {arm.family.name}"
        )
        others.setdefault(arm.world, []).append(way)
    del others[spec.arms[0].world]
    assert [world.kind for world in others] == ["hard-to-learn", "random-linear", "tabular"]
    ways = [EVERY, BATCH, "mixture uniform-grid", "mixture spread-budget", "random-policy"]
    assert list(others.values()) == [ways] * 3
    elsewhere = [a for a in spec.arms if a.world in others]
    assert {a.schedule["batches"] for a in elsewhere if a.family.name == BATCH} == {10}
    assert {a.schedule["switches"] for a in elsewhere if "switches" in a.schedule} == {9}


def test_an_experiment_of_the_paper_is_known_at_any_scale_and_no_other_for_it():
    scale = {"rounds": 3, "episodes": 60, "seed": 5}
    text = paper_specs()["figure1"]
    assert load.is_own(parse_spec(text, source="x", overrides=scale))
    assert not load.is_own(parse_spec(text.replace("delta = 0.35", "delta = 0.3"), source="x"))
    few = text.replace("[10, 20, 30, 40, 50]", "5")
    assert not load.is_own(parse_spec(few, source="x", overrides={"episodes": 20}))
    assert not load.is_own(experiment())
