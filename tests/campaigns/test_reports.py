"""Reports that are read together are those that are read one by one."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign_builders import plain, report
from rareswitch.campaigns import Report
from rareswitch.campaigns import reports as module
from rareswitch.campaigns.reports import reports_of

ONE_HOT = {"id": "a", "features": [2, 0], "rewards": [0, 1], "next_features": [[0, 1, 2]]}

ONE_STEP = {"id": "a", "features": [2], "rewards": [0]}

NO_VALUES = [None, [], {}, "", "x", True, 1, -1, [None], [0.5], [[1]], [[0.5, True]]]


def alone(text):
    """Return what a text is by itself: a digest and the words of a report, or an error."""
    try:
        return told(Report.from_json(text))
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def told(found):
    if isinstance(found, Exception):
        return type(found), str(found)
    words = {name: getattr(found, name) for name in module.WORDS}
    arrays = [found.episode.features, found.episode.rewards, found.episode.next_rows]
    arrays += [array for array in (found.first_features, found.actions) if array is not None]
    assert not any(array.flags.writeable for array in arrays)
    return found.digest, found.body, words, repr(found.episode)


def same(texts):
    return [told(one) for one in reports_of(texts)] == list(map(alone, texts))


@st.composite
def tables(draw):
    """Draw a report as JSON has it, dense or one-hot, seldom with something wrong."""
    steps, one_hot = draw(st.integers(1, 3)), draw(st.booleans())
    cut_off = draw(st.booleans())
    lengths = [draw(st.integers(1, 3)) for _ in range(steps + cut_off)]
    rng = np.random.default_rng(draw(st.integers(0, 1000)))

    def rows(count):
        return rng.integers(0, 4, count) if one_hot else rng.integers(0, 3, (count, 2)) / 2

    offered = [rows(length) for length in lengths]
    places = [int(rng.integers(length)) for length in lengths[:steps]]
    table = {
        "id": f"p{draw(st.integers(0, 9))}",
        "features": [offer[a].tolist() for offer, a in zip(offered, places, strict=False)],
        "rewards": rng.random(steps).round(2).tolist(),
        "next_features": [offer.tolist() for offer in offered[1:]],
    }
    if draw(st.booleans()):
        table["first_features"] = offered[0].tolist()
    if draw(st.booleans()):
        table["actions"] = places
    more = {"version": 2, "member": 0, "site": "3", "participant": "Ada", "recommended": places}
    table |= {name: more[name] for name in draw(st.sets(st.sampled_from(sorted(more))))}
    return draw(spoilt(table)) if draw(st.integers(0, 4)) == 0 else table


@st.composite
def spoilt(draw, table):
    """Draw what is left of a report when one of its fields is another, or is missing."""
    name = draw(st.sampled_from(sorted(table)))
    how = draw(st.sampled_from(["missing", "another", "first"]))
    if how == "missing":
        return {key: value for key, value in table.items() if key != name}
    if how == "first" and isinstance(value := table[name], list) and value:
        first = draw(st.sampled_from([-1, -0.1, 0, 1.5, 2, 3, 2**31, 2**70, 1e300, *NO_VALUES]))
        return table | {name: [first, *value[1:]]}
    return table | {name: draw(st.sampled_from(NO_VALUES))}


@settings(max_examples=300)
@given(st.lists(tables(), max_size=6), st.data())
def test_together_they_are_what_each_is_alone(drawn, data):
    drawn = [table for table in drawn for _ in range(data.draw(st.integers(1, 2)))]
    assert same([json.dumps(table) for table in drawn])


@pytest.mark.parametrize(
    "wrong",
    [
        "", "[]", "7", "null", "{}", "{", '{"id": "a", "id": "b"}', "NaN", b"\xff",
        json.dumps(ONE_HOT | {"id": "../x"}), json.dumps(ONE_HOT | {"began": "a\x00"}),
        json.dumps(ONE_HOT | {"version": 0}), json.dumps(ONE_HOT | {"next_features": {}}),
        json.dumps(ONE_HOT | {"features": [2**63 - 1, 0]}), json.dumps(ONE_HOT | {"features": []}),
        json.dumps(ONE_HOT | {"features": [-1, 0]}), json.dumps(ONE_HOT | {"rewards": [0, 2]}),
        json.dumps(ONE_HOT | {"rewards": [0.5, "NaN"]}), "[" * 10**5,
        json.dumps(ONE_HOT | {"first_features": []}),
        json.dumps(ONE_HOT | {"actions": [2**31, 0]}),
        json.dumps(ONE_HOT | {"first_features": [2, 0], "actions": [0, 4]}),  # the next offer's
        json.dumps(ONE_STEP | {"next_features": {}}), json.dumps(ONE_STEP | {"next_features": ""}),
        json.dumps(ONE_STEP | {"features": [2.5]}), json.dumps(ONE_STEP | {"features": [[[2.5]]]}),
    ],
)  # fmt: skip
def test_one_that_is_wrong_does_not_hold_up_the_others(wrong):
    fine = [json.dumps(ONE_HOT), json.dumps(plain(3)), json.dumps(ONE_HOT | {"id": "b"})]
    texts = [fine[0], wrong, fine[1], wrong, fine[2]]
    assert same(texts)
    assert [isinstance(one, Report) for one in reports_of(texts)] == [True, False] * 2 + [True]


@pytest.mark.parametrize("position", [2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1, 2**63, 2**64])
@pytest.mark.parametrize("name", ["features", "first_features"])
def test_positions_have_one_end(name, position):
    assert same([json.dumps(ONE_HOT | {name: [position, 0]})])


def test_zero_is_what_minus_zero_is():
    dense = {"id": "a", "features": [[-0.0, 1.0]], "rewards": [0], "first_features": [[0.0, 1.0]]}
    text = json.dumps(dense | {"actions": [0]})
    assert same([text])
    assert isinstance(*reports_of([text]), Report)


def test_choices_of_a_cut_off_episode_are_among_the_offers_before_them():
    """What was offered after the last step was offered to nobody."""
    cut_off = {"id": "a", "features": [0, 1], "rewards": [0, 1], "next_features": [[0, 2], [1, 2]]}
    wrong = json.dumps(cut_off | {"actions": [0, 0]})
    assert same([wrong])
    assert isinstance(*reports_of([wrong]), ValueError)


@pytest.mark.parametrize("cut_off", [False, True])
@pytest.mark.parametrize("first", [{}, {"first_features": [1, 2]}])
def test_choices_of_one_shape_are_not_read_one_by_one(monkeypatch, cut_off, first):
    following = [[0, 1, 2], [4, 3]][: 1 + cut_off]
    table = ONE_HOT | {"next_features": following, "actions": [1, 0]} | first
    monkeypatch.setattr(module, "_read", None)
    (found,) = reports_of([json.dumps(table)])
    assert found.actions.tolist() == [1, 0]


def test_reports_of_one_shape_are_not_read_one_by_one(monkeypatch):
    monkeypatch.setattr(module, "_read", None)
    texts = [json.dumps(report(number).plain) for number in range(20)]
    assert [one.id for one in reports_of(texts)] == [f"p{number}" for number in range(20)]
