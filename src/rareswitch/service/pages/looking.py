"""The endpoints of pages that only show: studies, candidates, ledger, refusals, protocol."""

from typing import Annotated

import msgspec
from starlette.responses import RedirectResponse, Response

from rareswitch.campaigns.campaign import Campaign
from rareswitch.service.endpoint import ANYBODY, LARGEST, Call, Endpoints, Struct
from rareswitch.service.pages.candidate import candidate_page
from rareswitch.service.pages.forms import Form, campaign_of, page, view_of
from rareswitch.service.pages.people import problem_page
from rareswitch.service.pages.records import (
    analysis_page,
    ledger_page,
    protocol_page,
    refusals_page,
)
from rareswitch.service.pages.study import studies_page, study_page
from rareswitch.service.problems import TITLES, Problem

looking = Endpoints(pages=True)


class After(Struct):
    """The number before the first row of a page; by default the page has the newest rows."""

    after: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] | None = None


@looking.get("/", action=ANYBODY)
def show_studies(call: Call) -> Response:
    """Show the studies that the viewer may look at."""
    visible = call.service.visible(call.principal)
    if not visible and call.principal.via == "nobody":
        return RedirectResponse("/sign-in", 303)
    return page(call, studies_page(view_of(call), visible))


@looking.get("/studies/{campaign}", action="look")
def show_study(call: Call, campaign: Campaign) -> Response:
    """Show the state of a study."""
    return page(call, study_page(view_of(call), campaign))


@looking.get("/studies/{campaign}/candidates/{number:int}", action="unblinded")
def show_candidate(call: Call, campaign: Campaign, number: int) -> Response:
    """Show a candidate to its signers."""
    check_candidate(campaign, number)
    view = view_of(call)
    return page(call, candidate_page(view, campaign, number, view.passkeys))


@looking.get("/studies/{campaign}/ledger", action="unblinded", query=After)
def show_ledger(call: Call, campaign: Campaign, query: After) -> Response:
    """Show who decided what, when and why."""
    return page(call, ledger_page(view_of(call), campaign, query.after))


@looking.get("/studies/{campaign}/refusals", action="unblinded", query=After)
def show_refusals(call: Call, campaign: Campaign, query: After) -> Response:
    """Show the refused reports."""
    return page(call, refusals_page(view_of(call), campaign, query.after))


@looking.get("/studies/{campaign}/protocol", action="look")
def show_protocol(call: Call, campaign: Campaign) -> Response:
    """Show the protocol and its revisions."""
    return page(call, protocol_page(view_of(call), campaign))


@looking.get("/studies/{campaign}/analysis", action="unblinded")
def show_analysis(call: Call, campaign: Campaign) -> Response:
    """Show learned policies against the control."""
    return page(call, analysis_page(view_of(call), campaign))


def check_candidate(campaign: Campaign, number: int) -> None:
    """Raise if no candidate has this number."""
    if number not in campaign.state.candidates:
        raise Problem(404, f"there is no candidate {number}", code="not-found")


def study_again(call: Call, problem: Problem, form: Form) -> Response:
    """Show a study with a refused form."""
    view = view_of(call, problem, form)
    return page(call, study_page(view, campaign_of(call)), problem.status)


def candidate_again(call: Call, problem: Problem, form: Form) -> Response:
    """Show a candidate with a refused form."""
    campaign, number = campaign_of(call), call.request.path_params["number"]
    if number not in campaign.state.candidates:
        return render_problem(call, problem)
    view = view_of(call, problem, form)
    return page(call, candidate_page(view, campaign, number, view.passkeys), problem.status)


def render_problem(call: Call, problem: Problem) -> Response:
    """Show a problem as a page."""
    title = TITLES.get(problem.status, "The request failed")
    html = problem_page(view_of(call), status=problem.status, title=title, detail=str(problem))
    response = page(call, html, problem.status)
    response.headers.update(problem.headers)
    return response
