"""An environment with a wheel and the distributions that an install of it would bring, no others.

A real install of every extra needs an index of packages and minutes. Here a virtual environment has
the wheel alone, and each extra adds links to the distributions of this environment that its
requirements name, and theirs. A library that an extra forgets cannot be imported.
"""

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rareswitch


def build(target: str, folder: Path) -> Path:
    """Build the wheel or the sdist of this checkout into a folder; return the file."""
    root = Path(rareswitch.__file__).parents[2]
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def requirements_of(wheel: Path) -> list[str]:
    """Return the requirements in the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]


def distributions(requires: list[str], extras: frozenset[str]) -> set[str]:
    """Return the names of all distributions that these requirements bring with these extras."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [("rareswitch", extras)]
    while waiting:
        name, wanted = one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        texts = requires if name == "rareswitch" else metadata.requires(name) or []
        waiting += [
            (canonicalize_name(needed.name), frozenset(needed.extras))
            for needed in map(Requirement, texts)
            if applies(needed, wanted)
        ]
    return {name for name, _ in found} - {"rareswitch"}


def newest_python() -> Path:
    """Return the interpreter of the latest release of Python on this machine."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += (Path.home() / ".pyenv" / "versions").glob("*/bin")
    asked = "import sys; print(*sys.version_info[:3], sys.version_info.releaselevel)"
    found = {sys.version_info[:3]: Path(sys.executable)}
    for path in {one for folder in folders for one in folder.glob("python3.[0-9]*[0-9]")}:
        told = subprocess.run([str(path), "-c", asked], capture_output=True, text=True, check=False)
        *version, level = told.stdout.split() or ["none"]
        if level == "final":
            found.setdefault(tuple(map(int, version)), path)
    return found[max(found)]


def install(python: Path, wheel: str, folder: Path, *options: str) -> None:
    """Install a wheel, FILE or FILE[extras], into a new virtual environment."""
    uv = [sys.executable, "-m", "uv"]
    variables = os.environ | {"UV_SYSTEM_CERTS": "1"}
    subprocess.run([*uv, "venv", "--quiet", "--python", str(python), str(folder)], check=True)
    place = ["--quiet", "--python", str(folder / "bin" / "python")]
    install = [*uv, "pip", "install", *place, *options, wheel]
    subprocess.run(install, check=True, env=variables)


def applies(needed: Requirement, extras: frozenset[str]) -> bool:
    """Return whether a requirement is one of a distribution with these extras, on this machine."""
    marker = needed.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def link(names: set[str], folder: Path) -> None:
    """Link the packages, libraries and metadata of distributions into a folder."""
    folder.mkdir()
    for name in names:
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or [] if ".." not in file.parts}
        for top in tops - {"__pycache__"}:
            place = folder / top
            if not place.is_symlink():
                place.symlink_to(Path(str(distribution.locate_file(top))))


class EmptyEnvironment:
    """A virtual environment in which a wheel is installed without its requirements."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder, self._requires = folder, requirements_of(wheel)
        self._bin = folder / "venv" / "bin"
        install(Path(sys.executable), str(wheel), folder / "venv", "--no-deps")

    def distributions(self, *extras: str) -> set[str]:
        """Return the names of all distributions that an install with these extras brings."""
        return distributions(self._requires, frozenset(extras))

    def run(self, extra: str, *command: str, **more: str) -> str:
        """Run a command with the libraries of an extra, "" for none; return its output."""
        libraries = self._folder / f"libraries-{extra}"
        if not libraries.exists():
            link(self.distributions(*filter(None, [extra])), libraries)
        work = self._folder / f"work-{extra}"
        work.mkdir(exist_ok=True)
        program, *arguments = command
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            cwd=work, env=self.variables(extra) | more, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    def variables(self, extra: str) -> dict[str, str]:
        """Return the environment variables of a command."""
        return {
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self._folder),
            "PYTHONPATH": str(self._folder / f"libraries-{extra}"),
            "OPENBLAS_NUM_THREADS": "1",
        }
