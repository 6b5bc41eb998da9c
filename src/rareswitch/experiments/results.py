"""The results of one experiment, in memory as `Results` and on disk as a folder.

manifest.json   format, spec, digest, the versions that computed its pieces, seeds, timings
runs.npz        regret or returns (arms, rounds, episodes) and the other measurements
summary.csv     arm, episode, mean, q20, q80, ci_low, ci_high, deployments, switches
figure.*        drawn from runs.npz
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rareswitch.core.task import Task
from rareswitch.experiments.algorithms import EVERY, Arrays, Scheduled
from rareswitch.experiments.spec import Arm, Experiment, read_experiment
from rareswitch.experiments.store import FORMAT, Piece, Store, check_format
from rareswitch.experiments.worlds import Adversary, ObliviousAdversary
from rareswitch.rules import theory
from rareswitch.support import bootstrap
from rareswitch.support.archive import load_archive, save_archive, write_bytes
from rareswitch.support.arguments import Bools, Floats, Ints, one_of, real
from rareswitch.support.streams import Stream, generator

if TYPE_CHECKING:
    import pandas
    import polars

SUMMARY_POINTS = 250
BY_EPISODE = ("deployed", "switched")
MEASURED = (*BY_EPISODE, "local_switches", "optimistic", "radius")
COLUMNS = (
    "arm", "episode", "mean", "q20", "q80", "ci_low", "ci_high", "deployments", "switches",
)  # fmt: skip
VALUES = {"regret": "regret", "return": "returns"}  # the array of each measure
Interval = tuple[float, float, float]  # an estimate and the ends of its 95% interval


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Results:
    """The measurements of one experiment; arrays are indexed (arm, round, …).

    A run is one round of one arm.
    """

    experiment: Experiment
    values: Floats  # (arms, rounds, episodes), the regret or, in simulated worlds, the return
    deployed: Bools  # (arms, rounds, episodes), whether a policy was deployed before the episode
    switched: Bools  # (arms, rounds, episodes), whether this changed an action
    local_switches: Ints | Floats  # (arms, rounds); NaN: not counted
    optimistic: Floats  # (arms, rounds), share of fits with V₁ ≥ V*₁; NaN without fits
    radius: Floats  # (arms, rounds), smallest β for which the lemma holds; 0 or NaN: not measured
    logdet_growth: dict[str, Floats]  # arm → (rounds, H)
    cpu_seconds: Floats  # (arms,)
    versions: tuple[dict[str, str], ...]  # the versions that computed the pieces

    @property
    def arms(self) -> tuple[Arm, ...]:
        return self.experiment.arms

    @property
    def measure(self) -> str:
        """The measure of an episode: "regret" or "return"."""
        return self.experiment.measure

    @property
    def regret(self) -> Floats:
        """The regret of every episode, (arms, rounds, episodes); unknown in simulated worlds."""
        if self.measure != "regret":
            raise ValueError("regret is unknown in simulated worlds; use values")
        return self.values

    @cached_property
    def average(self) -> Floats:
        """Regret(k)/k, or the average return up to episode k, (arms, rounds, episodes)."""
        return bootstrap.running_average(self.values)

    @cached_property
    def weights(self) -> Floats:
        """The bootstrap resamples of rounds, the same for every statistic of the experiment."""
        spec = self.experiment
        return bootstrap.resamples(spec.rounds, generator(spec.seed, Stream.BOOTSTRAP))

    @property
    def final(self) -> Floats:
        """The average regret or return at the last episode, (arms, rounds)."""
        return self.average[:, :, -1]

    @property
    def switches(self) -> Ints:
        """The number of switches of each run, (arms, rounds)."""
        return self.switched.sum(axis=-1)

    @property
    def deployments(self) -> Ints:
        """The number of deployments of each run, the first included, (arms, rounds)."""
        return self.deployed.sum(axis=-1)

    @cached_property
    def points(self) -> Ints:
        """The episodes (counted from 1) of summaries and figures: evenly spaced, up to the last."""
        K = self.experiment.episodes
        step = max(1, K // SUMMARY_POINTS)
        return np.unique(np.append(np.arange(step, K + 1, step), K))

    def arms_of(self, family: str) -> list[tuple[int, Arm]]:
        """Return (position, arm) of the arms of that family."""
        arms = enumerate(self.arms)
        return [(i, arm) for i, arm in arms if arm.family.name == family]

    def means(self, arms: list[int]) -> tuple[Floats, Floats, Floats]:
        """Return the mean final value of these arms (n,), with the ends of its interval."""
        low, high = bootstrap.mean_interval(self.final[arms].T, self.weights)
        return self.final[arms].mean(axis=1), low, high

    def difference(self, arm: int, baseline: int) -> Interval:
        """Return the final value of an arm minus that of another, paired by rounds."""
        return bootstrap.difference_interval(self.final[arm], self.final[baseline], self.weights)

    def ratio(self, arm: int, baseline: int) -> Interval:
        """Return the ratio of two arms' final values, paired by rounds."""
        return bootstrap.ratio_interval(self.final[arm], self.final[baseline], self.weights)

    def slope(self, arm: int) -> Interval:
        """Return the slope of log average regret on log k over the last four fifths of k."""
        points = self.points[self.points >= self.experiment.episodes / 5]
        return bootstrap.slope_interval(self.average[arm][:, points - 1], points, self.weights)

    @property
    def baseline(self) -> int:
        """The baseline of comparisons: the only LSVI-UCB arm, or else the first arm."""
        every = [i for i, arm in self.arms_of(EVERY) if arm.has_paper_bonus]
        return every[0] if len(every) == 1 else 0

    def compare(self, baseline: str | None = None) -> list[dict[str, Any]]:
        """Return a row for each arm: the final value with its intervals, and the switches made.

        `difference` is the final value minus that of the baseline, paired by rounds, with its 95%
        interval; it is None for the baseline itself and for arms on other worlds.
        """
        base, rows = self.baseline, []
        if baseline is not None:
            names = tuple(arm.name for arm in self.arms)
            base = names.index(one_of("baseline", baseline, names))
        for i, arm in enumerate(self.arms):
            paired = i != base and arm.world == self.arms[base].world
            low, high = bootstrap.mean_interval(self.final[i], self.weights)
            rows.append(
                {
                    "name": arm.name,
                    "label": arm.label,
                    "mean": float(self.final[i].mean()),
                    "interval": (float(low), float(high)),
                    "band": bootstrap.run_band(self.final[i]),
                    "difference": self.difference(i, base) if paired else None,
                    "deployments": float(self.deployments[i].mean()),
                    "switches": float(self.switches[i].mean()),
                    "local_switches": float(self.local_switches[i].mean()),
                    "cpu_seconds": float(self.cpu_seconds[i]),
                }
            )
        return rows

    def task(self, arm: Arm) -> Task:
        """Return the task of an arm in its first round."""
        return arm.task(episodes=self.experiment.episodes, seed=self.experiment.seed)

    def switch_limit(self, arm: Arm) -> float:
        """Return the most switches that the arm can make in all episodes."""
        return self.switch_limits(arm, [self.experiment.episodes])[0]

    def switch_limits(self, arm: Arm, episodes: Iterable[int]) -> list[float]:
        """Return the most switches that the arm can make up to each of these episodes."""
        task = self.task(arm)
        algorithm = arm.algorithm(task)
        return [algorithm.deployment_limit(replace(task, episodes=int(k))) for k in episodes]

    def batches(self, arm: Arm) -> int:
        """Return the number of batches of an arm with fixed dates."""
        return int(self.switch_limit(arm)) + 1

    def regret_bound(self, arm: Arm) -> theory.RegretBound:
        """Return the bound on the arm's total regret (c = 1, probability 0.95)."""
        task = self.task(arm)
        bound = arm.algorithm(task).regret_bound(task)
        if bound is None:
            raise ValueError(
                f"arm {arm.name!r}: no bound on its regret is known; got schedule {arm.schedule}"
            )
        return bound

    def growth_bound(self, arm: Arm) -> float:
        """Return the bound on the growth of one log det Λ_h over all episodes."""
        return theory.information_gain(self.task(arm), ridge=arm.recipe.ridge)

    def adversary_bound(self, arm: Arm, *, uniform: bool) -> float:
        """Return the lower bound on the total regret against the adversary."""
        assert isinstance(arm.world, Adversary)  # checked when the spec was read
        return theory.lower_bound(
            states=arm.world.states,
            horizon=arm.world.horizon,
            episodes=self.experiment.episodes,
            batches=self.batches(arm),
            uniform=uniform,
        )

    def least_regret(self, arm: Arm, *, members: int) -> float:
        """Return the least expected total regret of a learner with M members on the arm's world.

        The world must be an oblivious adversary.
        """
        task, world = self.task(arm), arm.world
        algorithm = arm.algorithm(task)
        assert isinstance(world, ObliviousAdversary)  # both checked when the spec was read
        assert isinstance(algorithm, Scheduled)
        lengths, target = algorithm.batches(task, world.states)
        return sum(
            theory.least_expected_regret(
                horizon=world.horizon, lengths=lengths[target == j].tolist(), members=members
            )
            for j in range(1, world.states + 1)
        )

    def summary(self) -> list[dict[str, Any]]:
        """Return the rows of summary.csv."""
        rows = []
        at = self.points - 1
        for i, arm in enumerate(self.arms):
            curves = self.average[i][:, at]
            low, high = bootstrap.run_band(curves)
            ci_low, ci_high = bootstrap.mean_interval(curves, self.weights)
            counts = (
                made[i].cumsum(axis=-1)[:, at].mean(axis=0)
                for made in (self.deployed, self.switched)
            )
            columns = (curves.mean(axis=0), low, high, ci_low, ci_high, *counts)
            for k, *values in zip(self.points, *columns, strict=True):
                numbers = (int(k), *(float(value) for value in values))
                rows.append(dict(zip(COLUMNS, (arm.name, *numbers), strict=True)))
        return rows

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the summary as a pandas data frame; `pip install pandas`."""
        return _require("pandas").DataFrame(self.summary(), columns=list(COLUMNS))

    def to_polars(self) -> "polars.DataFrame":
        """Return the summary as a polars data frame; `pip install polars`."""
        return _require("polars").DataFrame(self.summary(), schema=list(COLUMNS))

    def __repr__(self) -> str:
        spec, means = self.experiment, self.final.mean(axis=1)
        least, most = (f"{means[i]:.4g} ({spec.arms[i].name})" for i in means.argsort()[[0, -1]])
        return (
            f"Results({spec.name}: {len(spec.arms)} arms, {spec.rounds} rounds of "
            f"{spec.episodes} episodes; average {self.measure} {least} to {most})"
        )


def assemble(experiment: Experiment, pieces: Sequence[Piece], store: Store) -> Results:
    """Return the results of an experiment from its finished pieces, in their order."""
    arms: list[Arrays] = []
    seconds: list[float] = []
    versions: dict[str, dict[str, str]] = {}
    each = len(pieces) // len(experiment.arms)
    for first in range(0, len(pieces), each):
        loaded = [store.load(piece) for piece in pieces[first : first + each]]
        names = loaded[0].arrays
        arms.append({name: np.concatenate([p.arrays[name] for p in loaded]) for name in names})
        seconds.append(sum(piece.cpu_seconds for piece in loaded))
        versions |= {str(piece.versions): piece.versions for piece in loaded}
    return Results(
        experiment=experiment,
        values=np.stack([arm[VALUES[experiment.measure]] for arm in arms]),
        **{name: np.stack([arm[name] for arm in arms]) for name in MEASURED},
        logdet_growth={
            arm.name: arrays["logdet_growth"]
            for arm, arrays in zip(experiment.arms, arms, strict=True)
        },
        cpu_seconds=np.array(seconds),
        versions=tuple(versions[key] for key in sorted(versions)),
    )


def save_results(results: Results, folder: Path) -> None:
    """Write runs.npz, summary.csv and manifest.json."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = results.experiment
    arrays: Arrays = {VALUES[spec.measure]: results.values}
    arrays |= {name: getattr(results, name) for name in MEASURED}
    arrays["digest"] = np.array(spec.digest)
    arrays |= {f"logdet_growth/{name}": growth for name, growth in results.logdet_growth.items()}
    save_archive(folder / "runs.npz", arrays)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(results.summary())
    write_bytes(folder / "summary.csv", text.getvalue().encode())
    manifest = {
        "format": FORMAT,
        "experiment": spec.name,
        "digest": spec.digest,
        "measure": spec.measure,
        "spec": spec.words,
        "versions": results.versions,
        "seeds": {"root": spec.seed, "rounds": spec.rounds, "streams": {s.name: s for s in Stream}},
        "timings": {
            "cpu_seconds": {
                arm.name: round(float(seconds), 3)
                for arm, seconds in zip(spec.arms, results.cpu_seconds, strict=True)
            }
        },
    }
    write_bytes(folder / "manifest.json", json.dumps(manifest, indent=2).encode())


def load_results(folder: str | Path) -> Results:
    """Return the results that `save_results` wrote; raise ValueError for any other folder.

    Code named in the results is not imported.
    """
    folder = Path(folder)
    manifest = load_manifest(folder)
    experiment, seconds = manifest["spec"], manifest["timings"]["cpu_seconds"]
    path = folder / "runs.npz"
    try:
        arrays = load_archive(path)
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no results: it has no runs.npz") from None
    if str(arrays.pop("digest", "")) != experiment.digest:
        raise ValueError(f"{path} belongs to another spec than {folder / 'manifest.json'}")
    arms, rounds, episodes = len(experiment.arms), experiment.rounds, experiment.episodes
    values = VALUES[experiment.measure]
    shapes = {
        name: (arms, rounds, episodes) if name in (values, *BY_EPISODE) else (arms, rounds)
        for name in (values, *MEASURED)
    }
    growth = {
        arm.name: arrays.pop(f"logdet_growth/{arm.name}", np.zeros(0)) for arm in experiment.arms
    }
    found = {name: array.shape for name, array in arrays.items()}
    if found != shapes or any(len(values) != rounds for values in growth.values()):
        raise ValueError(
            f"{path} must hold arrays of the shapes {shapes} and a growth for each round; "
            f"got {found}"
        )
    return Results(
        experiment=experiment,
        values=arrays.pop(values),
        **arrays,
        logdet_growth=growth,
        cpu_seconds=np.array([seconds[arm.name] for arm in experiment.arms]),
        versions=manifest["versions"],
    )


def load_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder of results, its spec as an `Experiment`."""
    path = folder / "manifest.json"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise ValueError(f"{folder} holds no results: it has no manifest.json") from None
    check_format(path)
    try:
        manifest: dict[str, Any] = json.loads(text)
        spec = read_experiment(manifest["spec"], import_code=False)
        if manifest["digest"] != spec.digest:
            raise ValueError("digest does not match the spec; one of them was altered")
        timings = manifest["timings"]["cpu_seconds"]
        if timings.keys() != {arm.name for arm in spec.arms}:
            raise ValueError("timings must hold the cpu_seconds of every arm")
        timings |= {name: real("cpu_seconds", timings[name], least=0.0) for name in timings}
        versions = tuple(dict(each) for each in manifest["versions"])
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is not the manifest of an experiment ({reason})") from None
    return manifest | {"spec": spec, "versions": versions}


def _require(library: str) -> Any:
    """Import an optional library; the error says how to install it."""
    try:
        return import_module(library)
    except ModuleNotFoundError:
        raise ImportError(f"{library} must be installed: pip install {library}") from None
