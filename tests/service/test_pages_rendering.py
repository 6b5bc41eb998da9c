"""The pages as they are rendered: complete, blinded where they must be, and safe with any text."""

import re
from dataclasses import replace

import pytest

import rareswitch as rs
from campaign_builders import create, fill, propose
from page_checks import Page, check_page
from rareswitch.campaigns import (
    Approval,
    Campaign,
    Harm,
    Learning,
    Protocol,
    analyse,
    open_store,
    simulate,
    sites,
    status,
)
from rareswitch.campaigns.access import NOBODY, Grant, Principal
from rareswitch.campaigns.proof.export.words import NO_PROOF
from rareswitch.campaigns.rehearsal.world import FiniteWorld
from rareswitch.service.pages.candidate import Price, candidate_page, gain_of, worth
from rareswitch.service.pages.charts import VersionMark, timeline
from rareswitch.service.pages.people import (
    account_page,
    invitation_page,
    problem_page,
    sign_in_page,
)
from rareswitch.service.pages.records import (
    analysis_page,
    ledger_page,
    protocol_page,
    refusals_page,
)
from rareswitch.service.pages.rendering import figure, percent
from rareswitch.service.pages.study import studies_page, study_page
from rareswitch.service.pages.view import View
from study_builders import create_study, run_study

HOSTILE = "<script>alert('x')</script> & \"quotes\" <img src=x onerror=alert(1)>"


def viewer(*roles, name="Ben Okafor", site=""):
    grants = tuple(Grant("*", role, site if role == "site" else "") for role in roles)
    return View(Principal(name, "benokafor", grants, "session"), "secret", passkeys=("abc",))


EVERYTHING = viewer("administrator", "statistician", "approver", "monitor", "auditor")
SITE = viewer("site", name="token gateway", site="berlin")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of which version 4 waits for a signature."""
    with open_store(tmp_path_factory.mktemp("study") / "store.db", create=True) as store:
        campaign = create_study(store)
        run_study(campaign, 400, until=3)
        yield campaign


def waiting(campaign):
    return campaign.state.waiting.number


def pages_of(view, campaign):
    """Return all pages about a campaign."""
    found = {
        "studies": studies_page(view, [campaign]),
        "study": study_page(view, campaign),
        "ledger": ledger_page(view, campaign),
        "refusals": refusals_page(view, campaign),
        "protocol": protocol_page(view, campaign),
        "analysis": analysis_page(view, campaign),
    }
    for number in campaign.state.candidates:
        found[f"candidate {number}"] = candidate_page(view, campaign, number)
    return found


def returns_of(campaign):
    """Return every mean, interval and difference that a blinded person must not see, as written."""
    found = status(campaign)
    values = [one for row in found.versions for one in (row.mean, row.low, row.high)]
    rows = [found.difference, *(row.difference for row in found.versions)]
    rows += analyse(campaign).rows
    rows += analyse(campaign).roles.values()
    names = ("mean_return", "control_mean_return", "difference", "any_time_low", "any_time_high")
    values += [row.get(name) for row in rows if row for name in names]
    gains = [one.evidence["gain"] for one in campaign.state.candidates.values()]
    values += [gain[name] for gain in gains if gain for name in ("value", "low", "high")]
    # A protocol has short numbers too, such as 0.05.
    texts = {figure(value) for value in values if value is not None}
    return {text for text in texts if len(text.strip("−0.")) > 2}


def test_every_page_passes_the_checks(study):
    for name, html in pages_of(EVERYTHING, study).items():
        page = check_page(html)
        assert len(page.all("main")) == 1, name
    others = [
        sign_in_page(View(NOBODY, signed_in=False, error="wrong")),
        invitation_page(View(NOBODY, signed_in=False), name="Ben", secret="rsi_1"),
        problem_page(EVERYTHING, status=403, title="No", detail="your roles do not allow this"),
        account_page(EVERYTHING, grants=[Grant("*", "approver")]),
    ]
    for html in others:
        check_page(html)


def test_the_study_page_answers_in_order(study):
    page = Page(study_page(EVERYTHING, study))
    headings = [one.text for one in page.all("h2")]
    assert headings == [
        "Budget", "Waits for a decision", "Versions", "Learned and control", "Next version",
        "Episodes", "Stopping rules", "Who may do what",
    ]  # fmt: skip
    found = status(study)
    assert f"{found.recorded} of 600 episodes are recorded" in page.text
    assert "a candidate for version 4 waits for a decision" in page.text
    assert f"/studies/dosing/candidates/{waiting(study)}" in [one["href"] for one in page.all("a")]
    for version in found.versions:
        assert figure(version.mean) in page.text
    assert figure(found.difference["control_mean_return"]) in page.text
    for site in ("berlin", "porto", "turku"):
        assert site in page.text
    assert "Superiority over the control" in page.text
    assert "difference at least" in page.text


def test_returns_are_on_the_unblinded_page_so_that_the_search_can_find_them(study):
    html = study_page(EVERYTHING, study) + analysis_page(EVERYTHING, study)
    html += candidate_page(EVERYTHING, study, waiting(study))
    assert sum(text in html for text in returns_of(study)) > 20


def test_a_site_sees_its_own_counts_and_no_returns(study):
    pages = {
        "study": study_page(SITE, study),
        "studies": studies_page(SITE, [study]),
        "protocol": protocol_page(SITE, study),
    }
    for name, html in pages.items():
        page = check_page(html)
        words = {*re.split(r"[^\w.−+]+", page.text)}
        assert not words & returns_of(study), name
        lowered = page.text.lower()
        for secret in ("mean return", "candidate", "learned members", "waits"):
            assert secret not in lowered or name == "protocol", (name, secret)
        links = {one["href"] for one in page.all("a")}
        assert not [one for one in links if re.search("ledger|refusals|analysis|candidates", one)]
        assert not [form["action"] for form in page.all("form") if form["action"] != "/sign-out"]
    text = Page(pages["study"]).text
    own = next(row for row in sites(study) if row["site"] == "berlin")
    assert f"Recorded {own['episodes']}" in text
    assert "porto" not in text


def test_the_public_sees_counts_alone(study):
    public = View(Principal("nobody", None, (), "nobody", frozenset({"dosing"})), signed_in=False)
    page = check_page(study_page(public, study))
    assert "berlin" not in page.text
    assert not page.all("form")
    assert "Sign in" in page.text


def test_roles_decide_which_forms_there_are(study):
    def actions(*roles):
        page = check_page(study_page(viewer(*roles), study))
        forms = {form["action"].rpartition("/")[2] for form in page.all("form")}
        return forms - {"sign-out"}

    assert actions("auditor") == {"export"}
    assert actions("monitor") == {"rollback", "stop", "export"}
    assert actions("approver") == {"rollback", "stop"}
    assert actions("administrator") == {"stop", "amend", "export"}
    assert actions("statistician") == {"amend", "export"}  # a candidate waits, so none is asked for
    number = waiting(study)
    page = check_page(candidate_page(viewer("auditor"), study, number))
    assert [form["action"] for form in page.all("form")] == [
        "/sign-out", f"/studies/dosing/candidates/{number}/comment",
    ]  # fmt: skip


def test_a_viewer_who_cannot_sign_is_told_why(study):
    number = waiting(study)
    needs = "it needs the signature of an approver"
    reader = Page(study_page(viewer("auditor"), study))
    assert f"Read candidate {number}" in [one.text for one in reader.all("a")]
    signer = Page(study_page(viewer("approver"), study))
    assert f"Read candidate {number} and decide" in [one.text for one in signer.all("a")]
    text = Page(candidate_page(viewer("auditor"), study, number)).text
    assert f"You cannot sign it, because you do not have the role approver: {needs}" in text
    assert "You cannot" not in Page(candidate_page(viewer("approver"), study, number)).text


def test_the_proposer_of_a_candidate_cannot_approve_it(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person"))
        fill(campaign, range(1, 6))
        number = propose(campaign, by="ana").number
        page = check_page(candidate_page(viewer("approver", name="Ana"), campaign, number))
        assert "You cannot approve it, because you proposed it" in page.text
        assert not [form for form in page.all("form") if form["action"].endswith("/approve")]
        campaign.stop(by="cy", reason="the sponsor asks")
        ended = check_page(candidate_page(EVERYTHING, campaign, number))
        assert "the study has ended" in [one.text for one in ended.all("span")]
        assert "waits for a decision" not in ended.text


def test_the_candidate_page_says_what_changes_for_whom_and_what_it_is_worth(study):
    candidate = study.state.waiting
    page = check_page(candidate_page(EVERYTHING, study, candidate.number))
    assert [one.text for one in page.all("h2")] == [
        "Probability of each treatment", "For whom", "Expected gain", "Price", "Is it worth it?",
        "Evidence as signed", "Signatures",
    ]  # fmt: skip
    gain, text = candidate.evidence["gain"], page.text
    left = 600 - status(study).recorded
    assert text.count(f"{figure(gain['value'])} per episode ({NO_PROOF})") == 3
    for end in ("low", "high"):
        assert figure(gain[end]) not in text
    total = figure(left * gain["value"])
    assert f"over the {left} episodes left the optimistic estimate is {total} in total" in text
    assert "A signature spends 1 of the 2 deployments left, so 1 would remain." in text
    for row in candidate.evidence["treatments"]:
        assert f"{row['action']} {percent(row['now'])} {percent(row['then'])}" in text
    for one in candidate.evidence["subgroups"]:
        assert f"{one['subgroup']} ({one['episodes']} episodes)" in text
    assert "include control (20%) and floor (10%, in equal parts)" in text
    assert "probability of each treatment, now →" not in text  # the table has it
    assert f"Evidence as of row {candidate.seq}; " in text
    assert "approve version 4 for deployment" in text
    assert candidate.digest in [one["value"] for one in page.all("input", name="digest")]
    assert len(page.all("svg")) == 2  # one chart, wide and narrow


def test_after_equal_allocation_no_treatment_is_the_most_frequent_before(tmp_path):
    treated = {"told": 9, "episodes": 9, "mean_return": 0.5, "events": {}}
    rows = [
        treated | {"subgroup": name, "action": action, "now": 1 / 3, "then": then}
        for name, thens in (("moderate", (0.23, 0.73, 0.04)), ("mild", (0.93, 0.03, 0.04)))
        for action, then in zip(("usual care", "low dose", "high dose"), thens, strict=True)
    ]
    subgroups = [
        {"subgroup": "moderate", "episodes": 27, "share": 0.4, "from": "usual care",
         "to": "low dose", "share_of_change": 1.0},
        {"subgroup": "mild", "episodes": 27, "share": 0.6, "from": None, "to": None,
         "share_of_change": None},
    ]  # fmt: skip
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person"))
        fill(campaign, range(1, 6))
        evidence = {"treatments": rows, "subgroups": subgroups}
        number = propose(campaign, evidence=evidence).number
        fill(campaign, range(6, 8))
        page = Page(candidate_page(EVERYTHING, campaign, number))
        overview = Page(study_page(EVERYTHING, campaign))
    assert "from equal allocation to mostly low dose" in page.text
    assert "from equal allocation to mostly usual care" in page.text
    assert "usual care →" not in page.text
    assert "no single change" not in page.text
    assert "vidence as of row 5; 2 reports and 0 corrections of fitted episodes since" in page.text
    assert "evidence as of row 5; 2 reports" in overview.text
    assert "now → under" not in overview.text
    assert "moderate (27 episodes)" in overview.text


def test_a_loss_and_an_unknown_gain_are_said_as_such(study):
    found, price = study.state.waiting, Price(2, 4, 100, 600)
    assert worth(0.1, price, found, {})[0] == (
        "The log cannot tell: over the 100 episodes left the optimistic estimate is 10 in total, "
        "and a loss is not excluded."
    )
    assert worth(-0.1, price, found, {})[0] == (
        "Even by an optimistic estimate it would lose about 10 in total over the 100 episodes left."
    )
    assert worth(None, price, found, {})[0].startswith("This log gives no valid estimate")
    assert worth(0.0, price, found, {"disagreement": 0.0}) == [
        "It changes nothing in the logged states, and would spend 1 of the 2 deployments left."
    ]
    nothing = {"disagreement": 0.1, "gain": {"value": 0.0, "low": 0.0, "high": 0.0}}
    assert worth(0.0, price, found, nothing)[0].startswith(
        "It gains nothing in the logged states, and would spend 1 of the 2"
    )
    last = replace(found, status="deployed")
    none_left = price._replace(episodes_left=0)
    assert "No episode is left" in worth(0.1, none_left, last, {})[0]
    assert (
        gain_of({"gain": {"verdict": "gain ", "value": float("nan"), "low": 0, "high": 1}}) is None
    )
    assert gain_of({"gain": "much"}) is None


@pytest.mark.parametrize("evidence", [
    {"disagreement": "x", "changes": 7, "subgroups": [None, {}], "gain": [], "warnings": {}},
    {"disagreement": None, "changes": [{"share": 0.5}], "subgroups": [{"share": 0.0}],
     "gain": {"verdict": 3}, "warnings": [HOSTILE]},
    {"subgroups": [{"subgroup": HOSTILE, "share": 0.4, "share_of_change": 0.2, "from": HOSTILE,
                    "to": 1, "episodes": 1}],
     "worth": {"accepted": True, "reasons": [], "gain": {"value": 0.2}}},
    {"treatments": [7, {}, {"now": "x"}, {"subgroup": HOSTILE, "action": HOSTILE, "now": 0.1,
                    "then": 0.2, "episodes": 1, "told": 1, "events": {HOSTILE: 1}}]},
])  # fmt: skip
def test_evidence_of_any_shape_is_shown(tmp_path, evidence):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person"))
        fill(campaign, range(1, 6))
        number = propose(campaign, evidence=evidence).number
        page = check_page(candidate_page(EVERYTHING, campaign, number))
        assert "alert(" not in page.html or "&lt;script&gt;" in page.html
        assert len(page.all("script")) == 2


def test_a_signer_sees_each_treatment_now_and_then(tmp_path):
    row = {"subgroup": "severe", "action": "high dose", "now": 0.3333, "then": 0.634, "told": 20,
           "episodes": 21, "mean_return": 0.642, "events": {"serious": 3}}  # fmt: skip
    changes = [{"stage": k, "from": "low", "to": f"high {k}", "share": 0.5} for k in (0, 1)]
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person"))
        fill(campaign, range(1, 6))
        evidence = {"treatments": [row, row | {"subgroup": None}], "changes": changes}
        page = check_page(
            candidate_page(EVERYTHING, campaign, propose(campaign, evidence=evidence).number)
        )
        cells = '<td>high dose</td><td class="n">33%</td><td class="n">63%</td>'
        assert f'<th scope="row">severe</th>{cells}' in page.html
        assert f'<th scope="row">no subgroup</th>{cells}' in page.html
        assert "<td>serious in 3 of 20 that tell</td>" in page.html
        assert "high 1" in page.html  # later stages have no other table
        assert "high 0" not in page.html


def test_who_signs_an_amendment_reads_its_cost(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create_study(store)
        campaign.amend({"episodes": 700}, by="Ana Ruiz", reason="slow")
        cost = "Cost: this changes the number of episodes. The study can no longer claim superio"
        assert cost in check_page(study_page(EVERYTHING, campaign)).text


def test_hostile_texts_are_escaped(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, by="Ana <b>Ruiz</b>", approval=Approval(by="second-person"))
        fill(campaign, range(1, 6))
        number = propose(campaign).number
        campaign.reject(number, by="<i>Ben</i>", reason=HOSTILE)
        campaign.amend({"budget": {"deployments": 4}}, by="Ana <b>Ruiz</b>", reason=HOSTILE)
        view = View(
            EVERYTHING.principal, "\"><script>", message=HOSTILE, error=HOSTILE,
            typed={"form": "stop", "reason": HOSTILE},
        )  # fmt: skip
        for name, html in pages_of(view, campaign).items():
            page = check_page(html)
            assert "<b>" not in html, name
            assert "<i>" not in html, name
            assert "<img" not in html, name
            assert html.count("<script") == len(page.all("script", type="module")), name


def test_a_study_without_episodes(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create_study(store)
        for html in pages_of(EVERYTHING, campaign).values():
            check_page(html)
        text = Page(study_page(EVERYTHING, campaign)).text
        assert "nothing is recorded so far" in text
        assert "No version has a recorded episode yet" in text
        check_page(study_page(SITE, campaign))


def test_a_study_without_control_that_a_rule_stopped(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, stopping=(Harm(below=1.9),), episodes=200)
        with Learning(campaign) as learning:
            for number in range(1, 150):
                if campaign.state.stopped:
                    break
                fill(campaign, [number])
                while learning.step() is not None:
                    pass
        reason = campaign.state.stopped.reason
        for html in pages_of(EVERYTHING, campaign).values():
            check_page(html)
        page = Page(study_page(EVERYTHING, campaign))
        assert reason in page.text
        assert "The study has ended" in page.text
        assert "Learned and control" not in page.text
        assert "no control" in Page(analysis_page(EVERYTHING, campaign)).text
        blinded = Page(study_page(SITE, campaign)).text
        assert reason not in blinded
        assert "harm" not in blinded.lower()
        assert "It was stopped." in blinded
        forms = [form["action"] for form in page.all("form")]
        assert [action.rpartition("/")[2] for action in forms] == ["sign-out", "export"]


def test_a_rehearsal_says_so(tmp_path):
    world = rs.worlds.tabular(states=2, actions=2, horizon=2, seed=1)
    plan = Protocol(
        name="small", task=world.task(episodes=60), schedule=rs.UniformGrid(batches=3), budget=2
    )
    with open_store(tmp_path / "store.db", create=True) as store:
        simulate(plan, FiniteWorld(world), store)
        campaign = Campaign(store, "small")
        for view in (EVERYTHING, SITE):
            page = check_page(study_page(view, campaign))
            assert "nobody is treated" in page.text
        for name, html in pages_of(EVERYTHING, campaign).items():
            page = Page(html)
            assert "nobody is treated" in page.text or name == "studies"
            # The name stands on the page itself, not in its title alone.
            places = page.all("h1") + page.all("h2") + page.all("p", **{"class": "study"})
            assert "small" in [one.text for one in places], name
        assert "rehearsal" in Page(studies_page(EVERYTHING, [campaign])).text


def test_very_many_versions_are_folded(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, episodes=300, budget=299, schedule=rs.EveryEpisode())
        for number in range(1, 121):
            fill(campaign, [number])
            propose(campaign)
        assert campaign.version > 100
        page = check_page(study_page(EVERYTHING, campaign))
        (fold,) = page.all("details", id="earlier-versions")
        assert not fold.has("open")
        tables = [one for one in page.all("tr") if not one.is_in(fold)]
        assert len(tables) < 250
        chart = next(one for one in page.all("svg") if "wide" in (one["class"] or ""))
        assert len(page.inside(chart, "rect")) <= 41
        assert len(page.html) < 400_000


def test_the_ledger_comes_in_pages(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, episodes=300)
        fill(campaign, range(1, 71))
        for number in range(1, 61):
            campaign.withdraw(f"p{number}", by="ana", reason="asked for it")
        total = len(campaign.entries)
        last = check_page(ledger_page(EVERYTHING, campaign))
        shown = [one["id"] for one in last.all("li") if (one["id"] or "").startswith("entry-")]
        assert shown == [f"entry-{n}" for n in range(total, total - 50, -1)]
        assert f"?after={total - 100 if total > 100 else 0}" in last.html
        first = check_page(ledger_page(EVERYTHING, campaign, 0))
        assert "created the study" in first.text
        assert "Newer entries" in first.text
        assert "Older entries" not in first.text
        check_page(ledger_page(EVERYTHING, campaign, 10**9))


def test_revisions_are_shown_as_differences(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store)
        campaign.amend({"budget": {"deployments": 7}}, by="ana", reason="returns 0.77 of late")
        page = check_page(protocol_page(EVERYTHING, campaign))
        assert "budget.deployments 5 7" in page.text
        assert [one.text for one in page.all("del")] == ["5"]
        assert [one.text for one in page.all("ins")] == ["7"]
        assert "returns 0.77 of late" in page.text
        assert "0.77" not in Page(protocol_page(SITE, campaign)).text


def test_a_proposed_amendment_waits_on_the_page(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person"))
        fill(campaign, [1])
        entry = campaign.amend({"budget": {"deployments": 7}}, by="ana", reason="returns of 0.77")
        page = check_page(study_page(EVERYTHING, campaign))
        actions = [form["action"] for form in page.all("form")]
        assert f"/studies/trial/amendments/{entry.number}/approve" in actions
        assert f"/studies/trial/amendments/{entry.number}/reject" in actions
        assert "It needs the signature of an approver other than ana." in page.text
        own = Page(study_page(viewer("approver", name="Ana"), campaign))
        forms = [form["action"].rpartition("/")[2] for form in own.all("form")]
        assert "approve" not in forms
        assert "reject" in forms
        assert "returns of 0.77" in Page(protocol_page(EVERYTHING, campaign)).text
        for html in (protocol_page(SITE, campaign), study_page(SITE, campaign)):
            assert "0.77" not in html


def test_a_refused_form_keeps_what_was_typed_and_no_password(study):
    view = View(
        EVERYTHING.principal, "secret", error="no",
        typed={"form": "stop", "reason": "too slow"},
    )  # fmt: skip
    page = check_page(study_page(view, study))
    (reason,) = page.all("input", id="stop-reason")
    assert reason["value"] == "too slow"
    assert page.all("details", id="stop")[0].has("open")
    assert not page.all("details", id="amend")[0].has("open")
    assert all(one["value"] is None for one in page.all("input", type="password"))


def test_one_version_has_no_chart_of_versions():
    one = VersionMark(1, 0, 90, 90, 0.5, 0.4, 0.6, "planned")
    assert timeline([one], 90) is None
    assert timeline([one, one._replace(version=2, since=90, until=120)], 120) is not None
