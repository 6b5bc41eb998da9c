import json
import math
import re
import shlex
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ragged_episode, unit_rows
from rareswitch.planning.choice import ladder
from rareswitch.planning.options import own_candidates
from rareswitch.planning.replay import replay
from rareswitch.planning.rounds import Estimate
from rareswitch.rules import words
from rareswitch.rules.words import describe, rebuild
from rareswitch.sim.outcome import Outcome, world_simulator
from rareswitch.statistics.partitions import LogPartition

SIZES = {"episodes": 100, "horizon": 3, "dim": 2}


def number(*parts):
    """Return a number in [0, 1) that depends on the parts and nothing else."""
    return crc32(repr(parts).encode()) / 2**32


class Fake:
    """Total regret and deployments of a rule, by its repr; every call is kept.

    `noise` is what rounds differ by, the same for all rules: an interval of width about noise.
    """

    def __init__(self, salt=0, *, episodes=100, noise=0.0):
        self.salt, self.episodes, self.noise = salt, episodes, noise
        self.calls = []

    def regret(self, schedule):
        """Four digits, so that messages show it whole."""
        return self.episodes * (1 + round(999 * number(self.salt, schedule))) / 1000

    def deployments(self, schedule):
        """All of them, with the first; every second changes nothing."""
        return int(2 + 20 * number(schedule, self.salt, "deployments"))

    def __call__(self, task, schedule, recipe, seeds):
        exploration = recipe.exploration
        self.calls.append((schedule, exploration, list(seeds)))
        return [
            Outcome(
                regret=self.regret(schedule) + self.noise * self.episodes * number(seed),
                deployments=self.deployments(schedule),
                switches=(self.deployments(schedule) - 1) // 2,
            )
            for seed in seeds
        ]


class Betas:
    """Regret and optimism that depend on β alone: by exponent of 3, one regret for each round.

    That of mixtures is `mixture`, that of one policy with estimates `estimated`, in every round.
    """

    def __init__(self, regret, optimistic=None, mixture=900.0, estimated=900.0):
        self.regret_of, self.optimistic_of = regret, optimistic or {}
        self.mixture, self.estimated = mixture, estimated
        self.played = []

    def __call__(self, task, schedule, recipe, seeds):
        exploration = recipe.exploration
        beta = exploration.beta
        self.played.append((schedule, beta))
        if exploration.members > 1:
            return [Outcome(regret=self.mixture, deployments=4, switches=3) for _ in seeds]
        if exploration.estimate:
            assert exploration == ESTIMATED
            return [Outcome(regret=self.estimated, deployments=4, switches=3) for _ in seeds]
        exponent = min(range(-7, 8), key=lambda e: abs(3.0**e - beta))
        assert beta == 3.0**exponent
        regrets = self.regret_of.get(exponent, 500.0)
        regrets = regrets if isinstance(regrets, list) else [regrets] * len(seeds)
        share = self.optimistic_of.get(exponent)
        return [Outcome(regret=r, deployments=4, switches=3, optimistic=share) for r in regrets]


def plan(*, beta=None, exploration=None, ridge=None, **changes):
    """Plan for a task of these sizes, with a recipe where β or an exploration is given."""
    if beta is not None:
        changes["recipe"] = rs.Recipe.paper(beta, ridge=ridge or 1.0)
    elif exploration is not None:
        changes["recipe"] = rs.Recipe(exploration=exploration, ridge=ridge or 1.0)
    elif ridge is not None:
        changes["ridge"] = ridge
    sizes = {name: changes.pop(name, SIZES.get(name, 1.0)) for name in (*SIZES, "feature_norm")}
    return rs.plan(rs.Task(**sizes), **changes)


ESTIMATED = rs.Bonus(1.0, estimate=True)


def of_both_kinds(made):
    """Return the options with one policy and β, and those with mixtures."""
    singles = [o for o in made.options if o.exploration != ESTIMATED and not o.mixture]
    return singles, [o for o in made.options if o.mixture]


def with_estimates(made):
    """Return the options with one policy whose fits estimate the noise."""
    return [o for o in made.options if o.exploration == ESTIMATED]


def strict(made):
    return json.loads(json.dumps(made.to_dict(), allow_nan=False))


# What to choose from.


@pytest.mark.parametrize(
    ("episodes", "budgets"),
    [
        (1, [0]),
        (2, [0, 1]),
        (3, [0, 1, 2]),
        (4, [0, 1, 2, 3]),
        (7, [0, 1, 2, 5, 6]),
        (100, [0, 1, 2, 5, 10, 20, 50, 99]),
        (2500, [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 2499]),
    ],
)
def test_the_budgets_tried_when_none_is_given(episodes, budgets):
    assert ladder(episodes) == budgets


@given(st.integers(1, 10**6))
def test_the_ladder_is_of_possible_budgets_in_order(episodes):
    budgets = ladder(episodes)
    assert budgets[0] == 0
    assert budgets[-1] == episodes - 1
    assert budgets == sorted(set(budgets))


def test_a_budget_alone_is_answered_by_what_is_guaranteed():
    few = plan(switches=5, randomise=False)
    assert few.recommended.name == "uniform-grid, at most 5"
    assert "below dH = 6" in few.reason
    enough = plan(switches=6, randomise=False)
    assert enough.recommended.name == "adaptive-budget, at most 6"
    assert "at least dH = 6" in enough.reason
    for made in (few, enough):
        assert (made.exploration, made.sweep) == (rs.Bonus(1.0), None)
        assert made.exploration_source == "the default, for lack of a simulator"
        assert all(o.regret is o.deployments is o.switches is None for o in made.options)


@pytest.mark.parametrize(("switches", "rule"), [(0, "uniform-grid"), (99, "every-episode")])
def test_the_ends_leave_one_rule(switches, rule):
    for randomise, kind in ((True, " (mixture)"), (False, "")):
        made = plan(switches=switches, randomise=randomise)
        assert made.recommended.name == f"{rule}{kind}, at most {switches}"
        assert made.reason == "it is the only switching rule of the package with that budget."


@pytest.mark.parametrize("switches", [0, 3, 40, 99])
@pytest.mark.parametrize(
    "sizes", [{"randomise": False}, {"feature_norm": 2.5, "ridge": 0.01, "beta": 0.3}]
)
def test_the_code_runs_and_makes_a_learner_with_the_schedule(switches, sizes):
    made = plan(switches=switches, **sizes)
    scope = {}
    exec(made.code, scope)
    learner = scope["learner"]
    assert learner.schedule == made.recommended.candidate.schedule
    assert (learner.task, learner.recipe) == (made.task, made.recipe)
    assert learner.recipe.exploration == made.exploration == rs.Bonus(sizes.get("beta", 1.0))
    rng = np.random.default_rng(0)
    for _ in range(100):
        rows = unit_rows(rng, 3, 2)
        learner.observe(rs.Episode(features=rows, rewards=[0, 0, 1], next_features=[rows, rows]))
    assert len(learner.ledger) - 1 <= switches


def test_every_option_can_be_pasted_and_typed():
    for option in plan(price=1.0, ridge=0.5).options:
        schedule = option.candidate.schedule
        assert eval(option.candidate.code, {"rs": rs}) == schedule
        kind, arguments = words.parse(words.to_words(schedule))
        mixture = " (mixture)" if option.exploration.members > 1 else ""
        assert option.name.startswith(f"{kind}{mixture}, at most ")
        assert words.make_schedule(kind, arguments, rs.Task(**SIZES), ridge=0.5) == schedule
        explores = words.to_words(option.exploration)
        assert words.make_exploration(*words.parse(explores)) == option.exploration


# What cannot be done.


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"switches": -1}, ValueError, "switches must be from 0 to 99; got -1"),
        ({"switches": 100}, ValueError, "switches must be from 0 to 99; got 100"),
        ({"switches": 2.5}, TypeError, "switches must be a whole number"),
        ({"switches": 5, "episodes": None}, ValueError, "task must have episodes: a plan needs"),
        ({"switches": 5, "price": 1.0}, ValueError, "exactly one of switches, target and price"),
        ({"switches": 0, "target": 0.0}, ValueError, "exactly one of switches, target and price"),
        ({"target": 1.0, "price": 1.0}, ValueError, "exactly one of switches, target and price"),
        (
            {"switches": 5, "target": 1.0, "price": 1.0},
            ValueError,
            "exactly one of switches, target and price",
        ),
        ({}, ValueError, "exactly one of switches, target and price must be given"),
        ({"target": 0.5}, ValueError, "target needs a simulator"),
        ({"target": -0.5, "simulator": Fake()}, ValueError, "target must be .*at least 0"),
        ({"price": -1.0}, ValueError, "price must be a finite number at least 0; got -1.0"),
        ({"price": math.inf}, ValueError, "price must be a finite number"),
        (
            {"switches": 5, "rounds": 1, "simulator": Fake()},
            ValueError,
            "rounds must be from 2 to 100000; got 1",
        ),
        ({"switches": 5, "beta": -1.0}, ValueError, "beta must be a finite number at least 0"),
        ({"switches": 5, "beta": -1.0, "simulator": Fake()}, ValueError, "beta must be"),
        ({"switches": 5, "ridge": 0.0}, ValueError, "ridge must be a finite number"),
        ({"switches": 5, "log": np.ones((4, 3, 2))}, TypeError, "log must be episodes"),
        (
            {"switches": 5, "recipe": rs.Recipe(), "ridge": 1.0},
            TypeError,
            "recipe and ridge exclude each other",
        ),
        ({"switches": 5, "candidates": [3]}, TypeError, "candidates must have a method due"),
    ],
)
def test_what_cannot_be_done_is_answered_with_what_can(changes, error, message):
    with pytest.raises(error, match=message):
        plan(**changes)


@pytest.mark.parametrize("returned", [0, 3, 5])
@pytest.mark.parametrize("beta", [None, 1.0])
def test_a_simulator_must_give_one_outcome_for_each_seed(returned, beta):
    def simulator(task, schedule, recipe, seeds):
        return [Outcome(regret=1.0, deployments=2, switches=1)] * returned

    with pytest.raises(ValueError, match=f"one Outcome for each of 4 seeds; got {returned}"):
        plan(switches=5, beta=beta, rounds=4, simulator=simulator)


# What a simulator adds.


def test_every_option_is_played_once_on_the_same_seeds_with_the_same_bonus():
    fake = Fake()
    made = plan(price=1.0, beta=0.4, rounds=3, seed=8, simulator=fake)
    assert [schedule for schedule, _, _ in fake.calls] == [
        option.candidate.schedule for option in made.options
    ]
    for _, exploration, seeds in fake.calls:
        assert exploration == rs.Bonus(0.4)
        assert seeds == [(8, 0), (8, 1), (8, 2)]
    assert made.exploration == rs.Bonus(0.4)
    assert (made.exploration_source, made.sweep) == ("given", None)


def test_what_was_simulated_is_the_mean_over_rounds_with_its_interval():
    def simulator(task, schedule, recipe, seeds):
        return [
            Outcome(regret=100.0 * r, deployments=2 * r + 1, switches=r, optimistic=r / 10)
            for _, r in seeds
        ]

    made = plan(switches=5, beta=1.0, rounds=5, simulator=simulator)
    for option in made.options:
        assert option.regret.mean == pytest.approx(2.0)
        assert option.deployments.mean == pytest.approx(4.0)
        assert option.switches.mean == pytest.approx(2.0)
        assert option.optimistic == pytest.approx(0.2)
        assert 0.4 <= option.regret.low < 1.3 < 2.7 < option.regret.high <= 3.6
        assert option.regret.low == pytest.approx(option.switches.low)
    others = [option.candidate.name for option in made.options[1:]]
    assert made.recommended is made.options[0]
    assert made.reason.endswith(f": {', '.join(others)}.")


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 50.0]))
def test_by_budget_the_least_simulated_regret_is_taken(salt, noise):
    # However much rounds differ, they differ alike for all rules: the comparison is paired.
    fake = Fake(salt, noise=noise)
    made = plan(switches=20, beta=1.0, rounds=6, simulator=fake)
    regret = [fake.regret(o.candidate.schedule) for o in made.options]
    best = int(np.argmin(regret))
    assert made.recommended is made.options[best]
    assert made.reason.startswith("it has the least simulated regret")
    for option, total in zip(made.options, regret, strict=True):
        if total > regret[best]:
            assert option.candidate.name not in made.reason


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_price_ranges_and_choice_are_those_of_brute_force(salt, noise):
    def priced(price):
        return plan(price=price, beta=1.0, rounds=3, simulator=Fake(salt, noise=noise))

    options = priced(0.0).options
    regret = np.array([o.regret.mean * 100 for o in options])
    deployments = np.array([o.deployments.mean for o in options])
    assert (deployments > [o.switches.mean for o in options]).all()
    for price in (0.0, *np.geomspace(1e-3, 1e4, 120)):
        cost = regret + price * deployments
        cheapest = {i for i in range(len(options)) if cost[i] <= cost.min() + 1e-9}
        named = {
            i
            for i, o in enumerate(options)
            if o.prices and o.prices[0] - 1e-9 <= price <= o.prices[1] + 1e-9
        }
        assert named == cheapest
    for price in (0.0, 0.7, 3.0, 5000.0):
        made = priced(price)
        assert made.options == options
        best = options.index(made.recommended)
        cost = regret + price * deployments
        assert cost[best] == cost.min()
        assert f"simulated regret plus {price:g} for each deployment after the first" in made.reason
        low, high = made.recommended.prices
        assert f"from {low:.3g} to {high:.3g}" in made.reason


def test_without_a_simulator_prices_rest_on_the_bounds():
    made = plan(price=2.0)
    assert made.reason.startswith("the regret bound (vacuous here) plus 2 for each deployment")
    bound = [o.bound.total if o.bound else math.inf for o in made.options]
    cost = [
        b + 2.0 * o.candidate.deployment_limit for b, o in zip(bound, made.options, strict=True)
    ]
    assert made.recommended is made.options[int(np.argmin(cost))]
    assert all(o.prices is None for o in made.options if o.bound is None)
    assert not made.recommended.mixture


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.2]), st.floats(0.01, 1.2))
def test_by_target_the_fewest_deployments_that_reach_it_are_taken(salt, noise, target):
    fake = Fake(salt, noise=noise)
    arguments = {"beta": 1.0, "rounds": 4, "simulator": fake}
    options = plan(price=0.0, **arguments).options
    reached = [o for o in options if o.regret.high <= target]
    if not reached:
        with pytest.raises(ValueError, match="target must be at least"):
            plan(target=target, **arguments)
        return
    made = plan(target=target, **arguments)
    assert made.recommended.regret.high <= target
    fewest = min(o.deployments.mean for o in reached)
    assert made.recommended.deployments.mean == fewest
    level = [o.regret.mean for o in reached if o.deployments.mean == fewest]
    assert made.recommended.regret.mean == min(level)
    assert "fewest deployments after the first" in made.reason


def test_a_target_out_of_reach_is_answered_with_one_within():
    arguments = {"beta": 1.0, "rounds": 2, "simulator": Fake(4)}
    least = min(plan(price=0.0, **arguments).options, key=lambda o: o.regret.high)
    with pytest.raises(ValueError, match=r"target must be at least .*; got 0$") as caught:
        plan(target=0.0, **arguments)
    assert f"({least.name})" in str(caught.value)
    named = float(re.search(r"at least ([\d.]+),", str(caught.value))[1])
    assert named == pytest.approx(least.regret.high, rel=1e-3)
    assert plan(target=1.001 * named, **arguments).recommended.name == least.name


def test_the_target_named_is_the_least_within_reach_of_any_rule():
    def simulator(task, schedule, recipe, seeds):
        steady = isinstance(schedule, rs.UniformGrid)
        return [
            Outcome(regret=50.0 if steady else 29.0 + 40.0 * (r % 2), deployments=3, switches=2)
            for _, r in seeds
        ]

    with pytest.raises(ValueError, match=r"target must be at least 0.5, .*\(uniform-grid"):
        plan(target=0.1, beta=1.0, rounds=8, simulator=simulator)


def test_an_unlucky_round_is_not_a_target_reached():
    def simulator(task, schedule, recipe, seeds):
        return [Outcome(regret=100.0 * (r % 2), deployments=2, switches=1) for _, r in seeds]

    with pytest.raises(ValueError, match="target must be at least"):
        plan(target=0.5, beta=1.0, rounds=8, simulator=simulator)
    assert plan(target=1.0, beta=1.0, rounds=8, simulator=simulator).recommended.regret.mean == 0.5


# The choice of β.


def swept(regret, optimistic=None, **changes):
    betas = Betas(regret, optimistic)
    arguments = {"switches": 20, "rounds": 8, "simulator": betas, "randomise": False} | changes
    return plan(**arguments), betas


def test_where_regrets_differ_clearly_the_least_is_chosen():
    regret = {-3: 90.0, -2: 80.0, -1: 60.0, 0: 70.0, 1: 90.0, 2: 95.0}
    made, betas = swept(regret, {2: 1.0, 1: 0.9})
    assert made.exploration == rs.Bonus(made.sweep.chosen) == rs.Bonus(3.0**-1)
    assert made.exploration_source == "swept on the simulator"
    assert made.sweep.betas == tuple(3.0**e for e in range(-3, 3))
    assert [e.mean for e in made.sweep.regret] == pytest.approx([0.9, 0.8, 0.6, 0.7, 0.9, 0.95])
    assert made.sweep.optimistic == (None, None, None, None, 0.9, 1.0)
    assert made.sweep.loss_low == pytest.approx(80 / 60)
    assert made.sweep.loss_high == pytest.approx(70 / 60)
    reference = rs.rules.AdaptiveBudget(switches=20)
    assert betas.played[:6] == [(reference, 3.0**e) for e in range(-3, 3)]
    assert {beta for _, beta in betas.played[6:]} == {made.sweep.chosen, 1.0}  # 1: with estimates


def test_of_values_within_the_noise_the_most_optimistic_is_chosen():
    level = [60.0, 62.0] * 4
    swapped = [63.0, 59.5] * 4  # a little worse on average, measurably so on no account
    worse = [61.0, 63.0] * 4  # worse in every round
    regret = {-3: 90.0, -2: worse, -1: level, 0: swapped, 1: swapped, 2: worse}
    made, _ = swept(regret, {-3: 0.1, -2: 1.0, -1: 0.2, 0: 0.9, 1: 0.7, 2: 1.0})
    assert made.exploration.beta == 1.0
    assert made.sweep.loss_low == pytest.approx(61.0 / 61.25)
    assert made.sweep.loss_high == pytest.approx(1.0)


def test_of_equally_optimistic_values_the_least_regret_is_chosen():
    level, swapped = [60.0, 62.0] * 4, [63.0, 59.5] * 4
    made, _ = swept({-1: level, 0: swapped, 1: swapped}, dict.fromkeys(range(-3, 3), 0.5))
    assert made.exploration.beta == 3.0**-1
    made, _ = swept({-1: level, 0: swapped, 1: swapped})  # optimism not known
    assert made.exploration.beta == 3.0**-1


@pytest.mark.parametrize(("edge", "beyond"), [(-3, -4), (2, 3)])
def test_a_choice_at_the_edge_is_looked_at_from_both_sides(edge, beyond):
    made, betas = swept({edge: 40.0, beyond: 120.0})
    assert made.exploration.beta == 3.0**edge
    assert 3.0**beyond in made.sweep.betas
    assert made.sweep.betas == tuple(sorted(made.sweep.betas))
    assert len(made.sweep.betas) == len(made.sweep.regret) == 7
    losses = (made.sweep.loss_low, made.sweep.loss_high)
    assert losses == pytest.approx((3.0, 12.5) if edge < 0 else (12.5, 3.0))
    assert len(betas.played) == 7 + len(made.options)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_sweep_goes_on_while_its_end_has_the_least_regret(sign):
    falling = {sign * e: 100.0 - 10.0 * e for e in range(7)}
    made, _ = swept(falling)
    assert made.exploration.beta == 3.0 ** (sign * 6)
    assert len(made.sweep.betas) == (11 if sign > 0 else 10)  # 1/27 to 3^7, or 3^-7 to 9
    turned, _ = swept({sign * e: regret for e, regret in falling.items() if abs(e) < 5})
    assert turned.exploration.beta == 3.0 ** (sign * 4)


def test_a_sweep_without_a_budget_is_made_at_the_middle_of_the_ladder():
    made, betas = swept({0: 40.0}, switches=None, price=1.0)
    middle = ladder(100)[len(ladder(100)) // 2]
    assert betas.played[0][0] == rs.rules.AdaptiveBudget(switches=middle)
    assert made.exploration.beta == 1.0


# What a log adds.


def test_a_log_counts_deployments():
    rng = np.random.default_rng(0)
    log = [ragged_episode(rng, horizon=3, dim=2) for _ in range(60)]
    made = plan(switches=20, ridge=0.3, log=iter(log))
    assert made == plan(switches=20, ridge=0.3, log=LogPartition.from_episodes(log, horizon=3))
    for option in made.options:
        expected = len(replay(option.candidate.schedule, log, rs.Task(**SIZES), ridge=0.3))
        assert option.replayed == expected <= 20
    assert len({option.replayed for option in made.options}) > 2
    singles, mixtures = of_both_kinds(made)  # on a log nothing is explored
    assert [option.replayed for option in singles] == [option.replayed for option in mixtures]
    assert all(option.replayed is None for option in plan(switches=20).options)


# The plan as a value.


def test_progress_is_told_of_every_simulation():
    for beta, extra, randomise in ((1.0, 0, True), (None, 6, True), (None, 6, False)):
        told = []
        made = plan(
            price=1.0,
            beta=beta,
            randomise=randomise,
            rounds=2,
            simulator=Betas({0: 10.0}),
            progress=lambda done, total, told=told: told.append((done, total)),
        )
        count = len(made.options) + extra
        assert told == [(done, count) for done in range(count + 1)]
    told = []
    plan(
        switches=5,
        rounds=2,
        simulator=Betas({2: 10.0}),
        progress=lambda done, total: told.append((done, total)),
    )
    # Six values of β and one beyond the edge, then six rules, each in three ways.
    assert [done for done, _ in told] == list(range(7 + 3 * 6 + 1))
    assert all(done <= total for done, total in told)


def test_the_same_seed_makes_the_same_plan():
    def make(seed):
        simulator = world_simulator(lambda each: rs.worlds.hard_to_learn(d=5, horizon=3, seed=each))
        sizes = {"episodes": 30, "dim": 5, "feature_norm": 2.5}
        return plan(**sizes, switches=9, rounds=3, seed=seed, simulator=simulator)

    first, same, other = make(1), make(1), make(2)
    assert first == same
    assert first.to_dict() != other.to_dict()


def test_a_plan_is_strict_json():
    plans = [
        plan(switches=5),
        plan(switches=0),
        plan(switches=99, log=[ragged_episode(np.random.default_rng(0), horizon=3, dim=2)]),
        plan(price=3.0),
        plan(price=3.0, rounds=2, beta=1.0, simulator=Fake()),
        plan(target=2.0, rounds=2, simulator=Betas({0: 10.0}, {0: 0.5})),
        plan(switches=1, horizon=400, dim=30),
    ]
    for made in plans:
        data = strict(made)
        assert data["task"]["episodes"] == 100
        assert data["recommended"] == made.recommended.name
        assert data["code"] == made.code
        assert data["command"] == made.command
        assert len(data["options"]) == len(made.options)
        for entry, option in zip(data["options"], made.options, strict=True):
            assert entry["name"] == option.name
            assert rebuild(entry["schedule"]) == option.candidate.schedule
            assert rebuild(entry["exploration"]) == option.exploration
            assert (entry["regret_bound"] is None) is (option.bound is None)
            assert eval(entry["code"], {"rs": rs}) == option.candidate.schedule
    priced = strict(plans[4])["options"]
    ranges = [entry["cheapest_for_prices"] for entry in priced if entry["cheapest_for_prices"]]
    assert [high for _, high in ranges].count(None) >= 1
    assert strict(plans[5])["beta_sweep"]["chosen"] == 1.0
    assert plans[0].to_dict()["options"][0]["regret_bound_vacuous"] is True


def test_an_estimate_reads_as_mean_and_interval():
    assert str(Estimate(mean=1.23456, low=1.0, high=2.0)) == "1.235 [1, 2]"


def test_a_simulator_without_any_regret_still_gives_a_sweep():
    def play(task, schedule, recipe, seeds):
        return [Outcome(regret=0.0, deployments=1, switches=0) for _ in seeds]

    sweep = plan(switches=50, simulator=play).sweep
    assert (sweep.loss_low, sweep.loss_high) == (1.0, 1.0)


def test_a_loss_without_end_is_no_number_in_json():
    made, _ = swept({0: 0.0, 1: 5.0})
    assert made.sweep.loss_high == math.inf
    assert strict(made)["beta_sweep"]["loss_high"] is None


@pytest.mark.parametrize("returned", [None, 7, "abcd", [1, 2, 3, 4], iter(())])
def test_a_simulator_must_return_outcomes(returned):
    with pytest.raises(ValueError, match="simulator must return one Outcome for each of 4 seeds"):
        plan(switches=50, rounds=4, simulator=lambda task, schedule, recipe, seeds: returned)


def test_numbers_of_numpy_leave_no_trace_in_the_plan():
    made = plan(
        episodes=np.int64(100),
        horizon=np.int64(3),
        dim=np.int64(2),
        feature_norm=np.float64(2.0),
        ridge=np.float64(0.1),
        beta=np.float64(0.5),
        switches=np.int64(5),
    )
    strict(made)
    assert "np." not in made.code
    exec(made.code, {})


def test_the_target_that_is_suggested_is_accepted():
    def play(task, schedule, recipe, seeds):
        return [Outcome(regret=12.344, deployments=2, switches=1) for _ in seeds]

    arguments = {"beta": 1.0, "simulator": play}
    with pytest.raises(ValueError, match="target must be at least") as refused:
        plan(target=0.1, **arguments)
    suggested = float(str(refused.value).split("at least ")[1].split(",")[0])
    assert plan(target=suggested, **arguments).recommended is not None


def test_a_task_is_asked_for():
    with pytest.raises(TypeError, match="task must be a Task"):
        rs.plan({"dim": 2, "horizon": 3, "episodes": 100}, switches=5)


# Mixtures.


def test_every_rule_is_judged_with_the_papers_bonus_and_with_a_mixture():
    for switches in (0, 5, 60, 99):  # a budget that is asked for is never too large
        made = plan(switches=switches)
        singles, mixtures = of_both_kinds(made)
        assert made.options == (*singles, *mixtures)
        assert [o.candidate for o in singles] == [o.candidate for o in mixtures]
        assert {o.exploration for o in singles} == {rs.Bonus(1.0)}
        assert {o.exploration for o in mixtures} == {rs.Ensemble()}
        assert all(o.candidate.deployment_limit <= switches for o in made.options)
        assert len({o.name for o in made.options}) == len(made.options)


def test_without_a_simulator_a_mixture_that_spends_the_budget_is_taken():
    for switches in (1, 5, 6, 60, 98):
        made = plan(switches=switches, ridge=0.3)
        assert made.recommended.name == f"spread-budget (mixture), at most {switches}"
        assert (made.exploration, made.exploration_source) == (rs.Ensemble(), "no tuning")
        assert "keeps the budget on every path and spends all of it" in made.reason
        assert "No bound on its regret is proved" in made.reason


def test_nothing_is_proved_of_the_regret_of_a_mixture():
    for made in (plan(switches=20), plan(switches=20, exploration=rs.Bonus(1.0, members=4))):
        for option in of_both_kinds(made)[1]:
            assert option.bound is None
    singles, mixtures = of_both_kinds(plan(switches=20))
    assert [o.bound for o in singles] == [o.candidate.bound for o in mixtures]
    entries = strict(plan(switches=20))["options"][len(singles) :]
    assert all(e["regret_bound"] is e["regret_bound_vacuous"] is None for e in entries)
    estimated = plan(switches=20, exploration=rs.Bonus(1.0, estimate=True))
    perturbed = plan(switches=20, exploration=rs.Perturbation(0.1))
    for made in (estimated, perturbed):  # one policy, but not the paper's
        assert all(o.bound is None and not o.mixture for o in made.options)


def test_every_option_is_played_with_its_own_exploration_on_the_same_seeds():
    fake = Fake()
    made = plan(switches=20, rounds=3, seed=8, simulator=fake)
    swept_, played = fake.calls[: -len(made.options)], fake.calls[-len(made.options) :]
    assert {exploration.members for _, exploration, _ in swept_} == {1}
    assert [(schedule, explores) for schedule, explores, _ in played] == [
        (option.candidate.schedule, option.exploration) for option in made.options
    ]
    assert all(seeds == [(8, 0), (8, 1), (8, 2)] for _, _, seeds in fake.calls)
    singles, mixtures = of_both_kinds(made)
    assert {o.exploration for o in singles} == {rs.Bonus(made.sweep.chosen)}
    assert {o.exploration for o in mixtures} == {rs.Ensemble()}
    every_rule = [o.candidate for o in singles]
    assert [o.candidate for o in with_estimates(made)] == every_rule
    assert [o.candidate for o in mixtures] == every_rule


@pytest.mark.parametrize(("mixture", "taken"), [(10.0, True), (90.0, False)])
def test_the_reason_names_the_best_of_both_kinds(mixture, taken):
    made, _ = swept({0: 40.0}, randomise=True, simulator=Betas({0: 40.0}, mixture=mixture))
    assert made.recommended.mixture is taken
    singles, mixtures = of_both_kinds(made)
    other, kind = (singles[0], "single policy") if taken else (mixtures[0], "mixture")
    said = f"With the same budget the best {kind}, {other.title}, has {other.regret}."
    assert made.reason.endswith(said)
    assert made.reason.startswith(f"it has the least simulated regret, {made.recommended.regret}")
    source = "no tuning" if taken else "swept on the simulator"
    assert made.exploration_source == source
    assert made.exploration == (rs.Ensemble() if taken else rs.Bonus(1.0))
    assert made.sweep.chosen == 1.0


@pytest.mark.parametrize("randomise", [False, True])
def test_one_policy_with_estimates_is_recommended_if_it_has_the_least_regret(randomise):
    simulator = Betas({0: 40.0}, mixture=20.0, estimated=10.0)
    made, _ = swept({}, randomise=randomise, simulator=simulator)
    assert made.exploration == ESTIMATED
    assert made.exploration_source == "no tuning"
    assert made.recommended.name == "uniform-grid (estimates), at most 20"
    assert made.recommended.bound is None
    scope = {}
    exec(made.code, scope)
    assert scope["learner"].recipe.exploration == ESTIMATED
    assert "--exploration bonus,estimate=true" in made.command


def test_one_policy_with_estimates_needs_a_simulator():
    assert not with_estimates(plan(switches=20))
    assert not with_estimates(plan(switches=20, randomise=False))


def test_mixtures_leave_the_sweep_as_it_is():
    regret = {-3: 90.0, -2: 80.0, -1: 60.0, 0: 70.0, 1: 90.0, 2: 95.0}
    plain, _ = swept(regret)
    mixed, _ = swept(regret, randomise=True)
    assert mixed.sweep == plain.sweep
    assert (*of_both_kinds(mixed)[0], *with_estimates(mixed)) == plain.options


@pytest.mark.parametrize("request_", [{"switches": 20}, {"price": 2.0}, {"target": 2.0}])
def test_where_randomising_is_not_allowed_no_option_does(request_):
    arguments = request_ | {"rounds": 3, "simulator": Fake(3)}
    made = plan(**arguments, randomise=False)
    assert all(o.exploration.members == 1 for o in made.options)
    assert "mixture" not in json.dumps(strict(made))
    # Nothing else is different: these are the options that there are beside mixtures.
    both = plan(**arguments)
    beside = [*of_both_kinds(both)[0], *with_estimates(both)]
    assert [replace(o, prices=None) for o in made.options] == [
        replace(o, prices=None) for o in beside
    ]
    assert {o.exploration for o in made.options} == {rs.Bonus(made.sweep.chosen), ESTIMATED}


def test_without_mixtures_the_rule_is_the_one_that_the_theorems_favour():
    for switches, name in ((5, "uniform-grid"), (6, "adaptive-budget"), (60, "adaptive-budget")):
        for how in ({"randomise": False}, {"beta": 1.0}):
            made = plan(switches=switches, **how)
            assert made.recommended.name == f"{name}, at most {switches}"
            assert made.exploration == rs.Bonus(1.0)


@pytest.mark.parametrize(
    "explores", [rs.Bonus(0.3), rs.Ensemble(members=4), rs.Bonus(1.0, members=3), rs.Bonus(2.0)]
)
@pytest.mark.parametrize("randomise", [True, False])
def test_with_a_given_exploration_nothing_is_swept_and_nothing_added(explores, randomise):
    fake = Fake()
    arguments = {"exploration": explores, "randomise": randomise}
    if explores.members > 1 and not randomise:
        with pytest.raises(ValueError, match="one member if randomise is False; got"):
            plan(switches=20, **arguments)
        return
    made = plan(switches=20, rounds=2, simulator=fake, **arguments)
    assert len(fake.calls) == len(made.options) == len(plan(switches=20, beta=1.0).options)
    assert {o.exploration for o in made.options} == {explores}
    assert (made.exploration_source, made.sweep) == ("given", None)
    assert "With the same budget" not in made.reason
    assert plan(switches=20, **arguments).exploration == explores


def test_budgets_that_no_one_asked_for_have_mixtures_up_to_fifty():
    own = [Every(2), Every(3), Whenever()]  # at most 50, at most 33, and as often as can be
    made = plan(price=1.0, rounds=2, simulator=Fake(), candidates=own)
    singles, mixtures = of_both_kinds(made)
    assert {o.candidate.deployment_limit for o in singles} == {*ladder(100), 33}
    few = [o.candidate for o in singles if o.candidate.deployment_limit <= 50]
    assert [o.candidate for o in mixtures] == [o.candidate for o in with_estimates(made)] == few
    assert {o.candidate.schedule for o in mixtures} >= {Every(2), Every(3)}
    assert max(o.candidate.deployment_limit for o in mixtures) == 50
    asked = plan(switches=80)
    assert any(o.mixture and o.candidate.deployment_limit == 80 for o in asked.options)


class Mixed:
    """A simulator in which one kind of rule with mixtures has no regret."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, task, schedule, recipe, seeds):
        exploration = recipe.exploration
        best = type(schedule) is self.kind and exploration.members > 1
        return [Outcome(regret=0.0 if best else 50.0, deployments=3, switches=1) for _ in seeds]


@pytest.mark.parametrize("kind", [rs.UniformGrid, rs.SpreadBudget, rs.rules.TotalGrowth])
def test_the_code_of_a_mixture_makes_the_learner_that_was_recommended(kind):
    made = plan(switches=20, ridge=0.5, rounds=2, simulator=Mixed(kind))
    assert made.recommended.mixture
    scope = {}
    exec(made.code, scope)
    learner = scope["learner"]
    assert learner.schedule == made.recommended.candidate.schedule
    assert type(learner.schedule) is kind
    assert learner.recipe.exploration == made.exploration == rs.Ensemble()
    assert (learner.recipe.ridge, learner.task.episodes) == (0.5, 100)
    assert learner.policy.members == 32
    rng = np.random.default_rng(0)
    for k in range(1, 101):
        rows = unit_rows(rng, 3, 3, 2)
        member = learner.policy.draw(k)
        chosen = [rows[h][member.act(h, rows[h])] for h in range(3)]
        learner.observe(rs.Episode(features=chosen, rewards=[0, 0, 1], next_features=rows[1:]))
    assert len(learner.ledger) - 1 <= 20


def test_the_command_of_a_mixture_says_how_it_explores():
    made = plan(switches=20, ridge=0.5)
    assert made.command == (
        "rareswitch learn --schedule spread-budget,switches=20 --exploration ensemble "
        "--ridge 0.5 --episodes 100 --feature-norm 1.0"
    )
    other = plan(switches=20, exploration=rs.Ensemble(members=8, scale=1.0))
    assert "--exploration ensemble,members=8,scale=1.0 " in other.command
    estimated = plan(switches=20, exploration=rs.Bonus(1.0, estimate=True))
    assert "--exploration bonus,estimate=true " in estimated.command
    assert "exploration=rs.Bonus(estimate=True)" in estimated.code


def test_on_a_world_mixtures_are_simulated_as_they_are_played():
    def world(seed):
        return rs.worlds.hard_to_learn(d=5, horizon=3, seed=seed)

    task = world(0).task(episodes=60)
    made = rs.plan(task, switches=4, rounds=2, simulator=world_simulator(world))
    for option in of_both_kinds(made)[1]:
        runs = [
            rs.simulate(
                world((0, r)),
                option.candidate.schedule,
                rs.Recipe(exploration=rs.Ensemble()),
                episodes=60,
                seed=(0, r),
            )
            for r in range(2)
        ]
        assert option.regret.mean == pytest.approx(np.mean([run.regret.mean() for run in runs]))
        assert [one.deployments for one in option.outcomes] == [run.deployments for run in runs]
        assert [one.switches for one in option.outcomes] == [run.switches for run in runs]


@pytest.mark.parametrize("value", [None, 1, "no", 0.0])
def test_randomise_is_yes_or_no(value):
    with pytest.raises(TypeError, match="randomise must be"):
        plan(switches=5, randomise=value)


# Another exploration.


def test_an_exploration_is_played_as_it_is_and_nothing_is_swept():
    fake, explores = Fake(), rs.Perturbation(0.5, draws=3)
    made = plan(switches=20, exploration=explores, rounds=2, simulator=fake)
    assert {exploration for _, exploration, _ in fake.calls} == {explores}
    assert (made.exploration, made.exploration_source, made.sweep) == (explores, "given", None)
    assert strict(made)["exploration"] == describe(explores)
    assert describe(explores)["kind"] == "perturbation"
    scope = {}
    exec(made.code, scope)
    assert scope["learner"].recipe.exploration == explores
    assert "--exploration perturbation,scale=0.5,draws=3" in made.command
    assert "--beta" not in made.command


# The command that plays the rule.


def test_the_command_says_all_that_was_planned():
    made = plan(switches=20, ridge=0.5, beta=0.25)
    assert made.command == (
        "rareswitch learn --schedule adaptive-budget,switches=20 --beta 0.25 "
        "--ridge 0.5 --episodes 100 --feature-norm 1.0"
    )


def test_the_command_makes_the_very_rule_that_was_recommended():
    for rule, norm in ((rs.UniformGrid(batches=3), 1.0), (None, 40.0)):
        task = rs.Task(dim=2, horizon=3, episodes=100, feature_norm=norm)
        made = rs.plan(task, switches=20, candidates=[] if rule is None else [rule])
        chosen = (
            replace(made.recommended, candidate=own_candidates([rule], task)[0]) if rule else None
        )
        made = replace(made, recommended=chosen or made.recommended)
        said = shlex.split(made.command)
        again = words.make_schedule(*words.parse(said[said.index("--schedule") + 1]), task)
        assert again == made.recommended.candidate.schedule
        if rule is None:  # its threshold depends on the feature norm
            assert said[said.index("--feature-norm") + 1] == "40.0"


# Rules of one's own.


@dataclass(frozen=True)
class Every:
    """Deploy every so many episodes."""

    step: int

    def due(self, clock):
        return clock.episode % self.step == 0

    def deployment_limit(self, task, ridge):
        return task.episodes // self.step


class Whenever:
    def due(self, clock):
        return False


class Best:
    """A simulator in which one kind of rule has no regret."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, task, schedule, recipe, seeds):
        regret = 0.0 if isinstance(schedule, self.kind) else 50.0
        return [Outcome(regret=regret, deployments=3, switches=1) for _ in seeds]


def test_a_round_with_more_deployments_than_the_limit_refutes_the_rule():
    class Breaks(Best):
        def __call__(self, task, schedule, recipe, seeds):
            made = super().__call__(task, schedule, recipe, seeds)
            last = replace(made[-1], deployments=12 if isinstance(schedule, Every) else 3)
            return [*made[:-1], last]

    told = (
        r"deployment_limit of .*:Every,step=10 must be at least .* it is 10, and round 1 has 11. "
        r"Correct the rule's deployment_limit, its due or the simulator"
    )
    for request in ({"switches": 20}, {"price": 1.0}):
        with pytest.raises(ValueError, match=told):
            plan(**request, beta=1.0, rounds=2, simulator=Breaks(Every), candidates=[Every(10)])
    whenever = [Whenever()]  # without a limit there is no promise to break
    plan(switches=20, beta=1.0, rounds=2, simulator=Breaks(Every), candidates=whenever)


def test_a_rule_of_ones_own_is_judged_beside_ours():
    own = Every(10)
    made = plan(switches=20, beta=1.0, rounds=2, simulator=Best(Every), candidates=[own])
    option = made.options[-1]
    assert made.recommended is option
    assert option.name == f"{__name__}:Every,step=10, at most 10"
    scope = {}
    exec(made.code, scope)
    assert scope["learner"].schedule == own
    assert f"--schedule {__name__}:Every,step=10 " in made.command
    assert strict(made)["options"][-1]["schedule"] == {"kind": f"{__name__}:Every", "step": 10}
    assert [o.name for o in made.options[:-1]] == [
        o.name for o in plan(switches=20, beta=1.0).options
    ]


@pytest.mark.parametrize("own", [Every(4), Whenever()])
def test_a_rule_that_may_exceed_the_budget_is_shown_but_not_recommended(own):
    arguments = {"beta": 1.0, "rounds": 2, "simulator": Best(type(own)), "candidates": [own]}
    made = plan(switches=20, **arguments)
    assert made.options[-1].candidate.schedule is own
    assert made.options[-1].regret.mean == 0.0
    assert made.recommended.candidate.schedule is not own
    assert type(own).__name__ not in made.reason
    for request in ({"switches": 99}, {"price": 1.0}, {"target": 0.1}):
        assert plan(**request, **arguments).recommended.candidate.schedule is own


def test_a_rule_that_promises_nothing_says_so():
    made = plan(switches=20, candidates=[Whenever()], randomise=False)
    option = made.options[-1]
    assert option.name == f"{__name__}:Whenever, not guaranteed"
    assert strict(made)["options"][-1]["guaranteed"] is False
    assert made.recommended.name == "adaptive-budget, at most 20"
    mixed = plan(switches=20, candidates=[Whenever()])
    assert mixed.options[-1].name == f"{__name__}:Whenever (mixture), not guaranteed"
    assert mixed.recommended.name == "spread-budget (mixture), at most 20"
    for budget in (0, 99):
        with_own = plan(switches=budget, candidates=[Whenever()])
        assert with_own.recommended.name == plan(switches=budget).recommended.name


@pytest.mark.parametrize(
    ("own", "typed"),
    [
        (Whenever(), None),
        (rs.rules.Capped(Whenever(), 5), None),
        (rs.rules.Capped(rs.EveryEpisode(), 5), "capped,schedule=every-episode,switches=5"),
    ],
)
def test_a_rule_that_cannot_be_typed_has_no_command(own, typed):
    simulator = Best((Whenever, rs.rules.Capped))
    made = plan(price=1.0, beta=1.0, rounds=2, simulator=simulator, candidates=[own])
    assert made.recommended.candidate.schedule is own
    assert made.command is None if typed is None else typed in made.command


@pytest.mark.parametrize(
    "explores", [rs.Ensemble(), rs.Bonus(1.0, estimate=True), rs.Perturbation(0.1)]
)
def test_a_price_needs_a_simulator_where_nothing_is_proved(explores):
    with pytest.raises(ValueError, match="price needs a simulator"):
        plan(price=2.0, exploration=explores)


@pytest.mark.parametrize("explores", [rs.Bonus(1.0, estimate=True), rs.Perturbation(0.1)])
def test_no_theorem_is_named_that_does_not_hold(explores):
    for switches in (5, 20):
        assert "Theorem" not in plan(switches=switches, exploration=explores).reason


def test_the_plan_of_a_task_whose_stages_share_makes_a_learner_whose_stages_do():
    task = rs.Task(dim=4, horizon=5, episodes=60, stages="shared")
    simulator = world_simulator(
        lambda seed: rs.worlds.random_linear(states=3, actions=2, d=4, horizon=5, seed=seed)
    )
    half = {"recipe": rs.Recipe.paper(beta=0.5)}
    for arguments in ({}, half, {"simulator": simulator, "rounds": 2} | half):
        made, scope = rs.plan(task, switches=6, **arguments), {}
        exec(made.code, scope)
        assert scope["learner"].task == task
        assert scope["learner"].schedule == made.recommended.candidate.schedule
        assert made.command is None  # `learn` has stages of their own
        assert "Theorem" not in made.reason
        assert all(option.bound is None for option in made.options)
        assert made.to_dict()["task"]["stages"] == "shared"
    own = rs.plan(rs.Task(dim=4, horizon=5, episodes=60), switches=6)
    assert "stages" not in own.code
    assert own.command is not None
