"""Roles: the whole table of roles and actions, grants, and the principal who has them."""

from types import SimpleNamespace

import pytest

from rareswitch.campaigns.access import ACTIONS, ALLOWED, NOBODY, ROLES, Grant, Principal, operator

TABLE = """
role               look policy assign report correct forget create accounts unblinded propose
                   amend reopen approve comment rollback stop export
administrator      x    x      .      .      x       x      x      x        x         .
                   x    x      .      .       .        x    x
statistician       x    x      .      .      .       .      .      .        x         x
                   x    x      .      x       .        .    x
approver           x    x      .      .      .       .      .      .        x         .
                   .    .      x      x       x        x    .
site               x    x      x      x      x       .      .      .        .         .
                   .    .      .      .       .        .    .
monitor            x    x      .      .      .       .      .      .        x         .
                   .    .      .      x       x        x    x
auditor            x    x      .      .      .       .      .      .        x         .
                   .    .      .      x       .        .    x
public             x    .      .      .      .       .      .      .        .         .
                   .    .      .      .       .        .    .
"""
WORDS = TABLE.split()
NAMES = WORDS[1:18]


def expected():
    rows = [WORDS[at : at + 18] for at in range(18, len(WORDS), 18)]
    return {
        (row[0], action): mark == "x"
        for row in rows
        for action, mark in zip(NAMES, row[1:], strict=True)
    }


def holder(role, campaign="trial"):
    if role == "public":
        return NOBODY.where_public(campaign, SimpleNamespace(public=True))
    return Principal(
        "x", "x", (Grant(campaign, role, "berlin" if role == "site" else ""),), "token"
    )


def test_the_table_has_every_role_and_action():
    assert set(expected()) == {(role, action) for role in ROLES for action in ACTIONS}
    assert set(ALLOWED) == set(NAMES)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_allows_its_actions_in_its_campaign_and_nothing_elsewhere(role):
    one, table = holder(role), expected()
    for action in ACTIONS:
        assert one.may(action, "trial") is table[role, action], (role, action)
        assert not one.may(action, "other")
        assert not one.may(action, "*")


@pytest.mark.parametrize("role", ROLES[:-1])
def test_a_role_in_all_campaigns_holds_in_each(role):
    one, table = holder(role, "*"), expected()
    for action in ACTIONS:
        assert one.may(action, "trial") is one.may(action, "*") is table[role, action]


def test_roles_add_up_by_campaign():
    both = Principal("x", "x", (Grant("a", "approver"), Grant("*", "auditor")), "session")
    assert both.roles("a") == {"approver", "auditor"}
    assert both.roles("b") == both.roles("*") == {"auditor"}
    assert both.may("approve", "a")
    assert not both.may("approve", "b")


def test_nobody_looks_only_where_the_protocol_is_public():
    assert not any(NOBODY.may(action, "trial") for action in ACTIONS)
    for terms in (SimpleNamespace(public=False), SimpleNamespace()):
        assert NOBODY.where_public("trial", terms) == NOBODY
    open_to_all = NOBODY.where_public("trial", SimpleNamespace(public=True))
    assert open_to_all.roles("trial") == {"public"}
    assert open_to_all.roles("other") == open_to_all.roles("*") == set()


def test_a_person_without_a_role_looks_where_the_protocol_is_public():
    one = Principal("x", "x", (Grant("a", "site", "berlin"),), "session")
    assert one.roles("b") == set()
    more = one.where_public("b", SimpleNamespace(public=True))
    assert more.may("look", "b")
    assert not more.may("policy", "b")
    assert more.roles("a") == {"site"}


def test_the_site_of_a_campaign_comes_before_that_of_all():
    grants = (Grant("*", "site", "berlin"), Grant("trial", "site", "oslo"))
    one = Principal("x", None, grants, "token")
    assert (one.site("trial"), one.site("other")) == ("oslo", "berlin")
    assert Principal("x", None, (Grant("*", "auditor"),), "token").site("trial") is None


def test_an_unknown_action_is_an_error():
    with pytest.raises(ValueError, match=r"action must be one of look.*got 'fly'"):
        NOBODY.may("fly", "trial")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("trial", "boss"), "role must be one of"),
        (("trial", "public"), "role must be one of"),
        (("", "auditor"), "campaign must be 1 to 200"),
        (("../x", "auditor"), "campaign must be"),
        (("trial", "site"), "site must be 1 to 200"),
        (("trial", "site", "ber:lin"), "site must have no colon"),
        (("trial", "site", "a b"), "site must be"),
        (("trial", "auditor", "berlin"), "site belongs to the role site"),
    ],
)
def test_wrong_grants_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        Grant(*given)


@pytest.mark.parametrize("given", [(1, "auditor"), ("trial", "site", 7)])
def test_grants_of_other_types_are_refused(given):
    with pytest.raises(TypeError, match="must be a text"):
        Grant(*given)


def test_a_grant_is_read_back():
    for grant in (Grant("trial", "site", "berlin"), Grant("*", "auditor")):
        assert Grant.read(grant.plain) == grant
    with pytest.raises(ValueError, match="got 'user'"):
        Grant.read({"campaign": "trial", "role": "auditor", "user": "x"})
    with pytest.raises(TypeError, match="grant must be a table"):
        Grant.read("auditor")


def test_a_grant_covers_the_same_role_in_fewer_campaigns():
    berlin = Grant("trial", "site", "berlin")
    assert Grant("*", "site", "berlin").covers(berlin)
    assert berlin.covers(berlin)
    for other in (
        Grant("*", "site", "berlin"),
        Grant("trial", "site", "oslo"),
        Grant("other", "site", "berlin"),
        Grant("trial", "auditor"),
    ):
        assert not berlin.covers(other)


def test_the_operator_is_administrator_and_no_account():
    one = operator("Ana")
    assert (one.account, one.via) == (None, "machine")
    assert one.may("accounts", "*")
    assert not one.may("approve", "trial")
    with pytest.raises(ValueError, match="by must be one line"):
        operator("Ana\x1b[2J")
