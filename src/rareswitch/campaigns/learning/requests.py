"""Requests to the learner: a person asks for a proposal, and the learner's process fits it.

A fit must not run in the service's process, so the request waits in the store.
"""

from typing import Any

import sqlalchemy as sa

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import CampaignError, NotAllowedError, UnavailableError
from rareswitch.campaigns.learning.learning import Learning
from rareswitch.campaigns.rulebook.names import checked_person, checked_text
from rareswitch.campaigns.store.tables import proposals


def ask_for_proposal(
    campaign: Campaign, *, by: str, reason: str, early: bool = False
) -> dict[str, Any]:
    """Ask the learner to propose a policy on behalf of a person; return the request."""
    asked: dict[str, Any] = {
        "by": checked_person("by", by),
        "reason": checked_text("reason", reason),
        "early": early,
        "asked": campaign.clock(),
        "outcome": None,
    }
    name = campaign.name
    with campaign.store.writing(name) as connection:
        state = campaign.state_at(connection)
        campaign.check_rehearsal(state)
        if state.stopped:
            raise NotAllowedError("the campaign has stopped")
        if state.waiting is not None:
            raise NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
        waiting = connection.execute(_request_of(name)).first()
        if waiting is not None and waiting.outcome is None:
            raise NotAllowedError(f"{waiting.by} has asked for a proposal already")
        connection.execute(proposals.delete().where(proposals.c.campaign == name))
        connection.execute(proposals.insert().values(campaign=name, **asked))
    return asked


def request_of(campaign: Campaign) -> dict[str, Any] | None:
    """Return the last request and its outcome, if there is one."""
    with campaign.store.reading() as connection:
        found = connection.execute(_request_of(campaign.name)).mappings().first()
    return None if found is None else {name: found[name] for name in found if name != "campaign"}


def answer_request(learning: Learning) -> bool:
    """Carry out the pending request and store its outcome; return whether there was a request.

    A request stays pending if the store is unavailable or another process is the learner.
    """
    campaign = learning.campaign
    asked = request_of(campaign)
    if asked is None or asked["outcome"] is not None:
        return False
    learning.keep_lock()
    signed = {"by": asked["by"], "reason": asked["reason"]}
    try:
        found = learning.propose_early(**signed) if asked["early"] else learning.step(**signed)
        outcome = "no policy is due" if found is None else f"candidate {found.number}"
    except UnavailableError:
        raise
    except (CampaignError, TypeError, ValueError) as error:
        outcome = f"refused: {error}"
    mine = (proposals.c.campaign == campaign.name, proposals.c.asked == asked["asked"])
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(proposals.update().where(*mine).values(outcome=outcome))
    return True


def _request_of(name: str) -> sa.Select[Any]:
    return sa.select(proposals).where(proposals.c.campaign == name)
