import numpy as np
import pytest

import rareswitch as rs
from rareswitch.planning.picture import STYLES, draw_plan

SIZES = {"episodes": 100, "horizon": 3, "dim": 2, "rounds": 3}


def by_name(schedule, optimism, seeds):
    """Return outcomes that differ between rules and rounds."""
    size = len(repr(schedule))
    return [rs.Outcome(regret=float(size + r), switches=1 + size % 7) for _, r in seeds]


def by_radius(schedule, optimism, seeds):
    """Return outcomes that are best at β = 1."""
    return [rs.Outcome(regret=40.0 + abs(np.log(optimism.beta)), switches=3) for _ in seeds]


def test_every_rule_has_a_style_of_its_own():
    names = {o.candidate.name for o in rs.plan(**SIZES, price=1.0).options}
    assert names == set(STYLES)
    assert len(set(STYLES.values())) == len(STYLES)


def test_each_rules_points_are_its_simulated_options_and_one_is_ringed():
    made = rs.plan(**SIZES, price=2.0, beta=1.0, simulator=by_name)
    figure = draw_plan(made)
    (axis,) = figure.axes
    drawn = {line.get_label(): line for line in axis.get_lines()}
    containers = {c.get_label(): c for c in axis.containers}
    assert set(containers) == set(STYLES)
    for name, container in containers.items():
        options = [o for o in made.options if o.candidate.name == name]
        line = container.lines[0]
        assert [float(x) for x in line.get_xdata()] == pytest.approx(
            [o.switches.mean for o in options]
        )
        assert [float(y) for y in line.get_ydata()] == pytest.approx(
            [o.regret.mean for o in options]
        )
    ring = drawn["recommended"]
    assert float(ring.get_xdata()[0]) == made.recommended.switches.mean
    assert float(ring.get_ydata()[0]) == made.recommended.regret.mean
    assert axis.get_xscale() == "log"
    assert "K = 100" in figure.get_suptitle()
    figure.draw_without_rendering()


def test_a_rule_that_never_switches_still_has_a_place():
    def simulator(schedule, optimism, seeds):
        return [rs.Outcome(regret=5.0, switches=0) for _ in seeds]

    made = rs.plan(**SIZES, switches=0, beta=1.0, simulator=simulator)
    (axis,) = draw_plan(made).axes
    assert [float(x) for x in axis.containers[0].lines[0].get_xdata()] == [0.5]


def test_a_sweep_has_a_panel_with_the_chosen_value_marked():
    made = rs.plan(**SIZES, switches=5, simulator=by_radius)
    figure = draw_plan(made)
    assert len(figure.axes) == 2
    curve, mark = figure.axes[1].get_lines()
    np.testing.assert_allclose(curve.get_xdata(), made.sweep.betas)
    np.testing.assert_allclose(curve.get_ydata(), [e.mean for e in made.sweep.regret])
    assert list(mark.get_xdata()) == [1.0, 1.0]
    assert mark.get_label() == "chosen: 1"
    figure.draw_without_rendering()
