"""Bad input never enters, whatever it is, and the register says why."""

import hashlib
import json

import numpy as np
import pytest

import rareswitch as rs
from campaign_builders import ROWS, chain, check_chains, create, plain, report
from rareswitch.campaigns import ConflictError, NotAllowedError, RefusedError, Report, open_store
from rareswitch.campaigns.record.names import checked_name, checked_text
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
    "nan": replaced("1.5", "NaN", rewards=[1.5, 0.0]),
    "infinity": replaced("1.5", "Infinity", rewards=[1.5, 0.0]),
    "minus infinity": replaced("1.5", "-Infinity", rewards=[1.5, 0.0]),
    "nan in features": replaced("7.5", "NaN", features=[[7.5, 0, 0], [0, 1.0, 0]]),
    "1e400": replaced("1.5", "1e400", rewards=[1.5, 0.0]),
    "-1e400": replaced("1.5", "-1e400", rewards=[1.5, 0.0]),
    "1e400 in features": replaced("7.5", "1e400", features=[[7.5, 0, 0], [0, 1.0, 0]]),
    "1e400 in next features": replaced("7.5", "1e400", next_features=[[[7.5, 0, 0]]]),
    "1e400 in first features": replaced("7.5", "1e400", first_features=[[7.5, 0, 0]], actions=None),
    "1e400 in propensities": replaced("7.5", "1e400", propensities=[7.5, 0.5]),
    "a very long whole number": replaced("1.5", "9" * 5000, rewards=[1.5, 0.0]),
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
    "NUL in a claim": text(site="a\0"),
    "a surrogate in a claim": replaced("SITE", "\\udfff", site="SITE"),
    "an escape sequence in a claim": text(began="\x1b[31m"),
    "an empty claim": text(site=" "),
    "a claim that is too long": text(ended="x" * 1001),
    "a claim that is a number": text(site=3),
    "NUL in a participant": text(participant="a\0"),
    "a surrogate as a field": '{"\\ud800": 1}',
    "a key twice": replaced('"rewards"', '"rewards": [1.0, 1.0], "rewards"'),
    "deep nesting": text()[:-1] + ', "site": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep nesting of features": replaced('"features": ', '"features": ' + "[" * 5000),
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "nothing": "",
    "half a report": text()[:-10],
    "two reports": text() + text(),
    "no UTF-8": b'{"id": "\xff"}',
    "a byte order mark": b"\xef\xbb\xbf" + text().encode(),
    "UTF-16": text().encode("utf-16"),
}


def digest_of_text(said):
    said = said if isinstance(said, str) else said.decode(errors="replace")
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()


def digest_of_what_was_read(said):
    try:
        read = Report.from_json(said).plain
    except (TypeError, ValueError):
        return None
    return digest_of_text(json.dumps(read, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_and_registered(campaign, name):
    before = chain(campaign, "refusals")
    with pytest.raises(RefusedError) as caught:
        campaign.record_json(BAD[name])
    after = chain(campaign, "refusals")
    assert after[:-1] == before
    assert str(caught.value).endswith(f"(refusal {len(after)})")
    register = after[-1]
    assert register.digest in (digest_of_text(BAD[name]), digest_of_what_was_read(BAD[name]))
    assert register.reason
    for words in (register.reason, register.excerpt, register.episode_id or ""):
        assert words.isascii()
        assert words.isprintable()
        assert len(words) <= 20_000
    assert chain(campaign, "episodes") == []
    assert len(campaign.entries) == 2


def test_what_is_too_long_is_refused(campaign, monkeypatch):
    monkeypatch.setattr("rareswitch.campaigns.report.MOST_BYTES", 500)
    with pytest.raises(RefusedError, match="at most 500 bytes"):
        campaign.record_json(text(site="x" * 500))
    assert chain(campaign, "episodes") == []


@pytest.mark.parametrize(
    "said",
    [
        text(participant="Ada Lovelace", rewards=[2.0, 0.0]),
        text(participant="Ada Lovelace", version=9),
        text(participant='"Ada" \\ Lovelace', colour="red"),
        '{"participant"\n :  "Ada Lovelace", "id"',
        '{"participant": "Ada Love',
        text(participant="Ada Lovelace\0"),
        text(participant=["Ada Lovelace"]),
    ],
)
def test_who_it_was_is_not_in_the_register(campaign, said):
    with pytest.raises(RefusedError):
        campaign.record_json(said)
    row = str(chain(campaign, "refusals")[-1])
    assert "Ada" not in row
    assert "Love" not in row


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
    assert len(chain(campaign, "refusals")) == count + 10
    assert chain(campaign, "episodes") == []
    check_chains(campaign)


@pytest.mark.parametrize("episode_id", ["", "..", "a/b", "a\0", "é", "x" * 201])
def test_nothing_is_assigned_to_such_a_name(campaign, episode_id):
    with pytest.raises(ValueError, match="episode_id must be"):
        campaign.assign(episode_id)


def test_good_names():
    for name in ("a", "site-3:0042", "a.b", "x@y+z=1_2", "A" * 200):
        assert checked_name("id", name) == name


def test_control_characters_are_all_below_the_space():
    for character in map(chr, range(33)):
        if character in "\n\t ":
            assert checked_text("site", f"a{character}b") == f"a{character}b"
        else:
            with pytest.raises(ValueError, match="no control characters"):
                checked_text("site", f"a{character}b")


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
        answers = list(campaign.take_all(told))
        assert [isinstance(one, RefusedError) for one in answers].index(True) == place
        assert [row.episode_id for row in chain(campaign, "episodes")] == ["p7", "p8"]


def test_the_good_ones_of_many_are_taken(store):
    campaign = create(store)
    told = [text(), "no JSON", report(1), report(2, version=9), text(id="p3"), report(1)]
    answers = list(campaign.take_all(told))
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["Recorded", "RefusedError", "Recorded", "RefusedError", "Recorded", "Recorded"]
    assert [answers[k].seq for k in (0, 2, 4, 5)] == [1, 2, 3, 2]
    assert [row.number for row in chain(campaign, "refusals")] == [1, 2]
    check_chains(campaign)


def test_conflicts_and_what_is_not_allowed_are_not_in_the_register(store):
    campaign = create(store)
    campaign.take(report(0))
    with pytest.raises(ConflictError):
        campaign.take(report(0, site="other"))
    campaign.stop(actor="ana", reason="enough")
    with pytest.raises(NotAllowedError, match="only episodes that were assigned before are taken"):
        campaign.take(report(1))
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
    place = campaign.record_json(json.dumps(one.plain))
    assert campaign.take(one) == place._replace(new=False)
    row = chain(campaign, "episodes")[0]
    assert bytes(row.body) == one.body
    again = Report.from_body(bytes(row.body), id="p0")
    assert again.episode == one.episode
    assert again.recommended.tolist() == [0, 2]
