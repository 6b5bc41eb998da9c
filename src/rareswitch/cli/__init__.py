"""The command line. Each command has its own module and imports heavy libraries lazily."""

import errno
import os
import sys
from typing import Any

import click

from rareswitch import __version__
from rareswitch.cli.access import access
from rareswitch.cli.campaign import campaign
from rareswitch.cli.compare import compare
from rareswitch.cli.evaluate import evaluate
from rareswitch.cli.experiments import plot, reproduce, run
from rareswitch.cli.learn import learn
from rareswitch.cli.plan import plan
from rareswitch.cli.qualify import qualify
from rareswitch.cli.serve import serve
from rareswitch.cli.train import train
from rareswitch.support.imports import modules_here


class Program(click.Group):
    """Print errors of the machine as one line, on any console."""

    def main(self, *args: Any, **options: Any) -> Any:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the parent process
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
            stream = getattr(sys, name)
            if hasattr(stream, "reconfigure"):  # a console without η shows ? instead
                stream.reconfigure(errors="replace")
        return super().main(*args, **options)

    def invoke(self, context: click.Context) -> Any:
        try:
            with modules_here():
                return super().invoke(context)
        except MemoryError as error:
            raise click.ClickException(f"not enough memory ({error})") from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror or error}") from None


@click.group(
    cls=Program,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(__version__, prog_name="rareswitch")
def main() -> None:
    """Reinforcement learning when changing the policy is expensive.

    \b
    Start here:
      rareswitch train --help         learn a policy in a Gymnasium environment
      rareswitch learn                run one learner in the paper's world
      rareswitch reproduce --quick    check the paper's figures and claims at a small size
      rareswitch reproduce            do the same at the paper's scale
      rareswitch plan --help          choose a schedule for a switch budget
      rareswitch campaign --help      run a study with real participants
      rareswitch serve --demo         serve a study with three simulated sites
      rareswitch access --help        manage the accounts and tokens of a store
    """


COMMANDS = (
    learn, train, evaluate, compare, plan, campaign, serve, access, qualify, reproduce, run, plot,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)
