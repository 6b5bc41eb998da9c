"""`rareswitch serve`: serve campaigns over HTTP."""

from __future__ import annotations

import os
import shlex

import click

from rareswitch.cli.allow import allow_option
from rareswitch.cli.campaign_verb import plain_errors, store_option
from rareswitch.cli.experiments import need


@click.command()
@store_option
@click.option("--bind", default="127.0.0.1:8000", metavar="HOST:PORT", help="Address to listen on.")
@click.option(
    "--public-url",
    metavar="URL",
    help="Address for browsers, such as https://trial.example.org behind a proxy.  [default: "
    "http://HOST:PORT]",
)
@click.option(
    "--administrator",
    default="administrator",
    metavar="NAME",
    help="First account, if the store has none yet.",
)
@click.option("--demo", is_flag=True, help="Serve a study with three simulated sites.")
@click.option("--learner/--no-learner", default=True, help="Run a learner in a second process.")
@click.option(
    "--rehearsal", is_flag=True, help="Record to rehearsals; new campaigns are rehearsals."
)
@click.option(
    "--rate",
    type=click.FloatRange(1.0),
    default=2000.0,
    help="Most requests per second of one token or account.",
)
@click.option(
    "--webhook",
    "webhooks",
    multiple=True,
    metavar="URL",
    help="Post an event when a proposal waits for a signature, a version comes into force, a "
    "campaign stops or reopens, refusals rise or the learner is silent. "
    "RARESWITCH_WEBHOOK_SECRET signs it. May be repeated.",
)
@click.option(
    "--notify-command",
    "commands",
    multiple=True,
    metavar="COMMAND",
    help="Run a command for each such event, with the event as JSON on its standard input. May be "
    "repeated.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of the log."
)
@allow_option
def serve(
    store: str,
    bind: str,
    public_url: str | None,
    administrator: str,
    demo: bool,
    learner: bool,
    rehearsal: bool,
    rate: float,
    webhooks: tuple[str, ...],
    commands: tuple[str, ...],
    log_format: str,
    allow: tuple[str, ...],
) -> None:
    """Serve the campaigns of a store over HTTP.

    Sites get treatments and report, approvers sign, and every person with a role sees the state of
    the study. A missing store is created, and the output says that it is empty. The first start
    prints a link, once: the first administrator sets a password with it and invites others. On
    Ctrl-C or SIGTERM the service answers all accepted requests and stops.

    \b
    Examples:
      rareswitch serve --demo
      rareswitch serve --store sqlite:///campaign.db
      rareswitch serve --store postgresql://ana@db/trial --public-url https://trial.example.org
    """
    need("service")
    if store.startswith("postgres"):
        need("postgres")
    from rareswitch.service.app import Settings
    from rareswitch.service.receivers import receivers_of
    from rareswitch.service.server import ServerSettings, serve

    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.UsageError(f"--bind must be HOST:PORT, such as 127.0.0.1:8000; got {bind!r}")
    address = public_url or f"http://{'localhost' if host == '127.0.0.1' else host}:{port}"
    if not address.startswith(("http://", "https://")):
        raise click.UsageError(f"--public-url must begin with https:// or http://; got {address!r}")
    with plain_errors():
        receivers = receivers_of(webhooks, [shlex.split(one) for one in commands], os.environ)
    settings = ServerSettings(
        store=store,
        receivers=tuple(receivers),
        host=host.strip("[]"),
        port=int(port),
        learner=learner,
        log_format=log_format,
        service=Settings(public_url=address, allow=allow, rehearsal=rehearsal or demo, rate=rate),
    )
    with plain_errors():
        if demo:
            from rareswitch.service.demo import serve_demo

            serve_demo(settings, tell=click.echo)
        else:
            serve(settings, administrator=administrator, tell=click.echo)
