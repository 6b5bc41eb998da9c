"""Endpoints that read: the state of a campaign, its policies, its protocol and its record."""

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.export.export import export, interim
from rareswitch.campaigns.proof.stored import verify
from rareswitch.campaigns.rulebook.state import Version
from rareswitch.campaigns.status import (
    analyse,
    ledger,
    list_episodes,
    protocol,
    refusals,
    sites,
    status,
)
from rareswitch.campaigns.store.rows import StoredRecord, heads_of
from rareswitch.service.app import may, present
from rareswitch.service.endpoint import (
    ANYBODY,
    LARGEST,
    SIGNED_IN,
    Call,
    Endpoints,
    Page,
    Struct,
    Text,
)
from rareswitch.service.live import live_events
from rareswitch.service.problems import Problem
from rareswitch.service.signing import person_of
from rareswitch.service.telemetry import MEDIA_TYPE as METRICS

look = Endpoints()
PlainTable = dict[str, Any]
BINARY = "application/octet-stream"
MOST_HEAVY = 2  # exports, verifications or interim reports at once


class Summary(msgspec.Struct, kw_only=True):
    """The state of a campaign without returns, for everybody with a role."""

    name: str
    rehearsal: bool
    protocol: str
    revision: int
    version: int
    digest: str
    stopped: bool
    waiting: bool
    horizon: int
    dim: int
    one_hot: bool
    actions: list[str]
    columns: list[str]
    features: str
    assigned_only: bool
    concealed: bool
    budget: int
    spent: int
    planned: int
    recorded: int
    assigned: int
    open: int
    refused: int
    heads: dict[str, list[int | str]]


def summary_of(campaign: Campaign) -> Summary:
    """Return the blinded summary of a campaign."""
    found = status(campaign)
    state = campaign.state
    terms = state.terms
    task = terms.plain["task"]
    return Summary(
        name=campaign.name,
        rehearsal=found.rehearsal,
        protocol=found.protocol,
        revision=found.revision,
        version=found.version,
        digest=state.in_force.digest,
        stopped=found.stopped is not None,
        waiting=found.waiting is not None,
        horizon=terms.horizon,
        dim=task["dim"],
        one_hot=task["one_hot"],
        actions=list(terms.actions),
        columns=list(terms.plain.get("features", {}).get("columns", ())),
        features=terms.features,
        assigned_only=terms.intake.assigned,
        concealed=terms.intake.concealed,
        budget=found.budget,
        spent=found.spent,
        planned=found.planned_episodes,
        recorded=found.recorded,
        assigned=found.assigned,
        open=found.open,
        refused=found.refused,
        heads={name: [head.length, head.link] for name, head in found.heads.items()},
    )


@look.get("/v1/campaigns", action=SIGNED_IN, answers={200: list[Summary]})
def list_campaigns(call: Call) -> list[Summary]:
    """List the campaigns that you may look at."""
    return [summary_of(campaign) for campaign in call.service.visible(call.principal)]


@look.get("/v1/campaigns/{campaign}", action="look", answers={200: Summary})
def read_campaign(campaign: Campaign) -> Summary:
    """Return the state of a campaign, without returns."""
    return summary_of(campaign)


@look.get("/v1/campaigns/{campaign}/status", action="unblinded")
def read_status(campaign: Campaign) -> PlainTable:
    """Return the state of a campaign, with the returns of each version."""
    return status(campaign).plain


@look.get("/v1/campaigns/{campaign}/analysis", action="unblinded")
def read_analysis(campaign: Campaign) -> PlainTable:
    """Compare the learned policies with the control."""
    return analyse(campaign).plain


@look.get("/v1/campaigns/{campaign}/sites", action="unblinded", answers={200: list[PlainTable]})
def read_sites(campaign: Campaign) -> list[PlainTable]:
    """Count the episodes of each site."""
    return sites(campaign)


def _bytes(request: Request, digest: str, read: Callable[[], bytes], **more: str) -> Response:
    """Return immutable bytes; return 304 without a call of `read` if the caller has them."""
    headers = {"ETag": f'"{digest}"', "Cache-Control": "private, no-cache", **more}
    asked = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
    if f'"{digest}"' in asked or f'W/"{digest}"' in asked or "*" in asked:
        return Response(status_code=304, headers=headers)
    return Response(read(), headers=headers, media_type=BINARY)


@look.get(
    "/v1/campaigns/{campaign}/policy", action="policy", answers={200: bytes, 304: None},
    media_type=BINARY,
)  # fmt: skip
def read_policy(campaign: Campaign, call: Call) -> Response:
    """Return the bytes of the policy in force; ETag is their SHA-256."""
    return _policy(campaign, call, campaign.state.in_force)


@look.get(
    "/v1/campaigns/{campaign}/policies/{version:int}", action="policy",
    answers={200: bytes, 304: None}, media_type=BINARY,
)  # fmt: skip
def read_version(campaign: Campaign, version: int, call: Call) -> Response:
    """Return the bytes of a version's policy; ETag is their SHA-256."""
    state = campaign.state
    if not 1 <= version <= state.in_force.version:
        raise not_found("version", version)
    return _policy(campaign, call, state.version(version))


def _policy(campaign: Campaign, call: Call, version: Version) -> Response:
    number = version.version
    told = {"X-Version": str(number)}
    return _bytes(call.request, version.digest, lambda: campaign.policy_bytes(number).data, **told)


@look.get(
    "/v1/campaigns/{campaign}/features", action="policy", answers={200: bytes, 304: None},
    media_type=BINARY,
)  # fmt: skip
def read_features(campaign: Campaign, call: Call) -> Response:
    """Return the bytes of the feature map of raw observations."""
    digest = campaign.terms.features
    if not digest:
        raise Problem(404, "the protocol has no feature map", code="not-found")

    def read() -> bytes:
        with campaign.store.reading() as connection:
            return StoredRecord(connection, campaign.name).artifact(digest)

    return _bytes(call.request, digest, read)


class Revision(Struct):
    """A revision of the protocol; 0 is the revision in force."""

    revision: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] = 0


@look.get("/v1/campaigns/{campaign}/protocol", action="look", query=Revision)
def read_protocol(campaign: Campaign, query: Revision) -> PlainTable:
    """Return the tables of the protocol."""
    if query.revision > len(campaign.state.revisions):
        raise not_found("revision", query.revision)
    return protocol(campaign, query.revision or None)


@look.get("/v1/campaigns/{campaign}/heads", action="look")
def read_heads(campaign: Campaign) -> PlainTable:
    """Return the length and the last link of each chain, to keep elsewhere for `verify`."""
    with campaign.store.reading() as connection:
        found = heads_of(connection, campaign.name)
    return {"campaign": campaign.name, "heads": {name: list(one) for name, one in found.items()}}


@look.get(
    "/v1/campaigns/{campaign}/ledger", action="unblinded", query=Page,
    answers={200: list[PlainTable]},
)  # fmt: skip
def read_ledger(campaign: Campaign, query: Page) -> list[PlainTable]:
    """Return entries of the ledger; `after` is the number of your last entry."""
    found = ledger(campaign, after=query.after, limit=query.limit)
    return [entry._asdict() for entry in found]


@look.get(
    "/v1/campaigns/{campaign}/refusals", action="unblinded", query=Page,
    answers={200: list[PlainTable]},
)  # fmt: skip
def read_refusals(campaign: Campaign, query: Page) -> list[PlainTable]:
    """Return refused reports with their reasons."""
    return refusals(campaign, after=query.after, limit=query.limit)


@look.get(
    "/v1/campaigns/{campaign}/episodes", action="unblinded", query=Page,
    answers={200: list[PlainTable]},
)  # fmt: skip
def read_episodes(campaign: Campaign, query: Page) -> list[PlainTable]:
    """Return rows of the log with their reports."""
    return list_episodes(campaign, after=query.after, limit=query.limit)


@look.get(
    "/v1/campaigns/{campaign}/live", action="look", answers={200: bytes},
    media_type="text/event-stream",
)  # fmt: skip
async def follow(campaign: Campaign, call: Call) -> Response:
    """Send an event for each new row: the heads, and ledger entries if you may read them."""

    async def may_now(action: str) -> bool:
        return await run_in_threadpool(lambda: may(present(call), action, campaign))

    return live_events(call.service, campaign, call.request, caller=call.caller, may=may_now)


class Reason(Struct):
    """The reason, for the ledger."""

    reason: Text


@look.post(
    "/v1/campaigns/{campaign}/exports", action="export", body=Reason, answers={200: bytes},
    media_type="application/zip",
)  # fmt: skip
def make_export(campaign: Campaign, body: Reason, call: Call) -> Response:
    """Export the whole record as a zip file; the ledger gets an entry."""
    return zipped_export(call, campaign, reason=body.reason)


def zipped_export(call: Call, campaign: Campaign, *, reason: str) -> Response:
    """Return a new export as a zip file; X-Manifest is the digest of its manifest."""
    by = person_of(call)
    with call.service.few("export", MOST_HEAVY), tempfile.TemporaryDirectory() as folder:
        made = export(campaign, Path(folder) / campaign.name, by=by, reason=reason)
        packed = Path(folder) / "export.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
            for path in sorted(made.folder.rglob("*")):
                target.write(path, path.relative_to(folder))
        data = packed.read_bytes()
    headers = {
        "Content-Disposition": f'attachment; filename="{campaign.name}.zip"',
        "X-Manifest": made.digest,
    }
    return Response(data, headers=headers, media_type="application/zip")


@look.post("/v1/campaigns/{campaign}/verification", action="export")
def verify_campaign(campaign: Campaign, call: Call) -> PlainTable:
    """Verify the whole record: check chains, rules and signatures, and fit every policy again."""
    with call.service.few("verification", MOST_HEAVY):
        return verify(campaign).plain


class Interim(Struct):
    """The kind of report; the closed report has returns."""

    closed: bool = False


@look.get(
    "/v1/campaigns/{campaign}/interim", action="export", query=Interim, answers={200: bytes},
    media_type="text/html",
)  # fmt: skip
def read_interim(campaign: Campaign, query: Interim, call: Call) -> Response:
    """Return the interim report as HTML; the open report has no returns."""
    with call.service.few("interim report", MOST_HEAVY):
        page = interim(campaign, closed=query.closed)
    # The report is one file with inline styles and no scripts.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    return Response(page, headers={"Content-Security-Policy": policy}, media_type="text/html")


# The service itself


@look.get("/healthz", action=ANYBODY)
async def read_health() -> PlainTable:
    """Return ok if the process answers."""
    return {"ok": True}


@look.get("/readyz", action=ANYBODY)
def read_readiness(call: Call) -> PlainTable:
    """Return ok if the store can be read and the service is not stopping."""
    if call.service.is_stopping:
        raise Problem(503, "the service is stopping", code="stopping", retry_after=5)
    with call.service.store.reading():
        return {"ok": True}


@look.get("/metrics", action=SIGNED_IN, answers={200: bytes}, media_type="text/plain")
def read_metrics(call: Call) -> Response:
    """Return the Prometheus metrics of the campaigns that you may look at."""
    statuses = map(status, call.service.visible(call.principal))
    return Response(call.service.telemetry.text(statuses), media_type=METRICS)


@look.get("/v1/openapi.json", action=SIGNED_IN)
def read_openapi(call: Call) -> PlainTable:
    """Return this description."""
    return call.service.description


def not_found(field: str, value: Any) -> Problem:
    """Return the problem of a number that is not in the campaign."""
    return Problem(404, f"there is no {field} {value}", code="not-found", field=field)
