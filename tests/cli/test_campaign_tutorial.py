"""Pages about campaigns: write their files, run their commands, and compare the output.

On a page, … stands for any text, within a line or as a line of its own.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# Each page, the folder of its files if they are not on the page, and the least number of commands.
PAGES = {
    "tutorials/run-a-study": ("", 40),
    "tutorials/design-a-study": ("examples/study", 5),
    "campaigns/recording": ("", 10),
    "campaigns/deciding": ("", 16),
}
BLOCK = re.compile(r"^```(\{code-block\} \w+|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r":caption: (\S+)\n\n?")
MEMORY = Path("/dev/shm")  # where a commit need not wait for a disk


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Give the files of a page, as (name, text), and its console blocks, as ("", text)."""
    for kind, text in BLOCK.findall(page):
        if kind == "console":
            yield "", text
        elif caption := CAPTION.match(text):
            yield caption[1], text[caption.end() :]


def steps(console: str) -> Iterator[tuple[str, str]]:
    """Give the commands of a console block, each with what it prints."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", part)[0]
        yield command.replace("\\\n", " ").strip(), part[len(command) :]


def is_printed(said: str, printed: str) -> bool:
    """Return whether a page says what was printed."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…\n" else re.escape(line.rstrip()).replace("…", ".*") + r"\s*?\n"
        for line in said.splitlines(keepends=True)
    )
    return re.fullmatch(pattern, printed) is not None


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as made:
        yield Path(made)


@pytest.mark.parametrize("page", PAGES)
def test_the_tutorial_prints_what_it_says(folder, page, warm_path):
    files, least = PAGES[page]
    if files:
        shutil.copytree(ROOT / files, folder, dirs_exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if "RARESWITCH" not in name}
    environment |= {
        "PATH": warm_path, "OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    count = 0
    for name, text in blocks((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")):
        if name:
            (folder / name).write_text(text, encoding="utf-8")
            continue
        for command, said in steps(text):
            count += 1
            if assigned := re.fullmatch(r"export (\w+)=(\S+)", command):
                environment[assigned[1]] = assigned[2]
                continue
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, text=True,
                encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            printed = re.sub(PROGRESS, "", done.stdout)
            assert is_printed(said, printed), f"$ {command}\n{printed}"
    assert count > least


# What a command says of its progress while it works is not on the page.
PROGRESS = r"(?m)^(?:\w+: \d+ of \d+, \d+ s.*|\d+ simulations of \d+ rounds each)\n"


@pytest.mark.parametrize(
    ("said", "printed", "same"),
    [
        ("a 1\n…\nb\n", "a 1\nx\ny\nb\n", True),
        ("a …\n", "a 0123\n", True),
        ("a 1\n", "a 2\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n…\nb\n", "a\nb\n", True),
    ],
)
def test_only_what_is_elided_may_differ(said, printed, same):
    assert is_printed(said, printed) is same


def test_commands_go_on_in_the_next_line_and_files_have_captions():
    page = (
        "```{code-block} python\n:caption: a.py\n\nprint(1)\n```\n"
        "```console\n$ one \\\n    more\nout\n$ two\n```\n"
    )
    (name, text), (_, console) = blocks(page)
    assert (name, text) == ("a.py", "print(1)\n")
    assert list(steps(console)) == [("one      more", "out\n"), ("two", "")]
