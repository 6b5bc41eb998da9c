"""The results of one experiment: in memory as `Runs`, on disk as a folder anyone can read.

manifest.json   spec, digest, versions, seeds, timings
runs.npz        regret (arms, rounds, episodes) and what else was measured
summary.csv     arm, episode, mean, q20, q80, ci_low, ci_high, updates, switches
figure.*        drawn from runs.npz
"""

import csv
import io
import json
import platform
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rareswitch.core.arguments import Bools, Floats, Ints
from rareswitch.core.streams import Stream, generator
from rareswitch.experiments import stats
from rareswitch.experiments.archive import load_archive, save_archive, write_bytes
from rareswitch.experiments.run import Arrays, Store, pieces_of
from rareswitch.experiments.spec import Arm, Experiment

if TYPE_CHECKING:
    import pandas
    import polars

S = TypeVar("S")

SUMMARY_POINTS = 250
COLUMNS = (
    "arm", "episode", "mean", "q20", "q80", "ci_low", "ci_high", "updates", "switches",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Runs:
    """Everything that was measured in one experiment; arrays are indexed (arm, round, …)."""

    experiment: Experiment
    regret: Floats  # (arms, rounds, episodes), instantaneous
    updated: Bools  # (arms, rounds, episodes), a policy was fitted before the episode
    switched: Bools  # (arms, rounds, episodes), and it differs from the one before
    local_switches: Ints  # (arms, rounds)
    optimistic: Floats  # (arms, rounds), fraction of fits with V₁ ≥ V*₁; NaN where no one plans
    radius: Floats  # (arms, rounds), smallest β with which the lemma held; 0 or NaN: not measured
    logdet_growth: dict[str, Floats]  # arm → (rounds, H)
    cpu_seconds: Floats  # (arms,)

    @cached_property
    def average(self) -> Floats:
        """Regret(k)/k, (arms, rounds, episodes)."""
        return stats.running_average(self.regret)

    @cached_property
    def weights(self) -> Floats:
        """The bootstrap resamples of rounds, the same for every statistic of the experiment."""
        spec = self.experiment
        return stats.resamples(spec.rounds, generator(spec.seed, Stream.BOOTSTRAP))

    @property
    def final(self) -> Floats:
        """The average regret at the last episode, (arms, rounds)."""
        return self.average[:, :, -1]

    @property
    def switches(self) -> Ints:
        """Switches made in each run, (arms, rounds)."""
        return self.switched.sum(axis=-1)

    @property
    def updates(self) -> Ints:
        return self.updated.sum(axis=-1)

    def arms_of(self, kind: type[S]) -> list[tuple[int, Arm, S]]:
        """Return (position, arm, schedule) of the arms with that kind of schedule."""
        arms = enumerate(self.experiment.arms)
        return [(i, arm, arm.schedule) for i, arm in arms if isinstance(arm.schedule, kind)]

    def slope(self, arm: int) -> tuple[float, float, float]:
        """Return the slope of log average regret on log k over the last four fifths of k."""
        points = self.points[self.points >= self.experiment.episodes / 5]
        return stats.slope_interval(self.average[arm][:, points - 1], points, self.weights)

    @cached_property
    def points(self) -> Ints:
        """The episodes (counted from 1) of summaries and figures: evenly spaced, with the last."""
        K = self.experiment.episodes
        step = max(1, K // SUMMARY_POINTS)
        return np.unique(np.append(np.arange(step, K + 1, step), K))

    def summary(self) -> list[dict[str, Any]]:
        """Return the rows of summary.csv."""
        rows = []
        at = self.points - 1
        for i, arm in enumerate(self.experiment.arms):
            curves = self.average[i][:, at]
            low, high = stats.run_band(curves)
            ci_low, ci_high = stats.mean_interval(curves, self.weights)
            updates = self.updated[i].cumsum(axis=-1)[:, at].mean(axis=0)
            switches = self.switched[i].cumsum(axis=-1)[:, at].mean(axis=0)
            columns = (curves.mean(axis=0), low, high, ci_low, ci_high, updates, switches)
            for k, *values in zip(self.points, *columns, strict=True):
                numbers = (int(k), *(float(value) for value in values))
                rows.append(dict(zip(COLUMNS, (arm.name, *numbers), strict=True)))
        return rows

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the summary as a pandas data frame (pandas must be installed)."""
        import pandas

        return pandas.DataFrame(self.summary(), columns=list(COLUMNS))

    def to_polars(self) -> "polars.DataFrame":
        """Return the summary as a polars data frame (polars must be installed)."""
        import polars

        return polars.DataFrame(self.summary(), schema=list(COLUMNS))


def assemble(experiment: Experiment, store: Store) -> Runs:
    """Put the finished pieces of an experiment together."""
    pieces = pieces_of(experiment)
    count = len(experiment.arms)
    per_arm = len(pieces) // count
    arms: list[Arrays] = []
    seconds = np.zeros(count)
    for i in range(count):
        own = pieces[i * per_arm : (i + 1) * per_arm]
        loaded = [store.load(piece) for piece in own]
        arms.append({name: np.concatenate([p[name] for p in loaded]) for name in loaded[0]})
        seconds[i] = sum(store.cpu_seconds(piece) for piece in own)
    names = ("regret", "updated", "switched", "local_switches", "optimistic", "radius")
    return Runs(
        experiment=experiment,
        **{name: np.stack([arm[name] for arm in arms]) for name in names},
        logdet_growth={
            arm.name: arrays["logdet_growth"]
            for arm, arrays in zip(experiment.arms, arms, strict=True)
        },
        cpu_seconds=seconds,
    )


def save_runs(runs: Runs, folder: Path) -> None:
    """Write runs.npz, summary.csv and manifest.json."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: Arrays = {
        "regret": runs.regret,
        "updated": runs.updated,
        "switched": runs.switched,
        "local_switches": runs.local_switches,
        "optimistic": runs.optimistic,
        "radius": runs.radius,
        "digest": np.array(runs.experiment.digest),
    }
    arrays |= {f"logdet_growth/{name}": growth for name, growth in runs.logdet_growth.items()}
    save_archive(folder / "runs.npz", arrays)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(runs.summary())
    write_bytes(folder / "summary.csv", text.getvalue().encode())
    spec = runs.experiment
    manifest = {
        "experiment": spec.name,
        "digest": spec.digest,
        "spec": spec.model_dump(mode="json"),
        "versions": versions(),
        "seeds": {"root": spec.seed, "rounds": spec.rounds, "streams": {s.name: s for s in Stream}},
        "timings": {
            "cpu_seconds": {
                arm.name: round(float(seconds), 3)
                for arm, seconds in zip(spec.arms, runs.cpu_seconds, strict=True)
            }
        },
    }
    write_bytes(folder / "manifest.json", json.dumps(manifest, indent=2).encode())


def load_runs(folder: Path) -> Runs:
    """Return the runs that `save_runs` wrote, refusing a folder that does not hold any."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text())
        experiment = Experiment.model_validate(manifest["spec"])
        seconds = [manifest["timings"]["cpu_seconds"][arm.name] for arm in experiment.arms]
        digest = manifest["digest"]
    except OSError:
        raise ValueError(f"{folder} holds no results: it has no manifest.json") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not the manifest of an experiment ({error})") from None
    if digest != experiment.digest:
        raise ValueError(f"{path}: digest does not match the spec; one of them was altered")
    try:
        arrays = load_archive(folder / "runs.npz")
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no results: it has no runs.npz") from None
    if str(arrays.pop("digest", "")) != digest:
        raise ValueError(f"{folder / 'runs.npz'}: is of another spec than {path}")
    arms, rounds, episodes = len(experiment.arms), experiment.rounds, experiment.episodes
    shapes: dict[str, tuple[int, ...]]
    shapes = dict.fromkeys(("regret", "updated", "switched"), (arms, rounds, episodes))
    shapes |= dict.fromkeys(("local_switches", "optimistic", "radius"), (arms, rounds))
    growth = {
        arm.name: arrays.pop(f"logdet_growth/{arm.name}", np.zeros(0)) for arm in experiment.arms
    }
    found = {name: array.shape for name, array in arrays.items()}
    if found != shapes or any(len(values) != rounds for values in growth.values()):
        raise ValueError(
            f"{folder / 'runs.npz'}: must hold arrays of the shapes {shapes} and a growth for "
            f"each round; got {found}"
        )
    return Runs(
        experiment=experiment, **arrays, logdet_growth=growth, cpu_seconds=np.array(seconds)
    )


def versions() -> dict[str, str]:
    """Return what the numbers were computed with."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "rareswitch": metadata.version("rareswitch"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas['version']}",
        "machine": platform.machine(),
    }
