"""What the commands of a campaign share: which one it is, who signs, and how they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.experiments import need

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign, Store

Command = Callable[..., None]

store_option: Callable[[Command], Command] = click.option(
    "--store",
    default="sqlite:///campaign.db",
    envvar="RARESWITCH_STORE",
    show_envvar=True,
    metavar="URL",
    help="sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE.",
)
name_option: Callable[[Command], Command] = click.option(
    "--campaign", "name", metavar="NAME", help="Its name.  [default: the only one of the store]"
)
by_option: Callable[[Command], Command] = click.option(
    "--by",
    required=True,
    envvar="RARESWITCH_ACTOR",
    show_envvar=True,
    metavar="NAME",
    help="Who does it; it is on record.",
)
json_option: Callable[[Command], Command] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON."
)


def campaign_options(command: Command) -> Command:
    """Let a command be about one campaign of a store."""
    return store_option(name_option(json_option(command)))


def signed_options(command: Command) -> Command:
    """Let a command be signed: who, and why."""
    why = click.option("--reason", required=True, help="Why; it is on record.")
    return by_option(why(command))


@contextmanager
def refused_plainly() -> Iterator[None]:
    """Turn what a campaign refuses into one line, and bad input into a usage error."""
    from rareswitch.campaigns import CampaignError

    try:
        yield
    except CampaignError as error:
        raise click.ClickException(str(error)) from None
    except (TypeError, ValueError, FileNotFoundError, FileExistsError) as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def opened_store(url: str, *, create: bool = False) -> Iterator[Store]:
    """Give an open store."""
    need("campaigns")
    if url.startswith("postgres"):
        need("postgres")
    with refused_plainly():
        from rareswitch.campaigns import open_store

        with open_store(url, create=create) as store:
            yield store


@contextmanager
def opened_campaign(url: str, name: str | None) -> Iterator[Campaign]:
    """Give a campaign of a store: the one that is named, or the only one."""
    with opened_store(url) as store:
        from rareswitch.campaigns import Campaign
        from rareswitch.campaigns.campaign import campaigns_of

        if name is None:
            names = campaigns_of(store)
            if len(names) != 1:
                listed = ", ".join(names) or "none"
                raise click.UsageError(f"--campaign must name one of the store's; it has {listed}")
            name = names[0]
        yield Campaign(store, name)


def answer(values: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print plain values as JSON, or a line for people."""
    click.echo(json.dumps(values, indent=2) if as_json else text)
