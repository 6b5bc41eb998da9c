"""Commands that only read: the state of a campaign and its record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

import rareswitch as rs
from rareswitch.cli.campaign_verb import Answer, verb
from rareswitch.support.words import plural

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign, Status, Store
    from rareswitch.campaigns.analysis import Analysis
    from rareswitch.campaigns.rulebook.approval import Approval
    from rareswitch.campaigns.rulebook.rows import Entry

BAR = 30
INTERVAL = "mean return [95% interval, valid at any time]"
AT_THE_END, AT_ANY_TIME = "at the end", "valid at any time"
MISSING_AS = {"zero": "0", "worst": "the worst"}
WIDTH = 100
LINK = 12  # shown digits of a link


@verb("list --store sqlite:///trial.db", about="store", name="list", access="read")
def list_(store: Store) -> Answer:
    """List the campaigns of a store."""
    names = rs.campaigns.list(store)
    return Answer(names, "\n".join(names) or "the store has no campaign")


@verb("status", "status --store sqlite:///trial.db --json", access="read")
def status(campaign: Campaign) -> Answer:
    """Show the state of the campaign.

    It shows episodes, budget, triggers, the returns of each version, and the pending decision with
    the command to decide it.
    """
    found = rs.campaigns.status(campaign)
    return Answer(found.plain, "\n".join(_status(campaign, found)))


@verb("analyse", "analyse --json", access="read")
def analyse(campaign: Campaign) -> Answer:
    """Compare learned policies with the control.

    It shows the difference of mean returns: combined over versions, by version, by declared
    subgroup and, if episodes have one step, by action. Adverse events by role and by treatment, and
    the conclusion follow. The interval "at the end" is for a study that ended as planned; the
    interval "valid at any time" holds at every look. docs/campaigns/statistics.md describes the
    methods.
    """
    found = rs.campaigns.analyse(campaign)
    return Answer(found.plain, "\n".join(analysis_lines(found)))


@verb("ledger", "ledger --last 5 --json", access="read")
@click.option("--last", type=click.IntRange(1), help="Newest entries to show.  [default: all]")
def ledger(campaign: Campaign, last: int | None) -> Answer:
    """Show who decided what, when and why.

    Below an entry is its signature by passkey or password, with the meaning.
    """
    from rareswitch.campaigns.rulebook.signed import method_of, signed_line, signed_plain

    entries, state = rs.campaigns.ledger(campaign)[-(last or 0) :], campaign.state
    lines = []
    for entry in entries:
        lines.append(_entry(entry))
        if method_of(entry) is not None:
            lines.append(f"{'':7}{signed_line(signed_plain(state, entry))}")
    return Answer([entry._asdict() for entry in entries], "\n".join(lines))


@verb("candidates --json", access="read")
def candidates(campaign: Campaign) -> Answer:
    """Show proposed policies and their evidence."""
    found = rs.campaigns.candidates(campaign)
    texts = ["\n".join(candidate_text(campaign, one)) for one in found]
    return Answer(found, "\n\n".join(texts) or "no policy was proposed yet")


def page(example: str, names: str, text: str) -> click.Command:
    """Make a command that prints a page of rows with these columns, and all columns as JSON."""
    name, columns = example.split()[0], names.split()

    @click.option("--after", type=click.IntRange(0), default=0, help="Skip rows up to this one.")
    @click.option("--limit", type=click.IntRange(1), default=100, help="Most rows to list.")
    def command(campaign: Campaign, after: int, limit: int) -> Answer:
        rows = getattr(rs.campaigns, name)(campaign, after=after, limit=limit)
        more = [f"for more: --after {rows[-1][columns[0]]}"] if len(rows) == limit else []
        return Answer(rows, "\n".join([*table(rows, columns), *more]))

    command.__doc__ = text
    return verb(example, name=name, access="read")(command)


episodes = page(
    "episodes --after 100",
    "seq received episode_id version member late withdrawn deviations total",
    """List recorded episodes.

    Each correction or withdrawal is a separate row. --json prints the reports too.""",
)
open_ = page(
    "open", "number assigned episode_id version member", "List episodes assigned and not reported."
)
refusals = page(
    "refusals --json", "number received episode_id reason", "List refused reports and the reasons."
)


@verb("sites", access="read")
def sites(campaign: Campaign) -> Answer:
    """Show the episodes and returns of each site."""
    found = rs.campaigns.sites(campaign)
    lines = table(found, ("site", "episodes", "late", "deviating", "mean_return"))
    return Answer(found, "\n".join(lines))


@verb("head >> /elsewhere/heads.jsonl", access="read")
def head(campaign: Campaign) -> None:
    """Print the chains' heads, to keep elsewhere.

    The line of JSON has the length and the last link of each chain. Append it to a file on another
    machine: `verify --anchor FILE` then detects rows removed from the end of the record.
    """
    click.echo(json.dumps(head_plain(campaign)))


def head_plain(campaign: Campaign) -> dict[str, Any]:
    """Return the heads of a campaign in the format of `verify --anchor`."""
    heads = {chain: list(head) for chain, head in rs.campaigns.head(campaign).items()}
    return {"campaign": campaign.name, "heads": heads}


def candidate_text(campaign: Campaign, plain: dict[str, Any]) -> list[str]:
    """Return the evidence, signatures and decision of a candidate as lines."""
    from rareswitch.campaigns.proof.export.words import (
        as_of,
        candidate_lines,
        one_line,
        protocol_at,
    )

    approval = approval_of(campaign)
    decision, signatures = plain["decision"], plain.get("signatures", [])
    if plain["status"] == "waiting" and plain.get("owed", True) is None:
        last = "not decided: the campaign has stopped"
    elif plain["status"] == "waiting":
        approvers = [one["by"] for one in signatures if one["kind"] == "approved"]
        last = needed_approval(plain["number"], plain["proposer"], approval, approvers)
        if plain.get("expires_at") is not None:
            last += f"; it expires at row {plain['expires_at']} of the log"
    elif plain["status"] == "void":
        last = "void: another version came into force"
        if decision is not None:
            last = one_line(f"void: {decision['reason']}")
    elif plain["status"] == "declined":
        last = "not proposed, so nobody has to sign"
    elif decision is None:
        last = f"in force as version {plain['version']}, as the protocol leaves it to the schedule"
    else:
        done = {"deployed": "approved"}.get(plain["status"], plain["status"])
        last = one_line(f"{done} by {decision['by']}: {decision['reason']}")
    protocol = protocol_at(campaign.entries, plain["number"])
    lines = candidate_lines(**plain, protocol=protocol)
    if (since := plain.get("since_fit")) is not None:
        lines.append(as_of(plain["seq"], since))
    return [*lines, *signature_text(plain), last]


def signature_text(plain: dict[str, Any]) -> list[str]:
    """Return the signatures and comments of a proposal as lines.

    A single typed name is part of the decision's line instead.
    """
    from rareswitch.campaigns.proof.export.words import one_line
    from rareswitch.campaigns.rulebook.signed import signed_line

    signatures, comments = plain.get("signatures", []), plain.get("comments", [])
    several = sum(one["kind"] == "approved" for one in signatures) > 1
    shown = [
        one for one in signatures
        if one["method"] or (one["kind"] == "approved" and (several or plain.get("owed")))
    ]  # fmt: skip
    lines = [one_line(signed_line(one)) for one in shown]
    return [*lines, *(one_line(f"{signed_line(one)}: {one['reason']}") for one in comments)]


def needed_approval(
    number: int, proposer: str, approval: Approval, approvers: Sequence[str] = ()
) -> str:
    """Return who may still approve a proposal, and where to sign.

    >>> from rareswitch.campaigns import Approval
    >>> needed_approval(7, "ana", Approval(by="second-person"))[:34]
    'needs approval by any person but a'
    """
    from rareswitch.campaigns.proof.export.words import one_line
    from rareswitch.campaigns.rulebook.names import SCHEDULE, same_person

    done = [name for name in (proposer, *approvers) if name != SCHEDULE]
    others = [n for n in approval.signers if not any(same_person(n, one) for one in done)]
    but = f" but {one_line(' and '.join(done))}" if done else ""
    anybody = "any person" if approval.signature == "any" else "any approver"
    who = " or ".join(others) or f"{anybody}{but}"
    how = _where_to_sign("approve", number, approval)
    signatures, groups = approval.owed(approvers)
    if not approval.several:
        return f"needs approval by {who}: {how}"
    each = [f"one of {name} ({' or '.join(approval.groups[name])})" for name in groups]
    more = plural(signatures, "more approval")
    return f"needs {more}{', ' + ' and '.join(each) if each else f' by {who}'}: {how}"


def approval_of(campaign: Campaign) -> Approval:
    """Return the approval that the protocol requires; a rehearsal always accepts typed names."""
    approval = campaign.terms.approval
    return replace(approval, signature="any") if campaign.state.rehearsal else approval


def _where_to_sign(action: str, number: int, approval: Approval) -> str:
    """Return the command that signs; a command can sign with a typed name only."""
    if approval.signature != "any":
        return "sign on the page of the service"
    return f"rareswitch campaign {action} {number} --by NAME --reason TEXT"


def changed_keys(old: Any, new: Any) -> Iterator[str]:
    """Yield a line for each key in which two protocols differ.

    >>> [*changed_keys({"budget": {"deployments": 2}}, {"budget": {"deployments": 4}})]
    ['budget.deployments: 2 → 4']
    """
    from rareswitch.campaigns.status import changed_values

    for key, *values in changed_values(old, new):
        before, after = (
            "(not set)" if value is None else json.dumps(value, ensure_ascii=False)
            for value in values
        )
        yield f"{key}: {before} → {after}"


def _quantity(trigger: Mapping[str, Any]) -> str:
    from rareswitch.campaigns.proof.export.words import GROWTH

    return "growth of the data" if GROWTH in trigger["quantity"] else str(trigger["quantity"])


def _status(campaign: Campaign, found: Status) -> list[str]:
    from rareswitch.campaigns.proof.export.words import ONE_IS_ENOUGH, wait_of

    protocol, approval = campaign.terms.plain, approval_of(campaign)
    deployments = "deployment" if found.budget == 1 else "deployments"
    state = f"stopped ({found.stopped})" if found.stopped else "running"
    kind = ", a rehearsal" if found.rehearsal else ""
    gone = [f"{found.withdrawn} withdrawn"] if found.withdrawn else []
    gone += [f"{found.cancelled} cancelled"] if found.cancelled else []
    lines = [
        f"campaign       {found.name}{kind}, {state}; revision {found.revision} of its protocol",
        f"episodes       {_bar(found.recorded, found.planned_episodes)} {found.recorded} of "
        f"{found.planned_episodes} recorded{''.join(f', {one}' for one in gone)}",
        f"               {found.open} assigned and not reported, {found.late} from a replaced "
        f"version, {plural(found.refused, 'report')} refused",
        f"budget         {_bar(found.spent, found.budget)} {found.spent} of {found.budget} "
        f"{deployments} spent, {found.left} left; {plural(found.rollbacks, 'rollback')}",
    ]
    if found.declined:
        were = "was" if found.declined == 1 else "were"
        lines.append(f"{'':15}{plural(found.declined, 'candidate')} {were} not worth proposing")
    lines += [
        f"trigger        {_bar(trigger['value'], trigger['threshold'])} {_quantity(trigger)} "
        f"{trigger['value']:.4g} of {trigger['threshold']:.4g}"
        for trigger in found.triggers
    ]
    wait = wait_of(protocol) if found.triggers else ""
    if len(found.triggers) > 1:
        lines.append(f"{'':15}{ONE_IS_ENOUGH}{', after the wait' if wait else ''}")
    lines += [f"{'':15}{wait}"] if wait else []
    if found.difference is not None:
        lines.append(f"control        {_difference(found.difference)}")
    if (behind := found.rows - found.folded) and not found.stopped:
        whom = "the pending decision" if found.waiting else "the learner"
        wait = "waits" if behind == 1 else "wait"
        lines.append(f"learner        {plural(behind, 'new episode')} {wait} for {whom}")
    lines += ["", *_versions(found), "", *_pending(campaign, found, protocol, approval)]
    length, link = found.heads["ledger"]
    return [
        *lines,
        f"ledger         {plural(length, 'entry', 'entries')}; link of the last: {link[:LINK]}…",
    ]


def analysis_lines(found: Analysis) -> list[str]:
    """Return an analysis as lines of text."""
    from rareswitch.campaigns.proof.export.words import BY_FIRST

    role_rows = [{"role": role, **counts} for role, counts in found.roles.items()]
    lines = table(
        role_rows, ("role", "episodes", "not_reported", "withdrawn", "cancelled", "mean_return")
    )
    columns = ("compared", "learned", "control", "difference", AT_THE_END, AT_ANY_TIME)
    rows = [_comparison(one) for one in (found.combined, *found.others, *found.versions)]
    lines += ["", *table(rows, columns)]
    if found.subgroups:
        lines += ["", *table([_comparison(one) for one in found.subgroups], columns[:-1])]
    if found.actions:
        rows = [_comparison(one, "this action", "reference") for one in found.actions]
        lines += ["", f"each action against {found.reference}, where both were possible:"]
        lines += table(rows, ("compared", "this action", "reference", "difference", AT_THE_END))
    if found.events:
        events = [one._asdict() | {"reported": one.told} for one in found.events]
        lines += ["", *table(events, ("role", "event", "reported", "episodes", "events"))]
    if found.treatments:
        counted = [_treatment(one) for one in found.treatments]
        shown = [name for name in counted[0] if any(row[name] is not None for row in counted)]
        first = f" ({BY_FIRST})" if found.horizon > 1 else ""
        lines += ["", f"by treatment given, plain counts{first}:", *table(counted, shown)]
    kinds = {"subgroups": found.subgroups, "actions": found.actions}
    together = _together([kind for kind, rows in kinds.items() if rows])
    said = (f"Intervals have {found.confidence:.4g} confidence{together}.", found.claim)
    if any(row["difference"] is None for row in (*found.subgroups, *found.actions)):
        lines += ["", "difference -: no version has outcomes of both sides in this row"]
    return [*lines, "", *(line for text in (*said, found.error) for line in wrap(text, WIDTH))]


def _together(kinds: Sequence[str]) -> str:
    """Return which intervals hold together.

    >>> _together(["subgroups", "actions"])
    '; those of subgroups hold together, and so do those of actions'
    """
    first, *others = [f"those of {kind}" for kind in kinds] or [""]
    return first and f"; {first} hold together{''.join(f', and so do {one}' for one in others)}"


def _comparison(
    row: Mapping[str, Any], arm: str = "learned", other: str = "control"
) -> dict[str, Any]:
    """Return the cells of a comparison: mean and episodes of both arms, and the intervals."""
    name = f"{row['comparison']} {row['name']}".strip()
    if row["comparison"] == "all versions" and row["missing"] != "reported":
        name = f"with missing as {MISSING_AS[row['missing']]}"

    def mean(value: Any, episodes: int) -> str:
        return "-" if value is None else f"{value:.3g} ({episodes})"

    def ends(low: Any, high: Any) -> str:
        return "-" if low is None else f"[{low:.3g}, {high:.3g}]"

    return {
        "compared": name,
        arm: mean(row["mean_return"], row["episodes"]),
        other: mean(row["control_mean_return"], row["control_episodes"]),
        "difference": None if row["difference"] is None else f"{row['difference']:.3g}",
        AT_THE_END: ends(row["low"], row["high"]),
        AT_ANY_TIME: ends(row["any_time_low"], row["any_time_high"]),
    }


def _treatment(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a treatment: episodes, mean return, and episodes with each event."""
    cells = {"subgroup": row["subgroup"], "treatment": row["action"], "episodes": row["episodes"],
             "mean return": row["mean_return"]}  # fmt: skip
    events = {f"with {kind}": number for kind, number in row["events"].items()}
    return cells | ({"reports of events": row["told"]} | events if events else {})


def _difference(row: Mapping[str, Any]) -> str:
    """Return the comparison with the control as a sentence."""
    if row["difference"] is None:
        return "no version has outcomes of both learned members and the control yet"
    low, high = row["any_time_low"], row["any_time_high"]
    return (
        f"learned {row['mean_return']:.4g}, control {row['control_mean_return']:.4g}: difference "
        f"{row['difference']:.4g} [{low:.4g}, {high:.4g}], valid at any time"
    )


def _versions(found: Status) -> list[str]:
    columns = ("version", "in force from episode", "episodes", "late", INTERVAL, "by")
    rows = []
    for one in found.versions:
        mean = "-" if one.mean is None else f"{one.mean:.4g} [{one.low:.4g}, {one.high:.4g}]"
        how = one.by if one.rollback_to is None else f"{one.by}, back to {one.rollback_to}"
        mark = "*" if one.version == found.version else ""
        values = (f"{one.version}{mark}", one.since + 1, one.episodes, one.late, mean, how)
        rows.append(dict(zip(columns, values, strict=True)))
    return table(rows, columns)


def _pending(
    campaign: Campaign, found: Status, protocol: dict[str, Any], approval: Approval
) -> list[str]:
    """Return the pending decisions as lines."""
    from rareswitch.campaigns.proof.export.words import one_line

    lines = candidate_text(campaign, found.waiting) if found.waiting else []
    for name in ("amendment", "reopening"):
        entry = getattr(found, name)
        if entry is None or (found.stopped and name == "amendment"):
            continue
        lines.append(one_line(f"{name} {entry['number']} by {entry['actor']}: {entry['reason']}"))
        if name == "amendment":
            lines += changed_keys(protocol, entry["payload"]["protocol"])
            lines += [f"cost: {entry['cost']}"] if entry["cost"] else []
        approvers = [one["by"] for one in entry["signatures"] if one["kind"] == "approved"]
        lines += signature_text(entry)
        asked = approval if name == "amendment" else approval.for_reopening
        lines.append(needed_approval(entry["number"], entry["actor"], asked, approvers))
    for entry in found.uncountersigned:
        number, actor = entry["number"], one_line(entry["actor"])
        lines.append(
            f"rollback {number} by {actor} is in force; no candidate is deployed until another "
            f"person signs: {_where_to_sign('countersign', number, approval)}"
        )
    if not lines:
        lines.append("no decision is pending")
        if found.asked_again and not found.stopped:
            lines[0] += f"; the schedule is asked again at episode {found.asked_again}"
    return [f"{'' if number else 'decision':<15}{line}" for number, line in enumerate(lines)]


def _entry(entry: Entry) -> str:
    from rareswitch.campaigns.proof.export.words import one_line
    from rareswitch.campaigns.status import entry_words

    text = one_line(f"{entry.actor} {entry_words(entry)}: {entry.reason}")
    return f"{entry.number:5}  {one_line(entry.at)}  {text}"


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return rows as aligned lines below a header.

    >>> table([{"site": "north", "late": True, "mean": 0.5}], ("site", "late", "mean"))
    ['site   late  mean', 'north  yes   0.5']
    """
    from rareswitch.campaigns.proof.export.words import one_line

    cells = [list(columns), *([one_line(_cell(row[name])) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _bar(value: Any, of: Any) -> str:
    """Return a progress bar that is full only at the end.

    >>> _bar(1, 2)
    '[###############...............]'
    """
    share = 0.0 if not of or value <= 0 else min(1.0, value / of)
    full = int(BAR * share)
    return f"[{'#' * full}{'.' * (BAR - full)}]"
