import json
import signal

import numpy as np
import pytest

import rareswitch as rs
from cli.terminal import call, output_of_all, refused, started
from rareswitch import theory

SMALL = ("--d", 5, "--horizon", 3, "--episodes", 40)
SUMMARY = {
    "episodes",
    "total_regret",
    "average_regret",
    "updates",
    "switches",
    "local_switches",
    "switch_bound",
    "switch_bound_vacuous",
    "policy_digest",
    "violations",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def learned(*options):
    """Return the JSON of a small run."""
    result = call("learn", *SMALL, *options, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_learn_prints_its_figures_and_where_the_result_is(here):
    result = call("learn", *SMALL)
    assert result.exit_code == 0
    words = [line.split()[0] for line in result.stdout.splitlines()]
    for word in ("episodes", "total", "average", "updates", "switches", "switch", "result"):
        assert word in words
    (file,) = here.iterdir()
    assert file.name in result.stdout
    assert file.name.startswith("rareswitch-learn-rareswitch-")


def test_the_json_holds_summary_settings_and_result(here):
    data = learned()
    assert set(data) == SUMMARY | {"eta", "settings", "result"}
    assert data["settings"]["d"] == 5
    assert (here / data["result"]).is_file()


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        (("--eta", 4), rs.DeterminantGrowth(eta=4.0)),
        (("--schedule", "batch", "--batches", 7), rs.UniformGrid(episodes=40, batches=7)),
        (("--schedule", "lsvi-ucb"), rs.EveryEpisode()),
    ],
)
def test_learn_gives_the_numbers_of_simulate(options, schedule):
    data = learned(*options, "--seed", 3, "--beta", 0.5, "--ridge", 2, "--ties", "lowest")
    world = rs.instances.hard_to_learn(d=5, horizon=3, seed=3)
    run = rs.simulate(world, schedule, episodes=40, beta=0.5, ridge=2.0, ties="lowest", seed=3)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    assert data["average_regret"] == pytest.approx(run.regret.mean())
    assert (data["updates"], data["switches"]) == (run.updates, run.switches)
    assert data["local_switches"] == run.local_switches
    assert data["policy_digest"] == run.policy.digest
    with np.load(data["result"], allow_pickle=False) as saved:
        for name in ("regret", "states", "actions", "update_episodes", "plan_values"):
            np.testing.assert_array_equal(saved[name], getattr(run, name))
        assert rs.Policy.from_bytes(saved["policy"].tobytes()).digest == run.policy.digest
        assert json.loads(str(saved["settings"])) == data["settings"]
        assert json.loads(str(saved["summary"])) == {k: data[k] for k in data.keys() - {
            "settings", "result",
        }}  # fmt: skip


def test_bounds_stand_beside_the_switches():
    world = rs.instances.hard_to_learn(d=5, horizon=3)
    sizes = {"dim": 5, "horizon": 3, "episodes": 40, "feature_norm": world.feature_norm}
    data = learned("--eta", 3)
    assert data["switch_bound"] == pytest.approx(theory.switch_bound(eta=3.0, **sizes))
    assert learned("--schedule", "batch", "--batches", 7)["switch_bound"] == 6
    assert learned("--schedule", "lsvi-ucb")["switch_bound"] is None


def test_a_budget_takes_the_place_of_eta():
    world = rs.instances.hard_to_learn(d=5, horizon=3)
    data = learned("--budget", 6)
    assert data["eta"] == pytest.approx(
        theory.eta_for_budget(
            switches=6, dim=5, horizon=3, episodes=40, feature_norm=world.feature_norm
        )
    )
    assert data["switch_bound"] == pytest.approx(6.0)
    assert data["switches"] <= 6


def test_the_random_schedule_learns_nothing():
    data = learned("--schedule", "random", "--seed", 4)
    world = rs.instances.hard_to_learn(d=5, horizon=3, seed=4)
    run = rs.simulate_random(world, episodes=40, seed=4)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    assert (data["updates"], data["switches"], data["policy_digest"]) == (0, 0, None)
    with np.load(data["result"]) as saved:
        assert saved["policy"].size == 0
        np.testing.assert_array_equal(saved["actions"], run.actions)


@pytest.mark.parametrize(
    "options",
    [
        ("--instance", "hard", "--reading", "compact", "--delta", 0.2),
        ("--instance", "misspecified", "--zeta", 0.3),
        ("--instance", "lower-bound", "--d", 2),
        ("--instance", "random-linear", "--states", 4, "--actions", 2),
        ("--instance", "tabular", "--states", 3, "--actions", 2),
    ],
    ids=lambda options: options[1],
)
@pytest.mark.parametrize("schedule", ["rareswitch", "batch", "random"])
def test_every_instance_can_be_learned(options, schedule):
    data = learned(*options, "--schedule", schedule, "--batches", 8)
    assert data["episodes"] == 40
    assert data["total_regret"] >= 0.0


def test_the_instances_are_those_of_the_library():
    data = learned("--instance", "misspecified", "--zeta", 0.3, "--seed", 2)
    exact = rs.instances.hard_to_learn(d=5, horizon=3, seed=2)
    world = rs.instances.misspecified(exact, zeta=0.3, seed=2)
    run = rs.simulate(world, rs.DeterminantGrowth(eta=2.0), episodes=40, seed=2)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    data = learned("--instance", "lower-bound", "--d", 2, "--seed", 2)
    world = rs.instances.lower_bound(states=2, horizon=3, seed=2)
    rule = rs.DeterminantGrowth(eta=2.0)
    run = rs.simulate(world, rule, episodes=40, seed=2, initial_state=1)
    assert data["total_regret"] == pytest.approx(run.regret.sum())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--instance", "moon"), "--instance"),
        (("--d", 3), "d must be"),
        (("--d", "x"), "--d"),
        (("--horizon", 0), "horizon must be"),
        (("--delta", 0.5), "delta must be"),
        (("--delta", "nan"), "delta must be"),
        (("--reading", "mine"), "reading must be"),
        (("--instance", "misspecified", "--zeta", 1), "zeta must be"),
        (("--instance", "tabular", "--states", 0), "states must be"),
        (("--instance", "random-linear", "--actions", 0), "actions must be"),
        (("--schedule", "never"), "--schedule"),
        (("--eta", 1), "eta must be"),
        (("--eta", "inf"), "eta must be"),
        (("--budget", 0), "switches must be"),
        (("--schedule", "batch", "--batches", 0), "batches must be"),
        (("--schedule", "batch", "--batches", 41), "batches must be from 1 to 40"),
        (("--episodes", 0), "episodes must be"),
        (("--episodes", "many"), "--episodes"),
        (("--schedule", "random", "--episodes", -1), "episodes must be"),
        (("--beta", -1), "beta must be"),
        (("--ridge", 0), "ridge must be"),
        (("--ties", "highest"), "ties must be"),
        (("--seed", -1), "seed must be"),
        (("--nonsense", 1), "--nonsense"),
        (("--out", "absent/result.npz"), "--out"),
        (("--out", "."), "--out"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_bad_value_is_refused_by_name_and_nothing_is_written(here, options, word):
    assert word in refused("learn", *SMALL, *options)
    assert list(here.iterdir()) == []


def test_a_file_of_something_else_is_never_replaced(here):
    file = here / "thesis.npz"
    for content in (b"words", b"", b"PK"):
        file.write_bytes(content)
        message = refused("learn", *SMALL, "--out", file)
        assert "thesis.npz exists and holds something else" in message
        assert file.read_bytes() == content
    np.savez(file, regret=np.zeros(3))
    before = file.read_bytes()
    assert "holds something else" in refused("learn", *SMALL, "--out", file)
    assert file.read_bytes() == before
    assert [path.name for path in here.iterdir()] == ["thesis.npz"]


def test_a_result_of_other_settings_is_never_replaced(here):
    assert call("learn", *SMALL, "--out", "r.npz").exit_code == 0
    before = (here / "r.npz").read_bytes()
    assert "holds something else" in refused("learn", *SMALL, "--seed", 1, "--out", "r.npz")
    assert (here / "r.npz").read_bytes() == before


def test_the_same_settings_may_run_again_and_give_the_same_bytes(here):
    for options in (("--out", "r.npz"), ()):
        first = learned(*options)
        before = (here / first["result"]).read_bytes()
        assert learned(*options) == first
        assert (here / first["result"]).read_bytes() == before
    assert len(list(here.iterdir())) == 2


def test_other_settings_have_another_default_name(here):
    names = {
        learned(*options)["result"]
        for options in ((), ("--seed", 1), ("--eta", 3), ("--schedule", "batch", "--batches", 4))
    }
    assert len(names) == len(list(here.iterdir())) == 4


def test_a_vacuous_bound_is_said_to_be_vacuous():
    assert "vacuous" in call("learn", *SMALL, "--eta", 1.1).stdout
    assert "vacuous" not in call("learn", *SMALL, "--eta", 1e9).stdout


def test_ctrl_c_keeps_the_episodes_played_so_far(here):
    options = ("--d", 5, "--horizon", 3, "--schedule", "lsvi-ucb", "--episodes", 10_000_000)
    with started("learn", *options, "--out", "r.npz", cwd=here) as process:
        assert process.stderr.readline().startswith("episodes: ")
        process.send_signal(signal.SIGINT)
        out, err = output_of_all(process)
    assert process.returncode == 130
    assert "interrupted: the result holds the episodes played so far" in err
    assert "Traceback" not in err
    with np.load(here / "r.npz") as saved:
        played = json.loads(str(saved["summary"]))["episodes"]
        regret = saved["regret"]
    assert 0 < played == len(regret) < 10_000_000
    assert f"episodes        {played}" in out
    world = rs.instances.hard_to_learn(d=5, horizon=3)
    some = min(played, 200)
    run = rs.simulate(world, rs.EveryEpisode(), episodes=some)
    np.testing.assert_array_equal(regret[:some], run.regret)
