"""Bad input never enters, whatever it is, and the register says why."""

import json

import numpy as np
import pytest

import rareswitch as rs
from campaign_builders import ROWS, chain, check_chains, create, plain, report
from rareswitch.campaigns import (
    AnalysisTerms,
    NotAllowedError,
    RefusedError,
    Report,
    Subgroups,
    UnreadableError,
    export,
    open_store,
    verify,
)
from rareswitch.campaigns.reading import split_reports
from rareswitch.campaigns.rulebook.names import checked_name, checked_text
from rareswitch.core.task import Task


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def campaign(request, tmp_path_factory):
    """Return one campaign for all that is refused: none of it leaves a trace but a refusal."""
    if request.param == "sqlite":
        url = tmp_path_factory.mktemp("refusals") / "store.db"
    else:
        url = request.getfixturevalue("postgres").create_database()
    with open_store(url, create=True) as store:
        yield create(store, actions=("left", "middle", "right"))


def text(**changes):
    return json.dumps(plain(0, **changes))


def replaced(old, new, **changes):
    """Return a report's text with something in it that JSON can say and a report cannot."""
    whole = text(**changes)
    assert old in whole
    return whole.replace(old, new, 1)


def identified(episode_id):
    return text(id=episode_id)


TWO = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
BAD = {
    "1e400": replaced("1.5", "1e400", rewards=[1.5, 0.0]),
    "-1e400": replaced("1.5", "-1e400", rewards=[1.5, 0.0]),
    "1e400 in features": replaced("7.5", "1e400", features=[[7.5, 0, 0], [0, 1.0, 0]]),
    "1e400 in next features": replaced("7.5", "1e400", next_features=[[[7.5, 0, 0]]]),
    "1e400 in first features": replaced("7.5", "1e400", first_features=[[7.5, 0, 0]], actions=None),
    "1e400 in propensities": replaced("7.5", "1e400", propensities=[7.5, 0.5]),
    "a whole number above 2^63": text(actions=[2**63, 0]),
    "a number as a text": text(rewards=["1", "0"]),
    "one number as a text": text(rewards=[1.0, "0"]),
    "features as texts": text(features=[["1", "0", "0"], ["0", "1", "0"]]),
    "an action as a text": text(actions=["0", "1"]),
    "true as a number": text(rewards=[True, False]),
    "one true": text(rewards=[1.0, True]),
    "true in features": text(features=[[True, 0, 0], [0, 1, 0]]),
    "true as a version": text(version=True),
    "true as a member": text(member=True),
    "null in rewards": text(rewards=[1.0, None]),
    "an object as a number": text(rewards=[{}, 1.0]),
    "a reward above 1": text(rewards=[1.0000001, 0.0]),
    "a reward below 0": text(rewards=[-1e-300, 0.0]),
    "a norm above L": text(features=[[1.0, 0.01, 0.0], [0.0, 1.0, 0.0]], actions=None),
    "a norm above L among next features": text(next_features=[[[1.0, 0.01, 0.0]]], actions=None),
    "a norm above L among first features": text(first_features=[[1.0, 0.01, 0.0]], actions=None),
    "a norm that overflows": text(features=[[1e200, 1e200, 0.0], [0, 1.0, 0]], actions=None),
    "d = 4": text(
        features=np.eye(4)[:2].tolist(),
        next_features=[np.eye(4).tolist()],
        first_features=None,
        actions=None,
    ),
    "d = 2": text(
        features=np.eye(2).tolist(),
        next_features=[np.eye(2).tolist()],
        first_features=None,
        actions=None,
    ),
    "rows of two lengths": text(features=[[1.0, 0.0, 0.0], [0.0, 1.0]]),
    "first features of another d": text(first_features=np.eye(2).tolist(), actions=None),
    "three stages where there are two": text(
        features=np.eye(3).tolist(),
        rewards=[0.0] * 3,
        next_features=[ROWS.tolist()] * 2,
        actions=None,
    ),
    "no stage": text(features=[], rewards=[], next_features=[], actions=None),
    "a reward too few": text(rewards=[1.0]),
    "a reward too many": text(rewards=[1.0, 1.0, 1.0]),
    "next features of no stage": text(next_features=[]),
    "next features of too many stages": text(next_features=[ROWS.tolist()] * 3),
    "a state without actions": text(next_features=[[]], actions=None),
    "a first state without actions": text(first_features=[], actions=None),
    "more actions than the protocol names": text(next_features=[[*TWO, *TWO]], actions=None),
    "an action that was not offered": text(actions=[3, 0]),
    "a negative action": text(actions=[-1, 0]),
    "half an action": text(actions=[0.5, 1.0]),
    "an action too few": text(actions=[0]),
    "an action that is not what was chosen": text(
        features=TWO, actions=[1, 1], next_features=[ROWS.tolist()]
    ),
    "a recommendation that was not offered": text(recommended=[0, 3]),
    "a propensity of 0": text(propensities=[0.0, 1.0]),
    "a propensity above 1": text(propensities=[0.5, 1.01]),
    "one-hot positions": text(features=[0, 1], next_features=[[0, 1]], first_features=None),
    "lists in lists in lists": text(features=[[[1.0]]]),
    "a number in place of a list": text(rewards=1.0),
    "an object in place of a list": text(rewards={"0": 1.0}),
    "version 0": text(version=0),
    "version 1.5": text(version=1.5),
    "version 1.0": text(version=1.0),
    "a version as a text": text(version="1"),
    "version 2^70": text(version=2**70),
    "a member that is another": text(member=-1),
    "an unknown field": text(reward=[1.0, 1.0]),
    "no id": text(id=None),
    "no rewards": text(rewards=None),
    "no features": text(features=None),
    "an id that is a number": text(id=5),
    "an empty id": identified(""),
    "a path": identified("a/b"),
    "a path upwards": identified(".."),
    "a path upwards within": identified("a..b"),
    "a backslash": identified("a\\b"),
    "a hidden file": identified(".a"),
    "an option": identified("-a"),
    "a space": identified("a b"),
    "an end of line": identified("a\n"),
    "NUL in an id": identified("a\0b"),
    "an id that is too long": identified("a" * 201),
    "letters of another alphabet": identified("pа1"),
    "a surrogate in an id": '{"id": "\\ud800", "features": [], "rewards": []}',
    "a surrogate in a claim": replaced("SITE", "\\udfff", site="SITE"),
    "NUL in a claim": text(site="a\0"),
    "an escape sequence in a claim": text(began="\x1b[31m"),
    "an empty claim": text(site=" "),
    "a claim that is too long": text(ended="x" * 1001),
    "a claim that is a number": text(site=3),
    "NUL in a participant": text(participant="a\0"),
}


UNREADABLE = {
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "nothing": "",
    "half a report": text()[:-10],
    "two reports": text() + text(),
    "no UTF-8": b'{"id": "\xff"}',
    "a byte order mark": b"\xef\xbb\xbf" + text().encode(),
    "UTF-16": text().encode("utf-16"),
    "nan": replaced("1.5", "NaN", rewards=[1.5, 0.0]),
    "infinity": replaced("1.5", "Infinity", rewards=[1.5, 0.0]),
    "minus infinity": replaced("1.5", "-Infinity", rewards=[1.5, 0.0]),
    "nan in features": replaced("7.5", "NaN", features=[[7.5, 0, 0], [0, 1.0, 0]]),
    "a very long whole number": replaced("1.5", "9" * 5000, rewards=[1.5, 0.0]),
    "a surrogate as a field": '{"\\ud800": 1}',
    "a key twice": replaced('"rewards"', '"rewards": [1.0, 1.0], "rewards"'),
    "deep nesting": text()[:-1] + ', "site": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep nesting of features": replaced('"features": ', '"features": ' + "[" * 5000),
    "CSV": "id,reward\np0,1\n",
    "lines of another file": '{"name": "x"}',
    "half of a report on several lines": json.dumps(plain(0), indent=1).splitlines()[1],
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_and_registered(campaign, name):
    before = chain(campaign, "refusals")
    with pytest.raises(RefusedError) as caught:
        campaign.record(BAD[name])
    after = chain(campaign, "refusals")
    number = caught.value.fields["refusal"]
    assert after[: len(before)] == before
    assert len(after) == max(number, len(before))  # the register may have an equal refusal
    assert caught.value.plain["code"] == "refused"
    assert str(caught.value).endswith(f"(refusal {number})")
    register = after[number - 1]
    assert register.reason
    for words in (register.reason, register.excerpt, register.episode_id or ""):
        assert words.isascii()
        assert words.isprintable()
        assert len(words) <= 20_000
    assert chain(campaign, "episodes") == []
    assert len(campaign.entries) == 2
    with pytest.raises(RefusedError) as caught:
        campaign.record(BAD[name])
    assert caught.value.fields == {"refusal": number}
    assert chain(campaign, "refusals") == after


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_report_is_not_registered(campaign, name):
    before = chain(campaign, "refusals")
    with pytest.raises(UnreadableError) as caught:
        campaign.record(UNREADABLE[name])
    assert caught.value.plain["code"] == "unreadable"
    with pytest.raises(UnreadableError):
        campaign.correct(UNREADABLE[name], by="ana", reason="?")
    (answer,) = campaign.record_all([UNREADABLE[name]])
    assert isinstance(answer, UnreadableError)
    assert chain(campaign, "refusals") == before


@pytest.mark.parametrize(
    "data",
    [
        b"id,reward\np0,1\np1,0\n",
        text().encode() + b"\nno JSON\n",
        b'{"name": "x"}\n{"name": "y"}\n',
        b'[{"id": "p0"}, 5]',
        text().encode() + b"\n" + b'{"name": "x"}',
    ],
)
def test_a_wrong_file_is_refused_before_any_of_its_lines(data):
    with pytest.raises(UnreadableError):
        split_reports(data)


def test_a_file_of_reports_is_split():
    one, two = plain(0), plain(1)
    lines = f"{json.dumps(one)}\n\n{json.dumps(two)}\n".encode()
    assert split_reports(lines) == [one, two]
    assert split_reports(json.dumps([one, two], indent=2).encode()) == [one, two]
    assert split_reports(json.dumps(one, indent=2).encode()) == [one]


def test_what_is_too_long_is_refused(campaign, monkeypatch):
    monkeypatch.setattr("rareswitch.campaigns.reading.MOST_BYTES", 500)
    with pytest.raises(UnreadableError, match="at most 500 bytes"):
        campaign.record(text(site="x" * 500))
    assert chain(campaign, "episodes") == []


NAMED = {
    "a participant and a bad reward": text(participant="Ada Lovelace", rewards=[2.0, 0.0]),
    "a participant and a bad version": text(participant="Ada Lovelace", version=9),
    "an unknown key": text(patient="Ada Lovelace"),
    "a misspelt key": text(Participant="Ada Lovelace"),
    "a participant with a space": text(**{"participant ": "Ada Lovelace"}),
    "an escaped key": text(patient=1).replace(
        '"patient": 1', '"part\\u0131cipant": "Ada Lovelace"'
    ),
    "a name as a key": text(**{"Ada Lovelace": 1}),
    "a name in a table": text(site={"name": "Ada Lovelace"}),
    "a name as an id": text(id="Ada Lovelace"),
    "a name as an id without a space": text(id="Ada_Lovelace/63"),
    "a name as a site that is refused": text(site="Ada Lovelace\n"),
    "a name among features": text(features=[["Ada Lovelace", 0.0, 0.0], [0, 1.0, 0]]),
    "a name among rewards": text(rewards=["Ada Lovelace", 0.0]),
    "a name as a version": text(version="Ada Lovelace"),
    "a name as an action": text(actions=["Ada Lovelace", 0]),
    "a name in a list": text(participant=["Ada Lovelace"]),
    "a name with NUL": text(participant="Ada Lovelace\0"),
    "half a report": '{"id": "p0", "participant": "Ada Love',
    "a name as a time": text(began="Ada Lovelace", rewards=[2.0, 0.0]),
}


def test_no_name_of_a_refused_report_is_in_the_store_or_its_export(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store)
        campaign.record(report(1))
        answers = list(campaign.record_all(NAMED.values()))
        for said in NAMED.values():
            with pytest.raises((RefusedError, UnreadableError, NotAllowedError)):
                campaign.correct(said, by="ana", reason="?")
            with pytest.raises((RefusedError, UnreadableError)):
                campaign.record(said)
        assert all(isinstance(one, RefusedError | UnreadableError) for one in answers)
        export(campaign, tmp_path / "out", by="zoe", reason="a look")
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(kept) > 8
        for path in kept:
            data = path.read_bytes()
            assert b"Lovelace" not in data, path
            assert b"Ada L" not in data, path


@pytest.mark.parametrize("rewards", [[float("nan")], [float("inf")], [10**400], [None, {}, ()]])
def test_tables_of_python_are_refused_too(campaign, rewards):
    with pytest.raises(RefusedError):
        campaign.record(plain(0, rewards=rewards))
    with pytest.raises(UnreadableError):
        campaign.record({"name": "x"})


@pytest.mark.parametrize("depth", [5, 500, 900])
def test_deep_nesting_holds_up_nobody(campaign, depth):
    nested = replaced('"features": ', '"features": ' + "[" * depth).replace(
        ', "rewards"', "]" * depth + ', "rewards"', 1
    )
    with pytest.raises((RefusedError, UnreadableError)):
        campaign.record(nested)


def test_python_values_are_refused_too(campaign):
    count = len(chain(campaign, "refusals"))
    episode = report(0).episode
    for told in (
        {"actions": [9, 9]},
        {"colour": "red"},
        {"version": "1"},
        {"site": "\0"},
        {"first_features": np.empty((0, 3))},
    ):
        with pytest.raises(RefusedError, match="refusal"):
            campaign.record("p0", episode, **told)
    for episode_id in ("../p0", 5, None, "a\0"):
        with pytest.raises(RefusedError, match="id must be"):
            campaign.record(episode_id, episode)
    with pytest.raises(RefusedError, match="must be an Episode"):
        campaign.record("p0", {"rewards": [1.0]})
    assert len(chain(campaign, "refusals")) == count + 9  # two ids are refused as the same
    assert chain(campaign, "episodes") == []
    check_chains(campaign)


@pytest.mark.parametrize("episode_id", ["", "..", "a/b", "a\0", "é", "x" * 201])
def test_nothing_is_assigned_to_such_a_name(campaign, episode_id):
    with pytest.raises(ValueError, match="episode_id must be"):
        campaign.assign(episode_id)


def test_good_names():
    for name in ("a", "site-3:0042", "a.b", "x@y+z=1_2", "A" * 200):
        assert checked_name("id", name) == name


def test_characters_that_nobody_sees_are_refused():
    for character in [
        *map(chr, range(32)),
        *"\x7f\u200b\u00ad\u2060\u202e\u2066\u2028\ufeff\ue000",
    ]:
        with pytest.raises(ValueError, match="invisible characters"):
            checked_text("site", f"a{character}b")
    assert checked_text("site", "a b") == "a b"


@pytest.mark.parametrize(
    "change",
    [
        {"first_features": [*TWO, [1.0, 0.01, 0.0]], "actions": None},
        {"first_features": [*TWO, *TWO], "actions": None},
        {"next_features": [[*TWO, *TWO]], "actions": None},
        {"next_features": [[*TWO, [1.0, 0.01, 0.0]]], "actions": None},
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_that_is_of_another_task_is_refused_among_others(tmp_path, change, place):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, actions=("left", "middle", "right"))
        told = [text(id="p7"), text(id="p8")]
        told.insert(place, text(**change))
        answers = list(campaign.record_all(told))
        assert [isinstance(one, RefusedError) for one in answers].index(True) == place
        assert [row.episode_id for row in chain(campaign, "episodes")] == ["p7", "p8"]


def test_the_good_ones_of_many_are_taken(store):
    campaign = create(store)
    told = [text(), "no JSON", report(1), report(2, version=9), text(id="p3"), report(1)]
    answers = list(campaign.record_all(told))
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == [
        "Recorded",
        "UnreadableError",
        "Recorded",
        "RefusedError",
        "Recorded",
        "Recorded",
    ]
    assert [answers[k].seq for k in (0, 2, 4, 5)] == [1, 2, 3, 2]
    assert [row.number for row in chain(campaign, "refusals")] == [1]
    check_chains(campaign)


def test_a_report_that_is_not_allowed_is_not_in_the_register(store):
    campaign = create(store)
    campaign.record(report(0))
    campaign.stop(by="ana", reason="enough")
    with pytest.raises(
        NotAllowedError, match="only episodes that were assigned before are recorded"
    ):
        campaign.record(report(1))
    assert chain(campaign, "refusals") == []


def test_one_hot_positions_are_checked(store):
    campaign = create(
        store,
        schedule=rs.EveryEpisode(),
        task=Task(dim=4, horizon=1, episodes=9, one_hot=True),
    )
    good = rs.Episode(features=[3], rewards=[1.0], next_features=[])
    assert campaign.record("a", good, first_features=[0, 3], actions=[1]).seq == 1
    bad = rs.Episode(features=[4], rewards=[1.0], next_features=[])
    with pytest.raises(RefusedError):
        campaign.record("b", bad)
    with pytest.raises(RefusedError, match="first_features must be below 4; got 4"):
        campaign.record("c", good, first_features=[3, 4])
    dense = rs.Episode(features=[[0.0, 1.0, 0.0, 0.0]], rewards=[1.0], next_features=[])
    with pytest.raises(RefusedError):
        campaign.record("d", dense)
    assert len(chain(campaign, "episodes")) == 1


def test_what_json_says_is_what_is_stored(store):
    campaign = create(store)
    one = report(0, site="Zürich", began="2026-11-02T09:00Z", recommended=[0, 2])
    place = campaign.record(json.dumps(one.plain))
    assert campaign.record(one)[:5] == place._replace(new=False)[:5]
    row = chain(campaign, "episodes")[0]
    assert bytes(row.body) == one.body
    again = Report.from_body(bytes(row.body), id="p0")
    assert again.episode == one.episode
    assert again.recommended.tolist() == [0, 2]


ANALYSIS = AnalysisTerms(
    events=["serious", "nausea"], subgroups=Subgroups(names=["mild", "severe"])
)
UNDECLARED = [
    ({"subgroup": "worse"}, "subgroup must be one of mild, severe, as the protocol declares"),
    ({"events": {"nausea": 1, "Ada": 2}}, "events must be of the kinds serious, nausea, as the"),
    ({"events": {"nausae": 0}}, "events must be of the kinds serious, nausea, as the"),
]


@pytest.mark.parametrize(("claims", "why"), UNDECLARED)
def test_an_undeclared_claim_is_refused_with_the_declared_names(tmp_path, claims, why):
    with open_store(tmp_path / "s.db", create=True) as store:
        campaign = create(store, analysis=ANALYSIS)
        for told in (report(0, **claims), plain(0, **claims), text(**claims)):
            with pytest.raises(RefusedError, match=why):
                campaign.record(told)
        others = [report(k, subgroup="mild", events={"serious": 1}) for k in (1, 2)]
        answers = list(campaign.record_all([others[0], report(0, **claims), others[1]]))
        assert isinstance(answers[1], RefusedError)
        assert [answers[0].seq, answers[2].seq] == [1, 2]
        with pytest.raises(RefusedError, match=why):
            campaign.correct(report(1, **claims), by="ana", reason="typing error")
        assert len(chain(campaign, "episodes")) == 2
        kept = [row.reason + row.excerpt for row in chain(campaign, "refusals")]
        assert kept
        assert not [one for one in kept if "Ada" in one or "worse" in one]
        assert verify(campaign).verdict == "proven"


def test_claims_are_refused_where_the_protocol_declares_none(campaign):
    for claims in ({"subgroup": "mild"}, {"events": {"nausea": 1}}, {"events": {}}):
        with pytest.raises(RefusedError, match=r"must not be told: \[analysis\] of the protocol"):
            campaign.record(report(0, **claims))
    assert chain(campaign, "episodes") == []


def test_a_correction_may_change_subgroup_and_events(tmp_path):
    with open_store(tmp_path / "s.db", create=True) as store:
        campaign = create(store, analysis=ANALYSIS)
        first = report(0, subgroup="mild", events={"nausea": 1})
        assert campaign.record(first).new
        assert not campaign.record(first).new
        for claims in ({"subgroup": "severe", "events": {}}, {"subgroup": "severe"}, {}):
            fixed = campaign.correct(report(0, **claims), by="ana", reason="typing error")
            assert fixed.new
        told = [json.loads(row.claims) for row in chain(campaign, "episodes")]
        assert told == [
            {"subgroup": "mild", "events": {"nausea": 1}},
            {"subgroup": "severe", "events": {}},
            {"subgroup": "severe"},
            {},
        ]
        check_chains(campaign)
        assert verify(campaign).verdict == "proven"
