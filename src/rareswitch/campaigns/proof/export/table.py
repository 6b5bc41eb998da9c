"""The log as a Parquet file: one row for each row of the log, in columns of one type each.

Features offered at later states are in episodes.jsonl alone: few analyses need them, and they are
most of the bytes.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from rareswitch.campaigns.report import CLAIMS, Report

WRITTEN_TOGETHER = 5000
NUMBERS = pa.list_(pa.float64())
PLACES = pa.list_(pa.int64())


def schema_of(*, one_hot: bool) -> Any:
    """Return the columns; `features` are those chosen, a row for each step."""
    names = {
        "seq": pa.int64(),
        "episode_id": pa.string(),
        "revision": pa.int64(),
        "current": pa.bool_(),  # no later row corrects or withdraws it, and it is not withdrawn
        "version": pa.int64(),
        "member": pa.int64(),
        "assigned": pa.bool_(),
        "late": pa.bool_(),
        "learn": pa.bool_(),
        "total": pa.float64(),
        **dict.fromkeys(CLAIMS, pa.string()),
        "received": pa.string(),
        "steps": pa.int64(),
        "cut_off": pa.bool_(),
        "rewards": NUMBERS,
        "features": PLACES if one_hot else pa.list_(NUMBERS),
        "offered": PLACES,  # how many actions were offered at each step; the first only if told
        "actions": PLACES,
        "recommended": PLACES,
        "propensities": NUMBERS,
        "overridden": pa.int64(),  # steps at which another action was taken than recommended
        "link": pa.string(),
    }
    return pa.schema(names.items())


def overridden(report: Report) -> int | None:
    """Return at how many steps another action was taken than recommended, if both were told."""
    if report.recommended is None or report.actions is None:
        return None
    return int((report.recommended != report.actions).sum())


class TableWriter:
    """An open Parquet file; a context that closes it."""

    def __init__(self, path: Path, *, one_hot: bool) -> None:
        self._schema = schema_of(one_hot=one_hot)
        self._writer = pyarrow.parquet.ParquetWriter(
            path, self._schema, compression="zstd", write_page_checksum=True
        )
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, row: Any, report: Report | None, *, current: bool) -> None:
        """Add a row of the log and what its body holds."""
        self._rows.append(
            {
                "seq": row.seq,
                "episode_id": row.episode_id,
                "revision": row.revision,
                "current": current,
                "version": row.version,
                "member": row.member,
                "assigned": row.assigned,
                "late": row.late,
                "learn": row.learn,
                "total": None if report is None else row.total,
                **json.loads(row.claims),
                "received": row.received,
                "link": row.link,
            }
            | ({} if report is None else _told(report))
        )
        if len(self._rows) == WRITTEN_TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()


def _told(report: Report) -> dict[str, Any]:
    episode, steps = report.episode, len(report.episode)
    first = None if report.first_features is None else len(report.first_features)
    told = {
        "steps": steps,
        "cut_off": len(episode.next_features) == steps,
        "rewards": episode.rewards.tolist(),
        "features": episode.features.tolist(),
        "offered": [first, *map(len, episode.next_features)][:steps],
        "overridden": overridden(report),
    }
    for name in ("actions", "recommended", "propensities"):
        if (array := getattr(report, name)) is not None:
            told[name] = array.tolist()
    return told
