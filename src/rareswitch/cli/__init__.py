"""The command line. Each command lives in a module of its own and imports what it needs lazily."""

import click

from rareswitch import __version__
from rareswitch.cli.learn import learn


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rareswitch")
def main() -> None:
    r"""Reinforcement learning when changing the policy is expensive.

    \b
    Start here:
      rareswitch learn                          one learner on the paper's instance
      rareswitch learn --schedule batch         the same with 50 batches
      rareswitch learn --help                   everything that can be chosen
    """


main.add_command(learn)
