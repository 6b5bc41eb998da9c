"""The study behind the default exploration: `python benchmarks/nothing_to_tune.py --out table.md`.

It compares the default mixture, which needs no tuning, with the paper's algorithm, declared and
tuned in hindsight, with variants of the mixture, and with other estimates. Scores are exact, 0 for
the random policy and 100 for the optimum: *learning* is the average over all episodes, *final* is
the score of the greedy policy of all data. The rule was chosen with other seeds.
OPENBLAS_NUM_THREADS=1: one core.

With --stages the default mixture learns with own, shared and chosen stages, and the table has the
average returns while learning. With --scouts some of the 32 members have eight times the
perturbation of the others, also on worlds in which a learner may settle too early; stages are
chosen.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from study_worlds import STICKY, WORLDS, World

import rareswitch as rs
from rareswitch.core import estimation
from rareswitch.core.estimation import ROUNDS, Estimate, estimate_stage
from rareswitch.core.exploration import Exploration
from rareswitch.core.task import Pools
from rareswitch.sim import FiniteMDP, Run, Simulation
from rareswitch.sim.both_tallies import BothTallies
from rareswitch.sim.simulation import companions
from rareswitch.sim.tally import Tally
from rareswitch.support.arguments import Floats

SEED = 2026


def rejected(rule: str, *, cap: float, **sums: Floats) -> Estimate:
    """Return the estimates of another rule; see `estimate_stage` for the names."""
    if rule == "level 0":  # only the level depends on this total
        sums["total"] = np.full_like(sums["total"], -cap / 2.0)
    ours = estimate_stage(cap=cap, **sums)
    if rule == "level 0":
        return ours
    n, g, known = sums["steps"], sums["eigenvalues"], cap**2 / 4.0
    b = sums["products"] - ours.level[..., None] * sums["features"]
    centred = sums["squares"] + ours.level * (n * ours.level - 2.0 * sums["total"])  # Σ(y−l)²
    ridge = m = ours.ridge * np.square(ours.spread / ours.noise)  # since λ = mσ²/V²
    for _ in range(ROUNDS):
        regular = g + ridge[..., None]
        weights, determined = b / regular, (g / regular).sum(axis=-1)
        residual = np.maximum(centred - (weights * (2.0 * b - g * weights)).sum(axis=-1), 0.0)
        if rule == "ratio":  # V² is the variance of the targets
            spread, noise = (known + centred) / (1.0 + n), (known + residual) / (1.0 + n)
        else:  # the prior of σ² is (H−h)²/4
            spread = (known + m * np.vecdot(weights, weights)) / (1.0 + determined)
            noise = (known + residual) / (1.0 + n - determined)
        ridge = m * noise / spread
    if rule == "evidence":  # the largest −½n·log σ² + ½log(λᵈ/det(G+λI)), by half decades
        decades, n = 10.0 ** np.arange(-4.0, 3.25, 0.5), n[..., None]
        ridges = (decades * m[..., None])[..., None]
        regular = g[..., None, :] + ridges
        least = centred[..., None] - (b[..., None, :] ** 2 / regular).sum(axis=-1)
        noises = (known + np.maximum(least, 0.0)) / (1.0 + n)
        best = (np.log(ridges / regular).sum(axis=-1) - n * np.log(noises)).argmax(axis=-1)
        ridge = m * decades[best]
        noise = np.take_along_axis(noises, best[..., None], axis=-1)[..., 0]
    regular = g + ridge[..., None]
    return ours._replace(weights=b / regular, scales=np.sqrt(noise[..., None] / regular))


class Way(NamedTuple):
    exploration: Exploration
    ridge: float = 1.0
    estimate: Callable[..., Estimate] = estimate_stage
    every_episode: bool = False  # or on the world's uniform grid
    stages: str = "own"


DEFAULT, TUNED = "**mixture (default)**", {1: "Batch, best of 12", 32: "32 members, best of 12"}
PAIRS = [(beta, ridge) for beta in (0.03, 0.1, 0.3, 1.0) for ridge in (0.01, 0.1, 1.0)]
# If there are several ways, the best way at learning counts in each world.
WAYS = {
    "LSVI-UCB β=λ=1, every episode": [Way(rs.Bonus(1.0), every_episode=True)],
    "Batch β=λ=1": [Way(rs.Bonus(1.0))],
    **{TUNED[m]: [Way(rs.Bonus(b, members=m), ridge) for b, ridge in PAIRS] for m in TUNED},
    DEFAULT: [Way(rs.Ensemble())],
    **{f"mixture, scale {c:g}": [Way(rs.Ensemble(scale=c))] for c in (0.25, 1.0)},
    **{f"mixture, {m} members": [Way(rs.Ensemble(members=m))] for m in (8, 16, 64)},
    "estimated bonus": [Way(rs.Bonus(1.0, estimate=True))],
    "estimated bonus, 32 members": [Way(rs.Bonus(1.0, members=32, estimate=True))],
    "rejected: evidence on a grid": [Way(rs.Ensemble(), estimate=partial(rejected, "evidence"))],
    "rejected: V² of the targets": [Way(rs.Ensemble(), estimate=partial(rejected, "ratio"))],
    "rejected: level 0": [Way(rs.Ensemble(), estimate=partial(rejected, "level 0"))],
    "rejected: noise near (H−h)²/4": [Way(rs.Ensemble(), estimate=partial(rejected, "noise"))],
}


def scores(way: Way, world: World, rounds: int) -> Floats:
    """Return learning score, final score and return while learning of each round (n, 3)."""
    seeds = [(SEED, r) for r in range(rounds)]
    mdps = [world.build(seed=seed) for seed in seeds]
    grid = rs.UniformGrid(batches=world.batches)
    schedule = rs.EveryEpisode() if way.every_episode else grid
    recipe = rs.Recipe(exploration=way.exploration, ridge=way.ridge)
    found = np.empty((rounds, 3))
    for group in companions(mdps):
        own, some = [seeds[r] for r in group], [mdps[r] for r in group]
        task = some[0].task(episodes=world.episodes, stages=way.stages)
        with mock.patch.object(estimation, "estimate_stage", way.estimate):
            simulation = Simulation(
                some, schedule, recipe, task=task, seeds=own, initial_state=world.start
            )
            runs = simulation.run().runs()
            finals = greedy_values(way, some, runs)
        for r, run, final in zip(group, runs, finals, strict=True):
            random, optimum = mdps[r].random_values()[0], mdps[r].optimal_values()[0]
            gap, starts = optimum - random, run.states[:, 0]
            every = np.arange(len(gap)) if world.start == "uniform" else starts
            learning = 1.0 - run.regret.sum() / gap[starts].sum()
            ended = (final - random)[every].sum() / gap[every].sum()
            found[r] = 100.0 * learning, 100.0 * ended, (optimum[starts] - run.regret).mean()
    return found


def greedy_values(way: Way, mdps: list[FiniteMDP], runs: list[Run]) -> list[Floats]:
    """Return V₁ (S,) of the greedy policy of each run's data, fitted without exploration."""
    first, count = mdps[0], len(runs)
    greedy = rs.Bonus(0.0, estimate=way.exploration.estimate)
    recipe = rs.Recipe(exploration=greedy, ridge=way.ridge)
    horizon, width = first.horizon, first.features.shape[1]
    pools = Pools(horizon, shared=way.stages == "shared")
    kind = BothTallies if way.stages == "auto" else Tally
    tally = kind(first.space, runs=count, pools=pools, recipe=recipe)
    pairs = np.stack([run.states[:, :-1] * width + run.actions for run in runs])  # (R, K, H)
    following = np.stack([run.states[:, 1:] for run in runs])
    seen, cells = np.unique(pairs, return_inverse=True)
    moves = np.zeros((count, horizon, len(seen), first.states))
    np.add.at(moves, (np.arange(count)[:, None, None], np.arange(horizon), cells, following), 1.0)
    pair = np.divmod(seen, width)
    features = np.broadcast_to(first.features[pair], (*moves.shape[:3], first.dim))
    tally.absorb_moves(moves, features, np.stack([mdp.rewards[:, *pair] for mdp in mdps]))
    tally.choose()
    rows = tally.fit(perturbations=None, directions=None)[1][:, :, 0]
    chosen = zip(mdps, first.space.actions[rows], strict=True)
    return [mdp.policy_values(actions)[0] for mdp, actions in chosen]


def error(values: Floats) -> Floats:
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def markdown(found: dict[str, dict[str, Floats]]) -> Iterator[str]:
    """Write the scores of {world: {way: (rounds, 2)}} and their means, line by line."""
    yield f"| learning / final | {' | '.join(found)} | mean |"
    yield "|---|" + "---|" * (len(found) + 1)
    lines = {label: [ways[label].mean(axis=0) for ways in found.values()] for label in WAYS}
    errors = [np.median([error(own) for own in ways.values()], axis=0) for ways in found.values()]
    for label, cells in lines.items():
        shown = [f"{a:.0f} / {b:.0f}" for a, b in [*cells, np.mean(cells, axis=0)]]
        yield f"| {label} | {' | '.join(shown)} |"
    errors.append(np.linalg.norm(errors, axis=0) / len(errors))  # of the mean
    yield f"| standard error, typically | {' | '.join(f'{a:.1f} / {b:.1f}' for a, b in errors)} |"
    for rival in TUNED.values():
        for column, name in enumerate(("learning", "final")):
            told: dict[bool, list[str]] = {True: [], False: []}
            for world, ways in found.items():
                ahead = (ways[DEFAULT] - ways[rival])[:, column]
                mean, margin = float(ahead.mean()), float(error(ahead))
                if abs(mean) > 2.0 * margin:
                    told[mean > 0.0].append(f"{world} {mean:+.1f}±{margin:.1f}")
            wins, losses = (", ".join(part) or "none" for part in told.values())
            yield f"\nDefault against *{rival}*, {name} (2 s.e.): ahead {wins}; behind {losses}."


def compare_stages(names: list[str], rounds: int) -> Iterator[str]:
    """Write the returns while learning with own, shared and chosen stages, line by line."""
    kinds = ("own", "shared", "auto")
    yield f"| return while learning | {' | '.join(kinds)} | auto − better of both |"
    yield "|---|" + "---|" * (len(kinds) + 1)
    for name in names:
        earned = [
            scores(Way(rs.Ensemble(), stages=kind), WORLDS[name], rounds)[:, 2] for kind in kinds
        ]
        better = max(earned[:2], key=np.mean)
        lead = earned[2] - better
        cells = " | ".join(f"{each.mean():.3f}" for each in earned)
        yield f"| {name} | {cells} | {lead.mean():+.3f} ± {error(lead):.3f} |"


@dataclass(frozen=True)
class Scouting(rs.Ensemble):
    """An ensemble whose first members explore eight times as much."""

    scouts: int = 0

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        drawn = super().perturbations(rng, horizon, dim).copy()
        drawn[: self.scouts] *= 8.0
        return drawn


def compare_scouts(names: list[str], rounds: int) -> Iterator[str]:
    """Write the scores with none, one and two scouts, line by line."""
    counts = (0, 1, 2)
    yield f"| learning / final | {' | '.join(f'{n} scouts' for n in counts)} | 2 − 0 |"
    yield "|---|" + "---|" * (len(counts) + 1)
    for name, world in {**{name: WORLDS[name] for name in names}, **STICKY}.items():
        found = [
            scores(Way(Scouting(scouts=n), stages="auto"), world, rounds)[:, :2] for n in counts
        ]
        cells = " | ".join(f"{a:.1f} / {b:.1f}" for a, b in (each.mean(axis=0) for each in found))
        lead = found[2] - found[0]
        (a, b), (c, d) = lead.mean(axis=0), error(lead)
        yield f"| {name} | {cells} | {a:+.1f} ± {c:.1f} / {b:+.1f} ± {d:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--scouts", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.stages or arguments.scouts:
        compare = compare_stages if arguments.stages else compare_scouts
        for line in compare(arguments.worlds, arguments.rounds):
            print(line, flush=True)
        return
    found: dict[str, dict[str, Floats]] = {name: {} for name in arguments.worlds}
    for name in found:
        for label, ways in WAYS.items():
            print(f"{name}: {label}, {time.process_time():.0f} s", file=sys.stderr, flush=True)
            tried = [scores(way, WORLDS[name], arguments.rounds)[:, :2] for way in ways]
            found[name][label] = max(tried, key=lambda score: score[:, 0].mean())
    about = f"\n{arguments.rounds} rounds, {time.process_time() / 60.0:.1f} minutes of CPU time."
    table = "\n".join([*markdown(found), about])
    print(table)
    if arguments.out is not None:
        arguments.out.write_text(table + "\n")


if __name__ == "__main__":
    main()
