"""Operating characteristics: the results of each design of a study in each scenario.

Every scenario is played in many rounds. All designs of a round have the same participants, mishaps
and draws. A round depends only on its number and the seed: the results do not depend on the number
of workers, and an interrupted run can continue.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple, TextIO

from rareswitch.campaigns.conclusion import superiority_rule
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.rehearsal.study import Scenario, Study, make_world
from rareswitch.campaigns.rehearsal.trial import Trial
from rareswitch.campaigns.rehearsal.trial_outcome import FUTILITY, HARM, TrialOutcome, outcome_of
from rareswitch.campaigns.rehearsal.world import Fates, World
from rareswitch.campaigns.rulebook.calibration import FEW_CLAIMS
from rareswitch.campaigns.rulebook.rows import canonical
from rareswitch.campaigns.rulebook.stopping import ControlSuperiority
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.compute.local import portable
from rareswitch.support.arguments import real

TRIALS = "trials.jsonl"
CONFIDENCE = 0.95
DIGITS = 4  # of a calibrated confidence
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2.0)

WorldMaker = Callable[[Scenario, Protocol, int, Study], World]
# Called with the finished rounds, all rounds, and the seconds that this run has taken.
Progress = Callable[[int, int, float], None]
QUIET: Progress = lambda done, total, seconds: None  # noqa: E731


class ScenarioError(ValueError):
    """A scenario failed; the message names it."""


class Estimate(NamedTuple):
    """A mean or a proportion over rounds, with its 95% Monte-Carlo interval."""

    value: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of_share(cls, hits: int, rounds: int) -> "Estimate":
        """Return a proportion with Wilson's interval.

        >>> [round(part, 3) for part in Estimate.of_share(1, 40)]
        [0.025, 0.004, 0.129, 40]
        """
        share, z2 = hits / rounds, Z * Z
        centre = (share + z2 / (2 * rounds)) / (1 + z2 / rounds)
        width = Z / (1 + z2 / rounds)
        width *= math.sqrt(share * (1 - share) / rounds + z2 / (4 * rounds**2))
        low = 0.0 if not hits else max(0.0, centre - width)
        high = 1.0 if hits == rounds else min(1.0, centre + width)
        return cls(share, low, high, rounds)

    @classmethod
    def of_mean(cls, values: Sequence[float], most: float = math.inf) -> "Estimate":
        """Return a mean with the interval of its normal approximation, clipped at `most`."""
        rounds = len(values)
        mean = math.fsum(values) / rounds
        spread = math.fsum((value - mean) ** 2 for value in values) / max(1, rounds - 1)
        width = Z * math.sqrt(spread / rounds)
        return cls(mean, mean - width, min(mean + width, max(mean, most)), rounds)


SHARES: Mapping[str, Callable[[TrialOutcome], bool | None]] = {
    "superiority": lambda one: None if one.claim is None else bool(one.claim),
    "superiority_at_a_look": lambda one: None if one.claim is None else one.claim == "look",
    "harm": lambda one: one.stop in HARM,
    "futility": lambda one: one.stop in FUTILITY,
    "beats_control": lambda one: one.beats,
}
MEANS: Mapping[str, Callable[[TrialOutcome], float | None]] = {
    "mean_return": lambda one: one.mean_return,
    "control_return": lambda one: one.control_return,
    "best_action": lambda one: one.best,
    "deployments": lambda one: one.deployments,
    "begun": lambda one: one.begun,
    "recorded": lambda one: one.recorded,
    "elapsed": lambda one: one.elapsed,
    "difference": lambda one: one.difference,
    "bias": lambda one: (
        None if one.difference is None or one.truth is None else one.difference - one.truth
    ),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One design in one scenario: every characteristic, None if no round has a value."""

    scenario: str
    null: bool
    design: str
    values: dict[str, Estimate | None]

    @property
    def plain(self) -> dict[str, Any]:
        values = {name: one and one._asdict() for name, one in self.values.items()}
        return {"scenario": self.scenario, "null": self.null, "design": self.design} | values


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The confidence at which a design's superiority rule has the requested error.

    `confidence` has its Monte-Carlo interval. `error` is the share of null scenarios' rounds with a
    claim at that confidence; `power` is the same share in each other scenario, by name. Claims at
    the end do not count.
    """

    design: str
    asked: float
    declared: float
    confidence: Estimate
    error: Estimate
    power: dict[str, Estimate]

    @property
    def claims(self) -> int:
        """The number of null rounds with a claim."""
        return round(self.error.value * self.error.rounds)

    def protocol(self, design: Protocol) -> Protocol:
        """Return the design's protocol with the calibrated confidence."""
        stopping = [
            replace(rule, confidence=self.confidence.value, calibrated=self.asked)
            if isinstance(rule, ControlSuperiority)
            else rule
            for rule in design.stopping
        ]
        return replace(design, stopping=tuple(stopping))

    @property
    def plain(self) -> dict[str, Any]:
        power = {name: one._asdict() for name, one in self.power.items()}
        told = {"confidence": self.confidence._asdict(), "error": self.error._asdict()}
        known = {"design": self.design, "asked": self.asked, "declared": self.declared}
        return known | told | {"power": power}


@dataclass(frozen=True, kw_only=True)
class Characteristics:
    """The operating characteristics of a study."""

    study: Study
    cells: tuple[Cell, ...]
    calibrations: tuple[Calibration, ...] = ()

    @property
    def protocols(self) -> dict[str, Protocol]:
        """The protocol of each design, and of each reliably calibrated design, by name."""
        designs = self.study.designs
        calibrated = {
            f"{one.design}-calibrated": one.protocol(designs[one.design])
            for one in self.calibrations
            if one.claims >= FEW_CLAIMS
        }
        return {**designs, **calibrated}

    @property
    def plain(self) -> dict[str, Any]:
        """The report of the simulation, as plain values."""
        study = self.study
        found: dict[str, Any] = {
            "study": study.digest,
            "rounds": study.rounds,
            "seed": study.seed,
            "confidence": CONFIDENCE,
            "scenarios": study.plain["scenarios"],
            "designs": {
                name: {"protocol": protocol.plain} for name, protocol in self.protocols.items()
            },
            "cells": [cell.plain for cell in self.cells],
        }
        if self.calibrations:
            found["calibration"] = [one.plain for one in self.calibrations]
        return found


class Piece(NamedTuple):
    """One round of one scenario; `open` rounds measure evidence and do not stop for superiority."""

    scenario: int
    round: int
    open: bool = False


def characteristics(
    study: Study,
    executor: Executor | None = None,
    *,
    worlds: WorldMaker = make_world,
    out: Path | None = None,
    calibrate: float | None = None,
    progress: Progress = QUIET,
) -> Characteristics:
    """Play every scenario with every design, and summarize the outcomes.

    The processes of an executor play the rounds, or they are played in sequence. `worlds` makes the
    world of a scenario. With `out`, each finished round is stored in that folder, and stored rounds
    are not played again. `calibrate` is the allowed error of a superiority rule in the null
    scenarios.
    """
    if calibrate is not None:
        real("calibrate", calibrate, above=0.0, below=0.5)
        _check_calibration(study)
    pieces = [
        Piece(scenario, round_, opened)
        for opened in ((False, True) if calibrate is not None else (False,))
        for round_ in range(study.rounds)
        for scenario in range(len(study.scenarios))
    ]
    with _kept(study, out) as (known, keep):
        missing = [piece for piece in pieces if piece not in known]
        done, began = len(pieces) - len(missing), time.monotonic()
        progress(done, len(pieces), 0.0)
        work = canonical(study.plain), study.allow, study.folder, worlds
        for piece, found in _played(missing, executor, *work):
            known[piece] = found
            keep(piece, found)
            done += 1
            progress(done, len(pieces), time.monotonic() - began)
    cells = tuple(
        _cell(scenario, name, [known[Piece(place, r)][name] for r in range(study.rounds)], design)
        for place, scenario in enumerate(study.scenarios)
        for name, design in study.designs.items()
    )
    calibrations = () if calibrate is None else _calibrations(study, known, calibrate)
    return Characteristics(study=study, cells=cells, calibrations=calibrations)


def _played(
    pieces: Sequence[Piece], executor: Executor | None, *work: Any
) -> Iterator[tuple[Piece, dict[str, TrialOutcome]]]:
    """Yield rounds as they finish."""
    if executor is None:
        for piece in pieces:
            yield piece, play_piece(piece, *work)
        return
    futures = {executor.submit(play_piece, piece, *work): piece for piece in pieces}
    for future in as_completed(futures):
        yield futures[future], future.result()


def play_piece(
    piece: Piece, text: str, allow: tuple[str, ...], folder: str, worlds: WorldMaker
) -> dict[str, TrialOutcome]:
    """Play one round of a scenario with every design; an error names the scenario."""
    study = _study(text, allow, folder)
    scenario = study.scenarios[piece.scenario]
    try:
        return _play(study, scenario, piece, worlds)
    except MemoryError:
        raise
    except Exception as error:
        where = f"[[scenario]] {scenario.name!r}, round {piece.round}"
        raise portable(ScenarioError(f"{where}: {type(error).__name__}: {error}")) from None


def _play(
    study: Study, scenario: Scenario, piece: Piece, worlds: WorldMaker
) -> dict[str, TrialOutcome]:
    found: dict[str, TrialOutcome] = {}
    fates: dict[int, Fates] = {}  # by horizon
    made: dict[tuple[int, int], World] = {}  # by horizon and dim
    for design in study.designs:
        protocol = study.protocol(design, piece.round)
        rule = superiority_rule(Terms.of(protocol.plain))
        if piece.open:
            if rule is None:
                continue
            kept = [one for one in protocol.stopping if not isinstance(one, ControlSuperiority)]
            protocol = replace(protocol, stopping=tuple(kept))
        task, seed = protocol.task, study.world_seed(piece.round)
        sizes = task.horizon, task.dim
        if sizes not in made:
            made[sizes] = worlds(scenario, protocol, seed, study)
        if task.horizon not in fates:
            draws = (study.seed, piece.round)
            fates[task.horizon] = Fates(scenario.circumstances, horizon=sizes[0], seed=draws)
        trial = Trial(
            protocol,
            made[sizes],
            scenario.circumstances,
            fates=fates[task.horizon],
            measures=rule if piece.open else None,
        )
        found[design] = outcome_of(trial.run())
    return found


@lru_cache(maxsize=2)
def _study(text: str, allow: tuple[str, ...], folder: str) -> Study:
    return Study.from_plain(json.loads(text), allow=allow, folder=folder)


def _cell(
    scenario: Scenario, design: str, outcomes: Sequence[TrialOutcome], protocol: Protocol
) -> Cell:
    most = {"deployments": protocol.budget, "best_action": 1.0}
    most |= dict.fromkeys(["begun", "recorded"], protocol.episodes)
    values: dict[str, Estimate | None] = {}
    for name, share in SHARES.items():
        hits = [hit for one in outcomes if (hit := share(one)) is not None]
        values[name] = Estimate.of_share(sum(hits), len(hits)) if hits else None
    for name, mean in MEANS.items():
        told = [float(value) for one in outcomes if (value := mean(one)) is not None]
        values[name] = Estimate.of_mean(told, most.get(name, math.inf)) if told else None
    return Cell(scenario=scenario.name, null=scenario.null, design=design, values=values)


# Calibration


def _check_calibration(study: Study) -> None:
    if not any(scenario.null for scenario in study.scenarios):
        raise ValueError("calibrate needs a [[scenario]] with null = true; the file has none")
    rules = [superiority_rule(Terms.of(one.plain)) for one in study.designs.values()]
    if not any(rules):
        raise ValueError(
            f"calibrate needs a design with the stopping rule {ControlSuperiority.name}; the file "
            "has none"
        )


def _calibrations(
    study: Study, known: Mapping[Piece, Mapping[str, TrialOutcome]], error: float
) -> tuple[Calibration, ...]:
    found = []
    for design, protocol in study.designs.items():
        rule = superiority_rule(Terms.of(protocol.plain))
        if rule is None:
            continue
        evidence = [
            [_evidence(known[Piece(place, r, True)][design]) for r in range(study.rounds)]
            for place in range(len(study.scenarios))
        ]
        by_scenario = list(zip(study.scenarios, evidence, strict=True))
        # With several null scenarios, the scenario with the largest error decides.
        nulls = [values for scenario, values in by_scenario if scenario.null]
        thresholds = max((_quantile(values, error) for values in nulls), key=lambda one: one.value)

        def claims(values: Sequence[float], limit: float) -> Estimate:
            return Estimate.of_share(sum(value > limit for value in values), len(values))

        value, low, high = map(_confidence_of, thresholds[:3])
        limit = -math.log1p(-value)  # for the printed confidence
        claimed = max((claims(values, limit) for values in nulls), key=lambda one: one.value)
        found.append(
            Calibration(
                design=design,
                asked=error,
                declared=rule.confidence,
                confidence=Estimate(value, low, high, study.rounds),
                error=claimed,
                power={
                    scenario.name: claims(values, limit)
                    for scenario, values in by_scenario
                    if not scenario.null
                },
            )
        )
    return tuple(found)


def _evidence(outcome: TrialOutcome) -> float:
    return -math.inf if outcome.evidence is None else outcome.evidence


def _quantile(values: Sequence[float], error: float) -> Estimate:
    """Return the least evidence that at most the share `error` of rounds exceeds.

    The interval uses order statistics: the number of values below a quantile is binomial.
    """
    ordered, rounds = sorted(values), len(values)
    width = Z * math.sqrt(rounds * error * (1.0 - error))
    place = math.ceil(rounds * (1.0 - error)) - 1
    low, high = math.floor(rounds * (1.0 - error) - width) - 1, math.ceil(place + width)
    last = rounds - 1
    return Estimate(
        ordered[place], ordered[max(0, low)], ordered[high] if high <= last else math.inf, rounds
    )


def _confidence_of(evidence: float) -> float:
    """Return the confidence of a rule that stops when log evidence exceeds `evidence`.

    >>> _confidence_of(math.log(40)), _confidence_of(-math.inf)
    (0.975, 0.5)
    """
    confidence = max(0.5, 1.0 - math.exp(-max(evidence, 0.0)))  # the least confidence of a rule
    return math.ceil(confidence * 10**DIGITS) / 10**DIGITS  # rounding down would raise the error


# Stored rounds


@contextmanager
def _kept(
    study: Study, out: Path | None
) -> Iterator[
    tuple[dict[Piece, dict[str, TrialOutcome]], Callable[[Piece, dict[str, TrialOutcome]], None]]
]:
    """Yield the rounds stored in a folder, and a function that stores another round."""
    if out is None:
        yield {}, lambda piece, found: None
        return
    out.mkdir(parents=True, exist_ok=True)
    path = out / TRIALS
    known, whole_bytes = _read(path, study)
    with path.open("r+" if path.exists() else "w", encoding="utf-8") as file:
        file.truncate(whole_bytes)  # an incomplete round is played again
        file.seek(whole_bytes)
        if not whole_bytes:
            _write(file, {"study": study.digest})

        def keep(piece: Piece, found: dict[str, TrialOutcome]) -> None:
            designs = {name: asdict(one) for name, one in found.items()}
            _write(file, piece._asdict() | {"designs": designs})

        yield known, keep


def _write(file: TextIO, values: Any) -> None:
    file.write(canonical(values) + "\n")
    file.flush()
    os.fsync(file.fileno())


def _read(path: Path, study: Study) -> tuple[dict[Piece, dict[str, TrialOutcome]], int]:
    """Return the rounds in a file, and the length of its complete lines in bytes."""
    known: dict[Piece, dict[str, TrialOutcome]] = {}
    if not path.exists():
        return known, 0
    lines = path.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    try:
        told = [json.loads(line) for line in lines]
        digest = told[0]["study"] if told else study.digest
        for line in told[1:]:
            designs = {name: TrialOutcome(**one) for name, one in line["designs"].items()}
            known[Piece(line["scenario"], line["round"], line["open"])] = designs
    except (ValueError, LookupError, TypeError):
        raise ValueError(f"{path} must hold the trials of a study; delete it") from None
    if digest != study.digest:
        raise ValueError(
            f"{path} holds trials of other scenarios, designs or code, or of another seed; choose "
            "another folder, or delete the file"
        )
    return known, sum(map(len, lines))
