"""`rareswitch campaign`: run a trial, a recommender or a fleet under a protocol, on record."""

import click

from rareswitch.cli.campaign_decide import amend, approve, learn, propose, reject, rollback, stop
from rareswitch.cli.campaign_init import init
from rareswitch.cli.campaign_prove import backup, export, restore, verify
from rareswitch.cli.campaign_record import (
    assign,
    correct,
    forget,
    import_,
    policy,
    record,
    withdraw,
)
from rareswitch.cli.campaign_simulate import simulate
from rareswitch.cli.campaign_status import ledger, status


@click.group()
def campaign() -> None:
    """Run a campaign: spend a switch budget in the real world, and prove it.

    \b
    From a plan to the final report:
      rareswitch campaign init protocol.toml --by ana
      rareswitch campaign assign site-3:0042
      rareswitch campaign record report.json
      rareswitch campaign learn
      rareswitch campaign status
      rareswitch campaign approve 7 --by ben --reason "reviewed on 12 May"
      rareswitch campaign verify
      rareswitch campaign export final --by ana --reason "final report"
    """


for command in (
    init, status, ledger, assign, record, import_, correct, withdraw, forget, policy, learn,
    propose, approve, reject, rollback, amend, stop, verify, export, backup, restore,
    simulate,
):  # fmt: skip
    campaign.add_command(command)
