"""The command line. Each command lives in a module of its own and imports what it needs lazily."""

import click

from rareswitch import __version__
from rareswitch.cli.experiments import plot, reproduce, run
from rareswitch.cli.learn import learn
from rareswitch.cli.plan import plan


@click.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    }
)
@click.version_option(__version__, prog_name="rareswitch")
def main() -> None:
    """Reinforcement learning when changing the policy is expensive.

    \b
    Start here:
      rareswitch learn                one learner on the paper's instance
      rareswitch reproduce --quick    every figure and claim of the paper, small
      rareswitch reproduce            the same at the paper's scale
      rareswitch plan --help          from a budget of switches to a schedule
    """


for command in (learn, plan, reproduce, run, plot):
    main.add_command(command)
