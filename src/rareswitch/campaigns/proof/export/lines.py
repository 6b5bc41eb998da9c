"""The rows of chains as JSON lines, one canonical text for each, with plain values for its body."""

import json
from pathlib import Path
from typing import Any

from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.proof.export.moment import Moment
from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.report import Report

TEXTS = ("claims", "payload")  # columns that hold JSON: written as what it says


def line_of(row: Any, report: Report | None = None) -> bytes:
    """Return a row with all its columns; `report` is what its body holds."""
    plain = dict(row._mapping)
    del plain["campaign"]
    for name in TEXTS:
        if name in plain:
            plain[name] = json.loads(plain[name])
    if report is not None:
        plain["body"] = {k: v for k, v in report.plain.items() if k != "id"}
    return canonical(plain).encode() + b"\n"


def report_of(row: Any) -> Report | None:
    """Return the report in a row of the log, without what is beside its body; None: withdrawn."""
    if row.body is None:
        return None
    try:
        return Report.from_body(row.body, id=row.episode_id)
    except (TypeError, ValueError) as error:
        raise DamagedError(f"row {row.seq} of the log cannot be read: {error}") from None


def write_lines(path: Path, moment: Moment, chain: str) -> None:
    """Write a chain without bodies."""
    with open(path, "wb") as file:
        file.writelines(line_of(row) for row in rows_of(moment.connection, chain, moment.campaign))
