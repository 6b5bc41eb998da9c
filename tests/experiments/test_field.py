"""The field: its specs, the best of settings, comparisons, deployments needed, claims and pages."""

import csv
import io
import math
import re
from collections import Counter
from functools import cache

import numpy as np
import pytest

from cli.test_experiments import call
from experiments.miniature import Inline, experiment, handmade, save_title
from rareswitch.compute import local
from rareswitch.experiments import FIELD, PAPER, field, load
from rareswitch.experiments.figures import draw
from rareswitch.experiments.results import load_results
from rareswitch.support import drawing

WORLD = '\n[world]\nkind = "tabular"\nstates = 2\nactions = 2\nhorizon = 2\n'
ARMS = """
[[arms]]
name = "spread-{switches}"
label = "mixture, spread budget"
schedule = { kind = "spread-budget", switches = [4, 9, 19, 49] }

[[arms]]
name = "grid-{batches}"
label = "mixture, uniform grid"
schedule = { kind = "uniform-grid", batches = [5, 10, 20, 50] }

[[arms]]
name = "full"
label = "mixture before every episode"
schedule = { kind = "every-episode" }
exploration = { kind = "ensemble", members = 1 }

[[arms]]
name = "lsvi-ucb-{beta}"
label = "LSVI-UCB"
schedule = { kind = "every-episode" }
beta = [0.1, 1]

[[arms]]
name = "batch-{batches}-{beta}"
label = "LSVI-UCB-Batch"
schedule = { kind = "uniform-grid", batches = [5, 10, 20, 50, 60] }
beta = [0.1, 1]

[[arms]]
name = "random"
label = "uniformly random"
schedule = { kind = "random-policy" }
"""
ROUNDS, EPISODES = 12, 60
TITLES = "mixture, spread budget", "mixture, uniform grid", "LSVI-UCB-Batch"


@cache
def spec(name="field-mini"):
    settings = {"rounds": ROUNDS, "episodes": EPISODES, "figure": "field", "name": name}
    return experiment(arms=ARMS, world=WORLD, defaults="", **settings)


def made(regret, **others):
    """Return results whose arms have these regrets by name, else 1 with a little noise."""
    own = spec(others.pop("name", "field-mini"))
    rng = np.random.default_rng(0)
    noise = 0.01 * rng.standard_normal((len(own.arms), ROUNDS, 1))
    values = [regret.get(arm.name, 1.0) + noise[i] for i, arm in enumerate(own.arms)]
    deployed = [field.find_budget(arm) or EPISODES for arm in own.arms]
    return handmade(own, values, deployments=deployed, **others)


SPREADS = {f"spread-{n}": 0.5 for n in (4, 9, 19, 49)}


def test_every_tuned_method_has_twelve_settings_at_each_budget_in_each_world():
    for name, raw in load.field_specs().items():
        arms = load._expand(dict(raw))["arms"]
        counts = Counter()
        for arm in arms:
            schedule = arm["schedule"]
            counts[arm["label"], schedule.get("batches"), schedule.get("switches")] += 1
        for (method, *_), count in counts.items():
            untuned = method.startswith(("mixture", "one policy", "ablation", "uniformly"))
            expected = 1 if untuned else 2 if method.startswith("PSRL") else 12
            assert count == expected, (name, method)


def test_every_world_of_the_field_can_be_played():
    names = list(load.field_specs())
    assert len(names) == 15
    for own in load.load_own(names, {"rounds": 1}):
        assert {arm.label for arm in own.arms} >= {*TITLES, "LSVI-UCB", field.FULL, field.RANDOM}
        assert {arm.world for arm in own.arms} == {own.arms[0].world}


def test_names_stand_for_experiments_of_the_paper_or_of_the_field():
    assert [own.name for own in load.load_own(["beta", "field-tabular"])] == [
        "beta",
        "field-tabular",
    ]
    with pytest.raises(ValueError, match=r"NAMES must be among field-.*-lake; got field-moon"):
        load.load_own(["field-moon"])
    assert "field-deep-sea" in load.field_specs()  # the example of --help
    with pytest.raises(ValueError, match=r"figure1.* field, field-WORLD; got fig1"):
        load.load_own(["fig1"])
    assert FIELD not in PAPER


def test_the_packages_own_field_is_told_from_a_namesake():
    (own,) = load.load_own(["field-combination-lock"], {"rounds": 2})
    assert load.is_own(own)
    assert not load.is_own(spec("field-combination-lock"))


def test_the_best_setting_in_hindsight_stands_for_a_method():
    results = made({"batch-10-0.1": 3.0, "batch-10-1": 2.0, "batch-20-0.1": 0.7})
    best = {(e.method, e.budget): results.arms[e.arm].name for e in field.find_entries(results)}
    assert best["LSVI-UCB-Batch", 10] == "batch-10-1"
    assert best["LSVI-UCB-Batch", 20] == "batch-20-0.1"
    assert best[field.DEFAULT, 10] == "spread-9"  # nine switches are ten deployments
    entry = field.find_entry(results, "LSVI-UCB-Batch", 10)
    assert (entry.settings, entry.budget) == (2, 10)
    with pytest.raises(ValueError, match="must have arms of EQO with 3 deployments"):
        field.find_entry(results, "EQO", 3)


def test_methods_are_compared_at_equal_budgets_and_others_at_the_usual_one():
    results = made(
        SPREADS | {"batch-5-1": 0.25, "batch-5-0.1": 0.4, "grid-20": 0.5, "spread-9": 0.8}
    )
    found = {(c.entry.method, c.entry.budget): c for c in field.compare({"field-mini": results})}
    assert ("mixture, spread budget", 5) not in found  # the default itself
    assert ("uniformly random", None) not in found
    assert ("LSVI-UCB-Batch", 60) not in found  # the default has no such budget
    assert found["LSVI-UCB-Batch", 5].verdict == "worse"
    assert found["LSVI-UCB-Batch", 5].ratio[0] == pytest.approx(2.0, abs=0.1)
    assert found["mixture, uniform grid", 20].verdict == "equal"
    assert found["LSVI-UCB-Batch", 20].verdict == "better"
    assert found["LSVI-UCB", None].ratio[0] == pytest.approx(0.8, abs=0.02)
    assert all(c.p_holm >= c.p for c in found.values())


def test_p_values_are_adjusted_over_all_worlds_together():
    one, two = made(SPREADS), made(SPREADS, name="field-other")
    alone = field.compare({"field-mini": one})
    both = field.compare({"field-mini": one, "field-other": two})
    assert len(both) == 2 * len(alone)
    lowest = min(c.p for c in alone)
    assert min(c.p_holm for c in alone) == pytest.approx(lowest * len(alone))
    assert min(c.p_holm for c in both) == pytest.approx(lowest * len(both))


def test_the_deployments_needed_are_the_fewest_that_reach_lsvi_ucb():
    regret = {"lsvi-ucb-0.1": 0.6, "batch-20-1": 0.55, "batch-50-1": 0.5, "batch-60-1": 0.9}
    regret |= {"spread-4": 0.7, "spread-9": 0.6 - 1e-3, "spread-19": 0.3, "spread-49": 0.3}
    results = made(regret)
    target = field.best_lsvi_ucb(results)
    assert field.deployments_needed(results, "LSVI-UCB-Batch", target) == (20.0, 20.0, 20.0)
    assert field.deployments_needed(results, "mixture, uniform grid", target)[0] == math.inf
    needed, low, high = field.deployments_needed(results, field.DEFAULT, target)
    # With nine switches the two means are a thousandth apart: some resamples need nineteen.
    assert (low, high) == (10.0, 20.0)
    means = results.final.mean(axis=1)
    names = [arm.name for arm in results.arms]
    reached = means[names.index("spread-9")] <= means[names.index("lsvi-ucb-0.1")]
    assert needed == (10.0 if reached else 20.0)


def test_half_of_random_is_a_target_too():
    results = made({"random": 1.3, "batch-50-0.1": 0.6, "spread-9": 0.6, "spread-4": 0.7})
    target = field.half_of_random(results)
    np.testing.assert_allclose(target, 0.65, atol=0.02)
    assert field.deployments_needed(results, "LSVI-UCB-Batch", target) == (50.0, 50.0, 50.0)
    assert field.deployments_needed(results, field.DEFAULT, target) == (10.0, 10.0, 10.0)


@pytest.mark.parametrize(
    ("claim", "regret", "verdict"),
    [
        (field.few_deployments_suffice, SPREADS, "holds"),
        (field.few_deployments_suffice, SPREADS | {"spread-9": 1.2}, "does not hold"),
        (field.few_deployments_suffice, {}, "undecided"),
        (field.better_at_every_budget, SPREADS, "holds"),
        (field.better_at_every_budget, SPREADS | {"spread-19": 1.0}, "undecided"),
        (field.better_at_every_budget, SPREADS | {"batch-50-1": 0.1}, "does not hold"),
        (field.full_adaptivity_adds_little, SPREADS | {"full": 0.45}, "holds"),
        (field.full_adaptivity_adds_little, SPREADS | {"full": 0.3}, "does not hold"),
        (field.full_adaptivity_adds_little, SPREADS | {"full": 0.407}, "undecided"),
        (field.mixtures_need_fewer, SPREADS | {"lsvi-ucb-1": 0.8, "batch-50-1": 0.5}, "holds"),
        (field.mixtures_need_fewer, {"lsvi-ucb-1": 0.1}, "undecided"),
        (
            field.mixtures_need_fewer,
            SPREADS | {"lsvi-ucb-1": 0.8, "batch-10-1": 0.5},
            "does not hold",
        ),
        (
            field.mixtures_need_fewer,
            SPREADS | {"lsvi-ucb-1": 0.8, "spread-4": 2.0, "batch-50-1": 0.5},
            "holds",
        ),
    ],
)
def test_claims_hold_or_not_by_their_intervals(claim, regret, verdict):
    found = claim({"field-mini": made(regret)})
    assert found.verdict == verdict, found.evidence
    if claim is not field.better_at_every_budget or verdict != "holds":
        assert "field-mini" in found.evidence


def test_a_claim_fails_with_one_world_in_which_it_fails():
    both = {"field-mini": made(SPREADS), "field-other": made({"spread-9": 2.0}, name="field-other")}
    assert field.few_deployments_suffice(both).verdict == "does not hold"


def test_the_table_has_every_method_and_marks_those_that_are_not_worse():
    results = made(SPREADS | {"batch-5-1": 0.25, "grid-20": 0.5})
    text, markdown = field.write_table({"field-mini": results})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(field.find_entries(results))
    batch = next(r for r in rows if r["method"] == "LSVI-UCB-Batch" and r["budget"] == "5")
    assert batch["best"] == "batch-5-1"
    assert float(batch["regret"]) == pytest.approx(0.25, abs=0.01)
    assert float(batch["low"]) < float(batch["regret"]) < float(batch["high"])
    assert float(batch["deployments"]) == 5.0
    lines = dict(line[2:].split(" | ", 1) for line in markdown.splitlines()[2:])
    assert markdown.splitlines()[0] == "| method | B | mini |"
    assert re.search(r"\| LSVI-UCB-Batch \| 5 \| 0\.2\d+\* \|", markdown)
    assert re.search(r"\| mixture, uniform grid \| 20 \| 0\.\d+\? \|", markdown)
    assert re.search(r"\| LSVI-UCB-Batch \| 20 \| [\d.]+ \|", markdown)
    assert "60" not in markdown  # budgets beside the usual ones are in the CSV file only
    assert "**mixture, spread budget**" in lines


def test_figures_have_a_line_for_every_method():
    results = made(SPREADS)
    (axis,) = draw(results).axes
    labels = set(axis.get_legend_handles_labels()[1])
    assert labels == {entry.method for entry in field.find_entries(results)}
    figure = field.draw_field({"field-mini": results, "field-other": results})
    figure.draw_without_rendering()
    assert figure.get_supxlabel() == "Bars: 95% intervals over rounds."
    left, right = figure.axes
    assert left.get_legend_handles_labels()[1] == list(TITLES)
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["mini", "other"]


def test_reproduce_field_writes_its_table_figure_and_report_and_goes_on(tmp_path, monkeypatch):
    small = tmp_path / "field.toml"
    worlds = "".join(
        f'[[worlds]]\nname = "{name}"\ntags = {tags}\ntitle = "{name}"\nepisodes = 60\n'
        f'world = {{ kind = "tabular", states = {states}, actions = 2, horizon = 2 }}\n'
        for name, tags, states in (("one", '["lone"]', 2), ("two", "[]", 3))
    )
    lone = '[[arms]]\nname = "mvp"\nonly = "lone"\nschedule = { kind = "mvp" }\n'
    small.write_text(f'figure = "field"\nrounds = 2\n{worlds}{ARMS}{lone}', encoding="utf-8")
    monkeypatch.setattr(load, "FIELD_SPEC", small)
    executor = Inline()
    monkeypatch.setattr(local, "local_pool", lambda workers: executor)
    monkeypatch.setattr(drawing, "save_figure", save_title)
    monkeypatch.chdir(tmp_path)
    result = call("reproduce", "field", "--out", "out")
    assert result.exit_code == 0, result.output
    assert "few-deployments-suffice" in result.stdout
    out = tmp_path / "out"
    assert {path.name for path in (out / "field").iterdir()} == {
        "figure.svg", "table.csv", "table.md",
    }  # fmt: skip
    page = (out / "report.html").read_text(encoding="utf-8")
    assert 'id="field"' in page
    assert "LSVI-UCB-Batch, B=5 (best of 2: batch-5-" in page
    arms = {
        name: {a.name for a in load_results(out / name).arms} for name in ("field-one", "field-two")
    }
    assert arms["field-one"] - arms["field-two"] == {"mvp"}
    before, count = (out / "field" / "table.csv").read_bytes(), len(executor.submitted)
    again = call("reproduce", "field", "--out", "out")
    assert again.exit_code == 0
    assert len(executor.submitted) == count
    assert (out / "field" / "table.csv").read_bytes() == before
    one = call("reproduce", "field-two", "--out", "out")
    assert one.exit_code == 0
    for path in (out / "field").iterdir():
        path.unlink()
    drawn = call("plot", "out/field")
    assert drawn.exit_code == 0
    assert (out / "field" / "table.csv").read_bytes() == before
    assert "no results of the field beside it" in call("plot", "field").output
