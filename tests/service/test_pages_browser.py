"""The pages in a real browser: signing in, live episodes, a passkey's signature, accessibility."""

import numpy as np
import pytest

from browser import DESKTOP, EVERYWHERE, PHONE, add_person, open_browser, serve_store
from rareswitch.campaigns import Learning, open_store, verify
from rareswitch.campaigns.access import Grant
from running_service import PASSWORD
from study_builders import create_study, run_study, treat

HOME = "/studies/dosing"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of which version 4 waits for a signature, served to a browser."""
    with open_store(tmp_path_factory.mktemp("browser") / "store.db", create=True) as store:
        run_study(create_study(store), 400, until=3)
        with serve_store(store) as service:
            add_person(service, "Ana Ruiz", *EVERYWHERE)
            add_person(service, "Ben Okafor", Grant("dosing", "approver"))
            add_person(service, "Cleo Berlin", Grant("*", "site", "berlin"))
            with open_browser(service.settings.public_url) as browser:
                yield service, browser


def pages(campaign):
    number = campaign.state.candidates
    return [
        "/", HOME, f"{HOME}/candidates/{max(number)}", f"{HOME}/ledger", f"{HOME}/refusals",
        f"{HOME}/protocol", f"{HOME}/analysis", "/accounts", "/account", "/studies/nothing",
    ]  # fmt: skip


def test_no_page_has_a_serious_finding_or_overflows(study):
    service, browser = study
    browser.open("/sign-in")
    assert browser.findings() == []
    browser.sign_in("Ana Ruiz")
    browser.complaints()
    for width, dark in ((DESKTOP, False), (PHONE, True)):
        browser.resize(width, dark=dark)
        for path in pages(service.find_campaign("dosing")):
            browser.open(path)
            assert browser.overflow() <= 0, (path, width)
            assert browser.findings() == [], (path, width)
    wrong = [one for one in browser.complaints() if "404" not in one]  # /studies/nothing
    assert wrong == []


def test_the_blinded_page(study):
    _, browser = study
    browser.sign_in("Cleo Berlin")
    browser.resize(PHONE)
    browser.open(HOME)
    assert browser.findings() == []
    assert browser.overflow() <= 0
    assert "This page is blinded" in browser.text
    browser.resize(DESKTOP)


def test_an_episode_arrives_while_somebody_looks(study):
    service, browser = study
    campaign = service.find_campaign("dosing")
    browser.resize(DESKTOP)
    browser.sign_in("Ana Ruiz")
    browser.open(HOME)
    before = campaign.state
    recorded = int(browser.find(".lead").text.partition(" of 600")[0].rpartition(" ")[2])
    browser.find("#outstanding summary").click()
    browser.driver.execute_script("document.activeElement.blur();")
    campaign.record(treat(campaign, 7001, np.random.default_rng(1)))
    browser.until_text(f"{recorded + 1} of 600 episodes are recorded")
    assert browser.find("#outstanding").get_attribute("open") is not None
    assert str(recorded + 1) in browser.find("#announced").get_attribute("textContent")
    assert campaign.state.versions[-1] == before.versions[-1]


def test_a_form_in_use_is_not_replaced(study):
    service, browser = study
    campaign = service.find_campaign("dosing")
    browser.sign_in("Ana Ruiz")
    browser.open(HOME)
    browser.find("#stop summary").click()
    browser.type("#stop-reason", "I am still wri")
    campaign.record(treat(campaign, 7002, np.random.default_rng(2)))
    shown = browser.find(".lead").text
    for _ in range(3):
        browser.driver.execute_async_script("setTimeout(arguments[0], 1000);")
        assert browser.find("#stop-reason").get_attribute("value") == "I am still wri"
    assert browser.find(".lead").text == shown
    browser.find("#stop-reason").clear()
    browser.driver.execute_script("document.activeElement.blur();")
    browser.until(lambda: browser.find(".lead").text != shown)


def test_a_second_person_signs_with_a_passkey(study):
    service, browser = study
    campaign = service.find_campaign("dosing")
    number = campaign.state.waiting.number
    browser.add_authenticator()
    browser.sign_in("Ben Okafor")
    browser.open("/account")
    browser.type("#passkey-label", "laptop")
    browser.type("#passkey-password", "a wrong password")
    browser.find(".passkey-add").click()
    browser.until_text("No passkey was added: the password is not that of your account")
    browser.find("#passkey-password").clear()
    browser.type("#passkey-password", PASSWORD)
    browser.find(".passkey-add").click()
    browser.until_text("The passkey laptop is added")
    browser.open(f"{HOME}/candidates/{number}")
    assert browser.findings() == []
    form = "form[action$='/approve']"
    browser.type("#approve-reason", "the subgroup of severe cases gains")
    browser.find(f"{form} .passkey").click()
    browser.until_text("You signed. Version 4 is in force.")
    assert "signed with a passkey" in browser.text
    entry = next(one for one in reversed(campaign.entries) if one.kind == "approved")
    assert entry.payload["signature"]["method"] == "passkey"
    assert entry.actor == "Ben Okafor"
    assert verify(campaign).ok
    browser.driver.execute_script("document.getElementById('main').dataset.old = 'yes';")
    campaign.record(treat(campaign, 7003, np.random.default_rng(3)))
    browser.until(lambda: not browser.driver.execute_script(
        "return document.getElementById('main').dataset.old;"
    ))  # fmt: skip
    told = browser.driver.execute_script("return document.querySelector('.said').textContent;")
    assert told == "You signed. Version 4 is in force."  # while the page follows the study
    with Learning(campaign) as learning:
        learning.step()
    browser.open(HOME)
    assert "Dates assume" in browser.text


def test_the_pages_work_without_javascript(study):
    service, browser = study
    campaign = service.find_campaign("dosing")
    version = campaign.version
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.sign_in("Ben Okafor")
        browser.open(HOME)
        browser.find("#roll-back summary").click()
        browser.type("#rollback-reason", "a rehearsal of the rollback")
        browser.type("#rollback-password", PASSWORD)
        browser.find("form[action$='/rollback'] button").click()
        browser.until_text(f"Version {version + 1} is in force")
        assert campaign.version == version + 1
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
