from dataclasses import replace

import numpy as np
import pytest

import rareswitch as rs
from rareswitch.planning.picture import draw_plan
from rareswitch.rules.table import row_of
from rareswitch.sim.outcome import Outcome
from rareswitch.support.drawing import line_style

PAPERS = {  # with the paper's bonus
    "every episode": "LSVI-UCB", "uniform grid": "LSVI-UCB-Batch",
    "determinant growth": "LSVI-UCB-RareSwitch",
}  # fmt: skip
TASK = rs.Task(episodes=100, horizon=3, dim=2)


class Mondays:
    def due(self, clock):
        return clock.episode % 7 == 0


def by_name(task, schedule, recipe, seeds):
    """Return outcomes that differ between rules and rounds."""
    size = len(repr(schedule))
    return [
        Outcome(regret=float(size + r), deployments=2 + size % 7, switches=size % 3 // 2)
        for _, r in seeds
    ]


def by_radius(task, schedule, recipe, seeds):
    """Return outcomes that are best at β = 1, and of mixtures all the same."""
    regret = 60.0 if recipe.exploration.members > 1 else 40.0 + abs(np.log(recipe.exploration.beta))
    return [Outcome(regret=regret, deployments=4, switches=3) for _ in seeds]


def planned(**changes):
    return rs.plan(TASK, rounds=3, **changes)


def test_each_rules_points_are_its_simulated_options_and_one_is_ringed():
    own = [Mondays(), rs.DeterminantGrowth(eta=2.0)]
    made = planned(price=2.0, recipe=rs.Recipe.paper(beta=1.0), simulator=by_name, candidates=own)
    figure = draw_plan(made)
    (axis,) = figure.axes
    drawn = {line.get_label(): line for line in axis.get_lines()}
    containers = {c.get_label(): c for c in axis.containers}
    labels = {PAPERS.get(o.candidate.label, o.candidate.label) for o in made.options}
    assert set(containers) == labels
    assert {"LSVI-UCB-Batch", f"{__name__}:Mondays", "determinant-growth,eta=2.0"} < set(containers)
    for label, container in containers.items():
        options = [o for o in made.options if o.label == label]
        style = line_style(row_of(options[0].candidate.schedule).name)
        line = container.lines[0]
        assert (line.get_marker(), line.get_color()) == (style.marker, style.colour)
        assert [float(x) for x in line.get_xdata()] == pytest.approx(
            [o.deployments.mean for o in options]
        )
        assert [float(y) for y in line.get_ydata()] == pytest.approx(
            [o.regret.mean for o in options]
        )
    ring = drawn["recommended"]
    assert float(ring.get_xdata()[0]) == made.recommended.deployments.mean
    assert float(ring.get_ydata()[0]) == made.recommended.regret.mean
    assert axis.get_xscale() == "log"
    assert "after the first" in axis.get_xlabel()
    assert "K = 100" in figure.get_suptitle()
    figure.draw_without_rendering()


def test_mixtures_have_lines_of_their_own_beside_those_of_single_policies():
    def simulator(task, schedule, recipe, seeds):
        outcomes = by_name(task, schedule, recipe, seeds)
        if recipe.exploration.members == 1:
            return outcomes
        return [replace(one, regret=one.regret / 100) for one in outcomes]

    made = planned(price=2.0, simulator=simulator)
    figure = draw_plan(made)
    containers = {c.get_label(): c for c in figure.axes[0].containers}
    lines = {(False, False): ("", "-"), (False, True): (" (estimates)", ":")}
    lines[True, True] = (" (mixture)", "--")
    kinds = {}
    for option in made.options:
        suffix, drawn = lines[option.mixture, option.untuned]
        label = f"{option.candidate.label}{suffix}"
        label = PAPERS.get(label, label)
        kinds.setdefault((label, drawn), []).append(option)
    assert {label for label, _ in kinds} == set(containers)
    names = {"spread budget", "spread budget (estimates)", "spread budget (mixture)"}
    assert names < set(containers)
    for (label, drawn), options in kinds.items():
        line = containers[label].lines[0]
        style = line_style(row_of(options[0].candidate.schedule).name)
        assert (line.get_marker(), line.get_color()) == (style.marker, style.colour)
        assert line.get_linestyle() == drawn
        assert [float(y) for y in line.get_ydata()] == pytest.approx(
            [o.regret.mean for o in options]
        )
    assert made.recommended.mixture
    (ring,) = (g for g in figure.axes[0].get_lines() if g.get_label() == "recommended")
    assert float(ring.get_ydata()[0]) == made.recommended.regret.mean
    figure.draw_without_rendering()


def test_a_rule_that_never_deploys_anew_still_has_a_place():
    def simulator(task, schedule, recipe, seeds):
        return [Outcome(regret=5.0, deployments=1, switches=0) for _ in seeds]

    made = planned(switches=0, recipe=rs.Recipe.paper(beta=1.0), simulator=simulator)
    (axis,) = draw_plan(made).axes
    assert [float(x) for x in axis.containers[0].lines[0].get_xdata()] == [0.5]


def test_a_sweep_has_a_panel_with_the_chosen_value_marked():
    made = planned(switches=5, simulator=by_radius)
    figure = draw_plan(made)
    assert len(figure.axes) == 2
    curve, mark = figure.axes[1].get_lines()
    np.testing.assert_allclose(curve.get_xdata(), made.sweep.betas)
    np.testing.assert_allclose(curve.get_ydata(), [e.mean for e in made.sweep.regret])
    assert list(mark.get_xdata()) == [1.0, 1.0]
    assert mark.get_label() == "chosen: 1"
    figure.draw_without_rendering()


def test_a_plan_without_a_simulation_has_no_picture():
    with pytest.raises(ValueError, match="must have simulated results to draw"):
        draw_plan(planned(switches=5))
