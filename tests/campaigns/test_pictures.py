"""The pictures of a report: readable on a phone, with labels that touch neither each other nor
the edge.
"""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.campaigns.proof.export.cohorts import Stretch
from rareswitch.campaigns.proof.export.pictures import (
    Scale,
    course_picture,
    returns_picture,
    triggers_picture,
)

PHONE, MARGIN = 390, 16  # pixels
CHARACTER = 0.64  # of the size of text: a digit of a wide sans-serif


def row(version, **changes):
    known = {"version": version, "origin": "planned", "mean_return": 1.0, "low": 0.5, "high": 1.5,
             "in_force_since": 0, "quantity": "episode", "observed": 3, "threshold": 2}  # fmt: skip
    return known | changes


def boxes(picture):
    """Return the boxes of all texts of a picture, as left, top, right and bottom in its units."""
    root = ElementTree.fromstring(picture)
    size = float(root.get("font-size"))
    for text in root.iter("text"):
        width = CHARACTER * size * len(text.text)
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor")]
        left, bottom = float(text.get("x")) - share * width, float(text.get("y"))
        yield left, bottom - 0.8 * size, left + width, bottom + 0.2 * size, text.text


def check_texts(picture):
    """Check that no two texts overlap, that all are inside, and that a phone shows them large."""
    root = ElementTree.fromstring(picture)
    _, _, width, height = map(float, root.get("viewBox").split())
    assert float(root.get("font-size")) * (PHONE - 2 * MARGIN) / width >= 12
    found = list(boxes(picture))
    for place, (left, top, right, bottom, text) in enumerate(found):
        assert left >= -3, text
        assert right <= width + 3, text
        assert top >= -1, text
        assert bottom <= height + 1, text
        for other in found[:place]:
            apart = left >= other[2] or other[0] >= right or top >= other[3] or other[1] >= bottom
            assert apart, (text, other[4])


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=60), st.integers(1, 2000))
def test_labels_of_versions_never_overlap(places, length):
    found = sorted(min(place, length) for place in places)
    rows = [row(number, in_force_since=place) for number, place in enumerate(found, start=1)]
    picture = course_picture(rows, [Stretch(1, 0.3), Stretch(length, 0.9)], length)
    check_texts(picture)
    labels = [box for box in boxes(picture) if box[4] == "1"]
    assert labels  # the first version always has its label


@pytest.mark.parametrize("scale", [1e-6, 0.013, 1.0, 977.0, 1e6])
@pytest.mark.parametrize("count", [1, 2, 25, 130])
def test_texts_of_all_pictures_never_overlap(count, scale):
    rows = [
        row(k, mean_return=scale * (1 + 0.001 * k), low=scale * 0.98, high=scale * 1.3,
            observed=scale * (k + 0.5), threshold=scale * k, in_force_since=7 * k,
            origin=("planned", "unplanned", "rollback")[k % 3],
            quantity=("episode", "total growth of the log-determinants, and more")[k % 2])
        for k in range(1, count + 1)
    ]  # fmt: skip
    course = [Stretch(k, scale * (1 + k % 5)) for k in range(1, count + 1)]
    for picture in (
        returns_picture(rows),
        triggers_picture(rows),
        course_picture(rows, course, 8 * count),
    ):
        check_texts(picture)


def test_pictures_show_the_numbers():
    rows = [
        row(1, mean_return=1.0, low=0.0, high=2.0, origin="first", quantity=None),
        row(2, mean_return=1.5, low=1.0, high=2.0, origin="rollback"),
    ]
    root = ElementTree.fromstring(returns_picture(rows))
    lines = [line for line in root.iter("line") if line.get("class") in ("planned", "unplanned")]
    ends = [(float(line.get("x1")), float(line.get("x2"))) for line in lines]
    assert ends == [(76.0, 338.0), (207.0, 338.0)]
    assert [circle.get("cx") for circle in root.iter("circle")] == ["207.0"]
    assert [rect.get("x") for rect in root.iter("rect")] == ["268.5"]  # 1.5, less half a square
    assert lines[1].get("class") == "unplanned"
    (mark,) = ElementTree.fromstring(triggers_picture(rows)).iter("rect")
    assert float(mark.get("x")) + 4 == 338.0
    points = re.search(
        'points="([^"]*)"', course_picture(rows, [Stretch(5, 0), Stretch(10, 2)], 10)
    )
    assert points[1] == "177.1,170.0 338.0,40.0"


def test_there_is_no_picture_of_nothing():
    empty = [row(1, mean_return=None, low=None, high=None, quantity=None)]
    assert returns_picture(empty) is course_picture(empty, [], 0) is triggers_picture(empty) is None


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_round_numbers_inside(low, width):
    scale = Scale([low, low + width], 0, 100)
    ticks = scale.ticks()
    assert len(ticks) <= 4
    assert len({f"{tick:.6g}" for tick in ticks}) == len(ticks) or width < 1e-4 * abs(low)
    slack = 1e-6 * max(abs(low), width)
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in ticks)


def test_a_number_of_an_axis_that_would_touch_another_is_left_out():
    picture = returns_picture([row(1, mean_return=1234561.0, low=1234560.0, high=1234563.0)])
    check_texts(picture)
    assert len([box for box in boxes(picture) if "e+06" in box[4]]) == 2
