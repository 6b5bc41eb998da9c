"""The output of a training: its setting with the reasons, and its results."""

import shutil
from typing import Any

import click

# The least number of episodes with an interval, as in `gym.evaluate`, whose import takes long.
LEAST_FOR_INTERVAL = 20
# With more versions, only the first and the last are shown.
MOST_VERSIONS = 40
INDENT = " " * 16


def line(name: str, text: str) -> None:
    """Print a name and its text, wrapped to the width of the terminal."""
    width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns))
    click.echo(click.wrap_text(text, width, f"{name:<16}", INDENT))


def show_picked(picked: dict[str, Any], settings: dict[str, Any]) -> None:
    """Print the setting of an environment, with the reason for each part."""
    reasons = picked["reasons"]
    low, high = picked["rewards"]
    line("environment", settings["env_id"])
    line("features", reasons["features"])
    line("actions", reasons["actions"])
    line("horizon", f"{picked['horizon']}: {reasons['horizon']}")
    line("rewards", f"{low:g} to {high:g}: {reasons['rewards']}")
    line("stages", f"{picked['stages']}: {reasons['stages']}")
    if "warm start" in reasons:
        line("warm start", reasons["warm start"])
    click.echo()


def show_summary(summary: dict[str, Any]) -> None:
    """Print the results of a training."""
    show_versions(summary["versions"])
    limit, switches = summary["deployment_limit"], summary["switches"]
    budget = "" if limit is None else f" of at most {limit}"
    mixtures = f", to mixtures of {summary['members']} members" if summary["members"] > 1 else ""
    line("switches", f"{switches}{budget}{mixtures}")
    line("while learning", f"return {summary['return']:.4g} per episode")
    show_returns(
        "recommended", summary["recommended"]["fresh"], summary["recommended"]["exact"], summary
    )
    if (best := summary["best"]) is not None:
        show_best(best)
    elif all(version["low"] is None for version in summary["versions"]):
        line("best version", f"none: no version has {LEAST_FOR_INTERVAL} episodes")
    if summary["optimum"] is None and summary["random"] is not None:
        line("random play", f"return {summary['random']:.4g} on the same fresh episodes")
    if summary["missed"] is not None:
        line(
            "below optimum",
            f"{summary['missed']:.4g} in {summary['episodes']} episodes, luck included",
        )
    if summary["sharing"] is not None:
        line("stages", summary["sharing"]["says"])
    for note in summary["notes"]:
        line("note", note)


def show_best(best: dict[str, Any]) -> None:
    """Print the best version beside the recommended policy."""
    shown = f"version {best['version']}"
    if best["fresh"] is not None:
        shown += f", return {_interval(best['fresh'])} on the same fresh episodes"
    line("best version", shown)


def _interval(mean: dict[str, Any]) -> str:
    """Return a mean with its 95% interval, or with a dash if there is no interval."""
    if mean["low"] is None:
        return f"{mean['mean']:.4g} [–]"
    return f"{mean['mean']:.4g} [{mean['low']:.4g}, {mean['high']:.4g}]"


def show_returns(
    name: str, fresh: dict[str, Any] | None, exact: float | None, known: dict[str, Any]
) -> None:
    """Print the return of a policy: on fresh episodes, and exactly if it is known."""
    if fresh is not None:
        line(name, f"return {_interval(fresh)} on {fresh['episodes']} fresh episodes")
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
        click.echo(
            f"{version['version']:7}  {version['first']:12}  {version['episodes']:8}  "
            f"{_interval(version)}"
        )
    if any(version["low"] is None for version in shown):
        click.echo(f"[–] no interval: fewer than {LEAST_FOR_INTERVAL} episodes")
    click.echo()
