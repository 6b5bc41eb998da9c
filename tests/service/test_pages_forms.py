"""The pages over HTTP: sessions, forms with their secret, signatures, and refusals shown again."""

import hashlib
import re

import pytest

from page_checks import check_page
from rareswitch.campaigns import Approval, learn, verify
from rareswitch.campaigns.access import Grant, operator
from rareswitch.service.app import COOKIE
from rareswitch.service.pages import PAGES
from running_service import PASSWORD, report_of, run_service, study
from software_passkey import SoftwarePasskey

HOME = "/studies/doors"
ORIGIN = "http://localhost:8000"
FORM = "application/x-www-form-urlencoded"


def account(running, role, name=None, **more):
    """Make an account that has a role everywhere; return its name."""
    name = name or f"The {role}"
    access = running.service.access
    grant = Grant("*", role, "berlin" if role == "site" else "")
    access.accept(access.invite(name, [grant], by=operator("ops")), PASSWORD)
    return name


def sign_in(running, role, name=None):
    """Sign in as a new person with a role."""
    name = account(running, role, name)
    answer = running.client.post("/sign-in", data={"name": name, "password": PASSWORD})
    assert answer.status_code == 303, answer.text
    return name


def shown(running, path, status=200):
    answer = running.client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return check_page(answer.text)


def send(running, page, action, **fields):
    """Send a form of a page as a browser does, with its hidden fields."""
    (form,) = [one for one in page.all("form") if one["action"] == action]
    inputs = [one for one in page.inside(form, "input") if one["type"] == "hidden"]
    hidden = {one["name"]: one["value"] or "" for one in inputs}
    return running.client.post(action, data=hidden | fields, headers={"Origin": ORIGIN})


def after(running, answer):
    """Follow the redirect after a form; return the page with its message."""
    assert answer.status_code == 303, answer.text
    return shown(running, answer.headers["location"])


def test_a_person_signs_in_and_out(running):
    assert running.client.get("/").headers["location"] == "/sign-in"
    assert running.client.get(HOME).headers["location"] == f"/sign-in?after={HOME}"
    name = account(running, "auditor")
    page = shown(running, "/sign-in")
    wrong = send(running, page, "/sign-in", name=name, password="another password altogether")
    assert wrong.status_code == 401
    assert "name or" in check_page(wrong.text).all("p", role="alert")[0].text.lower()
    assert COOKIE not in running.client.cookies
    right = send(running, page, "/sign-in", name=name, password=PASSWORD, after=HOME)
    assert right.headers["location"] == HOME
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = shown(running, HOME)
    secret = running.client.cookies[COOKIE]
    assert secret not in page.html
    out = send(running, page, "/sign-out")
    assert "You signed out" in after(running, out).text
    running.client.cookies.set(COOKIE, secret)
    assert running.client.get(HOME).headers["location"] == f"/sign-in?after={HOME}"


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
def test_signing_in_stays_inside(running, path):
    name = account(running, "auditor")
    answer = running.client.post(
        "/sign-in", data={"name": name, "password": PASSWORD, "after": path}
    )
    assert answer.headers["location"] == "/"


def test_a_form_of_another_site_is_refused(running):
    name = account(running, "auditor")
    for origin in ("https://evil.example", "null"):
        answer = running.client.post(
            "/sign-in", data={"name": name, "password": PASSWORD}, headers={"Origin": origin}
        )
        assert answer.status_code == 403
    assert COOKIE not in running.client.cookies


def test_every_form_asks_for_the_secret_of_the_session(running):
    sign_in(running, "administrator")
    forms = [one for one in PAGES if one.method == "POST"]
    assert len(forms) > 20
    for endpoint in forms:
        path = endpoint.path.replace("{campaign}", "doors").replace("{number:int}", "3")
        path = path.replace("{secret}", "rsi_1")
        if endpoint.action == "":
            continue  # no session yet; its origin is checked
        for token in ("", "0" * 64):
            answer = running.client.post(path, data={"csrf": token, "reason": "x"})
            assert answer.status_code == 403, path
    campaign = running.service.find_campaign("doors")
    assert len(campaign.entries) == 2


def test_an_odd_body_is_refused(running):
    sign_in(running, "administrator")
    ask = running.client.post
    assert ask(f"{HOME}/stop", json={}).status_code == 415
    headers = {"Content-Type": FORM}
    for body in (
        b"\xff\xfe",
        b"a=1&a=2",
        b"nonsense",
        b"&".join([b"a%d=1" % n for n in range(200)]),
    ):
        answer = ask(f"{HOME}/stop", content=body, headers=headers)
        assert answer.status_code in (400, 403), body
    assert ask(f"{HOME}/stop", content=b"a=" + b"x" * 2**21, headers=headers).status_code == 413


def test_a_candidate_is_signed_by_password(waiting):
    running, candidate = waiting
    name = sign_in(running, "approver", "Ben Okafor")
    home = shown(running, HOME)
    path = f"{HOME}/candidates/{candidate.number}"
    assert path in [one["href"] for one in home.all("a")]
    page = shown(running, path)
    wrong = send(running, page, f"{path}/approve", reason="clear", password="not the password")
    assert wrong.status_code == 403
    again = check_page(wrong.text)
    assert again.all("input", id="approve-reason")[0]["value"] == "clear"
    assert "not the password" not in wrong.text
    assert running.service.find_campaign("doors").version == 1
    done = send(running, again, f"{path}/approve", reason="clear", password=PASSWORD)
    page = after(running, done)
    assert "You signed. Version 2 is in force." in page.text
    assert "deployed" in [one.text for one in page.all("span")]
    assert f"{name} approved: approve version 2 for deployment" in page.text
    assert "signed with a password" in page.text
    assert "You signed" not in shown(running, path).text  # the message is shown once
    campaign = running.service.find_campaign("doors")
    assert (campaign.version, campaign.state.in_force.entry.actor) == (2, name)
    assert verify(campaign).ok


def test_another_policy_than_the_one_shown_is_not_signed(waiting):
    running, candidate = waiting
    sign_in(running, "approver")
    path = f"{HOME}/candidates/{candidate.number}"
    page = shown(running, path)
    told = {"reason": "clear", "password": PASSWORD, "digest": "0" * 64}
    answer = send(running, page, f"{path}/approve", **told)
    assert answer.status_code == 412
    assert running.service.find_campaign("doors").version == 1


def test_refuse_and_comment(waiting):
    running, candidate = waiting
    sign_in(running, "approver")
    path = f"{HOME}/candidates/{candidate.number}"
    page = shown(running, path)
    done = send(running, page, f"{path}/comment", reason="why so early?", password=PASSWORD,
                reviewed="yes")  # fmt: skip
    page = after(running, done)
    assert "why so early?" in page.text
    assert f"reviewed candidate {candidate.number}" in page.text
    empty = send(running, page, f"{path}/reject", reason="  ", password=PASSWORD)
    assert empty.status_code == 422
    done = send(running, page, f"{path}/reject", reason="too early", password=PASSWORD)
    page = after(running, done)
    assert "rejected" in page.text
    assert "too early" in page.text
    assert not [form for form in page.all("form") if form["action"].endswith("/approve")]
    assert "rejected candidate" in shown(running, f"{HOME}/ledger").text


def test_roll_back_amend_and_stop(waiting):
    running, candidate = waiting
    campaign = running.service.find_campaign("doors")
    campaign.approve(candidate.number, by="cy", reason="as planned")
    sign_in(running, "approver", "Ben Okafor")
    page = shown(running, HOME)
    done = send(running, page, f"{HOME}/rollback", to="1", reason="harm?", password=PASSWORD)
    page = after(running, done)
    assert "Version 3 is in force, with the policy of version 1." in page.text
    assert send(running, page, f"{HOME}/rollback", to="x", reason="r",
                password=PASSWORD).status_code == 422  # fmt: skip
    sign_in(running, "statistician", "Cleo Stat")
    page = shown(running, HOME)
    text = page.all("textarea")[0].text
    same = send(running, page, f"{HOME}/amend", changes=text, reason="r", password=PASSWORD)
    assert same.status_code == 422
    broken = send(running, page, f"{HOME}/amend", changes="a = = 1", reason="r", password=PASSWORD)
    assert "a = = 1" in check_page(broken.text).all("textarea")[0].text
    more = text.replace("episodes = 300", "episodes = 500")
    assert more != text
    done = send(running, page, f"{HOME}/amend", changes=more, reason="slow", password=PASSWORD)
    page = after(running, done)
    number = campaign.state.amendment.number
    assert f"Amendment {number} waits for a second person." in page.text
    assert "task.episodes 300 500" in page.text
    name = "Ben Okafor"
    running.client.post("/sign-in", data={"name": name, "password": PASSWORD})
    page = shown(running, HOME)
    action = f"{HOME}/amendments/{number}/approve"
    page = after(running, send(running, page, action, reason="agreed", password=PASSWORD))
    assert campaign.terms.episodes == 500
    assert "You signed. Revision 2 of the protocol is in force." in page.text
    done = send(running, page, f"{HOME}/stop", reason="the sponsor asks", password=PASSWORD)
    page = after(running, done)
    assert "Ben Okafor stopped it: the sponsor asks." in page.text
    assert verify(campaign).ok


def test_a_candidate_is_not_approved_as_an_amendment(waiting):
    running, candidate = waiting
    sign_in(running, "approver")
    page = shown(running, f"{HOME}/candidates/{candidate.number}")
    csrf = page.all("input", name="csrf")[0]["value"]
    told = {"csrf": csrf, "reason": "r", "password": PASSWORD}
    for kind in ("amendments", "reopenings"):
        path = f"{HOME}/{kind}/{candidate.number}/approve"
        assert running.client.post(path, data=told).status_code == 404
    assert running.service.find_campaign("doors").version == 1


def test_a_quorum_is_counted_on_the_page(store):
    running = run_service(store)
    approval = Approval(by="second-person", quorum=2)
    running.create(*study(approval=approval))
    campaign = running.service.find_campaign("doors")
    list(campaign.record_all([report_of(number) for number in range(101)]))
    (candidate,) = learn(campaign)
    path = f"{HOME}/candidates/{candidate.number}"
    sign_in(running, "approver", "Ben Okafor")
    page = shown(running, path)
    assert "2 signatures more" in page.text
    page = after(running, send(running, page, f"{path}/approve", reason="a", password=PASSWORD))
    assert "You signed; 1 more signature is needed." in page.text
    assert "You have signed it." in page.text
    assert f"{path}/approve" not in [form["action"] for form in page.all("form")]
    sign_in(running, "approver", "Cleo Stat")
    page = shown(running, path)
    page = after(running, send(running, page, f"{path}/approve", reason="b", password=PASSWORD))
    assert campaign.version == 2


def test_a_protocol_may_ask_for_passkeys(store):
    running = run_service(store)
    approval = Approval(by="second-person", signature="passkey")
    running.create(*study(approval=approval))
    campaign = running.service.find_campaign("doors")
    list(campaign.record_all([report_of(number) for number in range(101)]))
    (candidate,) = learn(campaign)
    path = f"{HOME}/candidates/{candidate.number}"
    sign_in(running, "approver")
    page = shown(running, path)
    assert "The protocol asks for a passkey" in page.text
    assert not page.all("input", id="approve-password")
    answer = send(running, page, f"{path}/approve", reason="a", password=PASSWORD)
    assert answer.status_code in (409, 422)
    assert campaign.version == 1


def test_the_challenge_of_a_decision(waiting):
    running, candidate = waiting
    campaign = running.service.find_campaign("doors")
    sign_in(running, "approver")
    page = shown(running, f"{HOME}/candidates/{candidate.number}")
    csrf = page.all("input", name="csrf")[0]["value"]

    def ask(**fields):
        return running.client.post(f"{HOME}/signing", data={"csrf": csrf, **fields})

    found = ask(decision="approve", number=candidate.number).json()
    expected = campaign.to_sign("approve", candidate.number)
    assert (found["meaning"], found["head"]) == (expected.meaning, expected.head)
    assert found["subject"] == expected.subject
    reviewed = ask(decision="comment", number=candidate.number, reviewed="yes").json()
    assert reviewed["meaning"] == f"reviewed candidate {candidate.number}"
    changes = "episodes = 500"
    amended = ask(decision="amend", changes=changes).json()
    assert amended["subject"] == campaign.to_sign("amend", changes={"episodes": 500}).subject
    wrong = ask(decision="approve", number="x")
    assert wrong.status_code == 422
    assert wrong.headers["content-type"] == "application/problem+json"
    assert ask(decision="nothing").status_code == 422


def test_a_statistician_asks_for_a_candidate(running):
    reports = [report_of(number) for number in range(40)]
    running.ask("POST", "/v1/campaigns/doors/episodes", "site", reports)
    sign_in(running, "statistician")
    page = shown(running, HOME)
    done = send(running, page, f"{HOME}/propose", reason="an interim look", early="yes")
    assert "The learner got your request" in after(running, done).text
    again = send(running, page, f"{HOME}/propose", reason="an interim look")
    assert again.status_code == 409


def test_an_invitation_opens_an_account_once(running):
    access = running.service.access
    secret = access.invite("Ida New", [Grant("*", "auditor")], by=operator("ops"))
    path = f"/invitations/{secret}"
    page = shown(running, path)
    assert "Welcome, Ida New" in page.text
    short = send(running, page, path, password="short", again="short")
    assert short.status_code == 422
    other = send(running, page, path, password=PASSWORD, again=f"{PASSWORD}!")
    assert "the two passwords must be the same" in check_page(other.text).text
    done = send(running, page, path, password=PASSWORD, again=PASSWORD)
    assert "Welcome, Ida New." in after(running, done).text
    shown(running, path, 404)
    shown(running, "/invitations/rsi_nothing", 404)


def test_a_person_changes_the_password(running):
    name = sign_in(running, "auditor")
    page, new = shown(running, "/account"), "four quite new words here"
    wrong = send(running, page, "/account/password", old="x", new=new, again=new)
    assert wrong.status_code == 403
    done = send(running, page, "/account/password", old=PASSWORD, new=new, again=new)
    assert "Your password is changed" in after(running, done).text
    assert running.service.access.check_password(name, new)
    assert send(running, page, "/account/password", old=new, new=new,
                again=new).status_code == 403  # the form is of the session before  # fmt: skip


def test_passkey_options_need_the_password_and_a_host_name(running):
    sign_in(running, "approver")
    page = shown(running, "/account")
    csrf = page.all("input", name="csrf")[0]["value"]

    def ask(origin, password=PASSWORD):
        told = {"csrf": csrf, "password": password, "label": "key"}
        return running.client.post(
            "/account/passkeys/options", data=told, headers={"Origin": origin}
        )

    assert ask(ORIGIN, "wrong words of mine").status_code == 403
    found = ask(ORIGIN)
    assert found.status_code == 200, found.text
    assert (found.json().get("publicKey") or found.json())["rp"]["id"] == "localhost"
    numbers = ask("http://127.0.0.1:8000")
    assert numbers.status_code == 422
    assert "localhost" in numbers.json()["detail"]
    answer = send(running, page, "/account/passkeys", answer="{}", label="key", password="")
    assert answer.status_code == 422
    check_page(answer.text)


def test_an_administrator_keeps_accounts(running):
    sign_in(running, "administrator")
    page = shown(running, "/accounts")
    told = {"role": "site", "campaign": "doors", "site": "lima"}
    made = send(running, page, "/accounts/invite", name="Ida New", **told)
    assert made.status_code == 200
    page = check_page(made.text)
    link = re.search(r"/invitations/(rsi_\S+)", page.text)[1]
    assert running.service.access.invitation(link).name == "Ida New"
    page = shown(running, "/accounts")
    assert link not in page.html
    assert "site lima in doors" in page.text
    made = send(running, page, "/accounts/token", label="gateway", days="30", **told)
    secret = re.search(r"rsw_\S+", check_page(made.text).text)[0]
    assert running.service.access.principal_of_token(secret).site("doors") == "lima"
    page = shown(running, "/accounts")
    assert secret not in page.html
    (table,) = page.all("table", **{"class": "stack"})  # its cells are stacked on a phone
    labels = [one["data-label"] for one in page.inside(table, "td")]
    assert labels[:4] == ["Roles", "Made by", "Expires", "State"]
    assert (
        "The token gateway is revoked."
        in after(running, send(running, page, "/accounts/revoke")).text
    )
    assert running.service.access.principal_of_token(secret) is None
    wrong = send(running, page, "/accounts/invite", name="<b>", role="king", campaign="*", site="")
    assert wrong.status_code == 422
    check_page(wrong.text)


def test_roles_of_an_account_are_given_and_taken(running):
    sign_in(running, "administrator")
    access = running.service.access
    account(running, "auditor", "Ida New")
    csrf = shown(running, "/accounts").all("input", name="csrf")[0]["value"]
    told = {"csrf": csrf, "account": "idanew", "role": "monitor", "campaign": "doors", "site": ""}

    def ask(action):
        return running.client.post(f"/accounts/{action}", data=told)

    assert "Ida New is now monitor in doors." in after(running, ask("grant")).text
    assert access.account("idanew").grants[1] == Grant("doors", "monitor")
    assert "no longer monitor" in after(running, ask("withdraw")).text
    assert len(access.account("idanew").grants) == 1
    assert "disabled" in after(running, ask("disable")).text
    assert access.account("idanew").disabled
    assert "enabled" in after(running, ask("enable")).text
    assert "/invitations/" in ask("reset").text


def test_pages_are_guarded_by_role(running):
    sign_in(running, "site")
    text = shown(running, HOME).text
    assert "This page is blinded" in text
    for path in ("ledger", "refusals", "analysis", "candidates/3"):
        page = shown(running, f"{HOME}/{path}", 403)
        assert "role" in page.text
    shown(running, "/accounts", 403)
    shown(running, "/studies/other", 404)
    csrf = shown(running, HOME).all("input", name="csrf")[0]["value"]
    told = {"csrf": csrf, "reason": "r", "password": PASSWORD}
    for verb in ("stop", "rollback", "amend", "reopen", "countersign", "propose", "signing"):
        assert running.client.post(f"{HOME}/{verb}", data=told).status_code == 403, verb


def test_static_files_are_kept_under_their_address(running):
    page = shown(running, "/sign-in")
    (style,) = page.all("link", rel="stylesheet")
    answer = running.client.get(style["href"])
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"].startswith("text/css")
    assert running.client.get("/static/pages.css?old").headers["cache-control"] == "no-cache"
    assert running.client.get("/static/../view.py").status_code == 404
    assert (
        running.client.get("/static/live.js").headers["content-type"].startswith("text/javascript")
    )


def test_an_answer_is_never_kept_and_has_a_strict_policy(running):
    sign_in(running, "auditor")
    answer = running.client.get(HOME)
    assert answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_message_that_somebody_made_up_is_no_html(running):
    sign_in(running, "auditor")
    for text in ("!!", "bnVsbA==", "IjxiPiI="):
        running.client.cookies.set("rareswitch_said", text)
        assert "<b>" not in shown(running, HOME).html


def test_a_page_is_shown_after_signing_in(running):
    answer = running.client.get("/studies/doors")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?after=/studies/doors"


def test_an_auditor_downloads_the_record(running):
    from rareswitch.campaigns.access.secret_texts import csrf_of

    running.ask("GET", "/v1/me", "auditor")
    session = running.service.access.sign_in("the auditor", PASSWORD)
    running.client.cookies.set("rareswitch_session", session.secret)
    page = running.client.get("/studies/doors").text
    assert 'action="/studies/doors/export"' in page
    form = {"csrf": csrf_of(session.secret), "form": "export", "reason": "inspection"}
    done = running.client.post("/studies/doors/export", data=form)
    assert done.headers["content-type"] == "application/zip"
    assert done.content[:2] == b"PK"
    report = running.client.get("/v1/campaigns/doors/interim?closed=true")
    assert "script" not in report.headers["content-security-policy"]
    without = running.client.post("/studies/doors/export", data=form | {"csrf": "x"})
    assert without.status_code == 403


def test_passkeys_are_shown_with_their_fingerprints_and_removed_with_the_password(running):
    name = sign_in(running, "administrator", "Ada Keys")
    access, key = running.service.access, SoftwarePasskey()
    answer = key.register(access.passkey_options(name, "localhost", ORIGIN))
    access.add_passkey(name, answer, label="Ada's phone")
    fingerprint = hashlib.sha256(key.public).hexdigest()
    for path in ("/account", "/accounts"):
        page = shown(running, path)
        assert fingerprint in [one.text for one in page.all("code")], path
        assert "Ada's phone" in page.text
        assert "Account (Ada Keys)" in [one.text for one in page.all("a")]
    page = shown(running, "/account")
    csrf = page.all("input", name="csrf")[0]["value"]
    told = {"csrf": csrf, "remove": access.passkeys(name)[0].credential}
    for password in ("", "not the password"):
        wrong = running.client.post("/account/passkeys", data=told | {"password": password})
        assert wrong.status_code == 403
    assert len(access.passkeys(name)) == 1
    done = running.client.post("/account/passkeys", data=told | {"password": PASSWORD})
    assert "You have no passkey. Add one before you sign" in (after(running, done).text)
    assert access.passkeys(name) == []
