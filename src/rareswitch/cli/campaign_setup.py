"""Commands that set a campaign up: init, simulate, amend and protocol."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import rareswitch as rs
from rareswitch.cli.allow import typed_modules
from rareswitch.cli.campaign_look import approval_of, changed_keys, head_plain, needed_approval
from rareswitch.cli.campaign_verb import (
    FILE,
    Answer,
    by_option,
    rehearsal_store_option,
    verb,
    wants_json,
)
from rareswitch.cli.environments import env_arg_option, made_world, parsed
from rareswitch.cli.experiments import need
from rareswitch.cli.progress import progress
from rareswitch.cli.scenario_worlds import environment_world, finite_world
from rareswitch.cli.worlds import FINITE, world_options
from rareswitch.support.words import plural

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign, Protocol, SimulatedCampaign, Store, World

SHARE = click.FloatRange(0.0, 1.0)
TICKS = click.FloatRange(0.0, 1e6)
# Files beside a protocol that has their digests; `plan --out` writes the first.
REPORT, FEATURES = "plan.json", "features.bin"
SIMULATIONS = (REPORT, "characteristics.json")
feature_map_option = click.option(
    "--feature-map",
    type=FILE,
    help="Bytes of the feature map, if the protocol has its digest.  [default: features.bin beside "
    "PROTOCOL]",
)


@verb(
    "init protocol.toml --by ana",
    "init plan/protocol.toml --simulation plan/plan.json --by ana",
    about="store",
    access="create",
    code=True,
)
@click.argument("protocol", type=FILE)
@click.option(
    "--simulation",
    type=FILE,
    help="Report of the simulation, if the protocol has its digest: plan.json of `rareswitch plan "
    "--out`.",
)
@feature_map_option
@by_option
@click.option("--reason", default="as agreed", help="Your reason, for the ledger.")
def init(store: Store, *, protocol: Path, allow: tuple[str, ...], **given: Any) -> Answer:
    """Lock a protocol and put version 1 in force.

    PROTOCOL is a TOML file. `rareswitch plan --out` writes one; docs/campaigns/protocol.md explains
    its tables. Only amendments can change it afterwards. A second run with the same protocol
    changes nothing.
    """
    agreed = _read(protocol, allow)
    beside = protocol.with_name(FEATURES) if _has_map(agreed) else None
    chosen = given.pop("feature_map")
    if beside and not chosen and not beside.is_file():
        raise click.UsageError(
            f"the protocol has the digest of a feature map, and {beside} does not exist: name the "
            "file of the map with --feature-map"
        )
    given["simulation"] = _artifact(given["simulation"])
    given["features"] = _artifact(chosen or beside)
    made = rs.campaigns.init(store, agreed, **given)
    head, in_force = head_plain(made), made.state.in_force
    values: dict[str, Any] = {"campaign": made.name, "store": store.url, "protocol": agreed.digest}
    values |= {"version": in_force.version, "policy": in_force.digest, "head": head}
    text = (
        f"campaign       {made.name}, in {store.url}\n"
        f"protocol       SHA-256 {agreed.digest}\n"
        f"in force       version {in_force.version}\n"
        f"keep this head elsewhere: {json.dumps(head)}"
    )
    return Answer(values, text)


@verb(
    "simulate plan/protocol.toml --instance tabular --states 4 --actions 3",
    "simulate lake/protocol.toml --env FrozenLake-v1 --delay 100",
    "simulate p.toml --instance hard --episodes 500 --no-auto-approve",
    "simulate p.toml --simulator world:trial --simulator-arg effect=0.1",
    about="store",
    access="create",
    code=True,
    stored=rehearsal_store_option,
)
@click.argument("protocol", type=FILE)
@world_options(default=None)
@click.option("--env", help="Gymnasium environment to simulate, or module:Name.")
@click.option("--features", help="--env: see rareswitch train.  [default: by observation space]")
@click.option(
    "--rewards", type=FINITE, nargs=2, metavar="LOW HIGH", help="--env: range of a step's reward."
)
@env_arg_option
@click.option(
    "--simulator", help="Your module:function to simulate: function(seed) returns a world."
)
@click.option(
    "--simulator-arg",
    "simulator_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Argument of the simulator, with a value in JSON. May be repeated.",
)
@click.option("--episodes", type=click.IntRange(0), help="Episodes to begin now.  [default: all]")
@click.option("--sites", type=click.IntRange(1), default=12, help="Sites that act and report.")
@click.option(
    "--accrual",
    type=click.FloatRange(0.0, 1e6, min_open=True),
    default=1.0,
    help="Episodes that begin per unit of time.",
)
@click.option("--delay", type=TICKS, default=30.0, help="Mean delay of a report, in units of time.")
@click.option(
    "--delay-law",
    type=click.Choice(["exponential", "fixed"]),
    default="exponential",
    help="Distribution of the delays.",
)
@click.option("--missing", type=SHARE, default=0.02, help="Share of episodes never reported.")
@click.option("--repeated", type=SHARE, default=0.02, help="Share of reports sent twice.")
@click.option("--damaged", type=SHARE, default=0.01, help="Share of reports refused at first.")
@click.option("--corrected", type=SHARE, default=0.005, help="Share of episodes corrected later.")
@click.option("--withdrawn", type=SHARE, default=0.002, help="Share of episodes withdrawn later.")
@click.option(
    "--overridden", type=SHARE, default=0.0, help="Share of actions that people override."
)
@click.option(
    "--learn-every",
    type=click.IntRange(1),
    default=10,
    help="Episodes between looks of the learner.",
)
@click.option(
    "--crashes", type=SHARE, default=0.05, help="Share of looks in which the learner crashes."
)
@click.option("--outage", type=TICKS, default=20.0, help="Mean time until a new learner starts.")
@click.option(
    "--auto-approve/--no-auto-approve",
    "signs",
    default=True,
    help="Let a simulated person decide, or wait for your signature.",
)
@click.option("--signing", type=TICKS, default=30.0, help="Mean time to a decision.")
@click.option("--rejected", type=SHARE, default=0.0, help="Share of candidates rejected.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, help="Seed of the world and of all mishaps."
)
@click.option(
    "--simulation",
    type=FILE,
    help="Report of the simulation, if the protocol has its digest.  [default: plan.json beside "
    "PROTOCOL]",
)
@feature_map_option
def simulate(
    store: Store, *, protocol: Path, allow: tuple[str, ...], episodes: int | None, **settings: Any
) -> Answer:
    """Rehearse a protocol in a simulated world.

    Name the world with --instance, --env or --simulator. Sites report late, out of order, twice,
    wrongly or never. The learner crashes and starts again. A simulated person approves or rejects
    candidates after a while. At the end the command verifies the record and fits every candidate
    again; if one differs, it ends with status 1.

    A rehearsal ignores RARESWITCH_STORE. Its ledger is marked, so that no patient can be recorded
    in it. If episodes are left, the same command continues the rehearsal. Horizon and dimension of
    an instance come from the protocol.
    """
    agreed = _read(protocol, allow)
    names = [part.name for part in fields(rs.campaigns.Circumstances)]
    mishaps = rs.campaigns.Circumstances(**{name: settings[name] for name in names})
    report_file = agreed.simulation and protocol.with_name(REPORT)
    map_file = _has_map(agreed) and protocol.with_name(FEATURES)
    artifacts = {
        "simulation": _artifact(settings["simulation"] or report_file),
        "features": _artifact(settings["feature_map"] or map_file),
    }
    with progress("episodes", agreed.episodes, quiet=wants_json()) as report:
        try:
            done = rs.campaigns.simulate(
                agreed,
                _world(agreed, settings),
                store,
                circumstances=mishaps,
                episodes=episodes,
                seed=settings["seed"],
                progress=lambda begun, total: report(begun, total=total),
                **artifacts,
            )
        except KeyboardInterrupt:
            click.echo("interrupted: the same command continues with the next episode", err=True)
            raise SystemExit(130) from None
    candidates = len(rs.campaigns.candidates(rs.campaigns.Campaign(store, agreed.name)))
    text = "\n".join(_rehearsed(done, agreed, candidates))
    return Answer(done.plain, text, ok=not done.problems)


@verb(
    'amend more-episodes.toml --by ana --reason "slow recruitment"',
    signed=True,
    rehearsal=True,
    code=True,
)
@click.argument("changes", type=FILE)
def amend(campaign: Campaign, changes: Path, **signed: Any) -> Answer:
    """Change the protocol, with a reason.

    CHANGES is a TOML file with each changed table in full: episodes (a number), schedule, budget,
    approval, intake, stopping or access. If a second person signs policies, a second person must
    approve the amendment too.
    """
    from rareswitch.campaigns.conclusion import cost_of_amendment

    before = campaign.terms.plain
    entry = campaign.amend(tomllib.loads(changes.read_text(encoding="utf-8")), **signed)
    told, state = entry.payload, campaign.state
    plain = {"entry": entry.number, "kind": entry.kind, "protocol": told["digest"]}
    plain["revision"] = len(state.revisions)
    lines = [*changed_keys(before, told["protocol"])]
    if cost := cost_of_amendment(state, entry):
        lines.append(f"cost: {cost}")
    if entry.kind == "amended":
        lines.append(f"revision {plain['revision']} of the protocol is in force")
    else:
        needed = needed_approval(entry.number, entry.actor, approval_of(campaign))
        lines.append(f"amendment {entry.number} {needed}")
    return Answer(plain, "\n".join([*lines, f"protocol       SHA-256 {told['digest']}"]))


@click.group()
def protocol() -> None:
    """Show, check or compare protocols.

    \b
    Examples:
      rareswitch campaign protocol show
      rareswitch campaign protocol validate protocol.toml
    """


@verb("protocol show --revision 1", name="show", access="read")
@click.option("--revision", type=click.IntRange(1), help="Revision to print.  [default: in force]")
def show_protocol(campaign: Campaign, revision: int | None) -> Answer:
    """Print a revision of the protocol as TOML."""
    import tomli_w

    from rareswitch.campaigns.protocol import TABLES
    from rareswitch.campaigns.rulebook.rows import without_none

    found = rs.campaigns.protocol(campaign, revision)
    plain = {name: found[name] for name in TABLES if name in found}
    return Answer(plain, tomli_w.dumps(without_none(plain)).rstrip())


@verb("protocol validate protocol.toml", about="nothing", name="validate", code=True)
@click.argument("file", type=FILE)
def validate_protocol(*, file: Path, allow: tuple[str, ...]) -> Answer:
    """Check a protocol before it is locked.

    If the protocol has the digest of a feature map, the map is checked too: features.bin beside
    FILE. The error of a claim at the looks and at the end is printed with its sum, and notes about
    weak points of the design.
    """
    from rareswitch.campaigns.campaign import check_feature_map
    from rareswitch.campaigns.conclusion import design_notes, superiority_rule, weak_points
    from rareswitch.campaigns.rulebook.calibration import calibrated_in, uncalibrated
    from rareswitch.campaigns.rulebook.rows import digest_of
    from rareswitch.campaigns.rulebook.terms import Terms

    found, notes = _read(file, allow), list[str]()
    if _has_map(found):
        beside = file.with_name(FEATURES)
        if (data := _artifact(beside)) is None:
            notes.append(f"the feature map is not checked: {beside} does not exist")
        else:
            check_feature_map(found, data)
            notes.append(f"the feature map {beside} fits the task")
    rule, calibrated = superiority_rule(terms := Terms.of(found.plain)), None
    if rule is not None and rule.calibrated is not None:
        reports = [_artifact(file.with_name(name)) for name in SIMULATIONS]
        report = next((one for one in reports if one and digest_of(one) == found.simulation), None)
        if report is None and found.simulation:
            notes.append(f"the simulation is not checked: it is not beside {file}")
        elif (why := uncalibrated(found.stopping, report)) is not None:
            raise ValueError(why)
        calibrated = None if report is None else calibrated_in(report, rule)
    recipe = found.recipe
    drawn = found.learner().policy.players > 1 or bool(recipe.control or recipe.floor)
    notes += design_notes(terms, calibrated) + weak_points(terms, drawn=drawn)
    if not found.approval.two_persons:
        notes.append('note: versions come into force without a person: [approval] by = "schedule"')
    plain = {"campaign": found.name, "protocol": found.digest, "notes": notes}
    return Answer(plain, "\n".join([f"valid: {found.name}, SHA-256 {found.digest}", *notes]))


@verb("protocol diff 1 3", name="diff", access="read")
@click.argument("revisions", nargs=-1, type=click.IntRange(1), metavar="[A B]")
def diff_protocol(campaign: Campaign, revisions: tuple[int, ...]) -> Answer:
    """Show the changes from revision A to B.

    [default: the last two revisions]
    """
    if len(revisions) not in (0, 2):
        raise click.UsageError("A and B must both be given, or neither")
    last = len(campaign.state.revisions)
    old, new = revisions or (max(1, last - 1), last)
    before, after = (rs.campaigns.protocol(campaign, one) for one in (old, new))
    lines = list(changed_keys(before, after))
    same = f"revisions {old} and {new} are the same" if old != new else f"both are revision {old}"
    return Answer({"from": old, "to": new, "changes": lines}, "\n".join(lines) or same)


for command in (show_protocol, validate_protocol, diff_protocol):
    protocol.add_command(command)


def _read(path: Path, allow: tuple[str, ...]) -> Protocol:
    from rareswitch.campaigns import Protocol

    return Protocol.from_toml(path.read_text(encoding="utf-8"), allow=allow)


def _has_map(protocol: Protocol) -> bool:
    """Return whether the protocol needs the bytes of a feature map."""
    return protocol.features is not None and bool(protocol.features.columns)


def _artifact(path: Any) -> bytes | None:
    """Return the bytes of a file, or None if the file does not exist."""
    return path.read_bytes() if path and path.is_file() else None


def _rehearsed(done: SimulatedCampaign, protocol: Protocol, candidates: int) -> list[str]:
    """Return the results of a rehearsal as lines."""
    late = f", {done.late} of them from a replaced version" if done.late else ""
    after = "" if done.mean_delay is None else f", {done.mean_delay:.0f} episodes after they began"
    rejected = f"; {plural(done.rejections, 'candidate')} turned down" if done.rejections else ""
    rejected += f"; {done.declined} not worth proposing" if done.declined else ""
    regret, delays = done.regret, ", ".join(map(str, done.decision_delays))
    lost = "was" if done.missing == 1 else "were"
    ended = "none: this rehearsal had ended; another --store begins a new one"
    lines = {
        "begun": f"{plural(done.begun, 'episode')}; {done.missing} {lost} never reported"
        if done.begun or not done.stopped
        else ended,
        "recorded": f"{done.recorded}{late}{after}",
        "mishaps": f"{plural(done.refused, 'report')} refused, {done.repeated} sent twice, "
        f"{done.corrected} corrected, {done.withdrawn} withdrawn",
        "overridden": done.overridden and f"{plural(done.overridden, 'episode')}, by people",
        "learner": done.deaths and f"crashed {plural(done.deaths, 'time')} and was restarted",
        "mean return": done.recorded and f"{done.mean_return:.4f} of {protocol.task.horizon}",
        "regret": regret is not None
        and done.begun
        and f"{regret:.1f}, {regret / done.begun:.4f} per episode",
        "deployments": f"{done.deployments} of at most {done.budget}{rejected}",
        "in force": delays and f"{delays} episodes after they were due",
        "waiting": done.waiting and f"candidate {done.waiting}, for an approval",
        "stopped": done.stopped,
        "ledger": f"link of the last entry: {done.ledger_link}",
    }
    shown = [f"{name:<15} {text}" for name, text in lines.items() if text]
    which = "the candidate" if candidates == 1 else f"all {candidates} candidates"
    same = f"{which} reproduced byte for byte"
    return [*shown, *(f"check: {text}" for text in done.problems or (same,))]


def _world(protocol: Protocol, settings: dict[str, Any]) -> World:
    """Return the world of the options, with the protocol's sizes."""
    task = protocol.task
    named = [name for name in ("env", "instance", "simulator") if settings[name] is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(f'--{name}' for name in named)} exclude each other")
    if not named:
        raise ValueError("--instance, --env or --simulator must name a world")
    seed, allow = settings["seed"], typed_modules(settings["env"], settings["features"])
    arguments = parsed(settings["simulator_args"], "--simulator-arg")
    if settings["simulator"] is not None:
        from rareswitch.campaigns.rehearsal.study import simulated_world

        name = settings["simulator"]
        return simulated_world(name, seed, arguments, allow=typed_modules(name))
    if arguments:
        raise ValueError("--simulator-arg needs --simulator")
    if settings["env"] is not None:
        need("gym")
        environment = made_world(settings["env"], parsed(settings["env_args"]), allow)
        features, rewards = settings["features"], settings["rewards"]
        return environment_world(
            protocol, environment, seed, allow, features=features, rewards=rewards
        )
    for name, value in (("horizon", task.horizon), ("dim", task.dim)):
        if settings[name] not in (None, value):
            raise ValueError(f"--{name} must be the protocol's, {value}; got {settings[name]}")
    return finite_world(protocol, settings, seed)
