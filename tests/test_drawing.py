import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from rareswitch.drawing import FORMATS, STYLE, save_figure, style


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
