"""The examples run from beginning to end, learn something, and print what they say."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PNG = b"\x89PNG\r\n"


@pytest.fixture
def printed(warm_script, tmp_path):
    """Return what runs an example in its quick mode, and returns what it prints."""
    picture = tmp_path / "picture.png"

    def printed(name: str, *more: str) -> str:
        command = [warm_script, str(EXAMPLES / name), "--quick", "--picture", str(picture), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert picture.read_bytes().startswith(PNG)
        return done.stdout

    return printed


def number(text: str, label: str) -> float:
    """Return the first number after a label that begins a line."""
    found = re.search(rf"^{re.escape(label)}\s+(-?[\d.]+)", text, re.MULTILINE)
    assert found, f"no {label!r} in\n{text}"
    return float(found[1])


def test_frozen_lake_learns_with_few_switches_and_knows_its_optimum(printed):
    text = printed("frozen_lake.py", "--switches", "9")
    versions = re.findall(r"^ +(\d+) +(\d+) – +(\d+) ", text, re.MULTILINE)
    assert [int(version) for version, *_ in versions] == list(range(1, 11))
    assert [int(first) for _, first, _ in versions[1:]] == [
        int(last) + 1 for *_, last in versions[:-1]
    ]
    assert number(text, "random") == 0.008
    assert number(text, "optimum") == 0.724
    assert number(text, "recommended, exactly") > 0.5
    assert number(text, "learning, a mixture") > 0.1
    assert re.search(r"^learning, a mixture .* 9$", text, re.MULTILINE)
    assert re.search(r"^learning, every episode .* 199$", text, re.MULTILINE)


def test_the_recommender_learns_more_than_always_the_same_item(printed):
    text = printed("recommender.py")
    random, same = number(text, "random"), number(text, "always the same item")
    greedy, ahead = number(text, "most likely to be clicked"), number(text, "search ahead")
    assert random < same < greedy < ahead <= 10.0
    assert number(text, "recommended, fresh") > same


def test_classic_control_says_what_it_picked_and_balances_a_pole(printed):
    text = printed("classic_control.py")
    assert "features  2 actions ×" in text
    assert number(text, "recommended, fresh") > number(text, "before any data")


def test_sepsis_is_treated_exactly_as_well_as_it_says(printed):
    text = printed("sepsis.py")
    assert number(text, "any admissible treatment") == 0.355
    assert number(text, "clinicians") == 0.360
    assert number(text, "best single treatment") == 0.413
    assert number(text, "optimum") == 0.439
    assert number(text, "next states, d = 100") > 0.355


@pytest.fixture(scope="module")
def world():
    spec = importlib.util.spec_from_file_location(
        "recommender_world", EXAMPLES / "recommender_world.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    gymnasium.registry.pop("Recommender-v0")


def test_the_recommender_is_an_environment_of_gymnasium(world):
    check_env(world.Recommender(), skip_render_check=True)
    made = gymnasium.make("Recommender-v0")
    made.reset(seed=0)
    assert [made.step(0)[3] for _ in range(10)] == [False] * 9 + [True]


def test_items_that_last_draw_near_who_likes_them_and_items_that_tire_drive_away(world):
    env, rng = world.Recommender(catalogue=5), np.random.default_rng(0)
    interests = world.directions(rng.standard_normal((50, world.TOPICS)))
    before = interests @ env.items.T
    after = np.vecdot(env.moved(interests), env.items)
    nearer = np.abs(after) >= np.abs(before)
    assert nearer[:, env.lasts].all()
    assert not nearer[:, ~env.lasts].any()
    assert (np.sign(after) == np.sign(before))[:, env.lasts].all()


def test_clicks_come_as_often_as_the_chances_say(world):
    env = world.Recommender()
    clicks, chances = [], []
    for seed in range(2000):
        interests, _ = env.reset(seed=seed)
        chances.append(env.chances(interests)[3])
        clicks.append(env.step(3)[1])
    spread = np.sqrt(np.sum(np.multiply(chances, np.subtract(1.0, chances))))
    assert abs(np.sum(clicks) - np.sum(chances)) < 4.0 * spread


def test_the_script_of_the_picture_has_help(warm_script):
    command = [warm_script, EXAMPLES / "few_switches.py", "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("usage: few_switches.py [-h] folder picture")


def test_the_picture_of_the_readme_is_drawn_and_its_figures_are_published(tmp_path, warm_script):
    spec, picture = tmp_path / "few_switches.toml", tmp_path / "few-switches.png"
    script, table = ROOT / "benchmarks" / "published.py", tmp_path / "published.csv"
    text = (EXAMPLES / "few_switches.toml").read_text(encoding="utf-8")
    spec.write_text(text.replace(", 125, 500]", "]").replace(", 124]", "]"), encoding="utf-8")
    small = ["--rounds", "1", "--episodes", "60", "--workers", "1"]
    for command in (
        [sys.executable, "-m", "rareswitch", "run", spec, *small, "--out", tmp_path / "out"],
        [warm_script, EXAMPLES / "few_switches.py", tmp_path / "out" / "few-switches", picture],
        [warm_script, script, tmp_path / "out", table],
    ):
        subprocess.run(command, check=True, capture_output=True)
    assert picture.read_bytes().startswith(PNG)
    rows = table.read_text(encoding="utf-8").splitlines()
    published = (ROOT / "docs" / "_static" / "published.csv").read_text(encoding="utf-8")
    ours = [row for row in published.splitlines() if row.startswith("few-switches,")]
    left_out = ("mixture-124,", "batch-125,", "batch-500,")
    kept = [row for row in ours if not any(name in row for name in left_out)]
    names = [row.split(",")[:3] for row in rows[1:]]
    assert names == [row.split(",")[:3] for row in kept]
