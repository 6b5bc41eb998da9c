"""The page of a candidate: changes, subgroups, expected gain and price."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.export.words import (
    BY_FIRST,
    NO_PROOF,
    OPTIMISTIC,
    UNCERTAIN,
    Treatment,
    as_of,
    candidate_lines,
    change_of,
    is_number,
    one_line,
    protocol_at,
    several_visits,
    shares_of,
    stage_number,
    subgroups_of,
    treatments_of,
    warnings_of,
)
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.status import since_fit
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.service.pages.charts import Chart, shares_chart
from rareswitch.service.pages.rendering import count, figure, percent, plural, render
from rareswitch.service.pages.signing import signatures_of
from rareswitch.service.pages.view import View
from rareswitch.service.pages.words import candidate_status, who_signs

MOST_CHANGES = 20


class Price(NamedTuple):
    """The deployments and episodes left."""

    deployments_left: int
    budget: int
    episodes_left: int
    planned: int


def candidate_page(
    view: View, campaign: Campaign, number: int, passkeys: Sequence[str] = ()
) -> str:
    """Return the page of a candidate for its signers.

    `passkeys` are the viewer's credential ids (base64url). An unknown number raises
    `NotAllowedError`.
    """
    view = replace(view, passkeys=(*passkeys,)) if passkeys else view
    with campaign.store.reading() as connection:
        state, entries = campaign.state_at(connection), campaign.entries_at(connection)
        heads = heads_of(connection, campaign.name)
        found = state.candidate(number)
        waits = found.status == "waiting" and state.stopped is None
        since = since_fit(connection, campaign.name, found) if waits else None
    protocol = protocol_at(entries, number)
    terms = state.terms
    price = price_of(state, found, heads["episodes"].length)
    evidence = found.evidence if isinstance(found.evidence, dict) else {}
    gain = gain_of(evidence)
    treatments = treatments_of(evidence)
    changes, subgroups = change_rows(evidence), subgroup_rows(evidence, protocol, treatments)
    if treatments:  # they show the first stage
        changes = [one for one in changes if one[0] != "1"]
    return render(
        "candidate.html",
        view,
        campaign=campaign,
        candidate=found,
        status=candidate_status(found.status, stopped=state.stopped is not None),
        waits=waits,
        as_of="" if since is None else as_of(found.seq, since),
        shares=shares_of(protocol),
        by_first=BY_FIRST if several_visits(protocol) else "",
        stopped=state.stopped is not None,
        summary=summary(found, gain, evidence),
        worth=worth(gain, price, found, evidence),
        price=price,
        gain=gain,
        caveat=NO_PROOF if gain is not None and gain >= 0 else OPTIMISTIC,
        whom_chart=_whom_chart(subgroups, changes),
        changes=changes,
        subgroups=subgroups,
        treatments=treatment_table(treatments),
        lines=candidate_lines(**vars(found), protocol=protocol, tabled=True),
        warnings=warnings_of(evidence),
        signatures=signatures_of(entries, number),
        signs=who_signs(terms, found.proposer),
        own=same_person(found.proposer, view.principal.name or "-"),
        may_sign=terms.approval.may_sign(view.principal.name or "-"),
        method=terms.approval.signature,
        owed=state.owed(found),
        expires=state.expires_at if found.status == "waiting" else None,
        signed=any(same_person(one.actor, view.principal.name or "-") for one in found.approvals),
    )


def price_of(state: State, found: Candidate, rows: int) -> Price:
    """Return the price of a candidate: now, or at its proposal if it is decided."""
    left, terms = state.left, state.terms
    if found.status != "waiting":
        earlier = [one for one in state.versions if one.entry.number < found.number]
        spent = sum(one.rollback_to is None for one in earlier) - 1
        left, rows = max(0, terms.budget - spent), found.entry.position
    recorded = rows - state.corrections if found.status == "waiting" else rows
    return Price(left, terms.budget, max(0, terms.episodes - recorded), terms.episodes)


def gain_of(evidence: dict[str, Any]) -> float | None:
    """Return the expected gain per episode; None if the log gives no estimate."""
    gain = evidence.get("gain")
    verdict = gain.get("verdict") if isinstance(gain, dict) else None
    if not isinstance(verdict, str) or not verdict.startswith(("gain ", "loss ", UNCERTAIN)):
        return None
    value = gain.get("value")  # type: ignore[union-attr]
    return value if is_number(value) else None


def change_rows(evidence: dict[str, Any]) -> list[tuple[str, str, str, float]]:
    """Return the commonest changes of action: stage, from, to, share of the stage's states."""
    return [
        (
            stage_number(one.get("stage")),
            _action(one.get("from")),
            _action(one.get("to")),
            one["share"],
        )
        for one in _listed(evidence, "changes")[:MOST_CHANGES]
        if isinstance(one, dict) and is_number(one.get("share"))
    ]


def subgroup_rows(
    evidence: dict[str, Any], protocol: Mapping[str, Any], treatments: Sequence[Treatment]
) -> list[tuple[str, str, float, str]]:
    """Return each subgroup: its name, episodes, share treated differently, and the change.

    The change is that of the probabilities of treatments, if the evidence has them. Otherwise it is
    the commonest change of the most frequent action.
    """
    rows = []
    for one in subgroups_of(evidence, protocol):
        if isinstance(one, dict) and is_number(one.get("share")):
            mine = [row for row in treatments if row.whom == _word(one.get("subgroup"))]
            change = f"mostly {_action(one.get('from'))} → {_action(one.get('to'))}"
            part = one.get("share_of_change")
            if not is_number(part):
                none = one["share"] == 0
                change = "treated as before" if none else "no single change is most frequent"
            elif part <= 0.5:  # type: ignore[operator]
                change = change.replace("mostly", "most often", 1)
            if mine:
                change = change_of(mine)
            number = one.get("episodes")
            episodes = plural(number, "episode") if type(number) is int else "–"
            rows.append((_word(one.get("subgroup")), episodes, one["share"], change))
    return rows


class Treatments(NamedTuple):
    """A table of treatments; `numbers` are the columns of numbers."""

    header: list[str]
    rows: list[list[str]]
    numbers: range


def treatment_table(treatments: Sequence[Treatment]) -> Treatments | None:
    """Return both probabilities, episodes, mean return and adverse events of treatments."""
    if not treatments:
        return None
    named, harmful = treatments[0].whom != "", bool(treatments[0].events)
    header = [
        *(["Subgroup"] if named else []), "Treatment", "Now", "Under the candidate",
        "Episodes so far", "Mean return", *(["Adverse events, in episodes"] if harmful else []),
    ]  # fmt: skip
    rows = [
        [
            *([one.whom] if named else []), one.action, percent(one.now), percent(one.then),
            count(one.episodes), "–" if one.mean_return is None else figure(one.mean_return),
            *([one.harm or "–"] if harmful else []),
        ]
        for one in treatments
    ]  # fmt: skip
    first = header.index("Now")
    return Treatments(header, rows, range(first, first + 4))


def summary(found: Candidate, gain: float | None, evidence: dict[str, Any]) -> str:
    """Return the change and its expected gain in one sentence."""
    share = evidence.get("disagreement")
    changed = (
        f"Version {found.version} would act differently in {percent(float(share))} of logged states"  # type: ignore[arg-type]
        if is_number(share)
        else f"How often version {found.version} would act differently is not known"
    )
    if gain is None:
        return f"{changed}; the gain cannot be estimated from this log."
    word, said = ("gain", NO_PROOF) if gain >= 0 else ("loss", OPTIMISTIC)
    return f"{changed}, with an expected {word} of {figure(abs(gain))} per episode ({said})."


def worth(
    gain: float | None, price: Price, found: Candidate, evidence: dict[str, Any]
) -> list[str]:
    """Return sentences that compare the gain with the price."""
    after = max(0, price.deployments_left - 1)
    spends = (
        f"A signature spends 1 of the {plural(price.deployments_left, 'deployment')} left, so "
        f"{count(after) if after else 'none'} would remain."
    )
    told = [] if found.status != "waiting" else [spends]
    if nothing := _no_change(evidence):
        spent = f", and would spend 1 of the {plural(price.deployments_left, 'deployment')} left"
        return [f"{nothing}{spent if told else ''}."]
    if gain is None:
        return [
            "This log gives no valid estimate of the gain. Judge the change itself, and whether "
            "the deployments left are enough for later changes.",
            *told,
        ]
    total = gain * price.episodes_left
    over = f"over the {plural(price.episodes_left, 'episode')} left"
    verdict = (
        f"The log cannot tell: {over} the optimistic estimate is {figure(total)} in total, and a "
        "loss is not excluded."
        if gain >= 0
        else f"Even by an optimistic estimate it would lose about {figure(-total)} in total {over}."
    )
    if not price.episodes_left:
        verdict = "No episode is left, so a change earns nothing in this study."
    model = _model_gain(evidence)
    return [verdict, *model, *told]


def _no_change(evidence: dict[str, Any]) -> str:
    """Return a sentence if the candidate changes or gains nothing in the log, else ""."""
    gain = evidence.get("gain")
    share = evidence.get("disagreement")
    if is_number(share) and share == 0:
        return "It changes nothing in the logged states"
    if isinstance(gain, dict) and gain.get("low") == gain.get("high") == gain.get("value") == 0:
        return "It gains nothing in the logged states"
    return ""


def _model_gain(evidence: dict[str, Any]) -> list[str]:
    found = evidence.get("worth")
    gain = found.get("gain") if isinstance(found, dict) else None
    value = gain.get("value") if isinstance(gain, dict) else None
    if not is_number(value):
        return []
    return [f"The fitted model itself expects {figure(value)} more per episode."]


def _whom_chart(
    subgroups: list[tuple[str, str, float, str]], changes: list[tuple[str, str, str, float]]
) -> Chart | None:
    """Return bars for the subgroups, or for the changes of action without declared subgroups."""
    if subgroups:
        rows = [
            (f"{name} ({episodes})", share, words) for name, episodes, share, words in subgroups
        ]
        return shares_chart(
            rows,
            "Share of cases treated differently, by subgroup",
            "Bar: share of a subgroup's logged cases in which the candidate acts differently at "
            "the first decision.",
        )
    if changes:
        rows = [(f"{a} → {b}", share, f"of states of stage {stage}")
                for stage, a, b, share in changes[:6]]  # fmt: skip
        return shares_chart(
            rows,
            "Commonest changes of the most frequent action",
            "Bar: share of a stage's logged states with this change of the most frequent action.",
        )
    return None


def _listed(evidence: dict[str, Any], name: str) -> list[Any]:
    found = evidence.get(name, [])
    return list(found) if isinstance(found, list | tuple) else []


def _word(value: Any) -> str:
    return (one_line(str(value)) if type(value) in (int, str) else "") or "not recorded"


def _action(value: Any) -> str:
    return f"action {value}" if type(value) is int else _word(value)
