"""Protocols: read strictly, with one text and one digest for what is agreed."""

import hashlib
import json
from dataclasses import replace

import pytest
import tomli_w

import rareswitch as rs
from campaign_builders import protocol
from rareswitch.campaigns import (
    Approval,
    DataQuality,
    FeatureName,
    Futility,
    Harm,
    Intake,
    Protocol,
)
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task

TEXT = """
name = "doors"

[task]
dim = 3
horizon = 2
episodes = 60

[schedule]
kind = "uniform-grid"
batches = 6

[budget]
deployments = 5
"""
SCHEDULES = [
    rs.EveryEpisode(),
    rs.UniformGrid(batches=4),
    rs.DeterminantGrowth(eta=1.7),
    rs.SpreadBudget(switches=5),
    rs.rules.AdaptiveBudget(switches=5),
    rs.rules.Capped(rs.DeterminantGrowth(eta=1.7), switches=3),
]
FULL = protocol(
    task=rs.Task(dim=3, horizon=2, episodes=60, end_reward=0.5),
    recipe=Recipe(exploration=rs.Ensemble(members=3), ridge=0.1, ties="lowest", seed=(1, 2)),
    actions=("left", "middle", "right"),
    features=FeatureName(name="doors", digest="ab" * 32),
    approval=Approval(by="second-person", retry_after=7),
    intake=Intake(late="record", grace=0, assigned=True),
    stopping=(Harm(below=0.1), Futility(target=0.5, after=9), DataQuality(most=0.2)),
    simulation="cd" * 32,
)


def test_a_short_text_leaves_much_to_the_defaults():
    assert Protocol.from_toml(TEXT) == protocol(name="doors")


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@pytest.mark.parametrize(
    "exploration", [rs.Bonus(0.5), rs.Ensemble(members=3), rs.Perturbation(0.5, draws=3)], ids=repr
)
def test_what_is_written_is_read_again(schedule, exploration):
    made = protocol(schedule=schedule, recipe=Recipe(exploration=exploration))
    for again in (
        Protocol.from_plain(made.plain),
        Protocol.from_plain(json.loads(json.dumps(made.plain))),
        Protocol.from_toml(tomli_w.dumps(made.plain)),
    ):
        assert again == made
        assert again.digest == made.digest


def test_all_of_it_is_written_and_read_again():
    assert Protocol.from_toml(tomli_w.dumps(FULL.plain)) == FULL


def test_the_digest_is_that_of_the_sorted_text():
    text = json.dumps(FULL.plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert FULL.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"budget": 4},
        {"task": Task(dim=3, horizon=2, episodes=60, end_reward=0.25)},
        {"actions": ("a", "b", "c")},
        {"approval": Approval()},
        {"intake": Intake(late="record", grace=1, assigned=True)},
        {"stopping": (Harm(below=0.2),)},
        {"simulation": ""},
        {"features": None},
        {"schedule": rs.EveryEpisode()},
        {"task": Task(dim=3, horizon=2, episodes=60, feature_norm=2.0)},
        {"recipe": Recipe(seed=3)},
    ],
    ids=str,
)
def test_every_part_counts_in_the_digest(change):
    assert replace(FULL, **change).digest != FULL.digest


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('name = "doors"', "", "a protocol needs name"),
        ('name = "doors"', 'name = "../doors"', "name must be"),
        ('name = "doors"', "name = 5", "name must be a text"),
        ('name = "doors"', 'name = "doors"\ncolour = 1', "a protocol has no key 'colour'"),
        ('name = "doors"', 'name = "doors"\nformat = 2', "format must be 1; got 2"),
        ("dim = 3", "", r"\[task\] needs dim"),
        ("dim = 3", "dim = 0", r"\[task\] dim must be"),
        ("dim = 3", 'dim = "3"', r"\[task\] dim must be"),
        ("dim = 3", "dim = true", r"\[task\] dim must be"),
        ("dim = 3", "dim = 3\nwidth = 1", r"\[task\] has no key 'width'"),
        ("dim = 3", 'dim = 3\nactions = "left"', r"\[task\] actions must be a list"),
        ("dim = 3", "dim = 3\nend_reward = 2.0", r"\[task\] end_reward must be"),
        ("[task]", "[tasks]", "a protocol has no key 'tasks'"),
        ('kind = "uniform-grid"', 'kind = "never"', r"\[schedule\] "),
        ('kind = "uniform-grid"', "", r"\[schedule\] "),
        ("batches = 6", "batches = 0", r"\[schedule\] batches must be"),
        ("batches = 6", "batch = 6", r"\[schedule\] "),
        ("deployments = 5", "deployments = -1", r"\[budget\] deployments must be"),
        ("deployments = 5", "", r"\[budget\] needs deployments"),
        ("deployments = 5", "switches = 5", r"\[budget\] has no key 'switches'"),
        ("[budget]", '[approval]\nby = "me"\n[budget]', r"\[approval\] by must be"),
        ("[budget]", "[intake]\ngrace = -1\n[budget]", r"\[intake\] grace must be"),
        ("[budget]", "[intake]\nassigned = 1\n[budget]", r"\[intake\] assigned must be"),
        ("[budget]", "[recipe]\nridge = 0.0\n[budget]", r"\[recipe\] ridge must be"),
        ("[budget]", "[recipe.exploration]\nkind = 'x'\n[budget]", r"\[recipe\] "),
        ("[budget]", "[[stopping]]\nrule = 'x'\n[budget]", r"\[stopping, number 1\] rule must be"),
        ("[budget]", "[[stopping]]\nrule = 'harm'\n[budget]", "harm needs below"),
        (
            "[budget]",
            "[[stopping]]\nrule = 'harm'\nbelow = 1.0\nabove = 1\n[budget]",
            "harm has no key 'above'",
        ),
        ("[budget]", "[stopping]\nrule = 'harm'\n[budget]", "stopping must be a list of tables"),
        ("[budget]", "[features]\ndigest = 'x'\n[budget]", r"\[features\] "),
        ("[budget]", "[simulation]\ndigest = 'x'\n[budget]", "simulation must be a SHA-256"),
        ("[budget]", "[budget", "a protocol must be TOML"),
        ("[schedule]", "schedule = 5\n[x]", "schedule"),
    ],
)
def test_an_error_names_the_table_and_the_key(old, new, why):
    assert TEXT.count(old) == 1
    with pytest.raises((TypeError, ValueError), match=why):
        Protocol.from_toml(TEXT.replace(old, new))


def test_an_amendment_makes_the_schedule_for_the_new_number_of_episodes():
    amended = protocol().amended(
        {"episodes": 90, "schedule": {"kind": "uniform-grid", "batches": 6}}
    )
    assert amended.task.episodes == 90
    assert amended.schedule == rs.UniformGrid(batches=6)


def test_a_learner_is_made_for_the_task():
    made = FULL.learner()
    assert made.task == FULL.task == rs.Task(dim=3, horizon=2, episodes=60, end_reward=0.5)
    assert made.recipe == FULL.recipe
    assert FULL.no_data.task == FULL.task
