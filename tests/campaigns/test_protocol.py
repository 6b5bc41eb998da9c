"""Protocols: read strictly, with one text and one digest for what is agreed."""

import hashlib
import json
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
import tomli_w

import rareswitch as rs
from campaign_builders import protocol
from oracles import Starts
from rareswitch.campaigns import (
    AnalysisTerms,
    Approval,
    Campaign,
    DataQuality,
    FeatureTerms,
    Futility,
    Harm,
    Intake,
    NotAllowedError,
    Protocol,
    Subgroups,
    open_store,
)
from rareswitch.campaigns.campaign import list_campaigns
from rareswitch.campaigns.protocol import recipe_of, schedule_of
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.support.imports import ForbiddenImportError

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
COLUMNS = f"[features]\nname = 'x'\ndigest = '{'ab' * 32}'\ncolumns = {{}}\n[budget]"
ANALYSIS = "[analysis]\n{}\n[budget]"
SUBGROUPS = ANALYSIS.format("subgroups = {{{}}}")
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
    features=FeatureTerms(name="doors", digest="ab" * 32, columns=("age", "severity")),
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


def test_features_without_columns_are_written_as_they_were():
    """Protocols that were locked before there were columns keep their digests."""
    terms = FeatureTerms(name="doors", digest="ab" * 32)
    assert replace(FULL, features=terms).plain["features"] == {"name": "doors", "digest": "ab" * 32}


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
        {"features": FeatureTerms(name="doors", digest="ab" * 32)},
        {"features": FeatureTerms(name="doors", digest="ab" * 32, columns=("severity", "age"))},
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
        ("[budget]", COLUMNS.format("'age'"), r"\[features\] columns must be a list of names"),
        ("[budget]", COLUMNS.format("[5]"), r"\[features\] columns must be a text"),
        ("[budget]", COLUMNS.format("['']"), r"\[features\] columns must not be empty"),
        ("[budget]", COLUMNS.format("['a ']"), r"\[features\] columns must not begin or end"),
        ("[budget]", COLUMNS.format("['a', 'a']"), "columns must be distinct names; got 'a' twice"),
        ("[budget]", COLUMNS.format("['a', 'id']"), "columns must not be id, step, .*; got 'id'"),
        ("[budget]", COLUMNS.format("['a']"), "actions must be named if .features. has columns"),
        (
            "[budget]",
            "[features]\nname = 'x'\ncolumns = ['a']\n[budget]",
            "digest must be that of the map's bytes where columns are named",
        ),
        ("dim = 3", 'dim = 3\nactions = ["a", "b", "a"]', "distinct names; got 'a' twice"),
        ("dim = 3", 'dim = 3\nactions = ["a", ""]', "actions must not be empty"),
        ("dim = 3", 'dim = 3\nactions = ["a", " b"]', "actions must not begin or end with a"),
        ("dim = 3", "dim = 3\nactions = [1, 2]", "actions must be a text; got 1"),
        ("[budget]", ANALYSIS.format("power = 0.8"), r"\[analysis\] has no key 'power'; it takes"),
        ("[budget]", ANALYSIS.format("confidence = 1.0"), r"\[analysis\] confidence must be"),
        ("[budget]", ANALYSIS.format("confidence = '95%'"), r"\[analysis\] confidence must be"),
        ("[budget]", ANALYSIS.format("missing = 'best'"), r"\[analysis\] missing must be one of"),
        ("[budget]", ANALYSIS.format("events = 'a'"), r"\[analysis\] events must be a list"),
        ("[budget]", ANALYSIS.format("events = [1]"), r"\[analysis\] events must be a text"),
        ("[budget]", ANALYSIS.format("events = ['a', 'a']"), "events must be distinct names"),
        ("[budget]", ANALYSIS.format("events = ['a', '\uff41']"), "events must be distinct names"),
        ("[budget]", ANALYSIS.format("events = ['a:b']"), "events must be names without : and ;"),
        ("[budget]", ANALYSIS.format("subgroups = ['a']"), r"subgroups must be a table; got \['a'"),
        ("[budget]", SUBGROUPS.format("names = []"), "names must have at least one subgroup"),
        ("[budget]", SUBGROUPS.format("column = 'x'"), "subgroups needs names"),
        ("[budget]", SUBGROUPS.format("names = ['a'], cut = [1]"), "subgroups has no key 'cut'"),
        ("[budget]", SUBGROUPS.format("names = ['a', 'b'], cuts = [1]"), "got cuts alone"),
        ("[budget]", SUBGROUPS.format("names = ['a', 'b'], column = 'x'"), "got column alone"),
        ("[budget]", SUBGROUPS.format("names = ['a', 'b'], column = 5"), "column must be a text"),
        ("[budget]", SUBGROUPS.format("names = ['a'], column = 'x', cuts = [1]"), "2; got 1"),
        (
            "[budget]",
            SUBGROUPS.format("names = ['a', 'b', 'c'], column = 'x', cuts = [1, 1]"),
            "cuts must be strictly increasing",
        ),
        (
            "[budget]",
            SUBGROUPS.format("names = ['a', 'b'], column = 'x', cuts = [nan]"),
            "cuts must be a finite number",
        ),
        (
            "[budget]",
            SUBGROUPS.format("names = ['a', 'b'], column = 'x', cuts = [1]"),
            r"\[analysis\] subgroups: column must be one of \[features\] columns \(the",
        ),
        ("[budget]", "[simulation]\ndigest = 'x'\n[budget]", "digest must be a SHA-256"),
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


TRAP = "import pathlib\n\npathlib.Path('ran').touch()\n"
POPEN = {"kind": "subprocess:Popen", "args": ["touch", "ran"]}
HOSTILE = {
    "schedule": ("subprocess", {"schedule": POPEN}),
    "capped": ("subprocess", {"schedule": {"kind": "capped", "switches": 1, "schedule": POPEN}}),
    "own": ("my_trap", {"schedule": {"kind": "my_trap:Rule"}}),
    "exploration": ("subprocess", {"recipe": {"exploration": POPEN}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_protocol_runs_no_code(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_trap.py").write_text(TRAP)
    module, changes = HOSTILE[name]
    plain = protocol().plain | changes
    table = "recipe" if name == "exploration" else "schedule"
    message = rf"\[{table}\] kind '{module}:\w+' names code of the module {module}, which is not"
    readers = [
        lambda: Protocol.from_plain(plain),
        lambda: Protocol.from_toml(tomli_w.dumps(plain), allow=["my"]),
    ]
    if table == "schedule":
        readers.append(lambda: protocol().amended(changes))
    for read in readers:
        with pytest.raises(ForbiddenImportError, match=message):
            read()
    with pytest.raises(ForbiddenImportError):
        schedule_of(plain) if table == "schedule" else recipe_of(plain)
    assert Terms.of(plain).plain == plain
    if module == "subprocess":
        with pytest.raises(ValueError, match="'subprocess:Popen' must be a class with a method"):
            Protocol.from_plain(plain, allow=["subprocess"])
    assert not (tmp_path / "ran").exists()


def test_a_rule_of_your_own_is_read_where_it_is_allowed():
    made = protocol(schedule=Starts((3, 4)))  # an object needs no permission
    again = Protocol.from_toml(made.to_toml(), allow=["oracles"])
    assert again.digest == made.digest
    assert Protocol.from_plain(made.plain, allow=["oracles"]).digest == made.digest


def test_permission_for_one_reading_is_none_for_the_next():
    plain = protocol(schedule=Starts((3, 4))).plain
    assert schedule_of(plain, ["oracles"]).starts == (3, 4)
    with pytest.raises(ForbiddenImportError):
        schedule_of(plain)


def test_an_amendment_keeps_a_rule_that_is_there_and_reads_a_new_one_only_where_it_is_allowed():
    made = protocol(schedule=Starts((3, 4)))
    assert made.amended({"budget": {"deployments": 3}}).schedule is made.schedule
    new = {"schedule": {"kind": "oracles:Starts", "starts": [3, 9]}}
    with pytest.raises(ForbiddenImportError):
        made.amended(new)
    assert made.amended(new, allow=["oracles"]).schedule.starts == (3, 9)


@pytest.mark.parametrize("text", [None, b'name = "doors"', 3])
def test_toml_is_a_text(text):
    with pytest.raises(TypeError, match="text must be the TOML text of a protocol; got "):
        Protocol.from_toml(text)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stopping": (Harm(below=2.1),)}, "harm: below must be at most 2, the largest return"),
        ({"stopping": (Futility(target=2.5, after=9),)}, "futility: target must be at most 2"),
        ({"stopping": (Futility(target=1.0, after=61),)}, "after must be at most 60, the planned"),
        ({"schedule": rs.SpreadBudget(switches=6)}, "budget must be at least 6, the switches"),
        ({"actions": ("left", "left")}, "actions must be distinct names; got 'left' twice"),
    ],
)
def test_terms_that_can_never_be_met_are_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        protocol(**changes)


def test_terms_at_their_ends_are_possible():
    rules = (Harm(below=2.0), Futility(target=2.0, after=60))
    protocol(stopping=rules, schedule=rs.SpreadBudget(switches=5))


def test_a_simulation_must_recommend_the_schedule_of_the_protocol(tmp_path):
    def plan(schedule):
        options = [
            {"name": "a", "schedule": schedule},
            {"name": "b", "schedule": {"kind": "every-episode"}},
        ]
        return json.dumps({"recommended": "a", "options": options}).encode()

    agreed = protocol().plain["schedule"]
    with open_store(tmp_path / "store.db", create=True) as store:
        other = plan(agreed | {"batches": 5})
        made = protocol().with_simulation(other)
        with pytest.raises(NotAllowedError, match="simulation must be of the protocol's schedule"):
            Campaign.create(store, made, by="ana", simulation=other)
        assert list_campaigns(store) == []
        for name, report in (("same", plan(agreed)), ("other", b"<html>a page</html>")):
            made = protocol(name=name).with_simulation(report)
            Campaign.create(store, made, by="ana", simulation=report)
            with pytest.raises(NotAllowedError, match="simulation must be the file with the"):
                Campaign.create(store, made, by="ana", simulation=report + b" ")
            with pytest.raises(NotAllowedError, match="simulation must be the file with the"):
                Campaign.create(store, made, by="ana")


BY_SEVERITY = Subgroups(names=["mild", "severe"], column="severity", cuts=[2])
PLANNED = AnalysisTerms(confidence=0.9, missing="worst", events=["serious"], subgroups=BY_SEVERITY)


@pytest.mark.parametrize(
    "analysis", [AnalysisTerms(), AnalysisTerms(subgroups=Subgroups(names=["a", "b"])), PLANNED]
)
def test_an_analysis_is_part_of_the_protocol(analysis):
    made = replace(FULL, analysis=analysis)
    assert Protocol.from_toml(made.to_toml()) == made
    assert Protocol.from_plain(json.loads(json.dumps(made.plain))) == made
    assert Terms.of(made.plain).analysis == analysis
    assert made.digest != FULL.digest
    assert made.amended({"budget": {"deployments": 7}}).analysis == analysis
    with pytest.raises(ValueError, match=r"an amendment may change .* only; got analysis"):
        made.amended({"analysis": {"confidence": 0.8}})
    fixed = Terms.of(made.plain).fixed
    assert fixed != Terms.of(made.plain | {"analysis": {"confidence": 0.8}}).fixed


def test_a_protocol_without_an_analysis_has_the_default_analysis_and_no_table():
    assert "analysis" not in FULL.plain
    assert FULL.analysis is None
    assert Terms.of(FULL.plain).analysis == AnalysisTerms()


@pytest.mark.parametrize(
    ("value", "name"), [(-1e9, "low"), (0.999, "low"), (1, "mid"), (2.5, "mid"), (3, "high")]
)
def test_a_cut_is_in_the_subgroup_above_it(value, name):
    assert Subgroups(names=["low", "mid", "high"], column="x", cuts=[1, 3]).of(value) == name


def test_the_columns_of_an_analysis_must_be_those_of_observations():
    other = Subgroups(names=["a", "b"], column="weight", cuts=[70])
    why = r"column must be one of \[features\] columns \(age, severity\); got 'weight'"
    with pytest.raises(ValueError, match=why):
        replace(FULL, analysis=AnalysisTerms(subgroups=other))
    with pytest.raises(ValueError, match=r"one of .features. columns"):
        Terms.of(FULL.plain | {"analysis": {"subgroups": other.plain}})
    with pytest.raises(TypeError, match="analysis must be AnalysisTerms"):
        replace(FULL, analysis={})
    with pytest.raises(TypeError, match="subgroups must be Subgroups"):
        AnalysisTerms(subgroups={"names": ["a"]})


@pytest.mark.parametrize("name", ["subgroup", "events"])
def test_a_column_of_claims_is_taken_only_where_there_is_an_analysis(name):
    terms = FeatureTerms(name="doors", digest="ab" * 32, columns=("age", name))
    made = replace(FULL, features=terms)  # as protocols before had it
    assert Protocol.from_toml(made.to_toml()) == made
    with pytest.raises(ValueError, match=f"must not be subgroup or events .*; got '{name}'"):
        replace(made, analysis=AnalysisTerms())


def test_concealment_needs_assignments():
    with pytest.raises(ValueError, match="concealed needs assigned = true"):
        Intake(concealed=True)
    assert "concealed" not in protocol().plain["intake"]


def test_a_rule_that_looks_at_candidates_is_locked_with_the_rule_inside():
    looking = rs.rules.Worthwhile(rs.SpreadBudget(switches=5), change=0.1)
    for schedule in (looking, rs.rules.Capped(looking, switches=3)):
        made = protocol(schedule=schedule)
        assert Protocol.from_toml(made.to_toml()) == made
        assert Protocol.from_plain(made.plain).schedule == schedule
    for schedule in (looking, rs.rules.Worthwhile(looking)):
        with pytest.raises(ValueError, match="budget must be at least 5, the switches"):
            protocol(schedule=schedule, budget=4)


def defaults_of(kind):
    """Return the default of each field of a class, without required fields."""
    found = {}
    for part in fields(kind):
        made = None if part.default_factory is MISSING else part.default_factory()
        if part.default is not MISSING or made is not None:
            found[part.name] = part.default if made is None else made
    return found


def test_the_page_gives_the_default_of_every_key():
    page = Path(__file__).parents[2] / "docs" / "campaigns" / "protocol.md"
    lines = page.read_text(encoding="utf-8").split("| table | key | default |")[1].splitlines()[2:]
    told, table = {}, ""
    for line in lines[: lines.index("")]:
        named, key, default = (cell.strip(" `[]") for cell in line.strip("|").split("|"))
        table = named or table
        told.setdefault(table, {})[key] = default
    kinds = {"task": Task, "recipe": Recipe, "approval": Approval, "intake": Intake,
             "analysis": AnalysisTerms}  # fmt: skip
    known = {name: defaults_of(kind) for name, kind in kinds.items()} | {
        "access": {"public": False}
    }
    known["task"] = {"actions": ()} | known["task"]
    del known["task"]["episodes"]  # a campaign needs it
    known["recipe"]["exploration"] = '{kind = "ensemble", members = 32}'
    assert Recipe().exploration == rs.Ensemble(members=32)
    for name, keys in known.items():
        assert told[name].keys() == keys.keys(), name
        for key, value in keys.items():
            if value in (None, (), {}):
                assert told[name][key].startswith(("none", "any person")), key
            else:
                said = value if key == "exploration" else json.dumps(value)
                assert told[name][key] == said, key
    assert told.keys() == known.keys()
