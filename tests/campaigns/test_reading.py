"""Reports from JSON: nothing is converted, guessed or silently ignored."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from campaign_builders import plain, report
from rareswitch.campaigns import AnalysisTerms, Report, Subgroups, report_values
from rareswitch.campaigns.reading import known_part, read_json, read_report
from rareswitch.campaigns.report import MORE_ARRAYS, read_bodies
from rareswitch.campaigns.report_values import numbers, report_from, reports_from
from rareswitch.campaigns.rulebook.claims import broken_claim
from rareswitch.core.episode import Episode

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def strictly(pairs):
    """Return a table, as Python reads it, of which no key comes twice."""
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_it_reads_what_python_reads(values, ascii_only, indent):
    text = json.dumps(values, ensure_ascii=ascii_only, indent=indent)
    wanted = json.loads(text, object_pairs_hook=strictly)
    given = text.encode(errors="surrogatepass") if ascii_only else text
    assert repr(read_json(given)) == repr(wanted)  # 1 is not 1.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(['"id"', '"a\\"b"', '":"', '"\\u0069d"', '"x\\\\"']),
            st.sampled_from(["", " ", "\n"]),
            st.sampled_from(["1", '"text"', '"te\\"xt"', "[1, 2]", '{"id":1}', '": "', "null"]),
        ),
        min_size=1,
    )
)
@example([('"id"', " ", "1"), ('"id"', "", "2")])
@example([('"id"', "", '"text"'), ('"id"', "", "2")])
@example([('"id"', "", "1"), ('"\\u0069d"', "", "2")])
def test_a_key_that_comes_twice_is_refused(members):
    text = "{" + ",".join(f"{key}{space}:{value}" for key, space, value in members) + "}"
    keys = [json.loads(key) for key, _, _ in members]
    if len(set(keys)) == len(keys):
        assert read_json(text) == json.loads(text)
    else:
        with pytest.raises(ValueError, match="occurs twice"):
            read_json(text)


@pytest.mark.parametrize("text", ["NaN", '{"x":NaN}', '{"x":[-Infinity]}'])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="is not allowed"):
        read_json(text)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "01", b"\xff", '{"a" 1}', "{'a': 1}"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r"line 1|can't decode"):
        read_json(text)


def slowly(values):
    """Return the report of a table that is read part by part."""
    given = dict(values)
    episode = Episode(
        features=numbers("features", given.pop("features")),
        rewards=numbers("rewards", given.pop("rewards")),
        next_features=[numbers("next", rows) for rows in given.pop("next_features", [])],
    )
    arrays = {name: numbers(name, given.pop(name)) for name in MORE_ARRAYS if name in given}
    return Report(episode=episode, **arrays, **given)


def tables(count, seed=0):
    """Yield reports of several shapes: dense, one-hot, cut off, with and without offers."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        steps, one_hot, cut_off, told = rng.integers(1, 4), k % 3 == 0, k % 2, k % 4 > 0
        sizes = rng.integers(1, 4, steps + cut_off)
        offers = [
            rng.integers(0, 9, n).tolist() if one_hot else (rng.integers(0, 4, (n, 2)) / 8).tolist()
            for n in sizes
        ]
        actions = [int(rng.integers(n)) for n in sizes[:steps]]
        table = {
            "id": f"p{k}",
            "features": [offers[t][a] for t, a in enumerate(actions)],
            "rewards": rng.integers(0, 2, steps).tolist(),
            "next_features": offers[1:],
        }
        more = {"first_features": offers[0], "actions": actions, "site": "north"}
        yield table | (more if told else {})


def test_reports_of_one_shape_are_read_together_and_are_the_same():
    given = [*tables(200)]
    found = reports_from(given)
    for table, read in zip(given, found, strict=True):
        for one in (read, report_from(table)):
            wanted = slowly(table)
            assert (one.digest, one.body, one.site) == (wanted.digest, wanted.body, wanted.site)
            assert one.episode == wanted.episode
            assert not one.episode.features.flags.writeable


def test_usual_reports_are_not_read_part_by_part(monkeypatch):
    monkeypatch.setattr(report_values, "numbers", None)
    assert all(isinstance(one, Report) for one in reports_from([*tables(60)]))
    assert all(report_from(table) for table in tables(20))


BAD_ROWS = [
    {"features": [[1.0, True]]},
    {"features": [[1.0, "2"]]},
    {"features": [[1.0, None]]},
    {"features": [[1.0, 2.0], [1.0]]},
    {"features": [True]},
    {"features": [2**64]},
    {"features": [[float("inf"), 0.0]]},
    {"rewards": [2]},
    {"rewards": [True]},
    {"rewards": [0, 0]},
    {"first_features": []},
    {"first_features": [[0.0, 0.0]], "actions": [0]},
    {"first_features": [[0.5, 0.25]], "actions": [1]},
    {"first_features": [[0.5, 0.25]], "actions": [-1]},
    {"first_features": [[0.5, 0.25]], "actions": [True]},
    {"first_features": [[0.5, 0.25]], "actions": [0.0]},
    {"first_features": [[0.5, 0.25]], "actions": [[0]]},
    {"first_features": [[0.5, 0.25]], "actions": []},
    {"next_features": [[]]},
    {"next_features": [[[0.5, 0.25]], [[0.5, 0.25]]]},
    {"next_features": {}},
]


@pytest.mark.parametrize("wrong", BAD_ROWS, ids=str)
def test_one_bad_report_is_named_and_does_not_hold_up_its_neighbours(wrong):
    good = {"id": "a", "features": [[0.5, 0.25]], "rewards": [0]}
    if "first_features" in wrong or "actions" in wrong:
        good |= {"first_features": [[0.5, 0.25]], "actions": [0]}
    first, bad, last = reports_from([good, good | wrong, good | {"id": "b"}])
    assert isinstance(bad, TypeError | ValueError)
    assert [first.id, last.id] == ["a", "b"]
    with pytest.raises(type(bad)):
        report_from(good | wrong)


ONE_HOT = {"id": "a", "features": [2, 0], "rewards": [0, 1], "next_features": [[0, 1, 2]]}
ONE_STEP = {"id": "a", "features": [2], "rewards": [0]}


def test_a_report_is_what_its_text_says():
    told = report(3, site="Zürich", version=2, member=1, participant="Ada")
    text = json.dumps(told.plain | {"participant": "Ada"}, indent=1)
    for found in (read_report(text), read_report(text.encode()), report_from(json.loads(text))):
        assert (found.digest, found.body, found.participant) == (told.digest, told.body, "Ada")
        assert found.episode == told.episode
        assert not found.episode.features.flags.writeable


@pytest.mark.parametrize(
    "wrong",
    [
        {}, ONE_HOT | {"id": "../x"}, ONE_HOT | {"began": "a\x00"}, ONE_HOT | {"version": 0},
        ONE_HOT | {"next_features": {}}, ONE_HOT | {"features": [2**63 - 1, 0]},
        ONE_HOT | {"features": []}, ONE_HOT | {"features": [-1, 0]}, ONE_HOT | {"rewards": [0, 2]},
        ONE_HOT | {"rewards": [0.5, "NaN"]}, ONE_HOT | {"first_features": []},
        ONE_HOT | {"actions": [2**31, 0]}, ONE_HOT | {"site": 3}, ONE_HOT | {"reward": 1},
        ONE_HOT | {"first_features": [2, 0], "actions": [0, 4]},  # the next offer's
        ONE_STEP | {"next_features": {}}, ONE_STEP | {"next_features": ""},
        ONE_STEP | {"features": [2.5]}, ONE_STEP | {"features": [[[2.5]]]},
    ],
)  # fmt: skip
def test_a_wrong_report_is_refused(wrong):
    with pytest.raises((TypeError, ValueError)):
        report_from(wrong)


def test_zero_is_what_minus_zero_is():
    dense = {"id": "a", "features": [[-0.0, 1.0]], "rewards": [0], "first_features": [[0.0, 1.0]]}
    assert report_from(dense | {"actions": [0]}).actions.tolist() == [0]


def test_choices_of_a_cut_off_episode_are_among_the_offers_before_them():
    """What was offered after the last step was offered to nobody."""
    cut_off = {"id": "a", "features": [0, 1], "rewards": [0, 1], "next_features": [[0, 2], [1, 2]]}
    with pytest.raises(ValueError, match="actions must be the places of the features chosen"):
        report_from(cut_off | {"actions": [0, 0]})


FIELDS = st.sampled_from([*plain(0), "subgroup", "events", "participant", "patient"])


@given(st.dictionaries(FIELDS, VALUES))
def test_the_register_keeps_numbers_and_names_only(values):
    kept = known_part(values, AnalysisTerms())
    assert not kept.keys() & {"participant", "patient"}
    texts = [text for text in _texts(kept) if text != "…"]
    assert all(text in (values.get("id"), values.get("site")) for text in texts)
    json.dumps(kept, allow_nan=False)


@given(
    st.dictionaries(
        st.sampled_from(["subgroup", "events"]),
        st.sampled_from(["mild", "Ada"])
        | st.dictionaries(st.sampled_from(["nausea", "Ada"]), VALUES | st.just("Ada")),
    )
)
@example({"subgroup": "mild", "events": {"nausea": 2, "Ada": 1}})
@example({"subgroup": "Ada", "events": {"nausea": "Ada"}})
def test_the_register_keeps_declared_subgroups_and_events(values):
    analysis = AnalysisTerms(events=["nausea"], subgroups=Subgroups(names=["mild", "severe"]))
    kept = known_part(values, analysis)
    assert "Ada" not in json.dumps(kept)
    assert (kept.get("subgroup") == "mild") == (values.get("subgroup") == "mild")
    events = values.get("events")
    if isinstance(events, dict):
        assert kept["events"].keys() == events.keys() & {"nausea"}
        if type(count := events.get("nausea")) is int:
            assert kept["events"]["nausea"] == count


EVENTS = {"nausea": 2, "serious": 1}


@pytest.mark.parametrize("events", [{}, {"nausea": 1}, EVENTS])
def test_claims_for_the_analysis_are_read_and_told_back(events):
    values = plain(3, site="3", subgroup="severe", events=events)
    for found in (read_report(json.dumps(values)), report_from(values), *reports_from([values])):
        assert (found.subgroup, dict(found.events)) == ("severe", events)
        assert json.loads(found.claims) == {"site": "3", "subgroup": "severe", "events": events}
        assert found.plain == values
        assert found.digest == report(3, site="3", subgroup="severe", events=events).digest
    silent = plain(3, site="3", subgroup="severe")
    assert read_report(json.dumps(silent)).events is None
    assert read_report(json.dumps(silent)).digest != found.digest
    assert report_from(values | {"events": None}).plain == silent


@pytest.mark.parametrize("events", [{}, {"serious": 1}])
def test_a_count_of_0_is_recorded_as_a_kind_that_did_not_occur(events):
    """Forms of case reports send every kind."""
    without, form = plain(3, events=events), plain(3, events=events | {"nausea": 0})
    expected = report_from(without)
    for found in (read_report(json.dumps(form)), report_from(form), *reports_from([form, form])):
        assert (found.claims, found.digest) == (expected.claims, expected.digest)
        assert found.plain == without


def test_a_recorded_count_of_0_is_not_allowed():
    """No report is recorded with it, so a record with it was forged."""
    analysis = AnalysisTerms(events=["nausea"])
    assert "leaves out kinds" in broken_claim(analysis, {"events": {"nausea": 0}})
    assert broken_claim(analysis, {"events": {}}) is None


def test_a_report_without_these_claims_keeps_its_digest():
    found = report(3, id="ada", site="3")
    assert found.claims == '{"site":"3"}'
    assert report(3, id="ada").claims == "{}"


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ({"nausea": -1}, "events: each count must be from 0 to"),
        ({"nausea": False}, "each count must be a whole number"),
        ({"nausea": True}, "each count must be a whole number"),
        ({"nausea": 1.0}, "each count must be a whole number"),
        ({"nausea": "1"}, "each count must be a whole number"),
        ({"nausea": 2**40}, "each count must be from 0"),
        ({"": 1}, "each kind must not be empty"),
        ({"na\nusea": 1}, "each kind must be one line"),
        ({"nausea": 1, "\uff4eausea": 1}, "distinct kinds"),
        ({"nausea": 0, "\uff4eausea": 1}, "distinct kinds"),
        (["nausea"], "events must be counts by the kind"),
        ("nausea", "events must be counts by the kind"),
        (3, "events must be counts by the kind"),
    ],
)
def test_wrong_events_are_refused(events, why):
    for read in (report_from, lambda values: read_report(json.dumps(values))):
        with pytest.raises((TypeError, ValueError), match=why):
            read(plain(3, events=events))
    with pytest.raises((TypeError, ValueError), match=why):
        report(3, events=events)
    with pytest.raises(TypeError, match="subgroup must be a text"):
        report_from(plain(3, subgroup=5))


def test_a_kind_of_event_that_comes_twice_is_refused():
    text = json.dumps(plain(3, events={"nausea": 1}))
    with pytest.raises(ValueError, match="occurs twice"):
        read_json(text.replace('"nausea": 1', '"nausea": 1, "nausea": 2'))


def test_the_events_of_a_report_do_not_change():
    told = {"serious": 1, "nausea": 2}
    made = report(3, events=told)
    told["nausea"] = 5
    assert list(made.events.items()) == [("nausea", 2), ("serious", 1)]
    with pytest.raises(TypeError):
        made.events["nausea"] = 5


def _texts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def some_report(rng, k, steps, *, one_hot=False, cut_off=False, told=True):
    """Return a report of random numbers; every state has another number of actions."""
    sizes = rng.integers(1, 4, steps + 1)
    draw = (lambda n: rng.integers(5, size=n)) if one_hot else (lambda n: rng.random((n, 3)) / 2)
    offers = [draw(n) for n in sizes]
    actions = [int(rng.integers(n)) for n in sizes[:steps]]
    episode = Episode(
        features=np.array([offers[t][a] for t, a in enumerate(actions)]),
        rewards=rng.random(steps),
        next_features=offers[1 : steps + cut_off],
    )
    more = {"first_features": offers[0], "actions": actions} if told else {}
    return Report(id=f"p{k}", episode=episode, **more)


def various_reports():
    rng = np.random.default_rng(7)
    return [
        some_report(rng, k, steps, one_hot=one_hot, cut_off=k % 2 == 0, told=k % 5 != 0)
        for k, (steps, one_hot) in enumerate(
            [(steps, one_hot) for steps in (1, 2, 3, 9, 20) for one_hot in (False, True)] * 20
        )
    ]


def test_reports_are_packed_together_as_each_alone():
    reports = various_reports()
    found = reports_from([json.loads(json.dumps(one.plain)) for one in reports])
    assert [one.body for one in found] == [one.body for one in reports]
    assert [one.total for one in found] == [one.total for one in reports]
    assert [one.digest for one in found] == [one.digest for one in reports]


def test_bodies_are_read_together_as_each_alone():
    reports = various_reports()
    bodies = [one.body for one in reports]
    for found, alone, told in zip(
        read_bodies(bodies), map(Report.from_body, bodies), reports, strict=True
    ):
        assert found.episode == alone.episode == told.episode
        assert found.total == alone.total == float(np.add.reduce(told.episode.rewards))
        for name in MORE_ARRAYS:
            array, wanted = getattr(found, name), getattr(told, name)
            assert (array is None) == (wanted is None)
            assert array is None or np.array_equal(array, wanted)
        for array in (found.episode.features, found.episode.rewards, found.episode.next_rows):
            assert not array.flags.writeable


@pytest.mark.parametrize("place", [0, 1, 19])
def test_a_damaged_body_among_others_is_refused(place):
    rng = np.random.default_rng(1)
    bodies = [some_report(rng, k, 1).body for k in range(20)] * 2
    bodies[place] = bodies[place][:-40] + bytes([bodies[place][-40] ^ 1]) + bodies[place][-39:]
    with pytest.raises(ValueError, match="checksum does not match"):
        read_bodies(bodies)
