"""The results of one experiment: in memory as `Results`, on disk as a folder anyone can read.

manifest.json   format, spec, digest, the versions that computed its pieces, seeds, timings
runs.npz        regret or returns (arms, rounds, episodes) and what else was measured
summary.csv     arm, episode, mean, q20, q80, ci_low, ci_high, deployments, switches
figure.*        drawn from runs.npz
"""

import csv
import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ValidationError, model_validator

from rareswitch import samples
from rareswitch.archive import load_archive, save_archive, write_bytes
from rareswitch.core.arguments import Bools, Floats, Ints
from rareswitch.core.streams import Stream, generator
from rareswitch.experiments.algorithms import Arrays
from rareswitch.experiments.pieces import FORMAT, pieces_of
from rareswitch.experiments.spec import Arm, Experiment
from rareswitch.experiments.store import Store, check_format

if TYPE_CHECKING:
    import pandas
    import polars

SUMMARY_POINTS = 250
BY_EPISODE = ("deployed", "switched")
MEASURED = (*BY_EPISODE, "local_switches", "optimistic", "radius")
COLUMNS = (
    "arm", "episode", "mean", "q20", "q80", "ci_low", "ci_high", "deployments", "switches",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """Everything that was measured in one experiment; arrays are indexed (arm, round, …).

    A run is one round of one arm.
    """

    experiment: Experiment
    values: Floats  # (arms, rounds, episodes), regret or, in simulated worlds, the return
    deployed: Bools  # (arms, rounds, episodes), a policy was deployed before the episode
    switched: Bools  # (arms, rounds, episodes), and it was a switch
    local_switches: Ints | Floats  # (arms, rounds); NaN where nobody counts them
    optimistic: Floats  # (arms, rounds), fraction of fits with V₁ ≥ V*₁; NaN where no one plans
    radius: Floats  # (arms, rounds), smallest β with which the lemma held; 0 or NaN: not measured
    logdet_growth: dict[str, Floats]  # arm → (rounds, H)
    cpu_seconds: Floats  # (arms,)
    versions: tuple[dict[str, str], ...]  # that computed the pieces: several if they differ

    @property
    def measure(self) -> str:
        """What the values are: "regret" or "return"."""
        return self.experiment.measure

    @property
    def regret(self) -> Floats:
        """The regret of every episode, (arms, rounds, episodes); in simulated worlds not known."""
        if self.measure != "regret":
            raise ValueError("regret is not known of worlds that are only simulated")
        return self.values

    @cached_property
    def average(self) -> Floats:
        """Regret(k)/k, or the average return up to episode k, (arms, rounds, episodes)."""
        return samples.running_average(self.values)

    @cached_property
    def weights(self) -> Floats:
        """The bootstrap resamples of rounds, the same for every statistic of the experiment."""
        spec = self.experiment
        return samples.resamples(spec.rounds, generator(spec.seed, Stream.BOOTSTRAP))

    @property
    def final(self) -> Floats:
        """The average regret or return at the last episode, (arms, rounds)."""
        return self.average[:, :, -1]

    @property
    def switches(self) -> Ints:
        """Switches made in each run, (arms, rounds)."""
        return self.switched.sum(axis=-1)

    @property
    def deployments(self) -> Ints:
        """Deployments made in each run, the first included, (arms, rounds)."""
        return self.deployed.sum(axis=-1)

    def means(self, arms: list[int]) -> tuple[Floats, Floats, Floats]:
        """Return the mean final value of these arms (n,), with the ends of its interval."""
        low, high = samples.mean_interval(self.final[arms].T, self.weights)
        return self.final[arms].mean(axis=1), low, high

    def arms_of(self, family: str) -> list[tuple[int, Arm]]:
        """Return (position, arm) of the arms of that family."""
        arms = enumerate(self.experiment.arms)
        return [(i, arm) for i, arm in arms if arm.family.name == family]

    def slope(self, arm: int) -> tuple[float, float, float]:
        """Return the slope of log average regret on log k over the last four fifths of k."""
        points = self.points[self.points >= self.experiment.episodes / 5]
        return samples.slope_interval(self.average[arm][:, points - 1], points, self.weights)

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
            low, high = samples.run_band(curves)
            ci_low, ci_high = samples.mean_interval(curves, self.weights)
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
        """Return the summary as a pandas data frame (pandas must be installed)."""
        import pandas

        return pandas.DataFrame(self.summary(), columns=list(COLUMNS))

    def to_polars(self) -> "polars.DataFrame":
        """Return the summary as a polars data frame (polars must be installed)."""
        import polars

        return polars.DataFrame(self.summary(), schema=list(COLUMNS))


def assemble(experiment: Experiment, store: Store) -> Results:
    """Put the finished pieces of an experiment together."""
    pieces = pieces_of(experiment)
    per_arm = len(pieces) // len(experiment.arms)
    arms: list[Arrays] = []
    seconds: list[float] = []
    versions: dict[str, dict[str, str]] = {}
    for i in range(0, len(pieces), per_arm):
        own = pieces[i : i + per_arm]
        loaded = [store.load(piece) for piece in own]
        records = [store.record(piece) for piece in own]
        arms.append({name: np.concatenate([p[name] for p in loaded]) for name in loaded[0]})
        seconds.append(sum(record.cpu_seconds for record in records))
        versions |= {str(record.versions): record.versions for record in records}
    return Results(
        experiment=experiment,
        values=np.stack([arm[experiment.arms[0].recorded] for arm in arms]),
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
    arrays: Arrays = {spec.arms[0].recorded: results.values}
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
        "spec": spec.model_dump(mode="json"),
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


def load_results(folder: Path) -> Results:
    """Return what `save_results` wrote, refusing a folder that does not hold any."""
    manifest = load_manifest(folder)
    experiment = manifest.spec
    path = folder / "runs.npz"
    try:
        arrays = load_archive(path)
    except FileNotFoundError:
        raise ValueError(f"{folder} holds no results: it has no runs.npz") from None
    if str(arrays.pop("digest", "")) != experiment.digest:
        raise ValueError(f"{path}: is of another spec than {folder / 'manifest.json'}")
    arms, rounds, episodes = len(experiment.arms), experiment.rounds, experiment.episodes
    recorded = experiment.arms[0].recorded
    shapes = {
        name: (arms, rounds, episodes) if name in (recorded, *BY_EPISODE) else (arms, rounds)
        for name in (recorded, *MEASURED)
    }
    growth = {
        arm.name: arrays.pop(f"logdet_growth/{arm.name}", np.zeros(0)) for arm in experiment.arms
    }
    found = {name: array.shape for name, array in arrays.items()}
    if found != shapes or any(len(values) != rounds for values in growth.values()):
        raise ValueError(
            f"{path}: must hold arrays of the shapes {shapes} and a growth for each round; "
            f"got {found}"
        )
    return Results(
        experiment=experiment,
        values=arrays.pop(recorded),
        **arrays,
        logdet_growth=growth,
        cpu_seconds=np.array([manifest.cpu_seconds[arm.name] for arm in experiment.arms]),
        versions=manifest.versions,
    )


class Manifest(BaseModel):
    """What the readers need of manifest.json."""

    spec: Experiment
    digest: str
    versions: tuple[dict[str, str], ...]
    timings: dict[str, dict[str, float]]

    @model_validator(mode="after")
    def _whole(self) -> "Manifest":
        if self.digest != self.spec.digest:
            raise ValueError("digest does not match the spec; one of them was altered")
        if set(self.cpu_seconds) != {arm.name for arm in self.spec.arms}:
            raise ValueError("timings must hold the cpu_seconds of every arm")
        return self

    @property
    def cpu_seconds(self) -> dict[str, float]:
        return self.timings.get("cpu_seconds", {})


def load_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder of results."""
    path = folder / "manifest.json"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise ValueError(f"{folder} holds no results: it has no manifest.json") from None
    check_format(path)
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{path} is not the manifest of an experiment ({reason})") from None
