"""The protocol of a plan: the recommended rule as the protocol of a campaign."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rareswitch.campaigns import Protocol
    from rareswitch.gym.setting import Setting
    from rareswitch.planning.plan import Plan

HEADER = """\
# A protocol for `rareswitch campaign`, recommended by `rareswitch plan`. It is complete. Read it
# before you lock it: afterwards only amendments change it, each with a recorded reason.
# `rareswitch campaign protocol validate FILE` checks it after an edit.
#
# name          the name of the campaign
# [task]        actions lists the names of the actions; no other action is then offered
# [recipe]      seed draws the member of a mixture that gets an episode: choose your own number;
#               control = {plays = "usual care", share = 0.2} gives an action a fixed share of
#               the episodes; floor = 0.1 plays a share at random; burn_in = true plays all of
#               version 1 at random
# [schedule]    after an edit, plan again or delete [simulation]: `init` refuses the report of a
#               plan with another schedule
# [budget]      deployments after the first; a rollback to an earlier version is always allowed
# [approval]    by is "schedule" if a due policy comes into force at once, or "second-person" if a
#               person must sign it; signers lists the only names that may sign
# [intake]      late is "learn" if fits use episodes of a replaced version, or "record" if the log
#               only keeps them; assigned accepts reports of assigned episodes only; concealed also
#               draws the member at the assignment, so that no site can choose it
# [features]    columns names the numbers of a raw observation, in the order of the feature map;
#               sites then report observations, and `init` takes the map's bytes as --feature-map
# [[stopping]]  none yet; the rule "harm" stops if a version surely returns less than below
# [analysis]    none yet; confidence = 0.95 for the intervals at the end of the study; missing
#               counts an assigned episode without a report: "reported" omits it, "zero" is a
#               return of 0, "worst" is 0 if learned and the largest return if control;
#               events = ["serious", "nausea"] are the adverse events that reports may count;
#               subgroups = {names = ["mild", "severe"]} come from reports, or from a raw column:
#               subgroups = {names = [...], column = "severity", cuts = [2.0]}. No amendment
#               changes this table
# [simulation]  the digest of plan.json, the report of this plan; give the file to `init` too:
#               rareswitch campaign init protocol.toml --simulation plan.json --by NAME

"""


def protocol_of_plan(
    made: Plan, *, name: str, budget: int | None, report: bytes, setting: Setting | None = None
) -> Protocol:
    """Return the protocol of a plan's recommendation, with the digest of its report."""
    from rareswitch.campaigns import FeatureTerms, Protocol

    limit = made.recommended.candidate.deployment_limit
    features = None
    if setting is not None:
        features = FeatureTerms(name=setting.features.name, digest=setting.features.digest)
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
    """Write protocol.toml beside a plan; return the reason if it cannot be written."""
    from rareswitch.support.archive import write_bytes
    from rareswitch.support.extras import require
    from rareswitch.support.imports import module_of

    try:
        require("campaigns")
        from rareswitch.campaigns import Protocol
        from rareswitch.rules.words import own_kinds

        protocol = protocol_of_plan(
            made, name=campaign_name(out), budget=budget, report=report, setting=setting
        )
        text = HEADER + protocol.to_toml()
        # A person typed the rule and thereby allowed its module.
        typed = [module_of(kind) for kind in own_kinds(protocol.plain)]
        if Protocol.from_toml(text, allow=typed) != protocol:
            raise ValueError("a rule of your own must be a dataclass of plain values")
    except (ImportError, TypeError, ValueError) as error:
        return f"no protocol.toml is written: {error}"
    write_bytes(out / "protocol.toml", text.encode())
    return None


def campaign_name(folder: Path) -> str:
    """Return the campaign name of a folder: the folder's name as a valid name.

    >>> campaign_name(Path("trials/dose finding"))
    'dose-finding'
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder.resolve().name).strip("-")
    return name[:100] or "campaign"
