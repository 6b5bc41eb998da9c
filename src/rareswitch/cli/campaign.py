"""`rareswitch campaign`: run a trial, a recommender or a fleet under a protocol."""

import click

from rareswitch.cli import campaign_decide as decide
from rareswitch.cli import campaign_field as field
from rareswitch.cli import campaign_look as look
from rareswitch.cli import campaign_prove as prove
from rareswitch.cli import campaign_setup as setup

SECTIONS = {
    "Set up": (setup.init, setup.simulate, setup.amend, setup.protocol),
    "Field": (
        field.assign, field.act, field.record, field.import_, field.correct, field.withdraw,
        field.cancel, field.forget, field.policy,
    ),
    "Decide": (
        decide.learn, decide.propose, decide.approve, decide.reject, decide.comment,
        decide.rollback, decide.countersign, decide.stop, decide.reopen,
    ),
    "Look": (
        look.list_, look.status, look.analyse, look.ledger, look.candidates, look.episodes,
        look.open_, look.refusals, look.sites, look.head,
    ),
    "Prove and keep": (
        prove.verify, prove.verifier, prove.export, prove.interim, prove.backup, prove.restore,
        prove.migrate,
    ),
}  # fmt: skip


class Sections(click.Group):
    """A group whose help lists its commands by section."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                rows = [(f"{one.name:<{width}}", one.get_short_help_str(60)) for one in commands]
                formatter.write_dl(rows)


@click.group(cls=Sections)
def campaign() -> None:
    """Run a study under a protocol and keep a verifiable record.

    \b
    From a protocol to the final report:
      rareswitch campaign init protocol.toml --by ana
      rareswitch campaign assign site-3:0042
      rareswitch campaign record report.json
      rareswitch campaign learn
      rareswitch campaign status
      rareswitch campaign approve 7 --by ben --reason "reviewed on 12 May"
      rareswitch campaign verify
      rareswitch campaign export final --by ana --reason "final report"
    """


for commands in SECTIONS.values():
    for command in commands:
        campaign.add_command(command)
