"""Observations become the rows of the protocol's feature map, strictly and without a trace."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from observers import DENSE, GRID, NAMES, SCALED, SECRET, TABLE, observer, same, unit
from rareswitch import campaigns
from rareswitch.campaigns import (
    AnalysisTerms,
    Campaign,
    FeatureTerms,
    Protocol,
    RefusedError,
    Report,
    Subgroups,
    open_store,
    verify,
)
from rareswitch.campaigns.observations import (
    Choice,
    Observer,
    packed_features,
)
from rareswitch.campaigns.observations.observer import FIELDS
from rareswitch.campaigns.reading import is_observed
from rareswitch.core.policy import Policy
from rareswitch.evaluation import conditional_propensities
from rareswitch.features import (
    ActionBlocks,
    Cosines,
    Custom,
    Dense,
    Flatten,
    Masked,
    ObservationTable,
    OneHot,
    Polynomial,
    Scaling,
    UnitRows,
    WithStage,
)
from rareswitch.features.spaces import Bits, Digits, Numbers, Several
from rareswitch.trajectories import Trajectory


def told(**changes):
    values = {
        "id": "p1",
        "observations": [{"age": 63, "severity": 2}],
        "actions": ["low"],
        "rewards": [0.5],
    } | changes
    return {name: value for name, value in values.items() if value is not None}


MET = OneHot.of(ObservationTable.met(Numbers(shape=(2,)), [[1, 1], [0.5, 2]], hashed=3), 3)


@pytest.mark.parametrize(
    ("features", "columns", "observation", "state"),
    [
        (DENSE, ("age", "severity"), {"severity": 2, "age": 63.5}, [63.5, 2.0]),
        (
            unit(SCALED.then(Cosines.fourier(inputs=2, order=2))),
            ("x", "y"),
            {"x": 20, "y": 1},
            [20, 1],
        ),
        (Dense(GRID), ("x", "y"), {"x": 1, "y": 3}, [1, 3]),
        (TABLE, ("severity",), {"severity": 5}, 5),
        (TABLE, ("severity",), {"severity": np.int64(5)}, 5),
        (MET, ("x", "y"), {"x": 0.5, "y": 2}, [0.5, 2.0]),
        (MET, ("x", "y"), {"x": 9, "y": 9}, [9.0, 9.0]),
        (GRID, ("x", "y"), {"x": 1, "y": 3}, [1, 3]),
        (OneHot(states=4, actions=3, space=Bits(size=2)), ("a", "b"), {"a": 1, "b": 0}, [1, 0]),
        (
            OneHot(
                states=12,
                actions=3,
                space=Several(parts=(Digits(counts=(2,)), Digits(counts=(2, 3), starts=(0, 0)))),
            ),
            ("x", "y", "z"),
            {"x": 1, "y": 0, "z": 2},
            (1, [0, 2]),
        ),
        (
            UnitRows(
                ActionBlocks(
                    Flatten(
                        space=Several(
                            parts=(Numbers(shape=()), Digits(counts=(3,)), Numbers(shape=(2, 2))),
                            keys=("age", "severity", "picture"),
                        )
                    ),
                    actions=3,
                ),
                bound=9.0,
            ),
            ("age", "severity", "p", "q", "r", "s"),
            {"age": 63, "severity": 2, "p": 1, "q": 2, "r": 3, "s": 4},
            {"age": 63.0, "severity": 2, "picture": [[1, 2], [3, 4]]},
        ),
    ],
)
def test_rows_are_those_of_the_map(features, columns, observation, state):
    rows = observer(features, columns).rows(observation)
    assert rows.dtype == features(state).dtype
    assert np.array_equal(rows, features(state))


def test_the_stage_is_told_to_the_map_also_after_the_last_step():
    staged = WithStage(TABLE, horizon=3)
    found = observer(staged, ("severity",), horizon=3)
    for stage in range(4):
        assert np.array_equal(found.rows({"severity": 2}, stage), staged(2, stage))
    with pytest.raises(ValueError, match="stage must be from 0 to 3; got 4"):
        found.rows({"severity": 2}, 4)


@pytest.mark.parametrize(
    ("features", "columns", "observation", "why"),
    [
        (DENSE, None, {"age": 63}, "columns age, severity; severity is missing"),
        (DENSE, None, {"age": 63, "severity": 1, SECRET: 1}, "than age, severity; got 1 unknown"),
        (DENSE, None, {"age": SECRET, "severity": 1}, "age must be a finite number$"),
        (DENSE, None, {"age": "63", "severity": 1}, "age must be a finite number$"),
        (DENSE, None, {"age": True, "severity": 1}, "age must be a finite number$"),
        (DENSE, None, {"age": None, "severity": 1}, "age must be a finite number$"),
        (DENSE, None, {"age": float("nan"), "severity": 1}, "age must be a finite number$"),
        (DENSE, None, {"age": 1, "severity": float("inf")}, "severity must be a finite number$"),
        (DENSE, None, {"age": 10**400, "severity": 1}, "age must be a finite number$"),
        (DENSE, None, [63, 2], "an observation must be an object with the columns age, severity"),
        (TABLE, ("s",), {"s": 6}, "s must be a whole number from 1 to 5$"),
        (TABLE, ("s",), {"s": 0}, "s must be a whole number from 1 to 5$"),
        (TABLE, ("s",), {"s": 10**400}, "s must be a whole number from 1 to 5$"),
        (TABLE, ("s",), {"s": 3.0}, "s must be a whole number from 1 to 5$"),
        (TABLE, ("s",), {"s": True}, "s must be a whole number from 1 to 5$"),
        (GRID, ("x", "y"), {"x": 1, "y": 0}, "y must be a whole number from 1 to 3$"),
    ],
)
def test_an_observation_is_refused_without_repeating_it(features, columns, observation, why):
    found = observer(features, columns or ("age", "severity"))
    with pytest.raises((TypeError, ValueError), match=why) as refused:
        found.rows(observation)
    assert SECRET not in str(refused.value)
    with pytest.raises((TypeError, ValueError), match=r"observations\[0\]: .*" + why) as refused:
        found.report(told(observations=[observation]))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("age", [3.0, -1e200, 1e308])
@pytest.mark.parametrize(
    "basis",
    [
        Polynomial(inputs=1, degree=1, constant=False),
        Polynomial(inputs=1, degree=3),
        Scaling(origin=np.zeros(1), unit=np.full(1, 1e-9)),
    ],
)
def test_features_that_are_too_long_are_refused(basis, age):
    found = observer(ActionBlocks(basis, actions=3), ("age",), feature_norm=2.0)
    with pytest.raises(ValueError, match=r"no longer than .task. feature_norm = 2; those of this"):
        found.rows({"age": age})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"features": FeatureTerms(name="x", digest="ab" * 32)}, "this protocol has no columns"),
        ({"features": None}, "this protocol has no columns"),
        (
            {"features": FeatureTerms(name="x", digest="ab" * 32, columns=("a", "b"))},
            "data must be the feature map of the protocol, abab",
        ),
        ({"data": b"nothing"}, "data must be the feature map of the protocol"),
        ({"actions": ("low", "high")}, "the number of .task. actions must be 3.*; got 2"),
        ({"task": rs.Task(dim=4, horizon=1)}, "dim must be 18, as in the feature map; got 4"),
        ({"task": rs.Task(dim=18, horizon=1, one_hot=True)}, "one_hot must be False.*; got True"),
        (
            {"task": rs.Task(dim=18, horizon=1, blocks=2)},
            "blocks must be 1 or 3, as in the feature map; got 2",
        ),
        (
            {"task": rs.Task(dim=18, horizon=1, feature_norm=0.5)},
            "feature_norm must be at least 1, the longest row of the feature map; got 0.5",
        ),
    ],
)
def test_a_map_that_does_not_suit_the_protocol_is_refused(changes, why):
    made = observer()
    parts = {name: getattr(made, name) for name in ("features", "data", "actions", "task")}
    assert Observer(**parts).map == DENSE
    assert Observer(**parts | {"task": replace(made.task, blocks=3)}).map == DENSE
    with pytest.raises(ValueError, match=why):
        Observer(**parts | changes)


def test_bytes_of_something_else_are_refused():
    data = Policy(weights=np.zeros((1, 2))).to_bytes()
    terms = FeatureTerms(name="x", digest=Policy.from_bytes(data).digest, columns=("age",))
    with pytest.raises(ValueError, match="data must hold a features; got a policy"):
        Observer(features=terms, data=data, actions=NAMES, task=rs.Task(dim=2, horizon=1))


@pytest.mark.parametrize(
    ("features", "columns", "why"),
    [
        (Masked(TABLE, np.ones((5, 3), bool)), ("s",), "must have no mask"),
        (WithStage(TABLE, horizon=2), ("s",), "horizon must be 2, as in the feature map; got 1"),
        (DENSE, ("age",), "one for each number of an observation, more; got 1"),
        (DENSE, ("a", "b", "c"), "one for each number of an observation, 2; got 3"),
        (
            OneHot(
                states=4,
                actions=3,
                space=Several(parts=(Digits(counts=(2,)),) * 2, keys=("a", "b")),
            ),
            ("b", "a"),
            "in the order of the feature map's keys; got 'b' for 'a'",
        ),
    ],
)
def test_a_map_without_columns_of_its_own_is_refused(features, columns, why):
    with pytest.raises(ValueError, match=why):
        observer(features, columns)


def test_a_map_with_very_many_numbers_is_refused_at_once():
    space = Several(parts=(Numbers(shape=(10**7,)),) * 2)
    terms, data = packed_features(ActionBlocks(Flatten(space=space), actions=1), ("age",))
    with pytest.raises(ValueError, match="one for each number of an observation, more; got 1"):
        Observer(
            features=terms,
            data=data,
            actions=("a",),
            task=rs.Task(dim=2 * 10**7, horizon=1),
        )


@pytest.mark.parametrize(
    "features",
    [
        Custom(lambda state: np.eye(2), actions=2, dim=2, name="dose"),
        Masked(TABLE, lambda state: np.ones(3, bool)),
        SimpleNamespace(dim=2, actions=2, one_hot=False, norm=1.0, name="own", digest="ab" * 32),
        None,
    ],
    ids=["function", "mask", "own class", "none"],
)
def test_code_of_ones_own_has_no_bytes(features):
    with pytest.raises(TypeError, match=r"features must be a map of rareswitch.features without"):
        packed_features(features, ["age"])


def test_the_digest_is_that_of_the_bytes():
    terms, data = packed_features(DENSE, ["age", "severity"])
    assert terms == FeatureTerms(name=DENSE.name, digest=DENSE.digest, columns=("age", "severity"))
    assert data == DENSE.to_bytes()


def test_actions_have_names_and_places():
    found = observer()
    assert [found.place(name) for name in (*NAMES, 0, 1, np.int64(2))] == [0, 1, 2, 0, 1, 2]
    assert [found.name(place) for place in range(3)] == list(NAMES)
    for wrong in (SECRET, 3, -1, True, 1.0, None, [0]):
        with pytest.raises(ValueError, match=r"one of low, middle, high, or a place from 0 to 2$"):
            found.place(wrong)
    with pytest.raises(ValueError, match="place must be from 0 to 2; got 3"):
        found.name(3)


def test_a_report_of_one_step_is_the_one_made_by_hand():
    rows = DENSE([63, 2])
    extra = {"version": 2, "member": 5, "site": "3", "began": "a", "ended": "b"}
    extra |= {"participant": SECRET, "propensities": [0.25]}
    by_hand = Report(
        id="p1",
        episode=rs.Episode(features=rows[[0]], rewards=[0.5], next_features=[]),
        first_features=rows,
        actions=[0],
        recommended=[2],
        **extra,
    )
    found = observer().report(told(recommended=["high"], **extra))
    assert same(found, by_hand)
    assert found.participant == SECRET
    assert same(observer().report(told(actions=[0], recommended=[2], **extra)), by_hand)
    assert same(observer().report(json.loads(json.dumps(told(recommended=[2], **extra)))), by_hand)


@pytest.mark.parametrize("cut_off", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("features", [TABLE, Dense(TABLE), WithStage(TABLE, horizon=3)])
def test_a_report_of_several_steps_is_the_one_made_by_hand(features, steps, cut_off):
    states, places, rewards = (
        [2, 5, 1, 3][: steps + cut_off],
        [2, 0, 1][:steps],
        [0, 1, 0.5][:steps],
    )
    rows = [features(state, h) for h, state in enumerate(states)]
    by_hand = Report(
        id="p1",
        episode=rs.Episode(
            features=np.array([rows[h][place] for h, place in enumerate(places)]),
            rewards=rewards,
            next_features=rows[1:],
        ),
        first_features=rows[0],
        actions=places,
    )
    values = {
        "id": "p1",
        "observations": [{"severity": state} for state in states],
        "actions": [NAMES[place] for place in places],
        "rewards": rewards,
    }
    assert same(observer(features, ("severity",), horizon=3).report(values), by_hand)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({SECRET: 1}, f"may be {', '.join(FIELDS)}, and no others; got 1 unknown"),
        ({"features": [[1.0]]}, "no others; got 1 unknown"),
        ({"reward": [1.0]}, "no others; got 1 unknown: did you mean rewards?"),
        ({"id": None}, "a report with observations needs id"),
        ({"observations": None}, "needs observations"),
        ({"actions": None}, "needs actions"),
        ({"rewards": None}, "needs rewards"),
        ({"id": SECRET}, "id must be 1 to 200 letters"),
        ({"observations": {"age": 1}}, "observations must be a list; got dict"),
        ({"actions": "low"}, "actions must be a list; got str"),
        ({"actions": []}, "the number of actions must be 1; got 0"),
        ({"actions": ["low", "low"]}, "the number of actions must be 1; got 2"),
        ({"observations": []}, "observations must be 1, one for each action, or 2 if .* got 0"),
        ({"actions": [SECRET]}, r"actions\[0\]: action must be one of low, middle, high"),
        ({"actions": [3]}, r"actions\[0\]: action must be one of low, middle, high"),
        ({"recommended": [SECRET]}, r"recommended\[0\]: action must be one of low"),
        ({"recommended": "low"}, "recommended must be a list; got str"),
        ({"recommended": ["low", "low"]}, "recommended must be one for each of 1 steps"),
        ({"rewards": [SECRET]}, "rewards must be numbers"),
        ({"rewards": [True]}, "rewards must be numbers"),
        ({"rewards": [1.5]}, r"rewards must lie in \[0, 1\]"),
        ({"rewards": [0.5, 0.5]}, "rewards must have shape"),
        ({"propensities": [0.0]}, "propensities must be above 0 and at most 1"),
        ({"version": 0}, "version must be from 1"),
        ({"site": ["3"]}, "site must be a text"),
        (
            {"participant": SECRET + "\0"},
            "participant must be a text of one line",
        ),
    ],
)
def test_a_report_is_refused_without_repeating_it(changes, why):
    observer().report(told())
    with pytest.raises((TypeError, ValueError), match=why) as refused:
        observer().report(told(**changes))
    assert SECRET not in str(refused.value)


def test_a_report_is_an_object():
    with pytest.raises(TypeError, match="a report must be an object; got str"):
        observer().report(SECRET)


def test_a_report_with_features_is_not_one_with_observations():
    assert is_observed(told())
    assert not is_observed({"id": "p1", "features": [[1.0]], "rewards": [0.5]})
    assert not is_observed(["observations"])


def mixture(features, *, horizon, members=5, seed=0):
    rng = np.random.default_rng(seed)
    return Policy(
        weights=rng.normal(size=(members, horizon, features.dim)),
        allocation=7,
        one_hot=features.one_hot,
    )


@pytest.mark.parametrize(
    ("features", "columns", "seen"),
    [
        (
            DENSE,
            ("age", "severity"),
            [{"age": age, "severity": grade} for age, grade in ((63, 2), (20, 0), (98, 4))],
        ),
        (TABLE, ("severity",), [{"severity": grade} for grade in (1, 5, 3)]),
        (
            WithStage(TABLE, horizon=3),
            ("severity",),
            [{"severity": grade} for grade in (1, 5, 3)],
        ),
    ],
)
def test_the_probability_of_an_action_is_that_of_the_members_left(features, columns, seen):
    found = observer(features, columns, horizon=3)
    for seed in range(20):
        policy = mixture(features, horizon=3, members=3 + seed % 4, seed=seed)
        member = policy.draw("p1")
        chosen = [found.choose(member, h, one) for h, one in enumerate(seen)]
        assert all(choice == Choice(found.name(choice.place), choice.place) for choice in chosen)
        pairs = [(found.rows(one, h), chosen[h].place) for h, one in enumerate(seen)]
        assert [choice.place for choice in chosen] == [
            member.act(h, rows) for h, (rows, _) in enumerate(pairs)
        ]
        steps = list(zip(seen, (choice.action for choice in chosen), strict=True))
        told = [found.probability(policy, steps[:h], *steps[h]) for h in range(3)]
        by_hand = [
            policy.likelihood(pairs[: h + 1]) / policy.likelihood(pairs[:h]) for h in range(3)
        ]
        assert told == pytest.approx(by_hand)
        played = Trajectory(
            observations=[0, 1, 2, 3],
            actions=[place for _, place in pairs],
            rewards=[0.0] * 3,
            terminated=True,
        )
        known = conditional_propensities(policy, played, lambda state, pairs=pairs: pairs[state][0])
        assert told == known.tolist()
        for h in range(3):
            shares = [found.probability(policy, steps[:h], seen[h], name) for name in NAMES]
            assert sum(shares) == pytest.approx(1.0)


def test_earlier_actions_that_no_member_takes_leave_no_probability():
    found = observer(TABLE, ("severity",), horizon=3)
    policy = Policy(weights=np.tile([1.0, 0.0, 0.0], (2, 3, 5)), allocation=1, one_hot=True)
    seen = {"severity": 1}
    assert found.probability(policy, [], seen, "high") == 0.0
    with pytest.raises(ValueError, match="none of its 2 members takes those up to stage 0"):
        found.probability(policy, [(seen, "high")], seen, "low")


BY_SEVERITY = Subgroups(names=["mild", "medium", "severe"], column="severity", cuts=[1, 3.5])


@given(st.floats(0.0, 4.0), st.sampled_from([None, "mild", "medium", "severe", "Ada"]))
def test_a_subgroup_is_computed_from_its_column_and_must_not_differ(severity, subgroup):
    due = "mild" if severity < 1 else "medium" if severity < 3.5 else "severe"
    own = observer(subgroups=BY_SEVERITY)
    values = told(observations=[{"age": 63, "severity": severity}], subgroup=subgroup)
    if subgroup in (None, due):
        assert own.report(values).subgroup == due
    else:
        with pytest.raises(ValueError, match="subgroup must be that of the column severity") as no:
            own.report(values)
        assert "Ada" not in str(no.value)


def test_the_first_observation_decides_and_other_subgroups_are_told():
    steps = observer(TABLE, ("severity",), horizon=2, subgroups=BY_SEVERITY)
    values = told(
        observations=[{"severity": 1}, {"severity": 5}], actions=["low"] * 2, rewards=[0, 1]
    )
    assert steps.report(values).subgroup == "medium"
    asked = observer(subgroups=Subgroups(names=["a", "b"]))
    assert asked.report(told()).subgroup is None
    assert asked.report(told(subgroup="b", events={"x": 1})).plain["events"] == {"x": 1}


def test_a_campaign_computes_subgroups_of_raw_reports_alone(tmp_path):
    terms, data = packed_features(DENSE, ("age", "severity"))
    protocol = Protocol(
        name="clinic",
        task=rs.Task(dim=DENSE.dim, horizon=1, episodes=30),
        schedule=rs.UniformGrid(batches=3),
        budget=2,
        actions=NAMES,
        features=terms,
        analysis=AnalysisTerms(subgroups=BY_SEVERITY),
    )
    with open_store(tmp_path / "s.db", create=True) as store:
        campaign = Campaign.create(store, protocol, by="ana", features=data)
        campaign.record(told())
        rows = observer().report(told(id="p2"))
        campaign.record(rows)
        campaign.record(replace(rows, id="p3", subgroup="severe"))
        with pytest.raises(RefusedError, match="that of the column severity"):
            campaign.record(told(id="p4", subgroup="severe"))
        found = [one["report"].get("subgroup") for one in campaigns.episodes(campaign)]
        assert found == ["medium", None, "severe"]
        (refusal,) = campaigns.refusals(campaign)
        assert json.loads(refusal["excerpt"])["subgroup"] == "severe"
        assert verify(campaign).verdict == "proven"
