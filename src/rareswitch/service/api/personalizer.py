"""Endpoints with the shapes of Azure Personalizer 1.0, for one-step decisions.

A client of Personalizer keeps its calls: change its endpoint to `…/v1/campaigns/NAME` and its key
to a token. The names are Personalizer's.
"""

import secrets
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.ranking import activate, rank, reward
from rareswitch.service.api.field import own_id
from rareswitch.service.endpoint import Call, Endpoints, Name
from rareswitch.service.problems import Problem

personalizer = Endpoints()
ROOT = "/v1/campaigns/{campaign}/personalizer/v1.0"


class RankableAction(msgspec.Struct):
    """An action; its features come from the protocol's feature map."""

    id: Name
    features: list[dict[str, Any]] = []


class RankRequest(msgspec.Struct):
    """Features of the context, and the actions."""

    actions: list[RankableAction]
    contextFeatures: list[dict[str, Any]] = []  # noqa: N815
    excludedActions: list[Name] = []  # noqa: N815
    eventId: Name | None = None  # noqa: N815
    deferActivation: bool = False  # noqa: N815


class RankedAction(msgspec.Struct):
    """An action and its probability."""

    id: str
    probability: float


class RankResponse(msgspec.Struct):
    """The ranking, and the action to show."""

    ranking: list[RankedAction]
    eventId: str  # noqa: N815
    rewardActionId: str  # noqa: N815


class RewardRequest(msgspec.Struct):
    """A reward from 0 to 1."""

    value: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


@personalizer.post(f"{ROOT}/rank", action="assign", body=RankRequest, answers={201: RankResponse})
def rank_actions(campaign: Campaign, body: RankRequest, call: Call) -> RankResponse:
    """Rank the actions of the protocol for a context."""
    site = call.principal.site(campaign.name)
    drawn = f"{site}:{secrets.token_hex(16)}" if site else secrets.token_hex(16)
    name = own_id(call, campaign, body.eventId or drawn)
    offered, known = {one.id for one in body.actions}, {*campaign.terms.actions}
    if body.excludedActions:
        raise Problem(
            422, "excludedActions must be empty: every action of the protocol is possible",
            code="invalid", field="excludedActions",
        )  # fmt: skip
    if offered != known or len(body.actions) != len(known):
        raise Problem(
            422, f"actions must be those of the protocol: {', '.join(sorted(known))}",
            code="invalid", field="actions",
        )  # fmt: skip
    observation: dict[str, Any] = {}
    for table in body.contextFeatures:
        _merge(observation, table)
    found = rank(campaign, name, observation, active=not body.deferActivation)
    listed = [RankedAction(action, chance) for action, chance in found.ranking]
    return RankResponse(listed, name, found.action)


def _merge(observation: dict[str, Any], table: Mapping[str, Any]) -> None:
    """Add the features of a table; a nested table is a namespace, and its name is ignored."""
    for name, value in table.items():
        if isinstance(value, Mapping) and all(not isinstance(x, Mapping) for x in value.values()):
            _merge(observation, value)
        elif name in observation:
            raise Problem(
                422, "contextFeatures must have each name once", code="invalid",
                field="contextFeatures",
            )  # fmt: skip
        else:
            observation[name] = value


@personalizer.post(
    f"{ROOT}/events/{{event_id}}/reward", action="report", body=RewardRequest, answers={204: None}
)
def reward_event(campaign: Campaign, event_id: str, body: RewardRequest, call: Call) -> None:
    """Record the reward of a ranked event."""
    reward(campaign, own_id(call, campaign, event_id), body.value)


@personalizer.post(f"{ROOT}/events/{{event_id}}/activate", action="report", answers={204: None})
def activate_event(campaign: Campaign, event_id: str, call: Call) -> None:
    """Report that the action of an event was shown."""
    activate(campaign, own_id(call, campaign, event_id))
