"""The paper's experiments: run, claims checked, and a report."""

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from rareswitch import drawing
from rareswitch.archive import write_bytes
from rareswitch.experiments import claims, figures, report
from rareswitch.experiments.results import Results, load_results
from rareswitch.experiments.run import Progress, run
from rareswitch.experiments.spec import Experiment
from rareswitch.experiments.verdict import Claim


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    executor: Executor,
    progress: Progress = lambda done, total, piece: None,
    command: str = "rareswitch reproduce",
) -> tuple[dict[str, Results], list[Claim]]:
    """Run experiments, check the paper's claims on them and write report.html."""
    results = run(experiments, out, executor, progress)
    checked = claims.check_claims(results)
    write_bytes(out / "report.html", report.render(results, checked, out, command).encode())
    return results, checked


def plot(folder: Path) -> None:
    """Draw the figure of a results folder again, from its saved runs alone."""
    drawing.save_figure(figures.draw(load_results(folder)), folder)
