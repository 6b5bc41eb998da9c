"""benchmarks/worlds.py: its exact returns are right, and its table comes from kept trainings."""

import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import rareswitch as rs
from rareswitch.features import OneHot
from rareswitch.gym import FiniteModel, train

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def benchmarks():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def test_exact_returns_are_those_of_the_model():
    from exact_returns import Acting, Earned, ExactReturns

    lake = gymnasium.make("FrozenLake-v1", success_rate=0.8)
    model, features = FiniteModel.of(lake), OneHot(states=16, actions=4)
    exact = ExactReturns.of_model(model, horizon=8)
    assert exact.optimum() == pytest.approx(model.optimal_return(8))
    assert exact.random() == pytest.approx(model.random_return(8))
    earned = Earned(exact, Acting(features, range(16), exact.feasible))
    training = train(lake, episodes=40, switches=1, horizon=8, callback=earned)
    final = training.agent.policy
    assert earned.of(final) == pytest.approx(model.policy_return(final, features))
    last = training.learner.policy
    played = {last.allocate(k) for k in range(21, 41)}
    worth = [model.policy_return(last.member(m), features) for m in sorted(played)]
    assert set(np.round(earned.totals[20:], 9)) == set(np.round(worth, 9))


def test_infeasible_actions_are_never_taken():
    from exact_returns import Acting

    feasible = np.array([[True, False, True], [False, True, True], [False, True, False]])
    policy = rs.Policy(
        weights=np.array([[0.1, 0.9, 0.2, 0.9, 0.3, 0.2, 0.5, 0.1, 0.9]]), one_hot=True
    )
    acting = Acting(OneHot(states=3, actions=3), range(3), feasible)
    assert acting.actions(policy).tolist() == [[[2, 1, 1]]]


def test_blackjack_by_its_model_is_blackjack_as_it_is_played():
    import blackjack_model
    from exact_returns import ExactReturns

    game, hands = (
        gymnasium.make("Blackjack-v1"),
        OneHot.of(gymnasium.make("Blackjack-v1").observation_space, 2),
    )
    assert [int(hands(state)[0]) // 2 for state in blackjack_model.STATES] == list(range(704))
    exact = ExactReturns.of_model(blackjack_model.model(), horizon=20)
    assert exact.initial.sum() == pytest.approx(1.0)
    until = np.array([[total < 17 for total, _, _ in blackjack_model.STATES]] * 20).astype(int)
    totals = []
    for seed in range(4000):
        state, _ = game.reset(seed=seed)
        ended = False
        while not ended:
            state, reward, ended, _, _ = game.step(int(state[0] < 17))
        totals.append(reward)
    assert abs(np.mean(totals) - exact.of_actions(until)) < 4.0 * np.std(totals) / np.sqrt(4000)
    assert exact.optimum() == pytest.approx(-0.0466, abs=2e-4)


def test_a_share_is_of_what_lies_above_random():
    from worlds import Share

    ours, full = np.array([0.50, 0.52, 0.48]), np.array([0.60, 0.62, 0.58])
    share = Share.of(ours, full, random=np.full(3, 0.1))
    assert share.value == pytest.approx(0.8)
    assert share.verdict == "no"
    assert Share.of(full, full, np.zeros(3)).verdict == "yes"
    assert Share.of(np.array([0.5, 0.6, 0.7]), full, np.full(3, 0.1)).verdict == "yes?"
    assert Share.of(-ours, -full, random=np.full(3, -2.0)).verdict == "yes"


def test_the_command_keeps_what_it_played_and_goes_on(tmp_path, warm_script):
    command = [warm_script, str(BENCHMARKS / "worlds.py"), "--quick", "--worlds", "ten arms"]
    results, table = tmp_path / "results", tmp_path / "shares.csv"
    command += ["--results", str(results), "--workers", "1", "--table", str(table)]
    first = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert "4/4 ten arms" in first.stdout
    assert "| ten arms | 1 | 50 | 2 |" in first.stdout
    numbers, kept = table.read_bytes(), sorted(results.iterdir())
    assert len(kept) == 4
    kept[0].unlink()
    again = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert "1/1 ten arms" in again.stdout
    assert table.read_bytes() == numbers
    tables = [text.partition("\n\n| world")[2] for text in (first.stdout, again.stdout)]
    assert tables[0] == tables[1] != ""


def test_the_page_and_its_charts_show_the_published_numbers(tmp_path, warm_script):
    docs = BENCHMARKS.parent / "docs"
    command = [warm_script, str(BENCHMARKS / "worlds.py"), "--figure", str(tmp_path / "a.png")]
    command += ["--read", str(docs / "_static" / "defaults.csv")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    page = (docs / "evidence" / "defaults.md").read_text(encoding="utf-8")
    tables = said.stdout.strip().split("\n\n")
    assert len(tables) == 4
    for each in tables:
        assert each.strip() in page
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a-recommended.png"}


def test_worlds_from_outside_are_environments_and_nobody_earns_more_than_their_best():
    import warnings

    import outside_worlds
    from gymnasium.utils.env_checker import check_env
    from played_worlds import OUTSIDE

    def earned(env, act, episodes=30):
        totals = []
        for episode in range(episodes):
            (seen, _), total, ended = env.reset(seed=episode), 0.0, False
            while not ended:
                seen, reward, ended, _, _ = env.step(act(env, seen))
                total += reward
            totals.append(total)
        return float(np.mean(totals))

    for name, world in OUTSIDE.items():
        env = world.place(1).env
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_env(env, skip_render_check=True)
        env.action_space.seed(0)
        assert earned(env, lambda env, _: env.action_space.sample()) < env.best, name
    sea, lock = outside_worlds.DeepSea(1), outside_worlds.CombinationLock(1)
    assert earned(sea, lambda env, _: env._right[env.time, env._column]) == pytest.approx(sea.best)
    assert earned(lock, lambda env, _: env._opens[env.time]) == lock.best
    catch = outside_worlds.Catch(1)
    assert earned(catch, lambda env, _: 1 + np.sign(env._ball - env._paddle)) == catch.best
