"""CSV files with raw columns: the same reports as in JSON, and errors that repeat no cell."""

import re

import pytest

from observers import SECRET, TABLE, observer, same
from rareswitch.campaigns import Report, Subgroups
from rareswitch.campaigns.observations.raw_csv import RowError, read_csv

ONE = """\
id,action,reward,age,severity,version,member,site,began,ended,participant,propensity,recommended
p1,low,0.5,63,2,2,5,3,a,b,Emil Novak,0.25,high
p2,high,1,41.5,0,,,,,,,,
"""
THREE = """\
id;step;severity;action;reward;site;participant
p1;0;2;low;0.5;3;Emil Novak
p1;1;5;high;1;;
p1;2;1;middle;0;3;
p2;0;3;low;0;4;
p2;1;4;;;;
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a text, by default with one step of two columns."""

    def found(text, observer=observer(), encoding="utf-8"):  # noqa: B008 it never changes
        path = tmp_path / "reports.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return list(read_csv(path, observer))

    return found


@pytest.fixture
def steps():
    return observer(TABLE, ("severity",), horizon=3)


def test_rows_are_reports(read):
    first, second = read(ONE)
    assert same(
        first,
        observer().report(
            {
                "id": "p1",
                "observations": [{"age": 63, "severity": 2}],
                "actions": ["low"],
                "rewards": [0.5],
                "version": 2,
                "member": 5,
                "site": "3",
                "began": "a",
                "ended": "b",
                "participant": SECRET,
                "propensities": [0.25],
                "recommended": ["high"],
            }
        ),
    )
    assert same(
        second,
        observer().report(
            {
                "id": "p2",
                "observations": [{"age": 41.5, "severity": 0}],
                "actions": ["high"],
                "rewards": [1],
            }
        ),
    )


EPISODES = [
    {
        "id": "p1",
        "observations": [{"severity": 2}, {"severity": 5}, {"severity": 1}],
        "actions": ["low", "high", "middle"],
        "rewards": [0.5, 1, 0],
        "site": "3",
        "participant": SECRET,
    },
    {
        "id": "p2",
        "observations": [{"severity": 3}, {"severity": 4}],
        "actions": ["low"],
        "rewards": [0],
        "site": "4",
    },
]


def in_order(text, *places):
    header, *rows = text.splitlines()
    return "\n".join([header, *(rows[place] for place in places)])


@pytest.mark.parametrize(
    "text",
    [
        THREE,
        re.sub(r"(?m)^(p.);(.)", lambda found: f"{found[1]};{int(found[2]) + 1}", THREE),
        in_order(THREE, 0, 3, 1, 4, 2),
    ],
    ids=["from 0", "from 1", "apart"],
)  # fmt: skip
def test_rows_of_one_id_are_one_episode(read, steps, text):
    found = read(text, steps)
    assert [same(one, steps.report(values)) for one, values in zip(found, EPISODES, strict=True)]
    assert len(found[1].episode.next_features) == len(found[1].episode) == 1  # cut off


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", ", ", " ; "])
def test_files_of_other_programs_are_read(read, encoding, end, delimiter):
    text = ONE.replace(",", delimiter).replace("\n", f"\n\n{delimiter * 12}\n")
    text = ("\n" + text.rstrip()).replace("\n", end)
    for found, plain in zip(read(text, encoding=encoding), read(ONE), strict=True):
        assert same(found, plain)


def test_quoted_cells_and_columns_with_a_delimiter_are_read(read):
    found = observer(columns=("age, years", "severity; 0 to 4"))
    text = 'id,action,reward,"age, years","severity; 0 to 4"\np1,"low",0.5,63,2\n'
    assert same(
        *read(text, found), read(ONE.replace(ONE.splitlines()[1], "p1,low,0.5,63,2,,,,,,,,"))[0]
    )


NEEDS = "it needs id, action, reward, age, severity, and may have step, propensity, recommended"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", f"the header has no column id; {NEEDS}"),
        ("\n\n", f"the header has no column id; {NEEDS}"),
        (ONE.replace("severity", SECRET, 1), f"the header has no column severity; {NEEDS}"),
        (ONE.replace("reward", "", 1), f"the header has no column reward; {NEEDS}"),
        (ONE.replace("site", SECRET, 1), f"column 8 of the header is unknown; {NEEDS}"),
        (ONE.replace("site", "", 1), f"column 8 of the header is unknown; {NEEDS}"),
        (ONE.replace("site", "age", 1), "must have each column once; age is there twice"),
        (ONE.split("\n", 1)[1], f"the header has no column id; {NEEDS}"),
        (ONE.replace("id,", f'id,"{SECRET},', 1), "the header has no column action"),
        (b"\xff\xfe" + ONE.encode("utf-16-le"), "the header has no column id"),
        (SECRET * 10**5, "the header has no column id"),
    ],
)
def test_a_header_that_is_wrong_refuses_the_file(read, text, why):
    with pytest.raises(ValueError, match=why) as refused:
        read(text)
    assert "Emil" not in str(refused.value)
    assert not isinstance(refused.value, RowError)


def test_a_long_horizon_needs_steps(read, steps):
    with pytest.raises(ValueError, match=r"no column step; it needs .*, severity, step, and may"):
        read("id,action,reward,severity\np1,low,0.5,2\n", steps)


def row(**cells):
    """Return a file with two rows, the first with these cells."""
    named = {"id": "p1", "action": "low", "reward": "0.5", "age": "63", "severity": "2"} | cells
    return f"{','.join(named)}\n{','.join(named.values())}\n" + ",".join(
        {**named, "id": "p2", **dict.fromkeys(cells, "")}[name]
        or {"id": "p2", "action": "high", "reward": "1", "age": "1", "severity": "1"}.get(name, "")
        for name in named
    )


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        *(({"age": wrong}, "age must be a finite number") for wrong in (
            SECRET, "", "nan", "inf", "1e999", "true", "1_000", "6 3", "0x10", "٦٣", "1" * 5000,
            "--1",
        )),
        ({"severity": "four"}, "severity must be a finite number"),
        ({"action": SECRET}, "action must be one of low, middle, high"),
        ({"action": ""}, "action must be one of low, middle, high"),
        ({"action": "0"}, "action must be one of low, middle, high"),
        ({"action": "Low"}, "action must be one of low, middle, high"),
        ({"recommended": SECRET}, "recommended must be one of low, middle, high"),
        ({"reward": ""}, "reward must be a finite number from 0 to 1"),
        ({"reward": "1.5"}, "reward must be a finite number from 0 to 1"),
        ({"reward": "-0.1"}, "reward must be a finite number from 0 to 1"),
        ({"reward": SECRET}, "reward must be a finite number from 0 to 1"),
        ({"propensity": SECRET}, "propensity must be a finite number from 0 to 1"),
        ({"version": SECRET}, "version must be a whole number from 1 to 2147483648"),
        ({"version": "0"}, "version must be a whole number from 1 to 2147483648"),
        ({"version": "1.0"}, "version must be a whole number from 1 to 2147483648"),
        ({"member": "-1"}, "member must be a whole number from 0 to 2147483648"),
    ],
)  # fmt: skip
def test_an_error_names_line_and_column_and_not_the_cell(read, cells, why):
    wrong, right = read(row(**cells))
    assert isinstance(wrong, RowError)
    assert str(wrong) == f"line 2: {why}"
    assert isinstance(right, Report)


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"id": SECRET}, "id must be 1 to 200 letters"),
        ({"propensity": "0"}, "propensities must be above 0 and at most 1"),
        (
            {"participant": "a\0b"},
            "participant must be a text of one line, 1 to 1000 visible characters",
        ),
        ({"site": SECRET + "\x01"}, "site must be one line without control"),
        ({"id": ""}, "id must name the episode; the cell is empty"),
        ({"site": "3,4"}, "a row must have 6 cells; got 7"),
        ({"site": '"a\nb"'}, "a cell must be on one line; one goes on to line 3"),
        ({"site": f'"a" {SECRET}'}, "cells must be quoted as in CSV"),
        ({"participant": "Emil Nov\udce1k"}, "text must be UTF-8"),
    ],
)
def test_a_row_that_is_no_report_does_not_end_the_file(read, cells, why):
    wrong, right = read(row(**cells).encode("utf-8", "surrogateescape"))
    assert str(wrong).startswith(f"line 2: {why}")
    assert "Emil" not in str(wrong)
    assert isinstance(right, Report)


def test_rows_after_an_open_quote_are_named(read):
    (wrong,) = read(row(site='"a'))
    assert str(wrong) == "line 2: cells must be quoted as in CSV; lines 2 to 3 cannot be read"


COUNT = "step must count from 0 in the rows of an episode"


@pytest.mark.parametrize(
    ("old", "new", "why", "line"),
    [
        ("p1;1;5", "p1;2;5", f"{COUNT}; 1 is next", 3),
        ("p1;0;2", "p1;1;2", f"{COUNT}; 0 is next", 2),
        ("p1;1;5", "p1;x;5", "step must be a whole number from 0", 3),
        ("p1;1;5", "p1;1;6", "severity must be a whole number from 1 to 5", 3),
        ("p1;1;5", "p1;1;5.0", "severity must be a whole number from 1 to 5", 3),
        ("p1;1;5;high;1;", "p1;1;5;high;1;4", "site must be the same in all rows", 3),
        ("middle;0", "middle;", "reward must be a finite number from 0 to 1", 4),
        ("high;1", ";", "action must be one of low, middle, high", 3),
        ("middle;0;3;", "middle;0;3;\np1;3;1;low;0;;", "the number of actions must be", 2),
    ],
)  # fmt: skip
def test_an_error_in_one_row_refuses_its_episode_alone(read, steps, old, new, why, line):
    assert THREE.count(old) == 1
    wrong, right = read(THREE.replace(old, new), steps)
    assert str(wrong).startswith(f"line {line}: {why}")
    assert same(right, steps.report(EPISODES[1]))


def test_a_lost_first_step_is_noticed(read, steps):
    """Its other steps count from 1, as those of some files do; this file counts from 0."""
    wrong, _ = read(in_order(THREE, 1, 2, 3, 4), steps)
    assert str(wrong) == "line 2: step must count from 0 in the rows of an episode; 0 is next"


@pytest.mark.parametrize("lost", ["p1;2;1;middle", ";2;1;middle;0;3;", '"p1;2;1;middle;0;3;'])
def test_with_steps_a_row_that_cannot_be_read_refuses_the_file(read, steps, lost):
    """It may be the last of an episode, which would else be taken for a shorter one."""
    with pytest.raises(ValueError, match=r"line 4: .* The file is refused: the row may be of any"):
        read(THREE.replace("p1;2;1;middle;0;3;", lost), steps)


def test_some_steps_with_propensities_need_all(read, steps):
    text = THREE.replace("site", "propensity").replace(";3;", ";0.5;").replace(";4;\n", ";0.5;\n")
    text = text.replace("p2;0;0.5;", "p2;0;3;")
    wrong, right = read(text, steps)
    assert str(wrong) == "line 3: propensity must be a finite number from 0 to 1"
    assert right.propensities.tolist() == [0.5]


def test_a_row_that_tells_more_than_an_observation_is_a_step(read, steps):
    text = "id,step,severity,action,reward,propensity\np1,0,2,low,1,0.5\np1,1,3,,,{}\n"
    assert len(read(text.format(""), steps)[0].episode.next_features) == 1
    (wrong,) = read(text.format("0.5"), steps)
    assert str(wrong) == "line 3: action must be one of low, middle, high"


def test_names_of_actions_may_be_numbers(read):
    found = observer(actions=("2", "1", "0"))
    (report,) = read("id,action,reward,age,severity\np1,2,0.5,63,2\n", found)
    assert report.actions.tolist() == [0]


CLAIMED = "id,action,reward,age,severity,subgroup,events\np1,low,0.5,63,2,{},{}\n"


@pytest.mark.parametrize(
    ("cell", "events"),
    [
        ("", None),
        ("none", {}),
        ("nausea:2", {"nausea": 2}),
        ("nausea:0", {}),
        ("nausea:0; serious:1", {"serious": 1}),
        (" bad sleep : 1 ;serious: 3", {"bad sleep": 1, "serious": 3}),
    ],
)
def test_subgroup_and_events_are_columns(read, cell, events):
    (found,) = read(CLAIMED.format("severe", cell))
    assert found.subgroup == "severe"
    assert found.claimed.get("events") == events
    (silent,) = read(CLAIMED.format("", cell))
    assert silent.subgroup is None


@pytest.mark.parametrize(
    "cell", ["nausea", "nausea:", ":2", "nausea:2;", "nausea:2;nausea:1", "nausea:-1", "a:1.0",
             "none;", "a:b:1", "nausea:" + "9" * 5000],
)  # fmt: skip
def test_a_wrong_cell_of_events_is_named_and_not_repeated(read, cell):
    (found,) = read(CLAIMED.format("", cell))
    assert isinstance(found, RowError)
    assert re.match("line 2: events", str(found))
    assert "99" not in str(found)
    assert "b:1" not in str(found)


def test_events_are_the_same_in_all_rows_of_an_episode(read, steps):
    text = "id,step,severity,action,reward,events\np1,0,2,low,0.5,nausea:1\np1,1,5,high,1,{}\n"
    assert dict(read(text.format(""), steps)[0].events) == {"nausea": 1}
    (found,) = read(text.format("nausea:2"), steps)
    assert str(found) == "line 3: events must be the same in all rows of an episode"


def test_a_column_of_an_observation_may_be_called_subgroup(read):
    """Protocols without an analysis may have such columns, which then are numbers."""
    named = observer(columns=("subgroup", "events"))
    (found,) = read("id,action,reward,subgroup,events\np1,low,0.5,63,2\n", named)
    assert (found.subgroup, found.events) == (None, None)
    told = {"id": "p1", "observations": [{"subgroup": 63, "events": 2}], "actions": ["low"]}
    assert same(found, named.report(told | {"rewards": [0.5]}))


def test_a_subgroup_follows_from_its_column(read):
    by_age = Subgroups(names=("young", "old"), column="age", cuts=(50,))
    own = observer(subgroups=by_age)
    assert [one.subgroup for one in read(ONE, own)] == ["old", "young"]
    assert read(CLAIMED.format("old", ""), own)[0].subgroup == "old"
    (wrong,) = read(CLAIMED.format("young", ""), own)
    assert "subgroup must be that of the column age of the first observation" in str(wrong)
