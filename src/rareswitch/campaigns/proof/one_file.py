"""Building the one-file verifier from the sources of this package.

The file holds the unchanged source of every module that the verifier needs, and a loader that
imports only from these sections. It needs Python and NumPy. The same package always builds the same
bytes, so their SHA-256 identifies the verifier.
"""

import ast
from functools import cache
from pathlib import Path

from rareswitch.campaigns.rulebook.rows import digest_of

ENTRY = "rareswitch.campaigns.proof.verifier"
SOURCE = Path(__file__).parents[3]
MARK = "# ==== "
HEADER = Path(__file__).with_name("one_file_header.txt")


@cache
def verifier() -> bytes:
    """Return the one-file verifier."""
    found: dict[str, str] = {}
    waiting = [ENTRY]
    while waiting:
        name = waiting.pop()
        path = _path(name)
        if name not in found and path is not None:
            found[name] = path.read_text(encoding="utf-8")
            waiting += _imports(found[name])
    sections = [f"{MARK}{name}\n{found[name].rstrip()}\n" for name in sorted(found)]
    return (HEADER.read_text(encoding="utf-8") + "\n\n" + "\n\n".join(sections)).encode()


def verifier_digest() -> str:
    """Return the SHA-256 of the one-file verifier."""
    return digest_of(verifier())


def _path(name: str) -> Path | None:
    """Return the file of a module of this package; None if the name is not a module."""
    place = SOURCE.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def _imports(source: str) -> list[str]:
    """Return the modules of this package that a source imports at run time."""
    tree = ast.parse(source)
    skipped = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ast.walk(node)
    }
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in skipped and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            names += parts if all(map(_path, parts)) else [node.module, *parts]
    return [name for name in names if name.startswith("rareswitch.")]
