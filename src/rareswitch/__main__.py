"""`python -m rareswitch`: the same as the `rareswitch` command."""

from rareswitch.cli import main

main(prog_name="rareswitch")
