import re
import sys
from functools import cache

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from experiments.miniature import (
    ALL,
    EVERY,
    GRID,
    GROWTH,
    RANDOM,
    WORLD,
    Inline,
    computed,
    experiment,
    handmade,
)
from rareswitch.experiments import figures
from rareswitch.experiments import run as running
from rareswitch.experiments.results import load_results, save_results
from rareswitch.support import drawing
from rareswitch.support.drawing import FORMATS, LINE_STYLES, OWN_STYLES, save_figure

ADVERSARY = '\n[world]\nkind = "adversary"\nstates = 2\nhorizon = 3\n'
BETAS = (EVERY + GRID.replace("[4, 8]", "4") + GROWTH.replace("[2, 8]", "2")).replace(
    '"\nlabel', '-b{beta}"\nbeta = [0.1, 1, 10]\nlabel'
)
BUDGETS = """
[[arms]]
name = "{kind}-{switches}"
schedule = { kind = ["adaptive-budget", "uniform-grid"], switches = [4, 8] }
"""
MIXTURES = (
    EVERY
    + RANDOM
    + GRID
    + """
[[arms]]
name = "mixture-{batches}"
schedule = { kind = "uniform-grid", batches = [2, 5, 10] }
exploration = { kind = "ensemble" }

[[arms]]
name = "mixture-spread"
schedule = { kind = "spread-budget", switches = 4 }
exploration = { kind = "ensemble" }

[[arms]]
name = "members"
schedule = { kind = "uniform-grid", batches = 5 }
exploration = { kind = "bonus", beta = 0.3, members = 3 }

[[arms]]
name = "estimate"
schedule = { kind = "uniform-grid", batches = 5 }
exploration = { kind = "bonus", estimate = true }

[[arms]]
name = "scale-{scale}"
schedule = { kind = "uniform-grid", batches = 5 }
exploration = { kind = "ensemble", scale = [2, 0.25] }

[[arms]]
name = "members-{members}"
schedule = { kind = "uniform-grid", batches = 5 }
exploration = { kind = "ensemble", members = [1, 4] }

[[arms]]
name = "ridge-{ridge}"
schedule = { kind = "uniform-grid", batches = 5 }
exploration = { kind = "ensemble", scale = 0.2, estimate = false }
ridge = [0.1, 10]
"""
    + "".join(
        text.replace('name = "', 'name = "tabular-').replace('label = "', 'label = "tabular: ')
        + 'world = { kind = "tabular", states = 2, actions = 2, horizon = 2 }\n'
        for text in (EVERY, GRID.replace("[4, 8]", "5"), RANDOM)
    )
    + """
[[arms]]
name = "tabular-mixture"
schedule = { kind = "spread-budget", switches = 4 }
exploration = { kind = "ensemble" }
world = { kind = "tabular", states = 2, actions = 2, horizon = 2 }
"""
)
LAKE = """
[world]
kind = "gymnasium"
env = "FrozenLake-v1"
horizon = 3
"""
LAKE_ARM = """
[[arms]]
name = "grid"
schedule = { kind = "uniform-grid", switches = 2 }
"""
OBLIVIOUS = '\n[world]\nkind = "oblivious-adversary"\nstates = 2\nhorizon = 3\n'
MEMBERS = GRID.replace("{batches}", "{batches}-{horizon}") + (
    """world = { horizon = [3, 4] }

[[arms]]
name = "mixture-{members}-{horizon}"
schedule = { kind = "uniform-grid", batches = 8 }
exploration = { kind = "ensemble", members = [1, 5] }
world = { horizon = [3, 4] }

[[arms]]
name = "ties"
schedule = { kind = "uniform-grid", batches = 8 }
exploration = { kind = "bonus", members = 2 }

[[arms]]
name = "perturbed"
schedule = { kind = "uniform-grid", batches = 8 }
exploration = { kind = "perturbation", scale = 1 }
"""
)
WORTH = """
[[arms]]
name = "spread-{switches}"
schedule = { kind = "spread-budget", switches = [2, 4] }

[[arms]]
name = "worth-{switches}"

[arms.schedule]
kind = "worthwhile"
change = 0.9
schedule = { kind = "spread-budget", switches = [2, 4] }
"""
SPECS = {
    "regret": {},
    "regret-log": {},
    "return": {"world": LAKE, "arms": LAKE_ARM, "defaults": ""},
    "final": {},
    "pareto": {},
    "switches": {"arms": EVERY + GRID + GROWTH},
    "beta": {"arms": BETAS},
    "lower-bound": {"world": ADVERSARY, "arms": GRID.replace("[4, 8]", "[6, 12]")},
    "bounds": {"arms": GRID + GROWTH},
    "budget": {"arms": BUDGETS},
    "mixtures": {"arms": MIXTURES},
    "members": {"world": OBLIVIOUS, "arms": MEMBERS},
    "worth": {"arms": WORTH, "defaults": ""},
    "field": {"arms": EVERY + GRID},
}


def legends(figure):
    return [
        [text.get_text() for text in axis.get_legend().get_texts()]
        for axis in figure.axes
        if axis.get_legend()
    ]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return a function from a kind to small runs and their figure, which it draws once."""

    @cache
    def draw(kind):
        spec = experiment(figure=kind, episodes=30, **SPECS[kind])
        runs = computed(spec, tmp_path_factory.mktemp(kind))
        figure = figures.draw(runs)
        figure.draw_without_rendering()
        return runs, figure

    return draw


def test_every_kind_of_figure_is_drawn_here():
    assert set(figures.FIGURES) == set(SPECS)


@pytest.mark.parametrize("kind", SPECS)
def test_every_kind_carries_its_title_and_the_labels_of_its_axes(drawn, kind):
    runs, figure = drawn(kind)
    assert figure.get_suptitle() == runs.experiment.title
    titles = [legend.get_title() for legend in figure.legends]
    (caption,) = (t for t in (*figure.texts, *titles) if "over rounds" in t.get_text())
    for text in (caption, *(axis.xaxis.label for axis in figure.axes)):
        shown = text.get_window_extent()
        assert 0.0 <= shown.x0 <= shown.x1 <= figure.bbox.width
    assert any(axis.get_xlabel() for axis in figure.axes)
    assert any(axis.get_ylabel() or axis.get_yticklabels() for axis in figure.axes)


def test_regret_has_a_panel_for_each_family_with_both_references(drawn):
    runs, figure = drawn("regret")
    assert legends(figure) == [
        ["LSVI-UCB", "Batch B=4", "Batch B=8", "random"],
        ["LSVI-UCB", "RareSwitch η=2", "RareSwitch η=8", "random"],
    ]
    line = figure.axes[1].get_lines()[2]
    np.testing.assert_array_equal(line.get_xdata(), runs.points)
    np.testing.assert_allclose(line.get_ydata(), runs.average[4].mean(axis=0))
    band = figure.axes[1].collections[2].get_paths()[0].get_extents()
    low, high = np.quantile(runs.average[4], (0.2, 0.8), axis=0)
    np.testing.assert_allclose([band.ymin, band.ymax], [low.min(), high.max()])


def test_regret_on_logarithmic_axes_tells_every_slope(drawn):
    runs, figure = drawn("regret-log")
    for axis, names in zip(figure.axes, legends(figure), strict=True):
        assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
        assert sum("slope −1/2" in name for name in names) == 1
        assert sum(bool(re.search(r": slope -?\d\.\d\d \[.*\]$", name)) for name in names) == 3
    value, low, high = runs.slope(0)
    assert f"LSVI-UCB: slope {value:.2f} [{low:.2f}, {high:.2f}]" in legends(figure)[0]


def test_final_has_a_row_for_each_arm(drawn):
    runs, figure = drawn("final")
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == [arm.label for arm in runs.experiment.arms]
    points = [line.get_xdata()[0] for line in figure.axes[0].get_lines()[2::3]]
    np.testing.assert_allclose(points, runs.final.mean(axis=1))


def test_pareto_and_beta_have_the_labels_of_the_arms(drawn):
    labels = ["uniformly random", "LSVI-UCB", "Batch B=…", "RareSwitch η=…"]  # random has its name
    assert legends(drawn("pareto")[1]) == [labels]
    assert legends(drawn("beta")[1]) == [["LSVI-UCB", "Batch B=4", "RareSwitch η=2"]]


def test_switches_show_every_arm_once_and_the_bound_of_rareswitch(drawn):
    runs, figure = drawn("switches")
    assert sorted(legends(figure)[0]) == sorted(arm.label for arm in runs.experiment.arms)
    dotted = [line for line in figure.axes[0].get_lines() if line.get_linestyle() == ":"]
    assert len(dotted) == 2
    for line, (_, arm) in zip(dotted, runs.arms_of("determinant-growth"), strict=True):
        limit = runs.switch_limit(arm)
        assert (
            np.nanmax(line.get_ydata()) == limit if limit < 29 else np.isnan(line.get_ydata()).all()
        )


def test_the_lower_bound_shows_both_bounds_below_what_was_measured(drawn):
    _, figure = drawn("lower-bound")
    measured, uniform, any_grid = (line.get_ydata() for line in figure.axes[0].get_lines())
    assert (np.array(measured) >= uniform).all()
    assert (np.array(measured) >= any_grid).all()
    assert legends(figure)[0][0] == "measured"


def test_members_have_a_panel_for_each_horizon_and_the_least_regret_in_it(drawn):
    runs, figure = drawn("members")
    assert [axis.get_title() for axis in figure.axes] == ["H = 3", "H = 4"]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == [
        "one policy for each batch, at best",
        "mixture of M members, at best",
        "LSVI-UCB-Batch",
        "mixture, no tuning",
        "bonus, members break ties",
        "other exploration",
    ]
    for axis in figure.axes:
        horizon = int(axis.get_title()[4:])
        one, least = axis.get_lines()[:2]
        assert set(one.get_ydata()) == {least.get_ydata()[0]}
        assert list(least.get_xdata()) == [1, 2, 4]
        arm = next(a for a in runs.arms if a.world.horizon == horizon)
        unit = 2 * 30 / 4
        expected = [runs.least_regret(arm, members=m) / unit for m in (1, 2, 4)]
        np.testing.assert_allclose(least.get_ydata(), expected)
        star = next(line for line in axis.get_lines() if line.get_marker() == "*")
        rows = [
            i for i, a in enumerate(runs.arms) if a.name.endswith(f"{horizon}") and a.members > 1
        ]
        total = runs.regret[rows[0]].sum(axis=-1).mean()
        np.testing.assert_allclose(star.get_ydata()[-1], total / (2 * 30 / 8))


def test_worth_shows_the_deployments_of_each_pair_and_the_ratio_of_regrets(drawn):
    runs, figure = drawn("worth")
    above, below = figure.axes
    heights = [bar.get_height() for bar in above.patches]
    np.testing.assert_allclose(heights, runs.deployments.mean(axis=1) - 1)
    assert heights[:2] == [2, 4]
    (marks,) = (line for line in below.get_lines() if line.get_marker() == "o")
    np.testing.assert_allclose(marks.get_ydata(), [runs.ratio(2, 0)[0], runs.ratio(3, 1)[0]])
    assert [tick.get_text() for tick in below.get_xticklabels()] == ["spread-2", "spread-4"]


def test_bounds_mark_where_a_bound_is_vacuous(drawn):
    runs, figure = drawn("bounds")
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert labels == [arm.label for arm in runs.experiment.arms]
    assert ["vacuous" in names[0] for names in legends(figure)] == [True, False]
    assert [names[0].split(":")[0] for names in legends(figure)] == ["KH", "K−1"]


def test_budget_shows_what_each_rule_made_of_its_budget(drawn):
    runs, figure = drawn("budget")
    names = ["adaptive budget", "LSVI-UCB-Batch"]
    assert legends(figure) == [names, [*names, "the budget"]]
    left, right = (axis.get_lines()[1] for axis in figure.axes)
    assert list(left.get_xdata()) == list(right.get_xdata()) == [4, 8]
    np.testing.assert_allclose(left.get_ydata(), runs.final[2:].mean(axis=1))
    np.testing.assert_allclose(right.get_ydata(), runs.switches[2:].mean(axis=1))


def test_mixtures_show_each_way_against_its_deployments(drawn):
    runs, figure = drawn("mixtures")
    ways = figure.axes[0]
    assert legends(figure)[0] == [
        "mixture, nothing tuned", "mixture, spread budget", "LSVI-UCB-Batch",
        "bonus, with members", "bonus, with estimates",
    ]  # fmt: skip
    names = [arm.name for arm in runs.experiment.arms]
    rows = [names.index(f"mixture-{batches}") for batches in (2, 5, 10)]
    line = ways.containers[0].lines[0]
    assert list(line.get_xdata()) == [1, 4, 9]
    np.testing.assert_allclose(line.get_ydata(), runs.final[rows].mean(axis=1))
    assert [tick.get_text() for tick in ways.get_xticklabels()] == ["1", "3", "4", "7", "9"]
    said = [text.get_text() for text in ways.texts]
    assert said == [f"LSVI-UCB: {runs.switches[0].mean():.0f} switches", "random"]
    levels = [line.get_ydata()[0] for line in ways.get_lines()[-2:]]
    np.testing.assert_allclose(levels, runs.final[:2].mean(axis=1))


def test_mixtures_sweep_scale_members_and_ridge_around_the_default(drawn):
    runs, figure = drawn("mixtures")
    names = [arm.name for arm in runs.experiment.arms]
    default = names.index("mixture-5")
    swept = {
        2: {"scale-0.25": 0.25, "mixture-5": 0.5, "scale-2": 2.0},
        3: {"members-1": 1, "members-4": 4, "mixture-5": 32},
        4: {"ridge-0.1": 0.1, "ridge-10": 10.0},
    }
    for panel, values in swept.items():
        axis = figure.axes[panel]
        line = axis.containers[0].lines[0]
        assert list(line.get_xdata()) == list(values.values())
        rows = [names.index(name) for name in values]
        np.testing.assert_allclose(line.get_ydata(), runs.final[rows].mean(axis=1))
        (named,) = [
            x for x in axis.get_lines() if x.get_label() in axis.get_legend_handles_labels()[1]
        ]
        assert named.get_ydata()[0] == pytest.approx(runs.final[default].mean())
        assert axis.get_xlabel() == "with 4 deployments after the first"
    assert legends(figure)[2:] == [
        ["mixture, nothing tuned"], ["mixture, nothing tuned"], ["estimated"],
    ]  # fmt: skip


def test_mixtures_show_other_worlds_as_shares_of_what_random_loses(drawn):
    runs, figure = drawn("mixtures")
    axis = figure.axes[1]
    names = [arm.name for arm in runs.experiment.arms]
    final = dict(zip(names, runs.final.mean(axis=1), strict=True))
    wanted = [final[f"tabular-{name}"] for name in ("lsvi-ucb", "batch-5", "mixture")]
    bars = [bar.get_width() for bar in axis.patches]
    np.testing.assert_allclose(bars, np.array(wanted) / final["tabular-random"])
    assert [text.get_text() for text in axis.texts] == [f"{100 * share:.0f}%" for share in bars]
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["tabular"]
    assert legends(figure)[1] == [
        "LSVI-UCB", "LSVI-UCB-Batch: 4 switches", "mixture, spread budget: 4 switches",
    ]  # fmt: skip


def test_a_mixture_before_every_episode_is_on_the_line_of_the_mixture():
    arms = EVERY + 'exploration = { kind = "ensemble", members = 1 }'
    spec = experiment(figure="mixtures", arms=arms, rounds=2)
    figure = figures.draw(handmade(spec, [1.0], deployments=[24]))
    line = figure.axes[0].containers[0].lines[0]
    assert list(line.get_xdata()) == [23.0]
    assert legends(figure)[0] == ["mixture, nothing tuned"]


@pytest.mark.parametrize(
    "kind", ["regret", "regret-log", "final", "pareto", "switches", "mixtures"]
)
@pytest.mark.parametrize("arms", [EVERY, GRID, RANDOM], ids=["every", "grid", "random"])
def test_a_single_family_is_enough(kind, arms):
    spec = experiment(figure=kind, arms=arms, rounds=1)
    regret = 1.0 / np.arange(1.0, 25.0)
    runs = handmade(spec, [regret] * len(spec.arms), switches=[5] * len(spec.arms))
    figures.draw(runs).draw_without_rendering()


def test_the_same_runs_are_the_same_picture_byte_for_byte(tmp_path):
    spec = experiment(arms=ALL, world=WORLD)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        runs = computed(spec, tmp_path / f"{name}-pieces")
        save_figure(figures.draw(runs), tmp_path / name)
    for kind in ("png", "pdf", "svg"):
        one, two = ((tmp_path / name / f"figure.{kind}").read_bytes() for name in ("one", "two"))
        assert one == two
        assert len(one) > 1000
    assert len(list((tmp_path / "one").iterdir())) == 3
    links = re.findall(rb'href="([^"]*)"', (tmp_path / "one" / "figure.svg").read_bytes())
    assert links
    assert all(link.startswith((b"#", b"data:")) for link in links)


def test_plot_draws_the_same_figure_from_the_folder_alone(tmp_path, monkeypatch):
    spec = experiment(arms=EVERY, figure="final")
    running.run([spec], tmp_path, Inline())
    folder = (tmp_path / "mini").rename(tmp_path / "moved")
    before = {kind: (folder / f"figure.{kind}").read_bytes() for kind in FORMATS}
    for kind in FORMATS:
        (folder / f"figure.{kind}").unlink()

    def refuse(*_):
        raise AssertionError("nothing may be computed")

    monkeypatch.setattr(running, "compute", refuse)
    running.plot(folder)
    assert {kind: (folder / f"figure.{kind}").read_bytes() for kind in FORMATS} == before


@pytest.mark.parametrize("kind", ["regret", "switches", "pareto"])
def test_no_arm_is_left_out_of_a_figure(kind, tmp_path):
    world = "\n[world]\nkind = 'tabular'\nstates = 2\nactions = 2\nhorizon = 2\n"
    arms = """
[[arms]]
name = "mvp"
schedule = { kind = "mvp" }
[[arms]]
name = "adaptive"
schedule = { kind = "adaptive-budget", switches = 5 }
[[arms]]
name = "batch-4"
schedule = { kind = "uniform-grid", batches = 4 }
"""
    runs = computed(experiment(world=world, arms=arms, figure=kind), tmp_path)
    figure = figures.draw(runs)
    lines = [line for axis in figure.axes for line in axis.get_lines()]
    drawn = {line.get_label() for line in lines} | {
        text.get_text() for axis in figure.axes for text in axis.get_legend().get_texts()
    }
    families = {"MVP", "adaptive budget", "LSVI-UCB-Batch"}
    wanted = {"mvp", "adaptive", "batch-4"} if kind != "pareto" else families
    assert wanted <= drawn


def test_the_arms_of_a_family_are_shades_of_its_colour_from_dark_to_light(drawn):
    _, figure = drawn("regret")
    for axis, family in zip(figure.axes, ("uniform-grid", "determinant-growth"), strict=True):
        shades = [to_rgb(line.get_color()) for line in axis.get_lines()[1:3]]
        assert sum(shades[0]) < sum(shades[1])
        base = to_rgb(LINE_STYLES[family].colour)
        assert all(np.argmax(shade) == np.argmax(base) for shade in shades)


def test_families_have_the_colour_and_marker_of_the_table(drawn):
    runs, figure = drawn("beta")
    rows = [runs.arms_of(name)[0][1].family for name in ("every-episode", "uniform-grid")]
    labels = ["LSVI-UCB", "Batch B=4"]
    for line, row, label in zip(figure.axes[0].get_lines(), rows, labels, strict=False):
        drawn_as = (line.get_label(), to_hex(line.get_color()), line.get_marker())
        assert drawn_as == (label, *LINE_STYLES[row.name])


OWN_RULES = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Weekly:
    every: int

    def due(self, clock):
        return clock.episode - clock.deployed_at >= self.every

class Monthly(Weekly):
    pass

class Promising(Weekly):
    def upcoming(self, task, episode):
        return episode + self.every

    def deployment_limit(self, task, ridge):
        return 5
"""


def own_arm(cls, every):
    return f"""
[[arms]]
name = "{cls.lower()}-{{every}}"
label = "my {cls} {{every}}"
schedule = {{ kind = "drawn_rules:{cls}", every = {every} }}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "drawn_rules.py").write_text(OWN_RULES)
    yield
    sys.modules.pop("drawn_rules", None)


def drawn_by_hand(**changes):
    spec = experiment(rounds=2, **changes)
    count = len(spec.arms)
    regret = [np.full(24, 1.0 + i) for i in range(count)]
    runs = handmade(spec, regret, switches=np.arange(1, count + 1), deployments=[5] * count)
    return runs, figures.draw(runs)


def close_to_black(line):
    return max(to_rgb(line.get_color())) < 0.35


@pytest.mark.parametrize("kind", ["regret", "regret-log", "switches"])
def test_rules_of_your_own_are_in_one_panel_with_the_papers_and_look_like_none_of_them(own, kind):
    arms = ALL + own_arm("Weekly", [3, 7]) + own_arm("Monthly", [9, 12, 15])
    _, figure = drawn_by_hand(arms=arms, figure=kind)
    (axis,) = figure.axes
    lines = {line.get_label().partition(":")[0]: line for line in axis.get_lines()}
    lines = {label: line for label, line in lines.items() if not label.startswith("_")}
    mine = [line for label, line in lines.items() if label.startswith("my ")]
    assert len(mine) == 5
    assert {"LSVI-UCB", "Batch B=4", "Batch B=8", "RareSwitch η=2", "RareSwitch η=8"} < lines.keys()
    assert (lines["LSVI-UCB"].get_color(), lines["LSVI-UCB"].get_linestyle()) == ("#000000", "-")
    for line in mine:
        assert line.get_linestyle() == "--"  # as matplotlib calls all dash patterns
        assert not close_to_black(line)
    looks = {(to_hex(x.get_color()), str(x._unscaled_dash_pattern)) for x in lines.values()}
    assert len(looks) == len(lines)


def test_the_papers_rules_alone_have_their_two_panels_and_several_references_differ():
    again = EVERY.replace("lsvi-ucb", "again").replace("LSVI-UCB", "again") + "beta = 2\n"
    _, figure = drawn_by_hand(arms=ALL + again)
    assert [axis.get_title() for axis in figure.axes] == [
        "(a) LSVI-UCB-Batch", "(b) LSVI-UCB-RareSwitch",
    ]  # fmt: skip
    for axis, names in zip(figure.axes, legends(figure), strict=True):
        one, other = (line.get_linestyle() for line in axis.get_lines()[:2])
        assert names[:2] == ["LSVI-UCB", "again"]
        assert one != other


SWEEP = """
[[arms]]
name = "rare-{eta}-b{beta}-l{ridge}"
label = "Rare η={eta}, β={beta} λ={ridge}"
schedule = { kind = "determinant-growth", eta = [2, 8] }
beta = [0.3, 1]
ridge = [0.1, 1]
"""


def joined(axis):
    """Return the x of each line with error bars, by label."""
    return {
        container.get_label(): container.lines[0].get_xdata().tolist()
        for container in axis.containers
    }


def test_pareto_joins_arms_of_equal_settings_only_and_uses_the_labels(own):
    runs, figure = drawn_by_hand(arms=EVERY + SWEEP + own_arm("Weekly", [3, 7]), figure="pareto")
    made = dict(zip([arm.name for arm in runs.arms], runs.switches.mean(axis=1), strict=True))
    assert joined(figure.axes[0]) == {
        "LSVI-UCB": [made["lsvi-ucb"]],
        **{
            f"Rare η=…, β={beta} λ={ridge}": [
                made[f"rare-{eta}-b{beta}-l{ridge}"] for eta in (2, 8)
            ]
            for beta in ("0.3", "1")
            for ridge in ("0.1", "1")
        },
        "my Weekly …": [made["weekly-3"], made["weekly-7"]],
    }
    lines = [container.lines[0] for container in figure.axes[0].containers]
    assert len({(to_hex(line.get_color()), line.get_marker()) for line in lines}) == 6


@pytest.mark.parametrize(
    ("label", "drawn_as"),
    [
        ("mixture, {switches} switches", "mixture, … switches"),
        ("my rule (B={switches})", "my rule (B=…)"),
        ("one label for all", "one label for all"),
        ("{switches}", "spread budget"),
        ("spread-{switches}", "spread budget"),  # the name
    ],
)
def test_a_line_keeps_the_label_that_a_person_wrote(label, drawn_as):
    arms = f"""
[[arms]]
name = "spread-{{switches}}"
label = "{label}"
schedule = {{ kind = "spread-budget", switches = [2, 4, 10] }}
"""
    for kind in ("pareto", "budget"):
        _, figure = drawn_by_hand(arms=arms, figure=kind)
        assert legends(figure)[0] == [drawn_as]


def test_lines_whose_labels_say_nothing_are_told_apart_by_their_settings():
    arms = SWEEP.replace("Rare η={eta}, β={beta} λ={ridge}", "x{eta}{beta}{ridge}")
    arms = arms.replace("ridge = [0.1, 1]", "ridge = 1")
    _, figure = drawn_by_hand(arms=arms, figure="pareto")
    assert list(joined(figure.axes[0])) == [
        "LSVI-UCB-RareSwitch, beta=0.3", "LSVI-UCB-RareSwitch, beta=1.0",
    ]  # fmt: skip


def test_arguments_of_a_rule_that_are_no_numbers_make_lines_too():
    arms = GRID.replace("] }", '], spread = ["last", "balanced"] }')
    arms = arms.replace("batch-{batches}", "batch-{batches}-{spread}")
    arms = arms.replace("B={batches}", "B={batches} {spread}")
    _, figure = drawn_by_hand(arms=arms, figure="pareto")
    assert list(joined(figure.axes[0])) == ["Batch B=… last", "Batch B=… balanced"]


@pytest.mark.parametrize(
    ("kind", "arms", "lines"),
    [
        ("budget", BUDGETS.replace("{switches}", "{switches}-{beta}") + "beta = [0.3, 1]\n", 4),
        ("beta", SWEEP, 4),
        (
            "lower-bound",
            GRID.replace("[4, 8]", "[6, 12]").replace("{batches}", "{batches}-{beta}")
            + "beta = [0.3, 1]\n",
            2,
        ),
    ],
)
def test_other_figures_that_join_points_keep_settings_apart(kind, arms, lines):
    world = ADVERSARY if kind == "lower-bound" else WORLD
    _, figure = drawn_by_hand(arms=arms, figure=kind, world=world)
    found = legends(figure)[0]
    assert len(set(found)) == len(found) >= lines
    for line in figure.axes[0].get_lines()[:lines]:
        x = list(line.get_xdata())
        assert x == sorted(set(x))
        assert len(x) == 2


def test_rules_of_your_own_differ_from_each_other(own):
    _, figure = drawn_by_hand(arms=own_arm("Weekly", 3) + own_arm("Monthly", 9), figure="final")
    points = figure.axes[0].get_lines()[2::3]
    found = [(to_hex(point.get_color()), point.get_marker()) for point in points]
    assert found == [OWN_STYLES[0], OWN_STYLES[1]]


@pytest.mark.parametrize("kind", ["regret", "pareto", "switches", "mixtures"])
def test_a_figure_drawn_again_without_your_rules_is_the_same(own, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(drawing, "FORMATS", ("svg",))
    arms = EVERY + GRID + own_arm("Promising", [12, 6])
    runs = computed(experiment(arms=arms, figure=kind), tmp_path / "pieces")
    save_results(runs, tmp_path / "out")
    del sys.modules["drawn_rules"]
    (tmp_path / "drawn_rules.py").unlink()
    for name, results in (("first", runs), ("again", load_results(tmp_path / "out"))):
        (tmp_path / name).mkdir()
        save_figure(figures.draw(results), tmp_path / name)
    first, again = (tmp_path / name / "figure.svg" for name in ("first", "again"))
    assert first.read_bytes() == again.read_bytes()


def test_only_the_papers_bonus_makes_an_algorithm_of_the_paper(tmp_path):
    arms = "".join(
        f'[[arms]]\nname = "{name}-{{batches}}"\nexploration = {explores}\n'
        'schedule = { kind = "uniform-grid", batches = [2, 4] }\n'
        for name, explores in {
            "paper": '{ kind = "bonus", beta = 1 }',
            "one": '{ kind = "bonus", beta = 1, estimate = true }',
            "mix": '{ kind = "ensemble", members = 4 }',
            "shaken": '{ kind = "perturbation", scale = 0.3 }',
        }.items()
    )
    world = '\n[world]\nkind = "tabular"\nstates = 2\nactions = 2\nhorizon = 2\n'
    runs = computed(experiment(world=world, arms=arms, defaults="", figure="pareto"), tmp_path)
    drawn = {text.get_text() for text in figures.draw(runs).axes[0].get_legend().get_texts()}
    rest = {f"uniform grid ({kind})" for kind in ("estimates", "mixture", "perturbation")}
    assert drawn >= {"LSVI-UCB-Batch", *rest}
