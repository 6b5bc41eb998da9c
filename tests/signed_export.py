"""A small campaign whose decisions are signed by passkeys and passwords, of every kind."""

from pathlib import Path
from typing import Any

import numpy as np

from authenticator import SoftwarePasskey, by_password
from rareswitch.campaigns import Approval, Campaign, Learning
from small_export import opened, protocol_of, refuse_until_stopped

ANA, BEN = SoftwarePasskey(1), SoftwarePasskey(2, algorithm="EdDSA")
CYD = SoftwarePasskey(3)
KEYS = {"ana": ANA, "ben": BEN, "cyd": CYD}
SIGNED = Approval(
    by="second-person", quorum=2, expires_after=25, signature="password", countersign_rollbacks=True
)


def sign(campaign: Campaign, decision: str, *args: Any, by: str, **more: Any) -> Any:
    """Decide as a person who signs with a passkey, or with a password if there is none."""
    number = args[0] if args and isinstance(args[0], int) else None
    told = {"changes": args[0]} if args and number is None else {}
    asked = campaign.to_sign(decision, number, **told, **more)
    signature = KEYS[by].sign(asked) if by in KEYS else by_password(asked)
    reason = f"{by} says so"
    return getattr(campaign, decision)(*args, by=by, reason=reason, signature=signature, **more)


def signed_campaign(path: Path) -> Campaign:
    """Return a campaign with a signature on each kind of entry that can carry one."""
    campaign = opened(path, protocol_of(approval=SIGNED))
    refuse_until_stopped(campaign)
    reopening = sign(campaign, "reopen", by="ana").number
    sign(campaign, "comment", reopening, by="cyd")
    sign(campaign, "approve", reopening, by="ben")
    rng, done = np.random.default_rng(3), list[str]()
    with Learning(campaign) as learning:
        for k in range(110):
            campaign.record(f"p{k}", _episode(rng))
            if (waiting := campaign.state.waiting) is None:
                learning.step()
                waiting = campaign.state.waiting
            if waiting is None:
                continue
            if "commented" not in done:
                sign(campaign, "comment", waiting.number, by="dora", reviewed=True)
                done.append("commented")
            if len(campaign.state.versions) == 2 and "rejected" not in done:
                sign(campaign, "reject", waiting.number, by="cyd")
                done.append("rejected")
            elif len(campaign.state.versions) == 2 and "expired" not in done:
                sign(campaign, "approve", waiting.number, by="ana")
                done.append("expired")  # the second signature never comes
            elif campaign.state.candidate(waiting.number).approvals:
                continue
            else:
                sign(campaign, "approve", waiting.number, by="ben")
                sign(campaign, "approve", waiting.number, by="eve")
            if len(campaign.state.versions) == 3:
                break
        rollback = sign(campaign, "rollback", 2, by="ana")
        sign(campaign, "countersign", rollback.entry.number, by="ben")
        amendment = sign(campaign, "amend", {"budget": {"deployments": 6}}, by="ana")
        sign(campaign, "approve", amendment.number, by="ben")
        sign(campaign, "approve", amendment.number, by="cyd")
    sign(campaign, "stop", by="cyd")
    return campaign


def _episode(rng: np.random.Generator) -> Any:
    import rareswitch as rs

    rows = np.eye(3)
    chosen = rng.integers(3, size=2)
    return rs.Episode(features=rows[chosen], rewards=rng.random(2), next_features=[rows])
