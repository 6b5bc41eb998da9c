"""Running the qualification, and its report as JSON and as one HTML page."""

import json
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rareswitch.campaigns.campaign import list_campaigns
from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.proof.checks import Check, Progress, describe, quiet
from rareswitch.campaigns.proof.export.blocks import Block, Section, Table, pairs
from rareswitch.campaigns.proof.export.derived import as_html
from rareswitch.campaigns.qualification import drills, installation, operation
from rareswitch.campaigns.rulebook.rows import digest_of
from rareswitch.campaigns.store import Store, open_store
from rareswitch.support.archive import write_bytes

REPORT, PAGE = "qualification.json", "qualification.html"
REQUIREMENTS = Path(__file__).with_name("requirements.toml")
SIGNATURES = ("performed by", "reviewed by")
LINE = "_" * 24
LIMITS = [
    "Compiled files in __pycache__ are not compared. Delete them before the qualification if "
    "others can write to the installation.",
    "Kill -9 does not show a missing write to disk after a power loss. The settings that force "
    "each commit to disk are checked instead.",
    "The golden results prove that this installation computes what the authors computed. They do "
    "not validate a protocol for its purpose: rehearse it with `rareswitch campaign simulate`.",
    "The tests of the table below are part of the source distribution. They were not run here.",
]


@dataclass(frozen=True, kw_only=True)
class Qualification:
    """The outcome of a qualification; it is `ok` if no check failed."""

    made: str
    store: str
    machine: dict[str, str]
    libraries: Sequence[installation.LibraryLine]
    files: Sequence[installation.FileLine]
    installation: Sequence[Check]
    operation: Sequence[Check]
    requirements: Sequence[dict[str, Any]]

    @property
    def checks(self) -> list[Check]:
        return [*self.installation, *self.operation]

    @property
    def ok(self) -> bool:
        return not any(check.problems for check in self.checks)

    @property
    def verdict(self) -> str:
        if not self.ok:
            return "NOT qualified"
        partly = any(check.unchecked for check in self.checks)
        return "qualified, except for the parts named as unchecked" if partly else "qualified"

    @property
    def plain(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"format": 1, "ok": self.ok, "verdict": self.verdict}
        parts |= {"made": self.made, "store": self.store, "machine": self.machine}
        parts["libraries"] = [line._asdict() for line in self.libraries]
        for name in ("installation", "operation"):
            parts[name] = [
                asdict(check) | {"outcome": check.outcome} for check in getattr(self, name)
            ]
        parts["files"] = [line._asdict() for line in self.files]
        parts["requirements"] = list(self.requirements)
        parts["limits"] = LIMITS
        blank = dict.fromkeys(("name", "role", "date", "signature"), "")
        parts["signatures"] = [{"meaning": meaning, **blank} for meaning in SIGNATURES]
        return parts

    @property
    def text(self) -> str:
        """The checks for people, with a line for each check, problem and unchecked part."""
        lines = []
        for check in self.checks:
            lines.append(f"{check.name:<24} {check.outcome}")
            unchecked = [f"unchecked: {part}" for part in check.unchecked]
            lines += [f"{'':<24} {line}" for line in [*unchecked, *check.problems]]
        return "\n".join([*lines, f"{'verdict':<24} {self.verdict}"])

    def page(self, digest: str) -> str:
        """Return the report as one HTML page, with the SHA-256 of the JSON and lines to sign."""
        about = [("verdict", self.verdict), ("made", self.made), ("store of drills", self.store)]
        about += [(f"SHA-256 of {REPORT}", digest), *self.machine.items()]
        signed = [(meaning, *[LINE] * 4) for meaning in SIGNATURES]
        tests = [(one["number"], one["text"], ", ".join(one["tests"])) for one in self.requirements]
        contents: dict[str, list[Block]] = {
            "Summary": [pairs(about)],
            "Installation": [_table(self.installation)],
            "Operation": [_table(self.operation)],
            "Limits": [LIMITS],
            "Signatures": [
                "The signers have read this report and its JSON file, whose SHA-256 is above.",
                Table(("meaning", "name", "role", "date", "signature"), signed),
            ],
            "Requirements and their tests": [Table(("number", "requirement", "tests"), tests)],
            "Libraries": [
                Table(("library", "needed by extra", "earliest", "installed"), self.libraries)
            ],
            "Installed files": [Table(("file", "SHA-256", "outcome"), self.files)],
        }
        sections = [Section(heading, "", blocks) for heading, blocks in contents.items()]
        return as_html("Qualification of a rareswitch installation", sections)


def qualify(out: Path, *, store: str | None = None, progress: Progress = quiet) -> Qualification:
    """Check this installation, and write the report to a folder.

    Drills run on the disk of that folder or, if `store` is given, in that empty PostgreSQL
    database, which keeps their rows. A folder with an earlier report is refused.
    """
    if (out / REPORT).exists() or (out / PAGE).exists():
        raise FileExistsError(f"out must be a folder without a report; {out} has one already")
    out.mkdir(parents=True, exist_ok=True)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    libraries, files = installation.libraries(), installation.files()
    with (
        tempfile.TemporaryDirectory(prefix="drills-", dir=out.resolve()) as folder,
        _opened(store, Path(folder)) as (opened, address),
    ):
        done = run_checks(_checks(opened, address, Path(folder), libraries, files), progress)
        shown = "SQLite, on the disk of this report" if store is None else opened.url
    found = Qualification(
        made=made,
        store=shown,
        machine=installation.machine(),
        libraries=libraries,
        files=files,
        installation=done[:3],
        operation=done[3:],
        requirements=requirements(),
    )
    data = (json.dumps(found.plain, indent=2) + "\n").encode()
    write_bytes(out / REPORT, data)
    write_bytes(out / PAGE, found.page(digest_of(data)).encode())
    return found


def _checks(
    store: Store,
    address: str,
    folder: Path,
    libraries: list[installation.LibraryLine],
    files: list[installation.FileLine],
) -> dict[str, Callable[[], Check]]:
    """Return the checks by name, in order: later drills use the results of earlier drills."""
    return {
        "versions": installation.check_versions,
        "libraries": lambda: installation.check_libraries(libraries),
        "installed files": lambda: installation.check_files(files),
        "golden fits": operation.check_fits,
        "golden record": lambda: operation.check_golden_record(folder),
        "golden campaign": lambda: operation.check_golden_campaign(store, folder),
        "alterations are noticed": lambda: operation.check_alterations(folder),
        "crash drill": lambda: drills.check_crashes(store, address),
        "no room on disk": lambda: drills.check_room(folder),
        "backup and restore": lambda: drills.check_backup(store, folder),
    }


def run_checks(checks: dict[str, Callable[[], Check]], progress: Progress) -> list[Check]:
    """Run every check; an error in a check is its problem, and the other checks still run."""
    done = []
    for number, (name, check) in enumerate(checks.items()):
        progress(name, number, len(checks))
        try:
            done.append(check())
        except Exception as error:
            done.append(Check(name=name, problems=[describe(error)]))
    progress("", len(checks), len(checks))
    return done


def requirements() -> list[dict[str, Any]]:
    """Return the requirements, each with its number, text and tests."""
    with REQUIREMENTS.open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["requirement"]
    return found


def _table(checks: Sequence[Check]) -> Table:
    rows = []
    for check in checks:
        unchecked = [f"unchecked: {part}" for part in check.unchecked]
        said = ". ".join([*check.problems, *unchecked, *check.remarks])
        rows.append((check.name, check.outcome, check.rows, said))
    return Table(("check", "outcome", "compared", "found"), rows)


@contextmanager
def _opened(store: str | None, folder: Path) -> Iterator[tuple[Store, str]]:
    """Yield the store of the drills, and its address; a server's database must be empty."""
    address = str(folder / "drill.db") if store is None else store
    if store is not None and not store.startswith("postgres"):
        raise ValueError("store must be postgresql://…; SQLite files are made in out")
    with open_store(address, create=True) as opened:
        if names := list_campaigns(opened):
            raise NotAllowedError(
                f"store must be an empty database; {opened.url} has the campaign {names[0]}"
            )
        yield opened, address
