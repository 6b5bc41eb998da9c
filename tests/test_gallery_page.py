"""The scripts of the gallery print the output of the page, and its pictures are small."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "tutorials" / "gallery.md").read_text(encoding="utf-8")
PICTURES = sorted((ROOT / "docs" / "_static" / "gallery").glob("*.png"))
# Scripts that take seconds at full size; tests/test_examples.py runs the others at a small one.
SHORT = ("masks.py", "clinic.py", "late_outcomes.py", "control.py", "judge_log.py")
PNG = b"\x89PNG\r\n"


def shown(name: str) -> str:
    """Return the output of a script as the page shows it."""
    found = re.search(rf"\$ python examples/{re.escape(name)} [^\n]*\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"no output of {name} in the gallery"
    return found[1]


@pytest.mark.parametrize("name", SHORT)
def test_a_short_script_prints_the_output_of_the_page(name, tmp_path, warm_script):
    picture = tmp_path / "picture.png"
    command = [warm_script, str(ROOT / "examples" / name), "--picture", str(picture)]
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=one_thread, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown(name)
    assert picture.read_bytes().startswith(PNG)


def test_pictures_are_shown_and_below_60_kb():
    assert len(PICTURES) >= 7
    pages = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "tutorials").glob("*.md")
    )
    for picture in PICTURES:
        assert picture.stat().st_size < 60_000, picture
        assert f"_static/gallery/{picture.name}" in pages, picture


def test_the_tutorial_and_the_script_have_the_same_environment():
    """The class and the features of own-environment.md are those of examples/clinic.py."""
    page = (ROOT / "docs" / "tutorials" / "own-environment.md").read_text(encoding="utf-8")
    script = (ROOT / "examples" / "clinic.py").read_text(encoding="utf-8")
    code = "\n".join(
        line[4:] for line in page.splitlines() if line.startswith((">>> ", "... ", "..."))
    )
    for start in ("class Clinic", "def dose_rows"):
        definition = re.search(rf"^{start}.*?(?=\n\S|\Z)", script, re.DOTALL | re.MULTILINE)[0]
        assert definition.rstrip() in code
