"""The decorator that makes a command of `rareswitch campaign` from a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import rareswitch as rs
from rareswitch.cli.allow import allow_option
from rareswitch.cli.experiments import need

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign, Store

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
TRIAL, REHEARSAL = "sqlite:///campaign.db", "sqlite:///rehearsal.db"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
STORE_HELP = "Store: sqlite:///FILE, or postgresql://USER@HOST/DATABASE."
by_option: Option = click.option(
    "--by",
    required=True,
    envvar="RARESWITCH_ACTOR",
    show_envvar=True,
    metavar="NAME",
    help="Your name, for the ledger.",
)
reason_option: Option = click.option("--reason", required=True, help="Your reason, for the ledger.")
store_option: Option = click.option(
    "--store",
    default=TRIAL,
    envvar="RARESWITCH_STORE",
    show_envvar=True,
    metavar="URL",
    help=STORE_HELP,
)
# RARESWITCH_STORE names the trial's store; a rehearsal must not use it by default.
rehearsal_store_option: Option = click.option(
    "--store", default=REHEARSAL, metavar="URL", help=STORE_HELP
)
name_option: Option = click.option(
    "--campaign", "name", metavar="NAME", help="Campaign.  [default: the only one in the store]"
)
json_option: Option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Answer(NamedTuple):
    """Plain values for JSON and a text for people; `problems` go to standard error.

    Without `ok` the command ends with status 1.
    """

    plain: Any
    text: str
    problems: Sequence[str] = ()
    ok: bool = True


def verb(
    *examples: str,
    about: str = "campaign",
    name: str | None = None,
    access: str = "write",
    signed: bool = False,
    rehearsal: bool = False,
    code: bool = False,
    stored: Option = store_option,
    group: str = "campaign",
) -> Callable[[Callable[..., Answer | None]], click.Command]:
    """Make a command from a function.

    `about` is the function's first argument: a "campaign", a "store", an "address" or "nothing".
    `access` to the store is read, write or create. `signed` adds --by and --reason, `code` adds
    --allow, and `rehearsal` allows the command in a rehearsal. `group` is the word before the
    command's name in its examples. A function that returns None has printed its answer.
    """

    def make(function: Callable[..., Answer | None]) -> click.Command:
        @wraps(function)
        def run(*, as_json: bool, **given: Any) -> None:
            need("campaigns")
            with plain_errors(), ExitStack() as stack:
                subject: Any = given.pop("store", "")
                if subject.startswith("postgres"):
                    need("postgres")
                if about in ("store", "campaign"):
                    opened = rs.campaigns.open_store(
                        subject, create=access == "create", read_only=access == "read"
                    )
                    subject = stack.enter_context(opened)
                if about == "campaign":
                    allow = given.pop("allow", ())
                    subject = chosen(subject, given.pop("name"), allow, rehearsal=rehearsal)
                answer = function(**given) if about == "nothing" else function(subject, **given)
            if answer is not None:
                show(answer, as_json=as_json)

        options = [by_option, reason_option] if signed else []
        options += [allow_option] if code else []
        options += [] if about == "nothing" else [stored]
        options += [name_option] if about == "campaign" else []
        # The options of the function itself come first in its help.
        own = run.__dict__.pop("__click_params__", [])
        command: Any = run
        for option in reversed([*options, json_option]):
            command = option(command)
        command.__click_params__ += own
        shown = "".join(f"\n  rareswitch {group} {example}" for example in examples)
        text = f"{cleandoc(function.__doc__ or '')}\n\n\b\nExamples:{shown}"
        return click.command(name or function.__name__, help=text)(command)

    return make


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn an error of a campaign into one line, and invalid input into a usage error."""
    from rareswitch.campaigns import CampaignError, UnreadableError

    try:
        yield
    except UnreadableError as error:
        raise click.UsageError(f"not a report: {error}; nothing was recorded") from None
    except CampaignError as error:
        raise click.ClickException(str(error)) from None
    except (TypeError, ValueError, FileNotFoundError, FileExistsError) as error:
        raise click.UsageError(str(error)) from None


def chosen(store: Store, name: str | None, allow: Sequence[str], *, rehearsal: bool) -> Campaign:
    """Return the named campaign, or the only campaign of a store."""
    if name is None:
        names = rs.campaigns.list(store)
        if len(names) != 1:
            has = ", ".join(names) or "none"
            raise click.UsageError(f"--campaign must name a campaign of the store; it has {has}")
        name = names[0]
    return rs.campaigns.Campaign(store, name, allow=allow, rehearsal=rehearsal)


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer as JSON or text; end with status 1 unless it is ok."""
    if not as_json:
        for problem in answer.problems:
            click.echo(problem, err=True)
    if as_json or answer.text:
        click.echo(json.dumps(answer.plain, indent=2) if as_json else answer.text)
    if not answer.ok:
        raise click.exceptions.Exit(1)


def wants_json() -> bool:
    """Return whether the running command was called with --json."""
    return bool(click.get_current_context().params["as_json"])
