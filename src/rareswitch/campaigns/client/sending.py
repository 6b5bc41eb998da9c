"""Sending the reports of the outbox, in order and in batches, until none is left or a failure.

Only the number of a row acknowledges a report. A refusal by the service moves it to `refused`. Any
other answer leaves it in the outbox: no route, a captive portal, an expired token, a server with a
full disk.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from rareswitch.campaigns.client.exchange import (
    Answer,
    Conversation,
    OfflineError,
    Request,
    error_of,
)
from rareswitch.campaigns.client.knowledge import Knowledge
from rareswitch.campaigns.client.outbox import MOST_REPORTS, Outbox, Waiting
from rareswitch.campaigns.errors import CampaignError


class Flushed(NamedTuple):
    """The result of a flush: reports recorded and refused now, and reports still pending.

    `error` is the reason why reports are pending, or None.
    """

    recorded: int
    refused: int
    waiting: int
    error: str | None = None


def send(knowledge: Knowledge, outbox: Outbox, now: Callable[[], str]) -> Conversation[Flushed]:
    """Send pending reports; only one process or thread of a folder sends at a time."""
    recorded = refused = 0
    error: str | None = None
    most = MOST_REPORTS
    with knowledge.folder.sending() as mine:
        if not mine:
            return Flushed(0, 0, len(outbox), "another process or thread is sending the reports")
        while error is None and (some := outbox.first(most)):
            body = [one.report for one in some] if len(some) > 1 else some[0].report
            try:
                with knowledge.asking():
                    answer = yield Request(method="POST", path="/episodes", body=body)
                    results = _results(answer, some)
            except OfflineError as failure:
                error = str(failure)
                break
            except CampaignError:
                most = 1  # one report caused the refusal of all: send them one by one
                continue
            for one, result in zip(some, results, strict=True):
                if result is None:
                    outbox.acknowledge(one)
                    recorded += 1
                elif isinstance(result, OfflineError):
                    error = str(result)
                    knowledge.line.failed(error)
                else:
                    outbox.refuse(one, result.fields["problem"] | {"detail": str(result)}, now())
                    refused += 1
    return Flushed(recorded, refused, len(outbox), error)


def _results(answer: Answer, some: list[Waiting]) -> list[CampaignError | None]:
    """Return the result of each sent report: None if it is recorded, or its error."""
    if answer.status not in (200, 201):
        error = error_of(answer.problem, answer.status, retry_after=answer.retry_after)
        if len(some) > 1 or isinstance(error, OfflineError):
            raise error
        return [error]
    rows = answer.values if len(some) > 1 else [answer.values]
    if not isinstance(rows, list) or len(rows) != len(some):
        raise OfflineError(f"the answer must be {len(some)} rows; is it a rareswitch service?")
    return [_result(row) for row in rows]


def _result(row: Any) -> CampaignError | None:
    if isinstance(row, dict):
        seq, status = row.get("seq"), row.get("status")
        if isinstance(status, int) and status >= 400:
            return error_of(row, status)
        if isinstance(seq, int) and status is None:
            return None
    return OfflineError("the answer must be a row or a problem; is it a rareswitch service?")
