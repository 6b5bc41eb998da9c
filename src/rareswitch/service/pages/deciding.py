"""The forms for decisions: candidates, rollbacks, amendments and the stop."""

import base64
import tomllib
from typing import Any

import msgspec
from starlette.responses import Response

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.learning.requests import ask_for_proposal
from rareswitch.campaigns.rulebook.names import checked_text
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.terms import AMENDABLE
from rareswitch.service.api.look import zipped_export
from rareswitch.service.endpoint import Call, Endpoints
from rareswitch.service.pages.forms import Form, campaign_of, form_endpoint, go_to
from rareswitch.service.pages.looking import candidate_again, check_candidate, study_again
from rareswitch.service.pages.rendering import plural
from rareswitch.service.problems import Problem
from rareswitch.service.signing import Signature, person_of, signature_of

deciding = Endpoints(pages=True)
PASSKEY_FIELDS = ("credential", "authenticator_data", "client_data", "signature", "head")
STUDY, CANDIDATE = "/studies/{campaign}", "/studies/{campaign}/candidates/{number:int}"


def signed(call: Call, form: Form) -> dict[str, Any]:
    """Return the person, the reason, and the signature by password or passkey."""
    given: dict[str, Any] = {"password": form.get("password", "")}
    if form.get("credential"):
        given = {"passkey": {name: form.get(name, "") for name in PASSKEY_FIELDS}}
    elif not given["password"]:
        raise Problem(422, "password must not be empty: it is your signature", code="unsigned")
    head = campaign_of(call).entries[-1].link
    signature = signature_of(call, msgspec.convert(given, Signature), head)
    reason = form.get("reason", "").strip()
    if not reason:
        raise Problem(422, "reason must not be empty: the ledger keeps it", code="invalid")
    return {"by": person_of(call), "reason": reason, "signature": signature}


@form_endpoint(deciding, f"{CANDIDATE}/approve", action="approve", again=candidate_again)
def approve_candidate(call: Call, form: Form) -> Response:
    """Sign a candidate."""
    campaign, number = _candidate_seen(call, form)
    done = campaign.approve(number, **signed(call, form))
    if isinstance(done, Entry):
        owed = campaign.state.owed(campaign.state.candidate(number))
        return _back(call, f"You signed; {needed(owed.signatures)}.", number)
    return _back(call, f"You signed. Version {done.version} is in force.", number)


@form_endpoint(deciding, f"{CANDIDATE}/reject", action="approve", again=candidate_again)
def reject_candidate(call: Call, form: Form) -> Response:
    """Reject a candidate."""
    campaign, number = _candidate_seen(call, form)
    campaign.reject(number, **signed(call, form))
    return _back(call, f"You rejected candidate {number}.", number)


@form_endpoint(deciding, f"{CANDIDATE}/comment", action="comment", again=candidate_again)
def comment_candidate(call: Call, form: Form) -> Response:
    """Comment on a candidate, or sign a review of it."""
    campaign, number = campaign_of(call), call.request.path_params["number"]
    check_candidate(campaign, number)
    campaign.comment(number, reviewed="reviewed" in form, **signed(call, form))
    return _back(call, "Your comment is in the ledger.", number)


def needed(signatures: int) -> str:
    """Return a sentence with the number of missing signatures.

    >>> needed(1), needed(2)
    ('1 more signature is needed', '2 more signatures are needed')
    """
    verb = "is" if signatures == 1 else "are"
    return f"{plural(signatures, 'more signature')} {verb} needed"


def _candidate_seen(call: Call, form: Form) -> tuple[Campaign, int]:
    """Return the campaign and the candidate; raise if the page showed another policy."""
    campaign, number = campaign_of(call), call.request.path_params["number"]
    check_candidate(campaign, number)
    if form.get("digest") != campaign.state.candidate(number).digest:
        raise Problem(412, "the page shows another policy: reload it", code="precondition")
    return campaign, number


@form_endpoint(deciding, f"{STUDY}/rollback", action="rollback", again=study_again)
def roll_back(call: Call, form: Form) -> Response:
    """Put the policy of an earlier version in force."""
    campaign, to = campaign_of(call), _number(form, "to")
    made = campaign.rollback(to, **signed(call, form))
    return _back(call, f"Version {made.version} is in force, with the policy of version {to}.")


@form_endpoint(deciding, f"{STUDY}/countersign", action="approve", again=study_again)
def countersign_rollback(call: Call, form: Form) -> Response:
    """Sign a rollback of another person."""
    campaign_of(call).countersign(_number(form, "number"), **signed(call, form))
    return _back(call, "You countersigned the rollback.")


@form_endpoint(deciding, f"{STUDY}/stop", action="stop", again=study_again)
def stop_study(call: Call, form: Form) -> Response:
    """Stop a study."""
    campaign_of(call).stop(**signed(call, form))
    return _back(call, "You stopped the study.")


@form_endpoint(deciding, f"{STUDY}/export", action="export", again=study_again)
def export_study(call: Call, form: Form) -> Response:
    """Return the whole record as a zip file."""
    reason = checked_text("reason", form.get("reason", ""))
    return zipped_export(call, campaign_of(call), reason=reason)


@form_endpoint(deciding, f"{STUDY}/reopen", action="reopen", again=study_again)
def reopen_study(call: Call, form: Form) -> Response:
    """Propose to reopen a study that stopped for data quality."""
    entry = campaign_of(call).reopen(**signed(call, form))
    return _back(call, f"Reopening {entry.number} waits for a second person.")


@form_endpoint(deciding, f"{STUDY}/amend", action="amend", again=study_again)
def amend_protocol(call: Call, form: Form) -> Response:
    """Amend the protocol, or propose the amendment."""
    campaign = campaign_of(call)
    if form.get("protocol") != campaign.terms.digest:
        raise Problem(412, "the protocol was amended meanwhile: reload it", code="precondition")
    entry = campaign.amend(changed_tables(campaign, form), **signed(call, form))
    revision = f"revision {len(campaign.state.revisions)}"
    if entry.kind == "amendment":
        waits = f"Amendment {entry.number} waits for a second person."
        return _back(call, f"{waits} Until then {revision} of the protocol stays in force.")
    return _back(call, f"The protocol is amended: {revision} is in force.")


@form_endpoint(deciding, f"{STUDY}/propose", action="propose", again=study_again)
def propose_policy(call: Call, form: Form) -> Response:
    """Ask the learner to propose a policy."""
    campaign, reason = campaign_of(call), form.get("reason", "")
    ask_for_proposal(campaign, by=person_of(call), reason=reason, early="early" in form)
    return _back(call, "The learner got your request. The candidate appears here after the fit.")


def _approve_waiting(call: Call, form: Form) -> Response:
    """Sign an amendment or a reopening."""
    campaign, number = _proposal(call)
    entry = campaign.approve(number, **signed(call, form))
    state = campaign.state
    if isinstance(entry, Entry) and entry.kind == "approved" and state.amendment is not None:
        owed = state.owed(state.amendment)
        return _back(call, f"You signed; {needed(owed.signatures)}.")
    if "/amendments/" in call.request.url.path:
        revision = len(state.revisions)
        return _back(call, f"You signed. Revision {revision} of the protocol is in force.")
    return _back(call, "You signed. The study is open again.")


def _reject_waiting(call: Call, form: Form) -> Response:
    """Reject an amendment or a reopening."""
    campaign, number = _proposal(call)
    campaign.reject(number, **signed(call, form))
    return _back(call, f"You rejected entry {number}.")


for _kind in ("amendment", "reopening"):
    for _verb, _handler in (("approve", _approve_waiting), ("reject", _reject_waiting)):
        _path = f"{STUDY}/{_kind}s/{{number:int}}/{_verb}"
        form_endpoint(deciding, _path, action="approve", again=study_again)(_handler)


def _proposal(call: Call) -> tuple[Campaign, int]:
    """Return the campaign and a proposal; raise for a candidate, which has its own page."""
    campaign, number = campaign_of(call), call.request.path_params["number"]
    if number in campaign.state.candidates:
        raise Problem(404, f"entry {number} is a candidate: decide on its page", code="not-found")
    return campaign, number


def _challenge_problem(call: Call, problem: Problem, form: Form) -> Response:
    return problem.response


@form_endpoint(deciding, f"{STUDY}/signing", action="unblinded", again=_challenge_problem)
def tell_challenge(call: Call, form: Form) -> Response:
    """Return the bytes that a passkey must sign for the decision of a form."""
    person_of(call)
    campaign, decision = campaign_of(call), form.get("decision", "")
    more: dict[str, Any] = {}
    if decision == "amend":
        more["changes"] = changed_tables(campaign, form)
    elif decision == "comment":
        more["reviewed"] = "reviewed" in form
    number = form.get("to") or form.get("number") or "0"
    found = campaign.to_sign(decision, _number({"number": number}, "number") or None, **more)
    plain = {name: getattr(found, name) for name in ("subject", "protocol", "head", "meaning")}
    plain["challenge"] = base64.urlsafe_b64encode(found.challenge).rstrip(b"=").decode()
    return Response(msgspec.json.encode(plain), media_type="application/json")


def changed_tables(campaign: Campaign, form: Form) -> dict[str, Any]:
    """Return the tables of the form that differ from the protocol in force."""
    try:
        given = tomllib.loads(form.get("changes", "").replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Problem(422, f"changes must be TOML; {error}", code="invalid") from None
    terms = campaign.terms
    now = {name: terms.plain.get(name) for name in AMENDABLE} | {"episodes": terms.episodes}
    return {name: value for name, value in given.items() if now.get(name) != value}


def _number(form: Form, name: str) -> int:
    text = form.get(name, "")
    if not (text.isdecimal() and len(text) < 19):
        raise Problem(422, f"{name} must be a whole number", code="invalid", field=name)
    return int(text)


def _back(call: Call, message: str, candidate: int | None = None) -> Response:
    """Redirect to the study or to one of its candidates."""
    path = f"/studies/{campaign_of(call).name}"
    return go_to(call, path if candidate is None else f"{path}/candidates/{candidate}", message)
