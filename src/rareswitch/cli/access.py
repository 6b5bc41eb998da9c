"""`rareswitch access`: accounts, roles and tokens of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.campaign_look import table
from rareswitch.cli.campaign_verb import Answer, Option, verb
from rareswitch.cli.experiments import need

if TYPE_CHECKING:
    from rareswitch.campaigns import Store
    from rareswitch.campaigns.access import Access, Account, Grant, Token

ONCE = "it is shown this once, and the store has only its hash"
by_option: Option = click.option(
    "--by",
    default="operator",
    envvar="RARESWITCH_ACTOR",
    show_envvar=True,
    metavar="NAME",
    help="Your name, for the access log.",
)
grants_option: Option = click.option(
    "--grant",
    "grants",
    nargs=2,
    multiple=True,
    metavar="ROLE CAMPAIGN",
    help="Give a role in a campaign, or in all campaigns ('*'). The role of a site is site:NAME. "
    "May be repeated.",
)
hours_option: Option = click.option(
    "--hours",
    type=click.FloatRange(0, 8760, min_open=True),
    default=72.0,
    help="Hours until the link expires.",
)
url_option: Option = click.option(
    "--url",
    default="http://localhost:8000",
    show_default=True,
    metavar="URL",
    help="Address of the service, the start of the link.",
)


@click.group()
def access() -> None:
    """Manage accounts, roles and tokens of a store.

    People sign in with a password; devices send a token. Anyone with write access to the store can
    run these commands without a password. The access log marks them as run on the machine.

    \b
    Roles:
      administrator   creates campaigns and accounts, amends, stops
      statistician    reads everything, proposes policies
      approver        signs, rolls back, stops
      site            gets treatments and reports its own episodes; sees no returns
      monitor         reads everything, rolls back, stops
      auditor         reads everything, verifies and exports

    \b
    From an empty store to a site that reports:
      rareswitch access invite "Ana Ruiz" --grant administrator '*'
      rareswitch access invite "Ben Okoro" --grant approver trial
      rareswitch access token gateway --grant site:berlin trial
    """


def access_verb(
    *examples: str, name: str | None = None, mode: str = "write"
) -> Callable[[Callable[..., Answer]], click.Command]:
    """Make a command from a function that takes the access to a store."""

    def make(function: Callable[..., Answer]) -> click.Command:
        def run(store: Store, **given: Any) -> Answer:
            need("service")
            from rareswitch.campaigns.access import Access, operator

            if "by" in given:
                given["by"] = operator(given["by"])
            return function(Access(store), **given)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__dict__.update(function.__dict__)
        command = verb(*examples, about="store", name=name, access=mode, group="access")(run)
        access.add_command(command)
        return command

    return make


@access_verb(
    "invite \"Ana Ruiz\" --grant administrator '*'",
    'invite "Site Berlin" --grant site:berlin trial --url https://trial.example',
    mode="create",
)
@click.argument("name")
@grants_option
@hours_option
@url_option
@by_option
def invite(access: Access, name: str, grants: Any, hours: float, url: str, by: Any) -> Answer:
    """Invite a person: print the link that sets their password.

    The link works once. Run the command again to replace an unused link. The first person of a
    store becomes administrator of all campaigns if --grant is not given.
    """
    given = _grants(grants)
    if not given and access.is_new:
        given = _grants([("administrator", "*")])
    secret = access.invite(name, given, by=by, hours=hours)
    return _link(access.account(name), secret, url, hours, _not_there(access, given))


@access_verb('reset "Ben Okoro"')
@click.argument("account")
@hours_option
@url_option
@by_option
def reset(access: Access, account: str, hours: float, url: str, by: Any) -> Answer:
    """Print a link that sets a new password for a person.

    The old password works until the link is used. Then all sessions of the account end.
    """
    secret = access.reset_password(account, by=by, hours=hours)
    return _link(access.account(account), secret, url, hours)


@access_verb("accounts", mode="read")
def accounts(access: Access) -> Answer:
    """List accounts with their roles."""
    found = access.accounts()
    rows = [
        {
            "name": one.name,
            "state": _state(one),
            "roles": _roles(one.grants),
            "created": one.created,
        }
        for one in found
    ]
    lines = table(rows, ("name", "state", "created", "roles")) if rows else ["no accounts"]
    return Answer([one.plain for one in found], "\n".join(lines))


@access_verb('grant "Ben Okoro" approver trial', 'grant "Site Berlin" site:berlin trial')
@click.argument("account")
@click.argument("role")
@click.argument("campaign")
@by_option
def grant(access: Access, account: str, role: str, campaign: str, by: Any) -> Answer:
    """Give a person another role.

    CAMPAIGN is a name, or '*' for all campaigns. The ROLE of a site is site:NAME.
    """
    (given,) = _grants([(role, campaign)])
    return _changed(access.grant(account, given, by=by), _not_there(access, [given]))


@access_verb('withdraw "Ben Okoro" approver trial')
@click.argument("account")
@click.argument("role")
@click.argument("campaign")
@by_option
def withdraw(access: Access, account: str, role: str, campaign: str, by: Any) -> Answer:
    """Take a role from a person.

    Tokens in the person's name lose the role too. The last administrator keeps the role.
    """
    (given,) = _grants([(role, campaign)])
    return _changed(access.withdraw_grant(account, given, by=by))


@access_verb('disable "Ben Okoro"')
@click.argument("account")
@by_option
def disable(access: Access, account: str, by: Any) -> Answer:
    """Disable an account without deleting it.

    Its sessions end. Its password, tokens and passkeys do not work until it is enabled again.
    """
    return _changed(access.disable(account, by=by))


@access_verb('enable "Ben Okoro"')
@click.argument("account")
@by_option
def enable(access: Access, account: str, by: Any) -> Answer:
    """Enable a disabled account."""
    return _changed(access.enable(account, by=by))


@access_verb(
    "token gateway --grant site:berlin trial",
    'token notebook --grant statistician trial --account "Cyd Lin" --days 30',
)
@click.argument("label")
@grants_option
@click.option("--account", metavar="NAME", help="The person for whom it acts.")
@click.option(
    "--days",
    type=click.FloatRange(0, 3650, min_open=True),
    default=90.0,
    help="Days until the token expires.",
)
@by_option
def token(
    access: Access, label: str, grants: Any, account: str | None, days: float, by: Any
) -> Answer:
    """Issue a token for a device or a program.

    LABEL describes its use. The secret is printed once. A token with the role approver or
    administrator acts for a person: give --account.
    """
    from rareswitch.campaigns.access import ForbiddenError
    from rareswitch.campaigns.access.roles import PERSONAL

    given = _grants(grants)
    personal = [grant.role for grant in given if grant.role in PERSONAL]
    if account is None and personal:
        raise ForbiddenError(
            f"a token with the role {personal[0]} needs an account: a person answers for it; name "
            "the person with --account NAME"
        )
    made, secret = access.issue_token(label, given, by=by, account=account, days=days)
    text = (
        f"token          {made.id}, {made.label}, until {made.expires}\n"
        f"roles          {_roles(made.grants)}\n"
        f"secret         {secret}\n"
        f"keep the secret now: {ONCE}"
    )
    return Answer(made.plain | {"secret": secret}, text, _not_there(access, given))


@access_verb("tokens", mode="read")
def tokens(access: Access) -> Answer:
    """List tokens without their secrets."""
    found = access.tokens()
    rows = [_token_row(one) for one in found]
    columns = ("id", "label", "state", "expires", "account", "roles")
    lines = table(rows, columns) if rows else ["no tokens"]
    return Answer([one.plain for one in found], "\n".join(lines))


@access_verb("revoke 9f86d081884c7d65")
@click.argument("id")
@by_option
def revoke(access: Access, id: str, by: Any) -> Answer:
    """Revoke a token for good.

    `tokens` lists the ID. Running services refuse the token after at most one second.
    """
    made = access.revoke_token(id, by=by)
    return Answer(made.plain, f"token {made.id} is revoked: {made.label}")


@access_verb("log", "log --after 200 --limit 50", mode="read")
@click.option("--after", type=click.IntRange(0), default=0, help="Skip entries up to this number.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, help="Most entries to print.")
def log(access: Access, after: int, limit: int) -> Answer:
    """Print the access log, oldest entry first.

    Entries are numbered without gaps and are never deleted.
    """
    found = access.log(after, limit)
    rows = [entry.plain | {"by": f"{entry.by} ({entry.via})"} for entry in found]
    columns = ("number", "at", "by", "action", "about")
    lines = table(rows, columns) if rows else ["no entries"]
    return Answer([entry.plain for entry in found], "\n".join(lines))


def _grants(given: Sequence[tuple[str, str]]) -> list[Grant]:
    """Convert pairs such as (site:berlin, trial) to grants."""
    from rareswitch.campaigns.access import Grant

    for role, place in given:
        if role == "site":
            raise click.UsageError(f"role site needs the name of the site: write site:NAME {place}")
    return [Grant(place, role, site) for (role, _, site), place in
            ((role.partition(":"), place) for role, place in given)]  # fmt: skip


def _not_there(access: Access, grants: Sequence[Grant]) -> list[str]:
    """Warn of each campaign that is not in the store: its name may be misspelled."""
    from rareswitch.campaigns import list as list_campaigns
    from rareswitch.campaigns.access.roles import EVERYWHERE

    there = {EVERYWHERE, *list_campaigns(access.store)}
    missing = dict.fromkeys(one.campaign for one in grants if one.campaign not in there)
    return [f"the store has no campaign {name} yet" for name in missing]


def _link(
    account: Account, secret: str, url: str, hours: float, problems: Sequence[str] = ()
) -> Answer:
    link = f"{url.rstrip('/')}/invitations/{secret}"
    plain = account.plain | {"secret": secret, "link": link, "hours": hours}
    text = (
        f"account        {account.name}, {_roles(account.grants)}\n"
        f"link           {link}\n"
        f"it works once, within {hours:g} hours; {ONCE}"
    )
    return Answer(plain, text, problems)


def _changed(account: Account, problems: Sequence[str] = ()) -> Answer:
    text = f"{account.name}: {_state(account)}, {_roles(account.grants)}"
    return Answer(account.plain, text, problems)


def _state(account: Account) -> str:
    return "disabled" if account.disabled else "active" if account.accepted else "invited"


def _roles(grants: Sequence[Grant]) -> str:
    return ", ".join(map(str, grants)) or "no roles"


def _token_row(token: Token) -> dict[str, Any]:
    return token.plain | {"roles": _roles(token.grants)}
