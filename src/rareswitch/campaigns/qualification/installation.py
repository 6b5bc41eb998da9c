"""Installation: the files of the package, its libraries, and the machine."""

import base64
import csv
import hashlib
import json
import locale
import os
import platform
import re
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import rareswitch
from rareswitch.campaigns.proof.checks import Check
from rareswitch.campaigns.proof.one_file import verifier_digest
from rareswitch.campaigns.qualification.numerics import numerics
from rareswitch.campaigns.store.schema import NEWEST

PACKAGE = "rareswitch"
DEVELOPMENT = ("test", "check", "docs", "dev")  # extras for development only
EARLIEST_PYTHON = (3, 11)
EARLIEST_SQLITE = (3, 35)  # ON CONFLICT, RETURNING and read-only write-ahead logs
# A requirement in a wheel: its name, its earliest version, and its extra.
REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*(?P<earliest>[0-9.]+))?"
    r"(?:\s*;.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"])?\s*"
)


class FileLine(NamedTuple):
    """A file of the package, its SHA-256, and how it compares with the wheel's RECORD."""

    path: str
    sha256: str
    outcome: str


class LibraryLine(NamedTuple):
    """A library of the package or of one of its extras."""

    name: str
    needed_by: str
    earliest: str
    installed: str


def machine() -> dict[str, str]:
    """Return the versions and settings for which a qualification is valid."""
    return {
        "rareswitch": rareswitch.__version__,
        "schema of stores": NEWEST,
        "one-file verifier": f"SHA-256 {verifier_digest()}",
        "installed in": str(Path(rareswitch.__file__).parent),
        "Python": f"{platform.python_implementation()} {sys.version}".replace("\n", " "),
        "interpreter": sys.executable,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "processors": str(os.cpu_count()),
        "host": platform.node(),
        "encoding": f"{sys.getfilesystemencoding()}, {locale.getpreferredencoding(False)}",
        "SQLite": sqlite3.sqlite_version,
        **{f"numerics: {name}": told for name, told in numerics().items()},
    }


def check_versions() -> Check:
    """Check that Python and SQLite are recent enough."""
    check = Check(name="versions", rows=2)
    for name, found, earliest in (
        ("Python", sys.version_info[:3], EARLIEST_PYTHON),
        ("SQLite", sqlite3.sqlite_version_info, EARLIEST_SQLITE),
    ):
        shown = ".".join(map(str, found))
        check.remarks.append(f"{name} {shown}")
        if found < earliest:
            check.fail(f"{name} must be {'.'.join(map(str, earliest))} or later; found {shown}")
    return check


def check_libraries(lines: list[LibraryLine]) -> Check:
    """Check that every library is present and recent enough; unused extras may be missing."""
    check = Check(name="libraries", rows=len(lines))
    if not lines:
        check.unchecked.append("libraries: the package has no metadata that names them")
    for line in lines:
        if not line.installed:
            if line.needed_by in ("", "campaigns"):
                check.fail(f"{line.name} is not installed")
        elif _parts(line.installed) < _parts(line.earliest):
            check.fail(f"{line.name} must be {line.earliest} or later; found {line.installed}")
    return check


def libraries() -> list[LibraryLine]:
    """Return the libraries in the package's metadata, with their versions."""
    found = _distribution()
    lines: dict[tuple[str, str], LibraryLine] = {}
    for text in (found.requires or ()) if found is not None else ():
        told = REQUIREMENT.fullmatch(text)
        if told is None:
            raise ValueError(f"requirement must be NAME>=VERSION, with an extra; got {text!r}")
        name, extra = told["name"].lower(), told["extra"] or ""
        if name != PACKAGE and extra not in DEVELOPMENT:
            line = LibraryLine(name, extra, told["earliest"] or "", _installed(name))
            lines[name, extra] = line
    return sorted(lines.values(), key=lambda line: (line.needed_by, line.name))


def files() -> list[FileLine]:
    """Return every file of the imported package, compared with the wheel's RECORD.

    Outcomes: "as recorded", "altered", "missing", "not recorded", or "no record" of the package.
    """
    folder = Path(rareswitch.__file__).parent
    told = _recorded(folder)
    lines = []
    there = {path.relative_to(folder.parent).as_posix(): path for path in _own_files(folder)}
    for name in sorted({*there, *(told or ())}):
        if name not in there:
            lines.append(FileLine(name, "", "missing"))
            continue
        digest = hashlib.sha256(there[name].read_bytes())
        outcome = "no record"
        if told is not None:
            outcome = "not recorded"
            if name in told:
                same = told[name] == _encoded(digest.digest())
                outcome = "as recorded" if same else "altered"
        lines.append(FileLine(name, digest.hexdigest(), outcome))
    return lines


def check_files(lines: list[FileLine]) -> Check:
    """Check that every file is as in the wheel, and that none is missing or added."""
    check = Check(name="installed files", rows=len(lines))
    unrecorded = [line for line in lines if line.outcome == "no record"]
    for line in lines:
        if line.outcome not in ("as recorded", "no record"):
            check.fail(f"{line.path} is {line.outcome}")
    if unrecorded or not lines:
        check.unchecked.append(
            "files against the wheel: the package is an editable install or a source folder, "
            "which has no RECORD; install the wheel to check them"
        )
    elif check.outcome == "holds":
        check.remarks.append(f"{len(lines)} files have the SHA-256 of the wheel's RECORD")
    return check


def _own_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _recorded(folder: Path) -> dict[str, str] | None:
    """Return the hashes of the package's files by name; None if no wheel installed this folder."""
    found = _distribution()
    if found is None or _is_editable(found):
        return None
    # `found.files` leaves out missing files from Python 3.12 on.
    rows = list(csv.reader((found.read_text("RECORD") or "").splitlines()))
    own = {name: value for name, value, *_ in rows if name.startswith(f"{PACKAGE}/")}
    own = {name: value for name, value in own.items() if "__pycache__" not in name.split("/")}
    if not own or Path(str(found.locate_file(PACKAGE))).resolve() != folder.resolve():
        return None  # the package was imported from another folder
    return {name: value.partition("=")[2] for name, value in own.items()}


def _is_editable(found: Distribution) -> bool:
    told: dict[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
    return bool(told.get("dir_info", {}).get("editable", False))


def _distribution() -> Distribution | None:
    try:
        return distribution(PACKAGE)
    except PackageNotFoundError:
        return None


def _installed(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def _encoded(digest: bytes) -> str:
    """Return a digest in the form of RECORD."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _parts(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version.

    >>> _parts("2.4.6rc1") >= _parts("2.2")
    True
    """
    numbers = re.match(r"[0-9.]*", version)
    return tuple(int(part) for part in numbers[0].split(".") if part) if numbers else ()
