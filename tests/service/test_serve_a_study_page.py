"""The tutorial of the service, followed by three persons with a terminal and a browser.

The commands of the page about the API go on in the same study.
"""

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from browser import open_browser
from cli.test_campaign_tutorial import PROGRESS, blocks, is_printed, steps
from service.test_deploy_files import free_port

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "tutorials" / "serve-a-study.md", DOCS / "service" / "api.md")
PATIENCE = 60  # seconds for one command, and for the learner
STORE = "--store sqlite:///pain.db"
PASSWORDS = {"Ana Ruiz": "four words and more", "Ben Okoro": "four other words"}


@pytest.fixture
def environment(warm_path):
    found = {name: value for name, value in os.environ.items() if "RARESWITCH" not in name}
    return found | {
        "PATH": warm_path, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1",
        "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


class Follower:
    """People who type the commands of a page, and use a browser where the page asks for it."""

    def __init__(self, folder, environment, browser, port):
        self.folder, self.environment, self.browser = folder, environment, browser
        self.port, self.service, self.count = port, None, 0

    def follow(self, page):
        """Write the files and run the commands of a page; they print what it says."""
        text = page.read_text(encoding="utf-8").replace(":8000", f":{self.port}")
        for name, block in blocks(text):
            if name:
                (self.folder / name).write_text(block, encoding="utf-8")
                continue
            for command, said in steps(block):
                self.count += 1
                if assigned := re.fullmatch(r"export (\w+)=(\S+)", command):
                    self.environment[assigned[1]] = assigned[2]
                    continue
                printed = self.run(command, said)
                assert is_printed(said, printed), f"$ {command}\n{printed}"
                self.use_browser(command, printed)

    def run(self, command, said):
        """Return the output of a command; ask again while the learner works."""
        if command.startswith("rareswitch serve"):
            return self.start(command, said)
        until = time.monotonic() + PATIENCE
        while True:
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=PATIENCE,
            )  # fmt: skip
            printed = re.sub(PROGRESS, "", done.stdout)
            printed = printed.replace("localhost:8000", f"localhost:{self.port}")  # the default
            waits = command.startswith(("rareswitch campaign status", "rareswitch campaign ledger"))
            if not waits or is_printed(said, printed) or time.monotonic() > until:
                return printed
            time.sleep(0.5)

    def start(self, command, said):
        """Start the service as in a terminal of its own; return its first lines."""
        self.stop()
        command = command.replace("rareswitch serve", "exec rareswitch serve")
        log, until = self.folder / "terminal.log", time.monotonic() + PATIENCE
        with log.open("w") as terminal:
            self.service = subprocess.Popen(
                ["bash", "-c", f"{command} --bind 127.0.0.1:{self.port}"], cwd=self.folder,
                env=self.environment, stdout=terminal, stderr=subprocess.STDOUT,
            )  # fmt: skip
        while log.read_text().count("\n") < said.count("\n"):
            assert self.service.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        lines = log.read_text().splitlines(keepends=True)
        return "".join(lines[: said.count("\n")])

    def stop(self):
        """Press Ctrl-C in the terminal of the service."""
        if self.service is not None:
            self.service.send_signal(signal.SIGINT)
            assert self.service.wait(PATIENCE) in (0, 130)
            self.service = None

    def use_browser(self, command, printed):
        """Do what the page asks for after a command."""
        if command == "rareswitch serve --demo":
            password = re.search(r"ben .* password (demo-\w+)", printed)[1]
            self.browser.open("/sign-in")
            self.browser.type("#name", "ben")
            self.browser.type("#password", password)
            self.browser.find("form[action='/sign-in'] button").click()
            self.browser.until(lambda: self.browser.path == "/")
            self.click("doses")
            self.approve(3, password)
            self.stop()
        elif command.startswith("rareswitch serve"):
            self.accept(printed, "Ana Ruiz")
            assert "pain" in self.browser.text
        elif command.startswith("rareswitch access invite"):
            self.accept(printed, "Ben Okoro")
        elif command == f"rareswitch campaign status {STORE}":
            self.browser.open("/studies/pain")
            self.approve(3, PASSWORDS["Ben Okoro"])

    def click(self, text):
        """Click on a link; it may come later, and a page that follows the study replaces it."""

        def clicked(driver):
            try:
                driver.find_element(By.LINK_TEXT, text).click()
            except WebDriverException as error:
                if "does not belong to the document" in str(error):  # replaced before the click
                    return False
                raise
            return True

        missing = (NoSuchElementException, StaleElementReferenceException)
        waiting = WebDriverWait(self.browser.driver, PATIENCE, ignored_exceptions=missing)
        waiting.until(clicked)

    def accept(self, printed, name):
        """Open the link of an invitation and set a password."""
        self.browser.open(re.search(r"/invitations/\S+", printed)[0])
        self.browser.until_text(f"Welcome, {name}")
        self.browser.type("#password", PASSWORDS[name])
        self.browser.type("#again", PASSWORDS[name])
        self.browser.find("main form button").click()
        self.browser.until(lambda: self.browser.path == "/")

    def approve(self, number, password):
        """Sign for a candidate that waits, or will wait soon."""
        self.click(f"Read candidate {number} and decide")
        self.browser.type("#approve-reason", "severe cases gain")
        self.browser.type("#approve-password", password)
        self.browser.find("form[action$='/approve'] button").click()
        self.browser.until_text("You signed. Version 2 is in force.")


@contextmanager
def follower(folder, environment):
    port = free_port()
    with open_browser(f"http://localhost:{port}") as browser:
        made = Follower(folder, environment, browser, port)
        try:
            yield made
        finally:
            if made.service is not None:
                made.service.kill()
                made.service.wait()


def test_the_tutorial_can_be_followed(tmp_path, environment):
    with follower(tmp_path, environment) as people:
        for page in PAGES:
            people.follow(page)
        people.stop()
    assert people.count >= 18


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_pictures_of_a_page_are_small(page):
    for picture in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / picture).stat().st_size < 80_000
