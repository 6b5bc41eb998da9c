import errno
import json
import signal

import numpy as np
import pytest

import rareswitch as rs
from cli.terminal import call, output_of_all, refused, started
from rareswitch import theory
from rareswitch.rules.words import to_words
from rareswitch.sim import simulate_random

SMALL = ("--dim", 5, "--horizon", 3, "--episodes", 40)
SUMMARY = {
    "episodes",
    "members",
    "total_regret",
    "average_regret",
    "deployments",
    "switches",
    "local_switches",
    "deployment_limit",
    "deployment_limit_vacuous",
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
    for word in ("episodes", "total", "average", "deployments", "switches", "guaranteed", "result"):
        assert word in words
    (file,) = here.iterdir()
    assert file.name in result.stdout
    assert file.name.startswith("rareswitch-learn-spread-budget-")


def test_the_defaults_are_nine_switches_of_a_mixture():
    shown = call("learn", *SMALL).stdout
    assert "deployed        mixtures of 32 members\n" in shown
    assert "deployments     10 (with the first, on no data)\n" in shown
    assert "guaranteed      at most 9 deployments after the first\n" in shown
    data = learned()
    world = rs.worlds.hard_to_learn(d=5, horizon=3)
    rule = rs.SpreadBudget(switches=9)
    run = rs.simulate(world, rule, episodes=40)
    assert data["members"] == rs.Ensemble().members
    assert data["policy_digest"] == run.policy.digest
    with np.load(data["result"], allow_pickle=False) as saved:
        np.testing.assert_array_equal(saved["members"], run.members)
        assert len(set(saved["members"].tolist())) > 9
        assert rs.Policy.from_bytes(saved["policy"].tobytes()).members == 32


@pytest.mark.parametrize(
    ("options", "exploration"),
    [
        (("--exploration", "ensemble,members=8,scale=1"), rs.Ensemble(members=8, scale=1.0)),
        (("--exploration", "ensemble,estimate=false"), rs.Ensemble(estimate=False)),
        (("--exploration", "bonus,members=3"), rs.Bonus(1.0, members=3)),
        (("--exploration", "bonus,estimate=true"), rs.Bonus(1.0, estimate=True)),
        (("--exploration", "bonus,beta=0.5"), rs.Bonus(0.5)),
        (("--beta", 0.5), rs.Bonus(0.5)),
    ],
)
def test_learn_explores_as_it_is_told(options, exploration):
    data = learned(*options, "--seed", 2)
    world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=2)
    rule = rs.SpreadBudget(switches=9)
    run = rs.simulate(world, rule, rs.Recipe(exploration=exploration), episodes=40, seed=2)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    assert (data["members"], data["policy_digest"]) == (exploration.members, run.policy.digest)
    shown = call("learn", *SMALL, *options, "--seed", 2).stdout
    if exploration.members > 1:
        assert f"deployed        mixtures of {exploration.members} members\n" in shown
    else:
        assert "mixture" not in shown


def test_the_json_holds_summary_settings_and_result(here):
    data = learned()
    assert set(data) == SUMMARY | {"settings", "result"}
    assert data["settings"]["dim"] == 5
    assert (here / data["result"]).is_file()


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("determinant-growth,eta=4", rs.DeterminantGrowth(eta=4.0)),
        ("uniform-grid,batches=7", rs.UniformGrid(batches=7)),
        ("uniform-grid,switches=6", rs.UniformGrid(batches=7)),
        ("every-episode", rs.EveryEpisode()),
        ("geometric-grid,batches=5", rs.rules.GeometricGrid(batches=5)),
        ("episode-grid,dates=[1]", rs.rules.EpisodeGrid(dates=(1,))),
        ("total-growth,eta=9", rs.rules.TotalGrowth(eta=9.0)),
    ],
)
def test_learn_gives_the_numbers_of_simulate(text, schedule):
    data = learned("--schedule", text, "--seed", 3, "--beta", 0.5, "--ridge", 2, "--ties", "lowest")
    world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=3)
    recipe = rs.Recipe.paper(beta=0.5, ridge=2.0, ties="lowest")
    run = rs.simulate(world, schedule, recipe, episodes=40, seed=3)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    assert data["average_regret"] == pytest.approx(run.regret.mean())
    assert (data["deployments"], data["switches"]) == (run.deployments, run.switches)
    assert data["local_switches"] == run.local_switches
    assert data["policy_digest"] == run.policy.digest
    with np.load(data["result"], allow_pickle=False) as saved:
        for name in ("regret", "states", "actions", "deployment_episodes", "fitted_values"):
            np.testing.assert_array_equal(saved[name], getattr(run, name))
        assert rs.Policy.from_bytes(saved["policy"].tobytes()).digest == run.policy.digest
        assert json.loads(str(saved["settings"])) == data["settings"]
        assert json.loads(str(saved["summary"])) == {k: data[k] for k in data.keys() - {
            "settings", "result",
        }}  # fmt: skip


def test_the_guarantee_stands_beside_what_was_done():
    task = rs.worlds.hard_to_learn(d=5, horizon=3).task(episodes=40)
    data = learned("--schedule", "determinant-growth,eta=30000")
    bound = theory.switch_bound(task, eta=30000.0)
    assert data["deployment_limit"] == int(bound) < 39
    assert learned("--schedule", "uniform-grid,batches=7")["deployment_limit"] == 6
    assert learned("--schedule", "every-episode")["deployment_limit"] == 39


@pytest.mark.parametrize(
    "rule", ["adaptive-budget", "spread-budget", "total-growth", "geometric-grid"]
)
def test_a_budget_is_kept(rule):
    data = learned("--schedule", f"{rule},switches=6")
    assert data["deployment_limit"] == 6
    assert data["switches"] <= data["deployments"] - 1 <= 6


def test_exploration_takes_the_place_of_beta():
    growth = ("--schedule", "determinant-growth,eta=2")
    data = learned("--exploration", "perturbation,scale=0.3,draws=4", "--seed", 2, *growth)
    world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=2)
    run = rs.simulate(
        world,
        rs.DeterminantGrowth(eta=2.0),
        rs.Recipe(exploration=rs.Perturbation(0.3, draws=4)),
        episodes=40,
        seed=2,
    )
    assert data["policy_digest"] == run.policy.digest
    assert "exclude each other" in refused(
        "learn", *SMALL, "--beta", 1, "--exploration", "bonus,beta=1"
    )


def test_a_rule_of_your_own_is_named_by_module_and_class(here):
    (here / "my_rules.py").write_text(
        "from dataclasses import dataclass\n\n"
        "@dataclass(frozen=True)\n"
        "class EveryOther:\n"
        "    gap: int = 2\n\n"
        "    def due(self, clock):\n"
        "        return clock.episode % self.gap == 0\n"
    )
    with started("learn", *SMALL, "--schedule", "my_rules:EveryOther,gap=10", "--json",
                 cwd=here) as process:  # fmt: skip
        out, err = output_of_all(process)
    assert process.returncode == 0, err
    data = json.loads(out)
    assert (data["deployments"], data["deployment_limit"]) == (5, None)


@pytest.mark.parametrize("switches", [3, 30])
def test_learn_runs_what_plan_recommends(switches):
    made = rs.plan(rs.worlds.hard_to_learn(d=5, horizon=3).task(episodes=40), switches=switches)
    for option in made.options:
        explores = ("--exploration", to_words(option.exploration))
        data = learned("--schedule", to_words(option.candidate.schedule), *explores)
        assert data["deployments"] - 1 <= switches
        assert data["members"] == option.exploration.members


def test_what_no_machine_holds_is_refused_with_the_numbers(here):
    result = call("learn", "--episodes", 10**11)
    assert result.exit_code == 1
    assert "need about" in result.stderr
    assert "GB" in result.stderr
    assert list(here.iterdir()) == []


def test_a_result_that_cannot_be_written_is_printed_all_the_same(here, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device", "r.npz")

    monkeypatch.setattr("rareswitch.support.archive.save_archive", full)
    result = call("learn", *SMALL, "--out", "r.npz")
    assert result.exit_code == 1
    assert "total regret" in result.stdout
    assert result.stderr == "Error: r.npz: No space left on device\n"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_a_console_without_greek_letters_is_written_to(here, encoding):
    environment = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for command in (("learn", "--help"), ("learn", *SMALL)):
        with started(*command, cwd=here, environment=environment, encoding=encoding) as process:
            out, err = output_of_all(process)
        assert process.returncode == 0, err
        assert "?" in out


def test_the_random_schedule_learns_nothing():
    data = learned("--schedule", "random-policy", "--seed", 4)
    world = rs.worlds.hard_to_learn(d=5, horizon=3, seed=4)
    run = simulate_random(world, episodes=40, seed=4)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    assert (data["deployments"], data["switches"], data["policy_digest"]) == (0, 0, None)
    assert data["members"] == 1
    with np.load(data["result"]) as saved:
        assert saved["policy"].size == 0
        np.testing.assert_array_equal(saved["actions"], run.actions)


@pytest.mark.parametrize(
    "options",
    [
        ("--instance", "hard", "--reading", "compact", "--delta", 0.2),
        ("--instance", "misspecified", "--zeta", 0.3),
        ("--instance", "lower-bound", "--states", 2),
        ("--instance", "random-linear", "--states", 4, "--actions", 2),
        ("--instance", "tabular", "--states", 3, "--actions", 2),
    ],
    ids=lambda options: options[1],
)
@pytest.mark.parametrize(
    "schedule", ["determinant-growth,eta=2", "uniform-grid,batches=8", "random-policy"]
)
def test_every_instance_can_be_learned(options, schedule):
    settings = dict(zip(options[::2], options[1::2], strict=True))
    small = dict(zip(SMALL[::2], SMALL[1::2], strict=True))
    if settings["--instance"] in ("lower-bound", "tabular"):
        del small["--dim"]  # it follows from the other sizes
    words = [word for pair in (small | settings).items() for word in pair]
    data = json.loads(call("learn", *words, "--schedule", schedule, "--json").stdout)
    assert data["episodes"] == 40
    assert data["total_regret"] >= 0.0


def test_the_instances_are_those_of_the_library():
    growth = ("--schedule", "determinant-growth,eta=2")
    data = learned("--instance", "misspecified", "--zeta", 0.3, "--seed", 2, *growth)
    exact = rs.worlds.hard_to_learn(d=5, horizon=3, seed=2)
    world = rs.worlds.misspecified(exact, zeta=0.3, seed=2)
    run = rs.simulate(world, rs.DeterminantGrowth(eta=2.0), episodes=40, seed=2)
    assert data["total_regret"] == pytest.approx(run.regret.sum())
    data = learned("--instance", "lower-bound", "--states", 2, "--seed", 2, *growth)
    world = rs.worlds.lower_bound_family(states=2, horizon=3, seed=2)
    rule = rs.DeterminantGrowth(eta=2.0)
    run = rs.simulate(world, rule, episodes=40, seed=2, initial_state=1)
    assert data["total_regret"] == pytest.approx(run.regret.sum())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--instance", "moon"), "--instance"),
        (("--dim", 3), "d must be"),
        (("--dim", "x"), "--dim"),
        (("--instance", "tabular", "--dim", 7), "--dim of this tabular world is 40; got 7"),
        (("--horizon", 0), "--horizon"),
        (("--delta", 0.5), "delta must be"),
        (("--delta", "nan"), "'nan' is not a finite number"),
        (("--instance", "tabular", "--delta", "inf"), "'inf' is not a finite number"),
        (("--reading", "mine"), "reading must be"),
        (("--instance", "misspecified", "--zeta", 1), "zeta must be"),
        (("--instance", "tabular", "--states", 0), "states must be"),
        (("--instance", "random-linear", "--actions", 0), "actions must be"),
        (("--schedule", "never"), "--schedule never: kind must be one of every-episode"),
        (("--schedule", "determinant-growth"), "determinant-growth needs eta or switches"),
        (("--schedule", "determinant-growth,eta=1"), "eta must be"),
        (("--schedule", "determinant-growth,eta=Infinity"), "eta must be"),
        (("--schedule", "determinant-growth,eta=two"), "eta must be"),
        (("--schedule", "determinant-growth,switches=0"), "switches must be"),
        (("--schedule", "determinant-growth,speed=1"), "has no argument 'speed'"),
        (("--schedule", "uniform-grid,batches=0"), "batches must be"),
        (("--schedule", "uniform-grid,batches=41"), "batches must be from 1 to 40"),
        (("--schedule", "no_such_module:Rule"), "cannot be imported"),
        (("--schedule", "json:dumps"), "must be a class"),
        (("--schedule", "json:JSONDecoder"), "must be a class with a method due"),
        (("--exploration", "guess"), "--exploration guess: kind must be one of bonus"),
        (("--exploration", "perturbation"), "perturbation needs scale"),
        (("--exploration", "ensemble,members=0"), "members must be from 1"),
        (("--exploration", "ensemble,scale=-1"), "scale must be"),
        (("--exploration", "ensemble,size=3"), "ensemble has no argument 'size'"),
        (("--exploration", "bonus,members=2", "--ties", "lowest"), "ties must be"),
        (("--episodes", 0), "--episodes"),
        (("--episodes", "many"), "--episodes"),
        (("--schedule", "random-policy", "--episodes", -1), "--episodes"),
        (("--beta", -1), "beta must be"),
        (("--ridge", 0), "ridge must be"),
        (("--ties", "highest"), "ties must be"),
        (("--seed", -1), "seed must be"),
        (("--nonsense", 1), "--nonsense"),
        (("--out", "absent/result.npz"), "--out"),
        (("--out", "."), "--out"),
        (("--out", ""), "--out must name a file"),
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
        assert "thesis.npz exists and is not a result" in message
        assert file.read_bytes() == content
    np.savez(file, regret=np.zeros(3))
    before = file.read_bytes()
    assert "is not a result of these" in refused("learn", *SMALL, "--out", file)
    assert file.read_bytes() == before
    assert [path.name for path in here.iterdir()] == ["thesis.npz"]


def test_a_result_of_other_settings_is_never_replaced(here):
    assert call("learn", *SMALL, "--out", "r.npz").exit_code == 0
    before = (here / "r.npz").read_bytes()
    assert "is not a result of these" in refused("learn", *SMALL, "--seed", 1, "--out", "r.npz")
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
        for options in (
            (),
            ("--seed", 1),
            ("--schedule", "determinant-growth,eta=3"),
            ("--schedule", "uniform-grid,batches=4"),
        )
    }
    assert len(names) == len(list(here.iterdir())) == 4


def test_a_vacuous_guarantee_is_said_to_be_one():
    vacuous = "which no learner exceeds"
    assert vacuous in call("learn", *SMALL, "--schedule", "determinant-growth,eta=1.1").stdout
    assert vacuous not in call("learn", *SMALL, "--schedule", "determinant-growth,eta=1e9").stdout


def test_ctrl_c_keeps_the_episodes_played_so_far(here):
    options = ("--dim", 5, "--horizon", 3, "--schedule", "every-episode", "--episodes", 10_000_000)
    with started("learn", *options, "--out", "r.npz", cwd=here) as process:
        assert process.stderr.readline().startswith("episodes: ")
        process.send_signal(signal.SIGINT)
        out, err = output_of_all(process)
    assert process.returncode == 130
    assert "interrupted: r-partial.npz has the episodes played so far" in err
    assert "Traceback" not in err
    assert not (here / "r.npz").exists()
    with np.load(here / "r-partial.npz") as saved:
        played = json.loads(str(saved["summary"]))["episodes"]
        regret = saved["regret"]
    assert 0 < played == len(regret) < 10_000_000
    assert f"episodes        {played}" in out
    world = rs.worlds.hard_to_learn(d=5, horizon=3)
    some = min(played, 200)
    run = rs.simulate(world, rs.EveryEpisode(), episodes=some)
    np.testing.assert_array_equal(regret[:some], run.regret)
