"""The sentences about a candidate that a signer reads."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rareswitch.campaigns.proof.export.words import (
    FITTED,
    NO_PROOF,
    OPTIMISTIC,
    Treatment,
    candidate_lines,
    change_of,
    deciding_trigger,
    one_line,
)

TRIGGERS = [
    {"quantity": "growth", "value": 2.25, "threshold": 3.0, "reached": False},
    {"quantity": "episode", "value": 641, "threshold": 640, "reached": True},
]
GAIN = {"value": 0.438, "low": 0.278, "high": 0.644, "episodes": 29}
EVIDENCE = {
    "episodes": 640,
    "triggers": TRIGGERS,
    "disagreement": 0.66,
    "gain": GAIN | {"verdict": "gain 0.438 [0.278, 0.644]"},
    "warnings": ["few\nepisodes", FITTED],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def lines(evidence=EVIDENCE, *, planned=True, **changes):
    told = evidence | changes if changes else evidence
    return candidate_lines(7, version=3, proposer="schedule", planned=planned, evidence=told)


def test_every_part_of_the_evidence_is_a_sentence():
    assert lines() == [
        "candidate 7 for version 3: fitted on 640 episodes, proposed by schedule",
        "trigger: growth 2.25 of 3, not reached",
        "trigger: episode 641 of 640, reached",
        "one reached trigger is enough",
        "differs from the policy in force in 66% of logged states",
        f"expected gain: 0.438 per episode ({NO_PROOF})",
        "warning: few episodes",
    ]
    assert lines(planned=False)[0].endswith("proposed by schedule, unplanned")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("the log says nothing about the candidate", "cannot be estimated from this log"),
        ("the log says nothing about 6% of what it does", "cannot be estimated from this log"),
        ("cannot tell: the candidate takes actions that are too rare in the log",
         "cannot be estimated from this log"),
        ("no difference: the candidate is the policy in force",
         "none, the candidate is the policy in force"),
        ("", "cannot be estimated from this log"),
        (None, "not recorded"),
    ],
)  # fmt: skip
def test_an_estimate_is_printed_only_where_the_verdict_stands_behind_it(verdict, said):
    found = lines(gain=GAIN | {"verdict": verdict})
    assert f"expected gain: {said}" in found
    assert not [line for line in found if "0.438" in line or "optimistic" in line]


def test_an_estimate_is_called_optimistic_and_has_no_interval():
    verdict = "cannot tell: gain 0.102 [-0.0117, 0.219]"
    gain = {"value": 0.102, "low": -0.0117, "high": 0.219, "verdict": verdict}
    assert f"expected gain: 0.102 per episode ({NO_PROOF})" in lines(gain=gain)
    assert "0.219" not in "".join(lines(gain=gain))


def test_a_loss_is_a_positive_number():
    loss = {"value": -0.2, "low": -0.3, "high": -0.1, "verdict": "loss 0.2 [0.1, 0.3]"}
    assert f"expected loss: 0.2 per episode ({OPTIMISTIC})" in lines(gain=loss)


def test_no_estimate_and_no_comparison_are_told():
    found = lines(gain=None, disagreement=None)
    assert "expected gain: cannot be estimated from this log" in found
    assert "difference from the policy in force: no logged state tells enough" in found


def test_the_largest_changes_of_action_are_told():
    changes = [
        {"stage": 1, "from": "low", "to": "high", "share": 0.41, "states": 120},
        {"stage": 2, "from": 0, "to": 2, "share": 0.5, "states": 90},
        *({"stage": 1, "from": "high", "to": k, "share": 0.01 * k} for k in range(1, 6)),
        {"stage": None, "from": [], "share": "much"},
    ]
    found = lines(changes=changes)
    assert found[5:7] == [
        "most frequent action in 50% of states of stage 3: action 0 → action 2",
        "most frequent action in 41% of states of stage 2: low → high",
    ]
    assert found[10] == "and 2 smaller changes"
    assert found[9] == "most frequent action in 3% of states of stage 2: high → action 3"


SEVERE = {"subgroup": "severe", "episodes": 212, "share": 0.64, "from": "usual care",
          "to": "high dose", "share_of_change": 0.9}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "severe (212 episodes): treated otherwise in 64% of cases, mostly usual care → high "
         "dose"),
        ({"share_of_change": 0.4, "to": 2}, "severe (212 episodes): treated otherwise in 64% of "
         "cases, most often usual care → action 2"),
        ({"from": None, "to": None, "share_of_change": None},
         "severe (212 episodes): treated otherwise in 64% of cases"),
        ({"share": 0.0, "episodes": 1, "share_of_change": None},
         "severe (1 episode): treated as before"),
        ({"share": "much", "subgroup": "two\nlines", "episodes": None},
         "two lines (not recorded episodes): not recorded"),
    ],
)  # fmt: skip
def test_each_subgroup_is_a_sentence(changes, said):
    found = lines(subgroups=[SEVERE | changes, 7])
    assert found[5:7] == [said, "subgroup: not recorded"]


@given(
    st.dictionaries(
        st.sampled_from(["subgroup", "episodes", "share", "from", "to", "share_of_change"]), JSON
    )
)
def test_no_subgroup_is_too_strange_to_print(changes):
    found = lines(subgroups=[SEVERE | changes])
    assert len(found) == len(lines()) + 1
    assert all(line == one_line(line) for line in found)


HIGH = {"subgroup": "severe", "action": "high dose", "now": 0.33, "then": 0.63, "episodes": 21,
        "told": 21, "mean_return": 0.642, "events": {"serious": 3, "nausea": 0}}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "severe, high dose: 33% → 63%; 21 episodes, mean return 0.642, serious in 3, nausea "
         "in 0"),
        ({"told": 19, "mean_return": None}, "severe, high dose: 33% → 63%; 21 episodes, serious "
         "in 3, nausea in 0 of 19 that tell"),
        ({"episodes": 0, "told": 0, "mean_return": None}, "severe, high dose: 33% → 63%; 0 "
         "episodes"),
        ({"events": {}, "action": 2, "episodes": 1}, "severe, action 2: 33% → 63%; 1 episode, mean "
         "return 0.642"),
    ],
)  # fmt: skip
def test_each_treatment_is_a_line_and_replaces_the_changes_of_the_first_stage(changes, said):
    stages = [{"stage": k, "from": "low", "to": "high", "share": 0.4} for k in (0, 1)]
    found = lines(treatments=[HIGH | changes], changes=stages)
    assert found[5:8] == [
        "most frequent action in 40% of states of stage 2: low → high",
        "probability of each treatment, now → under the candidate, and its episodes so far:",
        said,
    ]


PROTOCOL = {
    "task": {"horizon": 2},
    "recipe": {"control": {"plays": "usual care", "share": 0.2}, "floor": 0.1},
    "schedule": {"kind": "waiting", "first": 80, "apart": 60, "schedule": {"kind": "total-growth"}},
    "analysis": {"subgroups": {"names": ["mild", "severe"]}},
}


def test_the_protocol_adds_the_wait_the_shares_the_visits_and_the_order_of_subgroups():
    found = lines(treatments=[HIGH], subgroups=[SEVERE, SEVERE | {"subgroup": "mild"}])
    told = candidate_lines(7, version=3, proposer="schedule", planned=True, protocol=PROTOCOL,
                           evidence=EVIDENCE | {"treatments": [HIGH], "subgroups": [
                               SEVERE, SEVERE | {"subgroup": "mild"}]})  # fmt: skip
    assert [line for line in told if line not in found] == [
        "one reached trigger is enough, after the wait",
        "wait: 80 reported episodes before the first new version, 60 more before each later "
        "version",
        "probability of each treatment, now → under the candidate, including control (20%) and "
        "floor (10%, in equal parts), and its episodes so far (by first treatment; harm of later "
        "treatments is not separated):",
    ]
    places = [told.index(next(one for one in told if one.startswith(f"{name} (212"))) for name in (
        "mild", "severe")]  # fmt: skip
    assert places == sorted(places)
    early = candidate_lines(7, version=3, proposer="ana", planned=False, protocol=PROTOCOL,
                            evidence=EVIDENCE, tabled=True)  # fmt: skip
    assert not [line for line in early if "wait" in line]


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ((1 / 3, 1 / 3, 1 / 3), (0.233, 0.733, 0.034), "from equal allocation to mostly b"),
        ((1 / 3, 1 / 3, 1 / 3), (0.4, 0.3, 0.3), "from equal allocation to most often a"),
        ((0.6, 0.2, 0.2), (0.93, 0.035, 0.035), "a 60% → 93%"),
        ((0.6, 0.2, 0.2), (0.2, 0.2, 0.6), "from mostly a to mostly c"),
        ((0.4, 0.3, 0.3), (1 / 3, 1 / 3, 1 / 3), "from most often a to equal allocation"),
        ((0.4, 0.3, 0.3), (0.4, 0.3, 0.3), "probabilities as before"),
    ],
)
def test_a_change_agrees_with_the_probabilities(now, then, said):
    rows = [Treatment("", name, *pair, 9, None, 9, {})
            for name, *pair in zip("abc", now, then, strict=True)]  # fmt: skip
    assert change_of(rows) == said


def test_treatments_without_a_subgroup_are_told_apart():
    known, unknown = HIGH | {"events": {}}, HIGH | {"events": {}, "subgroup": None}
    assert "no subgroup, high dose: 33%" in "\n".join(lines(treatments=[known, unknown]))
    assert "\nhigh dose: 33%" in "\n".join(lines(treatments=[unknown]))
    assert "and 4 more treatments: `candidates --json` has all" in lines(treatments=[known] * 40)


@given(st.dictionaries(st.sampled_from([*HIGH]), JSON))
def test_no_treatment_is_too_strange_to_print(changes):
    found = lines(treatments=[HIGH | changes])
    assert all(line == one_line(line) for line in found)


@pytest.mark.parametrize("name", [*EVIDENCE, "subgroups", "treatments"])
@example(value=[""])
@given(value=JSON)
def test_no_evidence_is_too_strange_to_print(name, value):
    for found in (lines(**{name: value}), lines({name: value}), lines(value)):
        assert all(line == one_line(line) for line in found)


@given(st.dictionaries(st.sampled_from(["quantity", "value", "threshold", "reached"]), JSON))
def test_no_trigger_is_too_strange_to_print(trigger):
    found = lines(triggers=[trigger, TRIGGERS[1]])
    assert "trigger: episode 641 of 640, reached" in found
    assert deciding_trigger({"triggers": [trigger]}) in (None, trigger)


def test_an_empty_text_is_not_recorded():
    found = lines(warnings=["", "\u200b"], triggers=[TRIGGERS[0] | {"quantity": " "}])
    assert found[-2:] == ["warning: not recorded"] * 2
    assert "trigger: not recorded 2.25 of 3, not reached" in found


@pytest.mark.parametrize("number", [10**400, float("nan"), float("inf"), True, "3"])
def test_only_numbers_are_numbers(number):
    found = lines(disagreement=number, triggers=[TRIGGERS[0] | {"value": number}])
    assert "trigger: not recorded" in found
    assert "difference from the policy in force: not recorded" in found


def test_the_deciding_trigger_is_one_that_was_reached():
    assert deciding_trigger(EVIDENCE) == TRIGGERS[1]
    assert deciding_trigger({"triggers": TRIGGERS[:1]}) == TRIGGERS[0]
    assert deciding_trigger({"triggers": []}) is deciding_trigger(None) is None
