"""The report: one HTML file that opens from disk, on a phone and in print."""

from pathlib import Path

import rareswitch
from rareswitch.campaigns.proof.export import pictures
from rareswitch.campaigns.proof.export.cohort_table import CohortRow
from rareswitch.campaigns.proof.export.course import Course
from rareswitch.campaigns.proof.export.facts import facts_of
from rareswitch.campaigns.proof.export.moment import Moment
from rareswitch.support.pages import template


def page(moment: Moment, rows: list[CohortRow], course: Course) -> str:
    """Return the report on a moment of a campaign."""
    return template(Path(__file__).parent / "report.html").render(
        facts=facts_of(moment, rows),
        state=moment.state,
        in_force=moment.state.in_force,
        waiting=moment.state.waiting,
        returns=pictures.returns_picture(rows),
        course=pictures.course_picture(rows, course),
        triggers=pictures.triggers_picture(rows),
        software=rareswitch.__version__,
    )
