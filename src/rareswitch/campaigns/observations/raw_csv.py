"""CSV files of reports with raw columns: one row for each step, with a site's own names.

    id,action,reward,age,severity,site
    p1,low,0.5,63,2,north
    p2,high,1,41,0,south

Text is UTF-8, with or without a byte order mark; `,` or `;` separates cells, and empty lines are
skipped. Numbers have a decimal point. The header names each column once, in any order:

| column | value | |---|---| | id | the name of the episode | | the protocol's `[features] columns`
| the numbers of the observation | | action | a name from `[task] actions` | | reward | from 0 to 1
| | step | 0, 1, 2, … or 1, 2, 3, … in each episode; needed if the horizon is above 1 | | propensity
| the probability of the action given the earlier actions (optional) | | recommended | the name of
the action that the policy recommended (optional) | | version, member, site, began, ended,
participant | the same in all rows of an episode, or empty | | subgroup | one of the protocol's
subgroups, likewise | | events | adverse events by kind, `nausea:2; serious:1`, or `none`, likewise
|

A truncated episode has one more row, with its last observation and neither action nor reward.
Without `step`, rows are read one by one. With it, the whole file is read first, because the rows of
an episode may be apart.

A missing or unknown column in the header refuses the file before any report is returned. Errors do
not repeat the content of a cell or an unknown column, which may be a person's name.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from rareswitch.campaigns.observations.observer import Column, Observer
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.terms import ANALYSIS_COLUMNS, REPORT_COLUMNS

NUMBER = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?")
LONGEST_NUMBER = 400  # characters; Python refuses integers of thousands of digits
LONGEST_HEADER = 2**16
REWARD, PROPENSITY = Column("reward", least=0, most=1), Column("propensity", least=0, most=1)
STEP = Column("step", whole=True, least=0, most=2**31)
COUNTS = {
    name: Column(name, whole=True, least=least, most=2**31)
    for name, least in (("version", 1), ("member", 0))
}
OF_STEPS = ("action", "reward", "propensity", "recommended")
TEXTS = ("site", "began", "ended", "subgroup", "participant")
EVENT = re.compile(r"([^:;]+):\s*([0-9]{1,18})")
NO_EVENTS = "none"


class RowError(ValueError):
    """The reason why the row or the episode at a line is invalid; it repeats no cell."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")


class Row(NamedTuple):
    """The cells of a line by the names of their columns."""

    line: int
    cells: dict[str, str]

    def number(self, column: Column) -> int | float:
        try:
            return column.checked(_number(self.cells[column.name]))
        except ValueError as error:
            raise RowError(self.line, str(error)) from None

    def action(self, column: str, observer: Observer) -> str:
        if (name := self.cells[column]) not in observer.actions:
            names = ", ".join(observer.actions)
            raise RowError(self.line, f"{column} must be one of {names}")
        return name


def read_csv(path: str | Path, observer: Observer) -> Iterator[Report | RowError]:
    """Yield the report of each episode in a file, or the reason why it is invalid.

    A ValueError refuses the whole file before any report, if its header is wrong or, with a column
    `step`, if a row cannot be read and may belong to any episode.
    """
    # Surrogates replace bytes that are not UTF-8, so one such row does not refuse the file.
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        header, delimiter, line = _read_header(file, observer)
        rows = _read_rows(file, header, delimiter, line)
        if "step" not in header:
            for row in rows:
                yield row if isinstance(row, RowError) else _read_episode([row], 0, observer)
            return
        episodes: dict[str, list[Row]] = {}
        for row in rows:
            if isinstance(row, RowError):
                raise ValueError(f"{row}. The file is refused: the row may be of any episode")
            episodes.setdefault(row.cells["id"], []).append(row)
    counted = {row.cells["step"] for rows_of_one in episodes.values() for row in rows_of_one}
    for rows_of_one in episodes.values():
        yield _read_episode(rows_of_one, 0 if "0" in counted else 1, observer)


def _read_header(file: TextIO, observer: Observer) -> tuple[list[str], str, int]:
    """Return the names of the columns, the delimiter and the line of the header."""
    line, text = 1, file.readline(LONGEST_HEADER)
    while text and not text.strip():
        line, text = line + 1, file.readline(LONGEST_HEADER)
    known = (*REPORT_COLUMNS, *_of_analysis(observer), *observer.features.columns)
    headers = {
        delimiter: [
            name.strip()
            for name in next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
        ]
        for delimiter in ",;"
    }
    delimiter = max(headers, key=lambda sign: len({*known} & {*headers[sign]}))
    header = headers[delimiter]
    needed = ["id", "action", "reward", *observer.features.columns]
    needed += ["step"] if observer.task.horizon > 1 else []
    takes = f"it needs {', '.join(needed)}, and may have " + ", ".join(
        name for name in known if name not in needed
    )
    if missing := [name for name in needed if name not in header]:
        raise ValueError(f"the header has no column {missing[0]}; {takes}")
    for place, name in enumerate(header, start=1):
        if name not in known:
            raise ValueError(f"column {place} of the header is unknown; {takes}")
        if header.count(name) > 1:
            raise ValueError(f"the header must have each column once; {name} is there twice")
    return header, delimiter, line


def _read_rows(
    file: TextIO, header: list[str], delimiter: str, line: int
) -> Iterator[Row | RowError]:
    """Yield the rows after the header, or a RowError for a row that cannot be read."""
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        first = line + reader.line_num + 1
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error:
            last = line + reader.line_num
            lines = f"; lines {first} to {last} cannot be read" if last > first else ""
            yield RowError(first, f"cells must be quoted as in CSV{lines}")
            continue
        if not any(cells):
            continue
        if (last := line + reader.line_num) > first:
            yield RowError(first, f"a cell must be on one line; one goes on to line {last}")
        elif len(cells) != len(header):
            yield RowError(first, f"a row must have {len(header)} cells; got {len(cells)}")
        elif any("\udc80" <= sign <= "\udcff" for cell in cells for sign in cell):
            yield RowError(first, "text must be UTF-8")
        elif not cells[header.index("id")]:
            yield RowError(first, "id must name the episode; the cell is empty")
        else:
            yield Row(first, dict(zip(header, cells, strict=True)))


def _read_episode(rows: list[Row], first_step: int, observer: Observer) -> Report | RowError:
    """Return the report of one episode's rows, or their first error."""
    try:
        return observer.report(_values(rows, first_step, observer))
    except RowError as error:
        return error
    except (TypeError, ValueError) as error:
        return RowError(rows[0].line, str(error))


def _values(rows: list[Row], first_step: int, observer: Observer) -> dict[str, Any]:
    """Return the fields of a report with observations."""
    cells = rows[0].cells
    if "step" in cells:
        for step, row in enumerate(rows, start=first_step):
            if row.number(STEP) != step:
                why = f"step must count from {first_step} in the rows of an episode; {step} is next"
                raise RowError(row.line, why)
    cut_off = len(rows) > 1 and not any(map(rows[-1].cells.get, OF_STEPS))
    played = rows[:-1] if cut_off else rows
    values: dict[str, Any] = {
        "id": cells["id"],
        "observations": [
            {column.name: row.number(column) for column in observer.columns} for row in rows
        ],
        "actions": [row.action("action", observer) for row in played],
        "rewards": [row.number(REWARD) for row in played],
    }
    if any(row.cells.get("propensity") for row in played):
        values["propensities"] = [row.number(PROPENSITY) for row in played]
    if any(row.cells.get("recommended") for row in played):
        values["recommended"] = [row.action("recommended", observer) for row in played]
    others = {*ANALYSIS_COLUMNS} - {*_of_analysis(observer)}
    for name in (*COUNTS, *TEXTS, "events"):
        if name not in others and (telling := _telling(name, rows)) is not None:
            column = COUNTS.get(name)
            values[name] = telling.number(column) if column else telling.cells[name]
            if name == "events":
                values[name] = _events(telling)
    return values


def _of_analysis(observer: Observer) -> list[str]:
    """Return the claim columns for the analysis, except those that an observation uses."""
    return [name for name in ANALYSIS_COLUMNS if name not in observer.features.columns]


def _events(row: Row) -> dict[str, int]:
    """Return the counts in a cell such as `nausea:2; serious:1`."""
    text, counts = row.cells["events"], dict[str, int]()
    for part in () if text == NO_EVENTS else text.split(";"):
        found = EVENT.fullmatch(part.strip())
        if found is None or (kind := found[1].strip()) in counts:
            raise RowError(
                row.line,
                "events must be each kind once with its count, as in nausea:2; serious:1, or "
                f"{NO_EVENTS}",
            )
        counts[kind] = int(found[2])
    return counts


def _telling(name: str, rows: list[Row]) -> Row | None:
    """Return the first row with a value in a column; raise if other rows differ."""
    found = [row for row in rows if row.cells.get(name)]
    for row in found:
        if row.cells[name] != found[0].cells[name]:
            raise RowError(row.line, f"{name} must be the same in all rows of an episode")
    return found[0] if found else None


def _number(text: str) -> int | float | None:
    """Return the number in a text, or None if it is not a number."""
    found = NUMBER.fullmatch(text)
    if found is None or len(text) > LONGEST_NUMBER:
        return None
    return float(text) if any(found.groups()) else int(text)
