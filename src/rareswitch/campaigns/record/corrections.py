"""Recording an episode anew: what was recorded stays, and later fits use the last of its kind."""

import sqlalchemy as sa

from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.cohorts import Cohorts, counted_again
from rareswitch.campaigns.record.ledger import enter
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.record.people import people_of
from rareswitch.campaigns.record.recording import Recorded
from rareswitch.campaigns.record.task_check import check_of_task
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping.looking import look
from rareswitch.campaigns.store.tables import episodes


def correct(
    pen: Pen, state: State, episode_id: str, report: Report | None, *, now: str, **signed: str
) -> Recorded:
    """Append the next revision of an episode; None withdraws it."""
    connection, campaign = pen.connection, pen.campaign
    last = connection.execute(
        sa.select(episodes)
        .where(episodes.c.campaign == campaign, episodes.c.episode_id == episode_id)
        .order_by(episodes.c.revision.desc())
        .limit(1)
    ).first()
    if last is None:
        raise NotAllowedError(f"episode {episode_id} is not recorded")
    if report is not None:
        check_of_task([report], state.protocol)
        if report.version not in (None, last.version):
            raise NotAllowedError(
                f"version {last.version} acted in episode {episode_id}, which no correction "
                f"changes; got {report.version}"
            )
        if report.member not in (None, last.member):
            raise NotAllowedError(
                f"member {last.member} acted in episode {episode_id}, which no correction changes; "
                f"got {report.member}"
            )
    cohorts = Cohorts(pen, state)
    seq = pen.add(
        "episodes",
        episode_id=episode_id,
        revision=last.revision + 1,
        version=last.version,
        member=last.member,
        assigned=last.assigned,
        late=last.late,
        learn=last.learn,
        total=0.0 if report is None else report.total,
        claims="{}" if report is None else canonical(report.claims),
        received=now,
        digest="" if report is None else report.digest,
        body=None if report is None else report.body,
    )
    what = {"episode_id": episode_id, "seq": seq, "corrects": last.seq}
    enter(pen, "corrected", what | {"withdrawn": report is None}, now=now, **signed)
    pen.write()
    cohorts[last.version] = counted_again(
        connection, campaign, last.version, horizon=state.protocol.task.horizon
    )
    cohorts.write()
    if report is not None:
        people = people_of(pen, episode_id)
        people.correct(episode_id, report.participant)
        people.write()
    if not state.stopped:
        look(pen, state.protocol, cohorts, version=last.version, now=now)
    return Recorded(seq, last.version, last.member, last.late, new=True)
