"""A real browser, Debian's Chromium without a window, and a service that it can reach."""

import socket
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import axe_playwright_python
import uvicorn
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions
from selenium.webdriver.support.wait import WebDriverWait

from rareswitch.campaigns.access import Grant, operator
from rareswitch.service.app import Settings
from rareswitch.service.server import make_service
from running_service import PASSWORD

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
DESKTOP, PHONE = 1280, 390
SECONDS = 20


@contextmanager
def serve_store(store):
    """Serve a store at a free port of localhost; yield the service."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"http://localhost:{listening.getsockname()[1]}"
        service, app = make_service(store, Settings(public_url=address, attempts=1000.0))
        config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield service
        finally:
            service.is_stopping = server.should_exit = True
            thread.join(SECONDS)


class Browser:
    """A browser at the pages of a service."""

    def __init__(self, driver, address):
        self.driver, self.address = driver, address

    def resize(self, width, *, dark=False):
        told = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", told)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, path):
        self.driver.get(f"{self.address}{path}")

    @property
    def text(self):
        return self.driver.find_element(By.TAG_NAME, "main").text

    @property
    def path(self):
        return self.driver.current_url.removeprefix(self.address)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def until(self, found):
        """Wait until a function of this browser returns something true."""
        ignored = [StaleElementReferenceException, NoSuchElementException]  # <main> was replaced
        waiting = WebDriverWait(
            self.driver, SECONDS, poll_frequency=0.1, ignored_exceptions=ignored
        )
        return waiting.until(lambda _: found())

    def until_text(self, words):
        self.until(lambda: words in self.text)

    def type(self, selector, text):
        self.find(selector).send_keys(text)

    def sign_in(self, name):
        self.open("/sign-in")
        self.type("#name", name)
        self.type("#password", PASSWORD)
        self.find("form[action='/sign-in'] button").click()
        self.until(lambda: self.path == "/")

    def add_authenticator(self):
        """Give the browser an authenticator that always verifies its user."""
        options = VirtualAuthenticatorOptions(
            transport=VirtualAuthenticatorOptions.Transport.INTERNAL,
            has_resident_key=True,
            has_user_verification=True,
            is_user_verified=True,
        )
        self.driver.add_virtual_authenticator(options)

    def findings(self):
        """Return the serious findings of axe, with everything unfolded."""
        self.driver.execute_script(
            "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
            + AXE.read_text()
        )
        found = self.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0]);"
        )
        return [
            (one["id"], node["html"], node["failureSummary"])
            for one in found["violations"]
            for node in one["nodes"]
            if one["impact"] in ("serious", "critical")
        ]

    def overflow(self):
        """Return by how many pixels the page is wider than the window."""
        return self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth;"
        )

    def complaints(self):
        """Return what the browser logged: refused scripts, failed requests."""
        return [one["message"] for one in self.driver.get_log("browser")]


@contextmanager
def open_browser(address):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            yield Browser(driver, address)
        finally:
            driver.quit()


def add_person(service, name, *grants):
    """Make an account with a password."""
    access = service.access
    access.accept(access.invite(name, list(grants) or [], by=operator("ops")), PASSWORD)


EVERYWHERE = [Grant("*", role) for role in ("administrator", "statistician", "approver")]
