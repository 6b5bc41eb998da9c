"""Measure the share of the best returns that the defaults reach in each world.

    python benchmarks/worlds.py --results results-of-worlds --table shares.csv --figure shares.png
    python benchmarks/worlds.py --read docs/_static/defaults.csv --figure docs/_static/defaults.png

The defaults allow at most one switch in twenty episodes. How much of the return of a switch before
every episode do they keep while learning? How much of the best return known does the recommended
policy reach? Returns are exact in a finite world: the expected returns of the policies that played.
Each training is stored in the folder of results when it ends. The same command resumes; an empty
folder measures again. `--table` writes all numbers, and `--read` prints and draws them without a
measurement. `--figure a.png` draws a.png, of learning, and a-recommended.png.
"""

import argparse
import csv
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from exact_returns import Acting, Earned
from played_worlds import OUTSIDE, WORLDS, Place
from scipy.stats import t

import rareswitch as rs
from rareswitch.compute.local import local_pool
from rareswitch.gym import Training, train
from rareswitch.support.arguments import Floats

GOAL = 0.95
EDGE = 1.3  # the right end of a chart
FRESH = 200  # episodes of an evaluation, in worlds without exact returns
DEFAULT, EVERY = WAYS = "default", "every"
Found = dict[str, float]


def options(way: str) -> dict[str, Any]:
    """Return the arguments of `train`."""
    if way == EVERY:  # equal to drawing one of many members, and cheaper
        recipe = rs.Recipe(exploration=rs.Ensemble(members=1))
        return {"schedule": rs.EveryEpisode(), "recipe": recipe}
    return {}


def played(name: str, way: str, seed: int, episodes: int) -> Found:
    """Return the results of one training."""
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
    """Return the mean return of random actions on fresh episodes."""
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
    """The trainings of one world, in one file each, with its numbers of episodes and rounds."""

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
        """Return the results by name, each (rounds,)."""
        files = [self._file(way, seed) for seed in range(self.rounds)]
        found = [json.loads(file.read_text()) for file in files]
        return {key: np.array([one[key] for one in found]) for key in found[0]}

    def _file(self, way: str, seed: int) -> Path:
        plain = "".join(c if c.isalnum() else "-" for c in self.name)
        return self._folder / f"{plain}.{self.episodes}.{way}.{seed}.json"


class Share(NamedTuple):
    """A share of a return above random play, with half of its 95% interval over rounds."""

    value: float
    margin: float

    @classmethod
    def of(cls, ours: Floats, theirs: Floats, random: Floats) -> "Share":
        """Return one return (rounds,) as a share of another, paired by rounds."""
        ours, theirs = ours - random, theirs - random
        value = float(ours.mean() / theirs.mean())
        apart = (ours - value * theirs).std(ddof=1) / np.sqrt(len(ours))
        return cls(value, float(abs(t.ppf(0.975, len(ours) - 1) * apart / theirs.mean())))

    def __str__(self) -> str:
        return f"{self.value:.1%} ± {self.margin:.1%}".replace("%", "")

    @property
    def settled(self) -> bool:
        """Whether the goal is outside the interval."""
        return abs(self.value - GOAL) > self.margin

    @property
    def reached(self) -> bool:
        return self.value >= GOAL

    @property
    def verdict(self) -> str:
        """Whether the goal is reached, with a question mark if it is inside the interval."""
        return ("yes" if self.reached else "no") + ("" if self.settled else "?")


class Row(NamedTuple):
    """The means of one world over rounds, formatted: two shares and the returns behind them."""

    world: str
    outside: str  # yes: a world of other authors
    horizon: str
    episodes: str
    rounds: str
    switches: str
    switches_every: str
    random: str
    best: str
    learning: str
    learning_every: str
    learning_share: str
    learning_margin: str
    final: str
    final_every: str
    final_share: str
    final_margin: str

    @classmethod
    def of(cls, results: Results) -> "Row":
        found = {way: results.read(way) for way in WAYS}
        ours, full = found[DEFAULT], found[EVERY]
        learning = Share.of(ours["learning"], full["learning"], full["random"])
        final = Share.of(ours["final"], best_known(found), full["random"])
        return cls(
            world=results.name,
            outside="yes" if results.name in OUTSIDE else "no",
            horizon=f"{ours['horizon'][0]:.0f}",
            episodes=f"{results.episodes}",
            rounds=f"{results.rounds}",
            switches=f"{ours['switches'].mean():.0f}",
            switches_every=f"{full['switches'].mean():.0f}",
            random=shown(float(full["random"].mean())),
            best=shown(float(full["optimum"].mean())),
            learning=shown(float(ours["learning"].mean())),
            learning_every=shown(float(full["learning"].mean())),
            learning_share=f"{learning.value:.3f}",
            learning_margin=f"{learning.margin:.3f}",
            final=shown(float(ours["final"].mean())),
            final_every=shown(float(full["final"].mean())),
            final_share=f"{final.value:.3f}",
            final_margin=f"{final.margin:.3f}",
        )

    def share(self, part: str) -> Share:
        """Return the share of a part, `learning` or `final`."""
        return Share(*(float(getattr(self, f"{part}_{name}")) for name in ("share", "margin")))


def shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4g}"


def best_known(found: dict[str, dict[str, Floats]]) -> Floats:
    """Return the optimum of each round, or the return of the better way if it is higher.

    Rounds have different worlds, so returns are compared round by round.
    """
    reached = max((one["final"] for one in found.values()), key=np.mean)
    return np.fmax(found[DEFAULT]["optimum"], reached)


def ranked(rows: list[Row]) -> list[Row]:
    """Sort worlds: of other authors first, then the others, each by the share while learning."""
    return sorted(rows, key=lambda row: (row.outside == "no", -row.share("learning").value))


def draw(rows: list[Row], part: str, title: str, file: Path) -> None:
    """Draw the share of every world with its interval, and the goal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 0.27 * len(rows) + 1.5), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(reversed(rows)):
        share = row.share(part)
        color = "C0" if share.reached else "C1"
        ends = np.clip([share.value - share.margin, share.value + share.margin], 0.0, EDGE)
        axes.plot(ends, [place, place], color=color, lw=1.5, alpha=0.5)
        at, fill = float(np.clip(share.value, 0.0, EDGE)), color if share.settled else "white"
        marker = "o" if at == share.value else "<>"[share.value > EDGE]
        axes.plot(at, place, marker, color=color, mfc=fill, ms=6)
        axes.text(EDGE + 0.06, place, f"{share.value:.1%}", va="center", fontsize=9)
    axes.axvline(GOAL, color="grey", lw=0.8)
    others = sum(row.outside == "no" for row in rows)
    if 0 < others < len(rows):
        axes.axhline(others - 0.5, color="grey", lw=0.8, ls=":")
    ticks = np.arange(0.0, EDGE, 0.25)
    axes.set(xlim=(-0.04, EDGE + 0.04), xticks=ticks, ylim=(-0.6, len(rows) - 0.4))
    axes.set_xticklabels([f"{tick:.0%}" for tick in ticks], fontsize=9)
    axes.set_yticks(range(len(rows)), [row.world for row in reversed(rows)], fontsize=9)
    for color, label in (("C0", "95% or more"), ("C1", "less than 95%")):
        axes.plot([], [], "o", color=color, label=label)
    axes.plot([], [], "o", color="grey", mfc="white", label="interval contains 95%")
    figure.suptitle(title, fontsize=10)
    figure.legend(loc="outside lower center", fontsize=8, ncols=3, frameon=False)
    figure.savefig(file, dpi=150)


def markdown(rows: list[Row]) -> Iterator[str]:
    """Write the shares and the returns behind them as narrow tables, line by line."""
    shares = ((row.share("learning"), row.share("final")) for row in rows)
    yield from table(
        "| world | while learning | recommended |",
        (
            (row.world, *(f"{share}, {share.verdict}" for share in pair))
            for row, pair in zip(rows, shares, strict=True)
        ),
    )
    yield from table(
        "| world | H | K | rounds | switches |",
        ((r.world, r.horizon, r.episodes, r.rounds, r.switches or "–") for r in rows),
    )
    yield from table(
        "| world, while learning | random | **defaults** | every episode |",
        ((r.world, r.random, f"**{r.learning}**", r.learning_every) for r in rows),
    )
    yield from table(
        "| world, recommended | **defaults** | every episode | best |",
        ((r.world, f"**{r.final}**", r.final_every, r.best) for r in rows),
    )


def table(head: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    yield f"\n{head}"
    yield "|" + "---|" * (head.count("|") - 1)
    for cells in rows:
        yield f"| {' | '.join(map(str, cells))} |"


def measure(results: list[Results], workers: int | None) -> None:
    """Run the missing trainings, and store each when it ends."""
    waiting = [(one, way, seed) for one in results for way, seed in one.missing()]
    with local_pool(workers) as pool:
        jobs = {
            pool.submit(played, one.name, way, seed, one.episodes): (one, way, seed)
            for one, way, seed in waiting
        }
        for number, job in enumerate(as_completed(jobs), start=1):
            (one, way, seed), found = jobs[job], job.result()
            one.keep(way, seed, found)
            told = f"{one.name}, {way}, round {seed}: {found['learning']:.4g}"
            print(f"{number}/{len(jobs)} {told}, {found['seconds']:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results-of-worlds"))
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="two rounds of a tenth of the length")
    parser.add_argument("--table", type=Path, help="a CSV file for all numbers")
    parser.add_argument("--read", type=Path, help="a file of --table: measure nothing")
    parser.add_argument("--figure", type=Path, help="a file for the charts of the shares")
    arguments = parser.parse_args()
    if arguments.read is not None:
        with arguments.read.open(encoding="utf-8", newline="") as lines:
            rows = [Row(**found) for found in csv.DictReader(lines)]
    else:
        results = [Results(arguments.results, name, arguments.quick) for name in arguments.worlds]
        measure(results, arguments.workers)
        rows = [Row.of(one) for one in results]
        seconds = sum(float(one.read(way)["seconds"].sum()) for one in results for way in WAYS)
        print(f"{seconds / 60.0:.0f} minutes of CPU time")
    rows = ranked(rows)
    if arguments.table is not None:
        with arguments.table.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Row._fields, *rows])
    print("\n".join(markdown(rows)))
    if arguments.figure is not None:
        file = arguments.figure
        draw(rows, "learning", "While learning: share of the return of full adaptivity", file)
        other = file.with_stem(f"{file.stem}-recommended")
        draw(rows, "final", "Recommended policy: share of the best return known", other)


if __name__ == "__main__":
    main()
