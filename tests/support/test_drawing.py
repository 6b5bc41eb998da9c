import matplotlib as mpl
import matplotlib.colors
import matplotlib.lines
import pytest
from matplotlib.figure import Figure

from rareswitch.rules.table import RULES
from rareswitch.support.drawing import (
    FORMATS,
    LINE_STYLES,
    OWN_STYLES,
    STYLE,
    line_style,
    save_figure,
    style,
)


def some_figure():
    with style():
        figure = Figure(layout="constrained")
        axes = figure.add_subplot()
        axes.plot([1.0, 2.0, 3.0], [2.0, 1.0, 2.5], label="regret")
        axes.legend()
    return figure


@pytest.mark.filterwarnings("error")
def test_the_same_figure_gives_the_same_bytes_whatever_the_day(tmp_path, monkeypatch):
    for day in ("1", "1700000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
        (tmp_path / day).mkdir()
        save_figure(some_figure(), tmp_path / day)
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for kind in FORMATS:
        one, other = (
            (tmp_path / day / f"figure.{kind}").read_bytes() for day in ("1", "1700000000")
        )
        assert one == other
        assert one.startswith(starts[kind])
    assert len(list((tmp_path / "1").iterdir())) == len(FORMATS)


def test_the_style_holds_inside_and_ends_outside():
    before = dict(mpl.rcParams)
    with style():
        assert {name: mpl.rcParams[name] for name in STYLE} == STYLE
        assert dict(mpl.rcParams) != before
    assert dict(mpl.rcParams) == before


def test_a_figure_is_saved_in_the_style_whatever_the_user_has_set(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "changed").mkdir()
    save_figure(some_figure(), tmp_path / "plain")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": None}):
        save_figure(some_figure(), tmp_path / "changed")
    plain, changed = (tmp_path / name / "figure.svg" for name in ("plain", "changed"))
    assert plain.read_bytes() == changed.read_bytes()


def test_every_rule_has_a_colour_and_a_marker_of_its_own():
    assert {row.name for row in RULES} <= LINE_STYLES.keys()
    styles = [*(LINE_STYLES[row.name] for row in RULES), *OWN_STYLES]
    for part in ("colour", "marker"):
        assert len({getattr(each, part) for each in styles}) == len(styles)
    for name in LINE_STYLES:
        assert line_style(name) == line_style(name, 3) == LINE_STYLES[name]


def test_rules_of_ones_own_have_their_lines_in_turn():
    found = [line_style("my_rules:Weekly", position) for position in range(len(OWN_STYLES) + 1)]
    assert found == [*OWN_STYLES, OWN_STYLES[0]]
    for colour, marker in (*LINE_STYLES.values(), *OWN_STYLES):
        assert mpl.colors.is_color_like(colour)
        assert marker in mpl.lines.Line2D.markers
