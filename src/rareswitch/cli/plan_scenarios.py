"""`rareswitch plan --scenarios`: the operating characteristics of a study."""

from __future__ import annotations

import json
from concurrent.futures import BrokenExecutor
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rareswitch.cli.experiments import need, pool_of
from rareswitch.cli.scenario_worlds import scenario_world

if TYPE_CHECKING:
    from rareswitch.campaigns.rehearsal.characteristics import Calibration, Cell, Characteristics
    from rareswitch.campaigns.rehearsal.study import Study

OPTIONS = (
    "scenarios", "calibrate", "rounds", "seed", "workers", "cluster", "out", "as_json", "allow",
)  # fmt: skip
ONLY = ("calibrate", "cluster", "allow")  # the options that need --scenarios
REPORT, FEATURES = "characteristics.json", "features.bin"
# Each column's title, characteristic and number format.
COLUMNS = (
    ("claim", "superiority", "{:.1%}"),
    ("harm", "harm", "{:.1%}"),
    ("futile", "futility", "{:.1%}"),
    ("beats", "beats_control", "{:.1%}"),
    ("return", "mean_return", "{:.3f}"),
    ("ctrl", "control_return", "{:.3f}"),
    ("best", "best_action", "{:.1%}"),
    ("deploy", "deployments", "{:.1f}"),
    ("begun", "begun", "{:.0f}"),
    ("report", "recorded", "{:.0f}"),
    ("time", "elapsed", "{:.0f}"),
    ("bias", "bias", "{:.3f}"),
)
NAME_WIDTH, WIDTH, TEXT_WIDTH = 15, 7, 100
LEGEND = """\
claim    superiority over the control is claimed, at a look or at the end: type I error in a null
         scenario, power in any other
harm     the trial stops for harm;  futile  it stops for futility
beats    the recommended policy is worth more than the control
return   expected return of all participants;  ctrl  of those in the control arm
best     share of steps with a best action
deploy   deployments after the first;  begun, report  episodes begun and reported until the stop
time     until the stop;  bias  of the estimated difference from the control, from reported
         outcomes alone, whatever `missing` says
from, to 95% Monte-Carlo interval of the value above"""
UNKNOWN = """\
–        not known in any round: best needs a world whose steps have `best`, and bias a world with
         `value(policy)`"""


def is_asked(settings: dict[str, Any]) -> bool:
    """Return whether --scenarios is given; raise for options that do not belong to the mode."""
    context = click.get_current_context()
    given = [
        param
        for param in context.command.params
        if context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    ]
    if settings["scenarios"] is None:
        if wrong := [param for param in given if param.name in ONLY]:
            raise click.UsageError(f"{wrong[0].opts[0]} needs --scenarios")
        if settings["episodes"] is None:
            episodes = next(p for p in context.command.params if p.name == "episodes")
            raise click.MissingParameter(ctx=context, param=episodes)
        return False
    if wrong := [param for param in given if param.name not in OPTIONS]:
        raise click.UsageError(f"--scenarios and {wrong[0].opts[0]} exclude each other")
    return True


def plan_scenarios(settings: dict[str, Any], out: Path | None, *, as_json: bool) -> None:
    """Simulate every design in every scenario, and print the operating characteristics."""
    need("campaigns")
    from rareswitch.campaigns.rehearsal.study import Study

    source = click.get_current_context().get_parameter_source("rounds")
    rounds = settings["rounds"] if source is ParameterSource.COMMANDLINE else None
    source = click.get_current_context().get_parameter_source("seed")
    seed = settings["seed"] if source is ParameterSource.COMMANDLINE else None
    try:
        study = Study.read(settings["scenarios"], allow=settings["allow"], rounds=rounds, seed=seed)
        check_worlds(study)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    found = run(study, settings, out, quiet=as_json)
    report = json.dumps(found.plain, indent=2, allow_nan=False).encode()
    if out is not None:
        save(found, report, out)
    if as_json:
        click.echo(report.decode())
        return
    click.echo("\n".join(table(found)))
    if out is not None:
        click.echo(f"\nwritten to {out}")


def check_worlds(study: Study) -> None:
    """Make the first world of every scenario, so that mistakes in the file appear at once."""
    from rareswitch.campaigns.rehearsal.simulate import check_fit

    for scenario in study.scenarios:
        for design in study.designs:
            protocol = study.protocol(design, 0)
            try:
                check_fit(scenario_world(scenario, protocol, study.world_seed(0), study), protocol)
            except Exception as error:
                where = f"[[scenario]] {scenario.name!r}, design {design!r}"
                kind = (
                    "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
                )
                raise ValueError(f"{where}: {kind}{error}") from None


def run(
    study: Study, settings: dict[str, Any], out: Path | None, *, quiet: bool
) -> Characteristics:
    """Return the characteristics; print progress and the expected time to standard error."""
    from rareswitch.campaigns.rehearsal.characteristics import ScenarioError, characteristics
    from rareswitch.cli.progress import progress

    trials = len(study.scenarios) * len(study.designs) * study.rounds
    done = total = 0
    first: int | None = None  # the rounds kept by an earlier call
    since, told = 0.0, quiet

    def kept() -> str:
        if out is None:
            return "nothing is kept without --out"
        return f"{done} of {total} rounds are kept in {out}; the same command continues"

    pool = pool_of(settings["workers"], settings["cluster"])
    try:
        with progress("rounds", 0, quiet=quiet) as report, pool as executor:

            def show(finished: int, of: int, seconds: float) -> None:
                nonlocal done, total, told, first, since
                done, total = finished, of
                first = finished if first is None else first
                if finished == first + 1:
                    since = seconds  # processes need some seconds to start
                if seconds - since > 2.0 and finished > first + 4 and not told:
                    told = True
                    left = (seconds - since) / (finished - first - 1) * (of - finished)
                    click.echo(
                        f"about {left:.0f} s left, estimated from the first trials", err=True
                    )
                report(finished, "", of)

            if not quiet:
                scenarios = _count(len(study.scenarios), "scenario")
                designs = _count(len(study.designs), "design")
                again = ", and once more to calibrate" if settings["calibrate"] else ""
                click.echo(
                    f"{scenarios} x {designs} x {study.rounds} rounds: {trials} trials{again}",
                    err=True,
                )
            return characteristics(
                study,
                executor,
                worlds=scenario_world,
                out=out,
                calibrate=settings["calibrate"],
                progress=show,
            )
    except ScenarioError as error:
        raise click.ClickException(f"{error}\n{kept()}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except (BrokenExecutor, OSError, MemoryError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise click.ClickException(f"{reason}; {kept()}") from None
    except KeyboardInterrupt:
        click.echo(f"interrupted: {kept()}", err=True)
        raise SystemExit(130) from None


def save(found: Characteristics, report: bytes, out: Path) -> None:
    """Write the report, its picture, and the protocol of each design with the report's digest."""
    from rareswitch.campaigns.rehearsal.characteristics_picture import draw_characteristics
    from rareswitch.support.archive import write_bytes
    from rareswitch.support.drawing import save_figure

    try:
        write_bytes(out / REPORT, report)
        save_figure(draw_characteristics(found), out)
        for name, protocol in found.protocols.items():
            text = protocol.with_simulation(report).to_toml()
            write_bytes(out / f"protocol-{name}.toml", text.encode())
        if (features := _feature_map(found.study)) is not None:
            write_bytes(out / FEATURES, features)
    except OSError as error:
        raise click.ClickException(f"--out {out} cannot be written ({error.strerror})") from None


def _feature_map(study: Study) -> bytes | None:
    """Return the bytes of the map beside the base protocol, if the designs have its digest."""
    from rareswitch.campaigns.rulebook.rows import digest_of

    path = study.base and study.base.with_name(FEATURES)
    if path is None or not path.is_file():
        return None
    data = path.read_bytes()
    wanted = {one.features.digest for one in study.designs.values() if one.features is not None}
    return data if digest_of(data) in wanted else None


def table(found: Characteristics) -> list[str]:
    """Return the characteristics as text: a block for each scenario, a row for each design."""
    from rareswitch.campaigns.rulebook.terms import Terms

    lines = []
    head = "".join(name.rjust(WIDTH) for name, *_ in COLUMNS)
    for scenario in found.study.scenarios:
        null = ", null" if scenario.null else ""
        lines += [f"{scenario.name}{null}", "design".ljust(NAME_WIDTH) + head]
        for cell in found.cells:
            if cell.scenario == scenario.name:
                lines += rows(cell)
        lines.append("")
    lines += LEGEND.splitlines()
    if any(one.values[name] is None for one in found.cells for _, name, _ in COLUMNS):
        lines += UNKNOWN.splitlines()
    if said := notes(found.study):
        lines += ["", *said]
    for one in found.calibrations:
        terms = Terms.of(found.study.designs[one.design].plain)
        lines += ["", *calibration(one, (1.0 - terms.analysis.confidence) / 2.0)]
    return lines


def notes(study: Study) -> list[str]:
    """Return the notes on each design, and a warning about instant signatures."""
    from rareswitch.campaigns.conclusion import design_notes
    from rareswitch.campaigns.rulebook.terms import Terms

    lines = []
    for name, protocol in study.designs.items():
        lines += [f"{name}: {said}" for said in design_notes(Terms.of(protocol.plain))]
    instant = [
        one.name
        for one in study.scenarios
        if one.circumstances.signs and not one.circumstances.signing
    ]
    if instant and any(one.approval.two_persons for one in study.designs.values()):
        some = "" if len(instant) == len(study.scenarios) else f" in {', '.join(instant)}"
        lines.append(
            f"note: second persons sign at once{some}; [circumstances] signing sets the mean time"
        )
    return [line for text in lines for line in wrap(text, TEXT_WIDTH, subsequent_indent="  ")]


def rows(cell: Cell) -> list[str]:
    """Return a line with the values of a cell, and two lines with the ends of their intervals."""
    name = cell.design if len(cell.design) <= NAME_WIDTH else cell.design[: NAME_WIDTH - 1] + "…"
    lines = []
    for title, part, unknown in ((name, "value", "–"), ("  from", "low", ""), ("  to", "high", "")):
        texts = []
        for _, column, form in COLUMNS:
            one = cell.values[column]
            texts.append(unknown if one is None else _number(getattr(one, part), form))
        lines.append(title.ljust(NAME_WIDTH) + "".join(text.rjust(WIDTH) for text in texts))
    return [line.rstrip() for line in lines]


def _number(value: float, form: str) -> str:
    """Return a formatted number, never −0.

    >>> _number(-0.0001, "{:.3f}"), _number(0.0067, "{:.1%}")
    ('0.000', '0.7%')
    """
    text = form.format(round(value, 4))
    return text if text.strip("-0.%") else text.lstrip("-")


def calibration(one: Calibration, end: float) -> list[str]:
    """Return the calibrated confidence of a design, its type I error and its power as lines.

    `end` is the planned error of a claim at the end, which comes on top.
    """
    from rareswitch.campaigns.rulebook.calibration import FEW_CLAIMS, rounds_needed

    value, low, high, rounds = one.confidence
    lines = [
        f"{one.design}: control-superiority with confidence {value:.4g} [{low:.4g}, {high:.4g}], "
        f"in place of {one.declared:.4g}",
        f"  claims at the looks alone: type I error {_share(one.error)}, over {rounds} rounds",
    ]
    lines += [
        f"  power at the looks alone in {name} {_share(power)}" for name, power in one.power.items()
    ]
    if one.claims >= FEW_CLAIMS:
        lines.append(
            f"  total type I error: {one.asked:.1%} at the looks plus {end:.1%} at the end, "
            f"{one.asked + end:.1%} together"
        )
    else:
        lines.append(
            f"  no calibrated protocol: {one.claims} of {rounds} null rounds have a claim, and it "
            f"needs {FEW_CLAIMS}, so about {rounds_needed(one.asked)} --rounds"
        )
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _share(one: Any) -> str:
    return f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]"
