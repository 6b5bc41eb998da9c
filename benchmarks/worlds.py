"""How far defaults go, world by world: `python benchmarks/worlds.py --results results-of-worlds`.

With defaults only, at most one switch in twenty episodes: how much of the return of a new policy
before every episode is reached while learning, and how much of the best return known by the
recommended policy? Returns are exact where a world is finite: the expected returns of the policies
that played. Every training is kept in the folder as it ends; run again, the command goes on from
there, and an empty folder measures anew.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import numpy as np
from exact_returns import Acting, Earned
from played_worlds import WORLDS, Place
from scipy.stats import t

import rareswitch as rs
from rareswitch.compute.local import local_pool
from rareswitch.gym import Training, train
from rareswitch.support.arguments import Floats

GOAL = 0.95
FRESH = 200  # episodes that tell what a policy earns where that is not known exactly
DEFAULT, EVERY = WAYS = "default", "every"
Found = dict[str, float]


def options(way: str) -> dict[str, Any]:
    """Return what `train` is told."""
    if way == EVERY:  # drawing one member anew is to draw one of many, and is cheaper
        recipe = rs.Recipe(exploration=rs.Ensemble(members=1))
        return {"schedule": rs.EveryEpisode(), "recipe": recipe}
    return {}


def played(name: str, way: str, seed: int, episodes: int) -> Found:
    """Return what came of one training."""
    began = time.process_time()
    place = WORLDS[name].place(seed)
    given = place.options | options(way)
    if place.exact is None:
        training = train(place.env, episodes=episodes, seed=seed, **given)
        final = training.evaluate(FRESH).mean
        optimum, random = place.best, random_return(place, training, seed)
        learning = float(training.totals.mean())
    else:
        features = rs.gym.setting_of(place.env, seed=seed, **place.options).features
        earned = Earned(place.exact, Acting(features, place.states, place.exact.feasible))
        given |= {"features": features}
        training = train(place.env, episodes=episodes, seed=seed, callback=earned, **given)
        final, learning = earned.of(training.agent.policy), float(np.mean(earned.totals))
        optimum, random = place.exact.optimum(), place.exact.random()
    return {
        "learning": learning,
        "final": final,
        "random": random,
        "optimum": optimum,
        "switches": len(training.switch_episodes),
        "horizon": training.setting.horizon,
        "seconds": time.process_time() - began,
    }


def random_return(place: Place, training: Training, seed: int) -> float:
    """Return what random actions earn, on fresh episodes."""
    world, totals = place.env, []
    world.action_space.seed(seed)
    for episode in range(FRESH):
        world.reset(seed=10**6 * (seed + 1) + episode)
        total = 0.0
        for _ in range(training.setting.horizon):
            _, reward, terminated, truncated, _ = world.step(world.action_space.sample())
            total += float(reward)
            if terminated or truncated:
                break
        totals.append(total)
    return float(np.mean(totals))


class Results:
    """The trainings of one world: a file for each, of as many episodes and rounds."""

    def __init__(self, folder: Path, name: str, quick: bool) -> None:
        self.name, self.world, self._folder = name, WORLDS[name], folder
        self.episodes = self.world.episodes // 10 if quick else self.world.episodes
        self.rounds = 2 if quick else self.world.rounds

    def missing(self) -> Iterator[tuple[str, int]]:
        """Yield the ways and rounds that have not been played."""
        for way in WAYS:
            for seed in range(self.rounds):
                if not self._file(way, seed).is_file():
                    yield way, seed

    def keep(self, way: str, seed: int, found: Found) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._file(way, seed).with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(self._file(way, seed))

    def read(self, way: str) -> dict[str, Floats]:
        """Return what was found, each (rounds,)."""
        files = [self._file(way, seed) for seed in range(self.rounds)]
        found = [json.loads(file.read_text()) for file in files]
        return {key: np.array([one[key] for one in found]) for key in found[0]}

    def _file(self, way: str, seed: int) -> Path:
        plain = "".join(c if c.isalnum() else "-" for c in self.name)
        return self._folder / f"{plain}.{self.episodes}.{way}.{seed}.json"


class Share:
    """How much of a return above random another one is, with its 95% interval over rounds."""

    def __init__(self, ours: Floats, theirs: Floats, random: Floats) -> None:
        ours, theirs = ours - random, theirs - random
        self.value = float(ours.mean() / theirs.mean())
        apart = (ours - self.value * theirs).std(ddof=1) / np.sqrt(len(ours))
        self.margin = float(abs(t.ppf(0.975, len(ours) - 1) * apart / theirs.mean()))

    def __str__(self) -> str:
        return f"{self.value:.1%} ± {self.margin:.1%}".replace("%", "")

    @property
    def verdict(self) -> str:
        """Whether the goal is reached, with a question mark where rounds do not settle it."""
        settled = abs(self.value - GOAL) > self.margin
        return ("yes" if self.value >= GOAL else "no") + ("" if settled else "?")


def shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4g}"


def best_known(found: dict[str, dict[str, Floats]]) -> Floats:
    """Return the optimum of each round, or the return of the better way to learn where it is more.

    Rounds have worlds of their own, so returns are compared round by round.
    """
    reached = max((one["final"] for one in found.values()), key=np.mean)
    return np.fmax(found[DEFAULT]["optimum"], reached)


def draw(results: list[Results], file: Path) -> None:
    """Draw the shares of all worlds, while learning and recommended, beside the goal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 0.28 * len(results) + 1.2), layout="constrained")
    axes = figure.subplots()
    for place, one in enumerate(reversed(results)):
        found = {way: one.read(way) for way in WAYS}
        ours, full = found[DEFAULT], found[EVERY]
        yardsticks = (full["learning"], best_known(found))
        for part, yardstick, marker in zip(("learning", "final"), yardsticks, "o*", strict=True):
            share = Share(ours[part], yardstick, full["random"])
            shown = float(np.clip(share.value, 0.0, 1.1))
            axes.plot(shown, place, marker, color="C0" if part == "learning" else "C1", ms=6)
    axes.axvline(GOAL, color="grey", lw=0.8)
    axes.set(xlim=(-0.05, 1.15), xlabel="share above random play", yticks=range(len(results)))
    axes.set_yticklabels([one.name for one in reversed(results)], fontsize=8)
    axes.plot([], [], "o", color="C0", label="while learning, of a switch before every episode")
    axes.plot([], [], "*", color="C1", label="recommended policy, of the best return known")
    figure.legend(loc="outside upper center", fontsize=8, ncols=2, frameon=False)
    figure.savefig(file, dpi=150)


def markdown(results: list[Results]) -> Iterator[str]:
    """Write two tables, of returns while learning and after it, line by line."""
    for part, title in (("learning", "Return while learning"), ("final", "Recommended policy")):
        of = (
            "return of a switch before every episode" if part == "learning" else "best return known"
        )
        yield f"\n**{title}**, and its share of the {of}, both above random play, in percent.\n"
        yield (
            "| world | K | rounds | random | optimum | **defaults** | every episode "
            "| switches | share | ≥ 95% |"
        )
        yield "|---|" + "---|" * 9
        for one in results:
            found = {way: one.read(way) for way in WAYS}
            means = {way: shown(float(of[part].mean())) for way, of in found.items()}
            ours, full = found[DEFAULT], found[EVERY]
            yardstick = full[part] if part == "learning" else best_known(found)
            share = Share(ours[part], yardstick, full["random"])
            switches = f"{ours['switches'].mean():.0f} of {full['switches'].mean():.0f}"
            cells = [
                f"{one.name} (H = {ours['horizon'][0]:.0f})",
                f"{one.episodes}",
                f"{one.rounds}",
                shown(float(full["random"].mean())),
                shown(float(full["optimum"].mean())),
                f"**{means[DEFAULT]}**",
                means[EVERY],
                switches,
                str(share),
                share.verdict,
            ]
            yield f"| {' | '.join(cells)} |"
    seconds = sum(float(one.read(w)["seconds"].sum()) for one in results for w in WAYS)
    yield f"\n{seconds / 60.0:.0f} minutes of CPU time."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results-of-worlds"))
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="two rounds of a tenth of the length")
    parser.add_argument("--figure", type=Path, help="a file for a chart of the shares")
    arguments = parser.parse_args()
    results = [Results(arguments.results, name, arguments.quick) for name in arguments.worlds]
    waiting = [(one, way, seed) for one in results for way, seed in one.missing()]
    with local_pool(arguments.workers) as pool:
        jobs = {
            pool.submit(played, one.name, way, seed, one.episodes): (one, way, seed)
            for one, way, seed in waiting
        }
        for number, job in enumerate(as_completed(jobs), start=1):
            (one, way, seed), found = jobs[job], job.result()
            one.keep(way, seed, found)
            told = f"{one.name}, {way}, round {seed}: {found['learning']:.4g}"
            print(f"{number}/{len(jobs)} {told}, {found['seconds']:.0f} s", flush=True)
    print("\n".join(markdown(results)))
    if arguments.figure is not None:
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
