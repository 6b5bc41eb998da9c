"""Metrics for Prometheus, and log lines: without secrets, names or ids of episodes."""

import json
import logging
import sys
import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from rareswitch.campaigns.status import Status

logger = logging.getLogger("rareswitch.service")
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# The numbers of a campaign for everybody who may look at it.
COUNTS = ("version", "budget", "spent", "planned_episodes", "recorded", "open", "refused", "folded")


class Telemetry:
    """The counts of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "rareswitch_requests", "Answered requests.", ["method", "route", "status"],
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "rareswitch_request_seconds", "Seconds until the answer.", ["method", "route"],
            buckets=SECONDS, registry=self._registry,
        )  # fmt: skip

    def answered(self, method: str, route: str, status: int, seconds: float, who: str) -> None:
        """Count and log an answer; `route` is the path with the names of its parts."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)
        level = logging.ERROR if status >= 500 else logging.INFO
        if logger.isEnabledFor(level):
            told = {"method": method, "route": route, "status": status, "who": who}
            told["ms"] = round(1000 * seconds, 3)
            logger.log(level, "answered", extra={"told": told})

    def text(self, statuses: Iterable[Status]) -> bytes:
        """Return the metrics of the process and the counts of the campaigns."""
        registry = CollectorRegistry()
        names = ("waiting", "stopped", *COUNTS)
        gauges = {
            name: Gauge(f"rareswitch_campaign_{name}", f"Of a campaign: {name}.", ["campaign"],
                        registry=registry)
            for name in names
        }  # fmt: skip
        for status in statuses:
            gauges["waiting"].labels(status.name).set(status.waiting is not None)
            gauges["stopped"].labels(status.name).set(status.stopped is not None)
            for name in COUNTS:
                gauges[name].labels(status.name).set(getattr(status, name))
        return generate_latest(self._registry) + generate_latest(registry)


MEDIA_TYPE = CONTENT_TYPE_LATEST


class Lines(logging.Formatter):
    """A log line in JSON or as text."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told = {"at": f"{at}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        told["event"] = record.getMessage()
        told |= getattr(record, "told", {})
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps(told, ensure_ascii=False)
        more = " ".join(f"{name}={value}" for name, value in [*told.items()][3:])
        return f"{told['at']} {told['level']:<7} {told['event']} {more}".rstrip()


def begin_log(*, as_json: bool, level: int = logging.INFO) -> None:
    """Write the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(as_json=as_json))
    for name in ("rareswitch", "uvicorn.error"):
        found = logging.getLogger(name)
        found.handlers, found.propagate = [handler], False
        found.setLevel(level if name == "rareswitch" else logging.WARNING)
    # A connection whose server is gone cannot be reset; the answer 503 has its own line.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
