"""Rules that look at the candidate, each beside its twin: pairs and claims."""

import numpy as np
import pytest

from experiments.miniature import experiment, handmade
from rareswitch.experiments import worth
from rareswitch.experiments.load import paper_specs, parse_spec
from rareswitch.rules import Worthwhile

SPREAD = 'kind = "spread-budget", switches = [5, 10]'
PLAIN = f"""
[[arms]]
name = "spread-{{switches}}"
schedule = {{ {SPREAD} }}
"""
LOOKS = f"""
[[arms]]
name = "worth-{{switches}}"
schedule = {{ kind = "worthwhile", schedule = {{ {SPREAD} }} }}
"""
ROUNDS = 8
WIDE = np.where(np.arange(ROUNDS) % 2, 1.6, 0.4)[:, None]


def at(regret, made, arms=PLAIN + LOOKS):
    """Return runs with these regrets and deployments after the first, arm by arm."""
    spec = experiment(arms=arms, rounds=ROUNDS, episodes=24, defaults="")
    return handmade(spec, regret, deployments=[1 + count for count in made])


def test_each_arm_is_paired_with_the_rule_inside_it():
    pairs = worth.find_pairs(at([2.0, 4.0, 1.0, 8.0], [5, 10, 3, 9]))
    assert [(p.plain, p.looks, p.name, p.limit) for p in pairs] == [
        (0, 2, "spread-5", 5), (1, 3, "spread-10", 10),
    ]  # fmt: skip
    assert [p.ratio[0] for p in pairs] == [0.5, 2.0]
    assert [p.made for p in pairs] == [(5.0, 3.0), (10.0, 9.0)]


def test_an_arm_without_its_twin_is_named():
    with pytest.raises(ValueError, match="arm 'worth-5': no other arm has its rule"):
        worth.find_pairs(at([1.0, 1.0], [1, 1], arms=LOOKS))
    with pytest.raises(ValueError, match="needs an arm with schedule kind worthwhile"):
        worth.find_pairs(at([1.0, 1.0], [1, 1], arms=PLAIN))


@pytest.mark.parametrize(
    ("regret", "verdict"), [(1.04, "holds"), (1.06, "does not hold"), (WIDE, "undecided")]
)
def test_similar_regret(regret, verdict):
    claim = worth.similar_regret(at([1.0, 1.0, 0.9, regret], [5, 10, 5, 10]))
    assert claim.verdict == verdict
    assert "spread-5 0.900 [0.900, 0.900], spread-10" in claim.evidence


@pytest.mark.parametrize(("made", "verdict"), [(7, "holds"), (8, "does not hold")])
def test_saves_deployments(made, verdict):
    claim = worth.saves_deployments(at([1.0] * 4, [5, 10, 4, made]))
    assert claim.verdict == verdict
    assert f"spread-5 4.0 of 5.0, spread-10 {made}.0 of 10.0" in claim.evidence


@pytest.mark.parametrize(("made", "verdict"), [(10, "holds"), (11, "does not hold")])
def test_never_above_the_budget(made, verdict):
    assert worth.never_above_the_budget(at([1.0] * 4, [5, 10, 5, made])).verdict == verdict


def test_the_experiment_has_every_world_at_both_budgets_with_equal_settings():
    spec = parse_spec(paper_specs()["worth"], source="worth")
    looking = [arm for arm in spec.arms if isinstance(arm.rule, Worthwhile)]
    assert len(spec.arms) == 2 * len(looking) == 28
    assert {arm.world.kind for arm in looking} == {
        "river-swim", "combination-lock", "deep-sea", "frozen-lake", "hard-to-learn", "tabular",
        "lower-bound-family",
    }  # fmt: skip
    assert {arm.rule.schedule.switches for arm in looking} == {5, 10}
    assert {(arm.rule.change, arm.rule.price) for arm in looking} == {(0.03, 1.0)}
    assert len({arm.exploration["kind"] for arm in spec.arms}) == 1
