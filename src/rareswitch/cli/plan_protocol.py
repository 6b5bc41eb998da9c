"""The protocol of a plan: from the recommended rule to what a campaign can be run by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rareswitch.campaigns import Protocol
    from rareswitch.gym.setting import Setting
    from rareswitch.planning.plan import Plan

HEADER = """\
# A protocol for `rareswitch campaign`, as `rareswitch plan` recommends it. It is complete, but read
# it before it is locked: afterwards it changes by amendments only, each with a reason on record.
#
# name          what the campaign is called
# [task]        actions = ["…", "…"] may name the actions, and then no more are ever offered
# [recipe]      seed draws which member of a mixture gets an episode: take one of your own
# [budget]      deployments after the first; a rollback to an earlier version is always allowed
# [approval]    by = "schedule" deploys what is due at once; "second-person" waits for a signature
# [intake]      late = "record" keeps episodes of earlier versions out of later fits; with
#               assigned = true only episodes that were assigned are taken
# [[stopping]]  none yet; for instance rule = "harm", below = 0.2 stops when a version surely
#               returns less than that
# [simulation]  the digest of plan.json, the report of this plan, which `init` wants to see too:
#               rareswitch campaign init protocol.toml --simulation plan.json --by NAME

"""


def protocol_of_plan(
    made: Plan, *, name: str, budget: int | None, report: bytes, setting: Setting | None = None
) -> Protocol:
    """Return the protocol of a plan's recommendation, with the digest of its report."""
    from rareswitch.campaigns import FeatureName, Protocol

    limit = made.recommended.candidate.deployment_limit
    features = None
    if setting is not None:
        features = FeatureName(name=setting.features.name, digest=setting.features.digest)
    return Protocol(
        name=name,
        task=made.task,
        schedule=made.recommended.candidate.schedule,
        budget=limit if budget is None else budget,
        recipe=made.recipe,
        features=features,
    ).with_simulation(report)


def write_protocol(
    made: Plan, out: Path, *, budget: int | None, report: bytes, setting: Setting | None
) -> str | None:
    """Write protocol.toml beside a plan; return why not, if that cannot be."""
    from rareswitch.support.archive import write_bytes
    from rareswitch.support.extras import require

    try:
        require("campaigns")
        from rareswitch.campaigns import Protocol

        protocol = protocol_of_plan(
            made, name=campaign_name(out), budget=budget, report=report, setting=setting
        )
        text = HEADER + protocol.to_toml()
        if Protocol.from_toml(text) != protocol:
            raise ValueError("a rule of your own must be a dataclass of plain values")
    except (ImportError, TypeError, ValueError) as error:
        return f"no protocol.toml is written: {error}"
    write_bytes(out / "protocol.toml", text.encode())
    return None


def campaign_name(folder: Path) -> str:
    """Return what the campaign of a folder is called: as the folder, if that is a name.

    >>> campaign_name(Path("trials/dose finding"))
    'dose-finding'
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder.resolve().name).strip("-")
    return name[:100] or "campaign"
