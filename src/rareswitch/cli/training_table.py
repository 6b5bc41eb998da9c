"""What is printed of a training: what was picked and why, and what came of it."""

import shutil
from typing import Any

import click

# Of more versions, the first and the last are shown.
MOST_VERSIONS = 40
INDENT = " " * 16


def line(name: str, text: str) -> None:
    """Print a name and what is said of it, wrapped to the width of the terminal."""
    width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns))
    click.echo(click.wrap_text(text, width, f"{name:<16}", INDENT))


def show_picked(picked: dict[str, Any], settings: dict[str, Any]) -> None:
    """Print how a world is learnt, with the reason for each pick."""
    reasons = picked["reasons"]
    low, high = picked["rewards"]
    line("environment", settings["env_id"])
    line("features", reasons["features"])
    line("actions", reasons["actions"])
    line("horizon", f"{picked['horizon']}: {reasons['horizon']}")
    line("rewards", f"{low:g} to {high:g}: {reasons['rewards']}")
    line("stages", f"{picked['stages']}: {reasons['stages']}")
    click.echo()


def show_summary(summary: dict[str, Any]) -> None:
    """Print what came of a training."""
    show_versions(summary["versions"])
    limit, switches = summary["deployment_limit"], summary["switches"]
    budget = "" if limit is None else f" of at most {limit}"
    mixtures = f", to mixtures of {summary['members']} members" if summary["members"] > 1 else ""
    line("switches", f"{switches}{budget}{mixtures}")
    line("while learning", f"return {summary['return']:.4g} per episode")
    show_returns(
        "recommended", summary["recommended"]["fresh"], summary["recommended"]["exact"], summary
    )
    if summary["regret"] is not None:
        line("regret", f"{summary['regret']:.4g} in {summary['episodes']} episodes")
    if summary["sharing"] is not None:
        line("stages", summary["sharing"]["says"])
    for warning in summary["warnings"]:
        line("note", warning)


def show_returns(
    name: str, fresh: dict[str, Any] | None, exact: float | None, known: dict[str, Any]
) -> None:
    """Print what a policy earns: on fresh episodes, and beside what is known exactly."""
    if fresh is not None:
        interval = f"{fresh['mean']:.4g} [{fresh['low']:.4g}, {fresh['high']:.4g}]"
        line(name, f"return {interval} on {fresh['episodes']} fresh episodes")
    if exact is not None:
        beside = f"the optimum is {known['optimum']:.4g}, random play {known['random']:.4g}"
        line("exactly", f"{exact:.4g}; {beside}")


def show_versions(versions: list[dict[str, Any]]) -> None:
    """Print the table of returns by version."""
    click.echo("version  from episode  episodes  return [95%]")
    half = MOST_VERSIONS // 2
    shown = versions if len(versions) <= MOST_VERSIONS else [*versions[:half], *versions[-half:]]
    for place, version in enumerate(shown):
        if len(shown) < len(versions) and place == half:
            click.echo(f"      …  {len(versions) - len(shown)} more")
        interval = ""
        if version["low"] is not None:
            interval = f" [{version['low']:.4g}, {version['high']:.4g}]"
        click.echo(
            f"{version['version']:7}  {version['first']:12}  {version['episodes']:8}  "
            f"{version['mean']:.4g}{interval}"
        )
    click.echo()
