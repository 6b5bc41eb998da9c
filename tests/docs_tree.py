"""What is wrong with a tree of pages: each function takes the root and returns sentences."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

GENERATED = ("docs/reference/cli.md",)  # conf.py writes it at every build
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "VISION.md")
MOST_PAGES = 8  # under a caption
MOST_WORDS = 1500  # outside code and tables
MOST_WHATS = 3  # in a thousand words
PROSE = ("note", "tip", "hint", "important", "warning", "caution", "seealso", "admonition")

_FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})\s*(?:\{([\w-]+)\})?\s*(.*)$")
_MARK = re.compile(r'^:(?:start|end)-(after|before): "(.*)"$', re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\(<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\)")
_INSTALL = re.compile(r"pip install\s+(?:-\S+\s+)*['\"]?rareswitch\b")


def pages(root: Path) -> list[Path]:
    """Return the pages of docs/, without those that a build made."""
    found = sorted((root / "docs").rglob("*.md"))
    built = (root / "docs" / "_build", *(root / name for name in GENERATED))
    return [path for path in found if not any(path.is_relative_to(place) for place in built)]


def tree_problems(root: Path) -> Iterator[str]:
    """Yield pages that no caption of docs/index.md leads to, and captions that are too long."""
    docs = root / "docs"
    index = docs / "index.md"
    reached: Counter[str] = Counter()
    for caption, entries in _toctrees(index):
        if caption is None:
            yield f"docs/index.md: the toctree with {', '.join(entries)} has no caption"
        if len(entries) > MOST_PAGES:
            yield f"docs/index.md: caption {caption} has {len(entries)} pages, not {MOST_PAGES}"
        for entry in entries:
            yield from _reach(root, docs / f"{entry}.md", reached, f"docs/index.md, {caption}")
    names = {path.relative_to(root).as_posix() for path in pages(root)}
    for name in sorted(names - set(reached) - {"docs/index.md"}):
        yield f"{name}: no toctree leads to it"
    for name, times in sorted(reached.items()):
        if times > 1:
            yield f"{name}: {times} toctrees lead to it"


def _reach(root: Path, path: Path, reached: Counter[str], place: str) -> Iterator[str]:
    """Count a page and those of its own toctrees."""
    name = path.resolve().relative_to(root.resolve()).as_posix()
    reached[name] += 1
    if reached[name] > 1 or name in GENERATED:
        return
    if not path.exists():
        yield f"{place}: there is no {name}"
        return
    for _, entries in _toctrees(path):
        for entry in entries:
            yield from _reach(root, path.parent / f"{entry}.md", reached, name)


def _toctrees(page: Path) -> Iterator[tuple[str | None, list[str]]]:
    """Yield caption and entries of each toctree of a page."""
    text = page.read_text(encoding="utf-8")
    for body in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        caption, entries = None, []
        for line in filter(None, map(str.strip, body.splitlines())):
            if line.startswith(":"):
                _, option, value = line.split(":", 2)
                caption = value.strip() if option == "caption" else caption
            else:
                titled = re.fullmatch(r".*<(.*)>", line)
                entries.append((titled[1] if titled else line).removesuffix(".md"))
        yield caption, entries


def length_problems(root: Path) -> Iterator[str]:
    """Yield pages with too many words, or with too many clauses with "what"."""
    for path in pages(root):
        text = prose(path)
        words = len(re.findall(r"\S*\w\S*", text))
        whats = len(re.findall(r"\bwhat(?:ever)?\b", text, re.IGNORECASE))
        name = path.relative_to(root).as_posix()
        if words > MOST_WORDS:
            yield f"{name}: {words} words, not {MOST_WORDS}"
        if whats > max(1, words * MOST_WHATS // 1000):
            yield f'{name}: {whats} times "what" in {words} words'


def prose(path: Path, after: str = "", before: str = "") -> str:
    """Return the text of a page and of the files it includes, without code, tables and targets.

    Of an included file, only the text after and before its marks counts.
    """
    kept, fences = [], []  # of the open fences: the mark, and whether their text is prose
    in_formula = False
    text = path.read_text(encoding="utf-8")
    text = text[text.index(after) + len(after) :]
    for place, line in enumerate(lines := text[: text.index(before) or None].splitlines()):
        opened = _FENCE.match(line)
        if opened and fences and not opened[2] and not opened[3] and opened[1] >= fences[-1][0]:
            fences.pop()
        elif opened and all(is_prose for _, is_prose in fences):
            fences.append((opened[1], opened[2] in PROSE))
            if opened[2] == "include":
                marks = dict(_MARK.findall("\n".join(lines[place + 1 : place + 5])))
                kept.append(prose((path.parent / opened[3]).resolve(), **marks))
            elif opened[2] in PROSE:
                kept.append(opened[3])
        elif line.strip().startswith("$$") or in_formula:
            in_formula ^= line.count("$$") == 1
        elif all(is_prose for _, is_prose in fences) and not line.lstrip().startswith("|"):
            kept.append(line)
    return _LINK.sub(r"\1", "\n".join(kept))


def install_problems(root: Path) -> Iterator[str]:
    """Yield lines that install a package by a name that no index has."""
    for path in _all(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if _INSTALL.search(line):
                name = path.relative_to(root).as_posix()
                yield f"{name}, line {number}: {line.strip()}; write pip install '.[…]'"


def link_problems(root: Path) -> Iterator[str]:
    """Yield relative links to files that are not there."""
    for path in _all(root):
        text = path.read_text(encoding="utf-8")
        text = re.sub(
            r"^(\s*)(`{3,}|~{3,}).*?^\1\2`*\s*$", "", text, flags=re.MULTILINE | re.DOTALL
        )
        text = re.sub(r"`[^`\n]+`", "", text)
        for _, target in _LINK.findall(text):
            file = target.partition("#")[0]
            if not file or re.match(r"[a-z]+:", file):
                continue
            place = (path.parent / file).resolve()
            made = [(root / name).resolve() for name in GENERATED]
            if not place.exists() and place not in made:
                yield f"{path.relative_to(root).as_posix()}: there is no {target}"


def _all(root: Path) -> list[Path]:
    """Return the pages of docs/ and those at the root."""
    return [*pages(root), *(root / name for name in ROOT_PAGES if (root / name).exists())]
