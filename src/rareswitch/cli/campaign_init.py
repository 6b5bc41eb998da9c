"""`rareswitch campaign init`: lock a protocol."""

from pathlib import Path

import click

from rareswitch.cli.campaign_options import (
    answer,
    by_option,
    json_option,
    opened_store,
    store_option,
)

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("protocol", type=FILE)
@click.option(
    "--simulation",
    type=FILE,
    help="The report whose digest the protocol has, as plan.json of `rareswitch plan --out`.",
)
@by_option
@click.option("--reason", default="as agreed", help="Why; it is on record.")
@store_option
@json_option
def init(
    protocol: Path, simulation: Path | None, by: str, reason: str, store: str, as_json: bool
) -> None:
    """Lock a PROTOCOL, and put version 1 in force.

    The protocol is a TOML file; docs/campaigns.md explains its tables, and `rareswitch plan --out`
    writes one. From now on it changes by amendments only. The same protocol again changes nothing.

    \b
    Examples:
      rareswitch campaign init protocol.toml --by ana
      rareswitch campaign init plan/protocol.toml --simulation plan/plan.json --by ana
    """
    with opened_store(store, create=True) as opened:
        from rareswitch.campaigns import Campaign, Protocol

        agreed = Protocol.from_toml(protocol.read_text(encoding="utf-8"))
        report = None if simulation is None else simulation.read_bytes()
        made = Campaign.create(opened, agreed, actor=by, reason=reason, simulation=report)
        values = {
            "campaign": made.name,
            "store": opened.url,
            "protocol": agreed.digest,
            "version": made.version,
            "policy": made.state.in_force.digest,
        }
    answer(
        values,
        f"campaign       {made.name}, in {values['store']}\n"
        f"protocol       {agreed.digest}\n"
        f"in force       version {values['version']}, policy {values['policy']}",
        as_json=as_json,
    )
