"""Endpoints of the field: assignments, treatments, reports and their corrections.

A site may use only ids that begin with its name and a colon, and reports only for itself.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from rareswitch.campaigns import recording
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import CampaignError, UnreadableError
from rareswitch.campaigns.ranking import erase_observation
from rareswitch.campaigns.reading import checked_values, read_values
from rareswitch.campaigns.recording import Assignment, Recorded
from rareswitch.campaigns.rulebook.names import checked_name
from rareswitch.campaigns.status import open_episodes
from rareswitch.service.endpoint import (
    LARGE_BODY,
    Call,
    Endpoints,
    Name,
    Page,
    Struct,
    Text,
    read_body,
)
from rareswitch.service.problems import Problem, problem_of
from rareswitch.service.signing import person_of

field = Endpoints()
PlainTable = dict[str, Any]
MOST_TOGETHER = 1000  # reports or assignments of one request
READ_IN_LOOP = 32_768  # bytes; a longer report is read in a thread


class AssignmentAnswer(msgspec.Struct, kw_only=True):
    """The version and member that play an episode; `key` draws the member."""

    episode_id: str
    version: int
    member: int
    key: str
    digest: str
    new: bool


class AssignmentRequest(Struct):
    """The id of an episode, or the ids of several."""

    id: Name | None = None
    ids: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MOST_TOGETHER)] | None = None


class ActRequest(Struct):
    """An episode and its next observation, or the feature rows of the offered actions."""

    id: Name
    observation: dict[str, Any] | None = None
    features: list[Any] | None = None
    earlier: list[tuple[dict[str, Any] | list[Any], str | int]] = []


class ActAnswer(msgspec.Struct, kw_only=True):
    """The action to take, and its probability given the earlier actions."""

    episode_id: str
    version: int
    member: int
    stage: int
    action: str
    place: int
    probability: float


class RecordedAnswer(msgspec.Struct, kw_only=True):
    """The row of a recorded episode; `new` is false for a repeated report."""

    seq: int
    version: int
    member: int
    late: bool
    new: bool
    deviations: int | None


class OpenPage(Page, kw_only=True):
    """A page of open assignments."""

    open: bool = True


class Why(Struct):
    """The reason, for the ledger."""

    reason: Text


class Correction(Struct):
    """A corrected report and the reason."""

    report: PlainTable
    reason: Text


class Forgetting(Struct):
    """The participant to forget, and the reason."""

    participant: Name
    reason: Text


def own_id(call: Call, campaign: Campaign, given: Any) -> str:
    """Return an episode's id; raise if the caller may not use it."""
    name = checked_name("id", given)
    _check_site(call.site, name)
    return name


def _check_site(site: str | None, name: str) -> None:
    if site and not name.startswith(f"{site}:"):
        raise Problem(
            403, f"id must begin with your site and a colon, {site}:",
            code="another-site", field="id",
        )  # fmt: skip


def own_report(call: Call, campaign: Campaign, values: Any) -> dict[str, Any]:
    """Return the fields of a report, with the caller's site added."""
    report = checked_values(values)
    if not (site := call.site):
        return report
    if isinstance(name := report.get("id"), str):
        _check_site(site, name)
    if report.get("site", site) != site:
        raise Problem(403, f"site must be yours, {site}", code="another-site", field="site")
    return {**report, "site": site}


@field.post(
    "/v1/campaigns/{campaign}/assignments", action="assign", body=AssignmentRequest,
    answers={200: AssignmentAnswer | list[AssignmentAnswer]},
)  # fmt: skip
async def assign(campaign: Campaign, body: AssignmentRequest, call: Call) -> Any:
    """Assign episodes to the version in force; the same id always gets the same answer."""
    if (body.id is None) == (body.ids is None):
        raise ValueError("id or ids must be given, and not both")
    asked = [body.id] if body.ids is None else body.ids
    names = [own_id(call, campaign, one) for one in asked]
    waiting = [asyncio.wrap_future(campaign.submit(recording.assign(one))) for one in names]
    found = [_assignment(one) for one in await asyncio.gather(*waiting)]
    return found if body.ids is not None else found[0]


def _assignment(found: Assignment) -> AssignmentAnswer:
    """Return an assignment without its role, so that sites stay blinded to the control."""
    plain = found._asdict()
    del plain["role"]
    return AssignmentAnswer(**plain)


@field.get(
    "/v1/campaigns/{campaign}/assignments", action="assign", query=OpenPage,
    answers={200: list[PlainTable]},
)  # fmt: skip
def read_open(campaign: Campaign, query: OpenPage, call: Call) -> list[PlainTable]:
    """Return assigned episodes without a report; a site gets only its own."""
    if not query.open:
        raise ValueError("open must be true: other assignments are in the export")
    site = call.site
    prefix = f"{site}:" if site else ""
    return open_episodes(campaign, after=query.after, limit=query.limit, prefix=prefix)


@field.post(
    "/v1/campaigns/{campaign}/act", action="assign", body=ActRequest, answers={200: ActAnswer}
)
async def act(campaign: Campaign, body: ActRequest, call: Call) -> ActAnswer:
    """Assign an episode and return the action to take."""
    name = own_id(call, campaign, body.id)
    step = campaign.acting(body.observation, features=body.features, earlier=body.earlier)
    assigned = await asyncio.wrap_future(campaign.submit(recording.assign(name)))
    return ActAnswer(**step.choose(campaign.artifact(assigned.digest), assigned)._asdict())


@field.post(
    "/v1/campaigns/{campaign}/episodes", action="report", largest=LARGE_BODY,
    answers={201: RecordedAnswer, 200: PlainTable | list[PlainTable]},
)  # fmt: skip
async def record(campaign: Campaign, call: Call) -> Any:
    """Record one report, or many as an array or as lines of JSON.

    The reports are on disk before the answer. Answers to many reports have the same order; each is
    a row, or the problem of a refused report.
    """
    data = await call.data()
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/x-ndjson":
        return await run_in_threadpool(_record_all, campaign, call, _lines(data))
    if kind != "application/json":
        raise Problem(
            415, "content-type must be application/json or application/x-ndjson",
            code="media-type", field="content-type",
        )  # fmt: skip
    if data.lstrip()[:1] == b"[":
        return await run_in_threadpool(lambda: _record_all(campaign, call, read_body(data)))
    if len(data) > READ_IN_LOOP:
        work = await run_in_threadpool(read_work, campaign, call, data)
    else:
        work = read_work(campaign, call, data)
    found: Recorded = await asyncio.wrap_future(campaign.submit(work))
    answer = msgspec.json.encode(found._asdict())
    return Response(answer, 201 if found.new else 200, media_type="application/json")


def read_work(campaign: Campaign, call: Call, data: bytes) -> recording.Work:
    return campaign.work_of(own_report(call, campaign, read_values(data)))


def _lines(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if line.strip()]


def _record_all(campaign: Campaign, call: Call, given: Sequence[Any]) -> list[Any]:
    """Record many reports; return a row or a problem for each."""
    if len(given) > MOST_TOGETHER:
        raise Problem(
            413, f"body must have at most {MOST_TOGETHER} reports; got {len(given)}",
            code="too-large", field="body",
        )  # fmt: skip
    reports: list[Any] = []
    for one in given:
        try:
            values = read_values(one) if isinstance(one, bytes) else one
            reports.append(own_report(call, campaign, values))
        except (UnreadableError, Problem, TypeError, ValueError) as error:
            reports.append(error)
    ready = iter(campaign.record_all(one for one in reports if isinstance(one, dict)))
    found = [next(ready) if isinstance(one, dict) else one for one in reports]
    return [
        problem_of(one).plain
        if isinstance(one, CampaignError | Problem | TypeError | ValueError)
        else one._asdict()
        for one in found
    ]


@field.post(
    "/v1/campaigns/{campaign}/episodes/{episode_id}/correction", action="correct",
    body=Correction, answers={200: RecordedAnswer}, largest=LARGE_BODY,
)  # fmt: skip
def correct(campaign: Campaign, episode_id: str, body: Correction, call: Call) -> PlainTable:
    """Correct a recorded episode; its first row stays, and later fits use the correction."""
    name = own_id(call, campaign, episode_id)
    report = own_report(call, campaign, {"id": name, **body.report})
    if report["id"] != name:
        raise Problem(422, f"report must be of episode {name}", code="invalid", field="report.id")
    return campaign.correct(report, by=person_of(call), reason=body.reason)._asdict()


@field.post(
    "/v1/campaigns/{campaign}/episodes/{episode_id}/withdrawal", action="correct", body=Why,
    answers={200: RecordedAnswer},
)  # fmt: skip
def withdraw(campaign: Campaign, episode_id: str, body: Why, call: Call) -> PlainTable:
    """Exclude an episode from all later fits, for good."""
    name = own_id(call, campaign, episode_id)
    return campaign.withdraw(name, by=person_of(call), reason=body.reason)._asdict()


@field.post(
    "/v1/campaigns/{campaign}/episodes/{episode_id}/cancellation", action="correct", body=Why
)
def cancel(campaign: Campaign, episode_id: str, body: Why, call: Call) -> PlainTable:
    """Cancel an assigned episode that never began."""
    name = own_id(call, campaign, episode_id)
    new = campaign.cancel(name, by=person_of(call), reason=body.reason)
    erase_observation(campaign, name)
    return {"episode_id": name, "new": new}


@field.post("/v1/campaigns/{campaign}/forgetting", action="forget", body=Forgetting)
def forget(campaign: Campaign, body: Forgetting, call: Call) -> PlainTable:
    """Erase the name of a participant; keep the data."""
    gone = campaign.forget(body.participant, by=person_of(call), reason=body.reason)
    return {"episodes": gone}
