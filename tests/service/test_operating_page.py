"""The page for operators: its commands run in their order, and print what it says."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from cli.test_campaign_tutorial import blocks, is_printed, steps
from service.test_deploy_files import free_port

PAGE = Path(__file__).parents[2] / "docs" / "service" / "operating.md"
PATIENCE = 300  # seconds for one command


@pytest.fixture
def environment(warm_path):
    found = {name: value for name, value in os.environ.items() if "RARESWITCH" not in name}
    return found | {"PATH": warm_path, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_the_commands_of_the_page_print_what_it_says(tmp_path, environment):
    port, count = str(free_port()), 0
    bind = f"serve --bind 127.0.0.1:{port}"
    try:
        for name, text in blocks(PAGE.read_text(encoding="utf-8")):
            if name:
                (tmp_path / name).write_text(text, encoding="utf-8")
                continue
            for command, said in steps(text.replace(":8000", f":{port}")):
                count += 1
                if command.startswith("export "):
                    key, _, value = command.removeprefix("export ").partition("=")
                    environment[key] = value
                    continue
                done = subprocess.run(
                    ["bash", "-c", command.replace("rareswitch serve", f"rareswitch {bind}")],
                    cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=PATIENCE,
                )  # fmt: skip
                printed = done.stdout and done.stdout.rstrip("\n") + "\n"
                assert done.returncode == 0, f"{command}\n{printed}"
                assert is_printed(said.rstrip("\n") + "\n" if said.strip() else "", printed), (
                    f"{command}\n{printed}"
                )
    finally:
        with suppress(OSError, ValueError):
            os.kill(int((tmp_path / "service.pid").read_text()), signal.SIGKILL)
    assert count > 15


def test_the_page_is_short_and_names_files_that_exist():
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.split()) <= 1200
    for name in ("rareswitch.service", "nginx.conf", "Caddyfile", "compose.yaml", "Containerfile"):
        assert f"deploy/{name}" in text
        assert (PAGE.parents[2] / "deploy" / name).is_file()
