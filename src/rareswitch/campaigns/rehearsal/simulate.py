"""A campaign in a simulated world: the acceptance test of a protocol, and a rehearsal for people.

Sites request assignments, play, and report late, never, twice or wrongly; the learner's process
dies; persons sign, or do not. The seed determines everything, including the simulated clock, so the
same seed gives the same ledger, link by link.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum
from typing import Any

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.stored import verify
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.rehearsal.field import Field, SimulatedClock
from rareswitch.campaigns.rehearsal.world import Circumstances, World
from rareswitch.campaigns.rulebook.decisions import SIMULATION
from rareswitch.campaigns.store import Store
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.support.arguments import short_repr, whole
from rareswitch.support.streams import Seed

COUNTED = (
    "begun", "recorded", "missing", "late", "repeated", "refused", "corrected", "withdrawn",
    "overridden",
)  # fmt: skip
REHEARSAL = "a rehearsal: a world answers, and nobody is treated"


@dataclass(frozen=True, kw_only=True)
class SimulatedCampaign:
    """The outcome of a simulation, counted at the sites.

    `begun` to `overridden` count the episodes of this simulation, `refused` its reports. The other
    fields describe the whole campaign: `mean_return` of the recorded episodes, as corrected;
    `deployments` after the first; `decision_delays`, the episodes recorded between the fit of a
    version and its deployment; `problems` found by `verify`; `regret` of the episodes begun, under
    the recommended actions, None if the world cannot compute it; `links`, the last links of the
    chains.
    """

    begun: int
    recorded: int
    missing: int
    late: int
    repeated: int
    refused: int
    corrected: int
    withdrawn: int
    overridden: int
    deaths: int
    mean_delay: float | None  # from the beginning of an episode to its record, in ticks
    mean_return: float | None
    regret: float | None
    deployments: int
    budget: int
    rejections: int
    declined: int  # candidates that the schedule found not worth proposing
    waiting: int | None  # the pending candidate
    decision_delays: tuple[int, ...]
    stopped: str | None
    problems: tuple[str, ...]
    links: dict[str, str]

    @property
    def ledger_link(self) -> str:
        """The last link of the ledger; equal links mean equal ledgers."""
        return self.links["ledger"]

    @property
    def plain(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in ("decision_delays", "problems")}
        return vars(self) | lists


def simulate(
    protocol: Protocol,
    world: World,
    store: Store,
    *,
    circumstances: Circumstances | None = None,
    episodes: int | None = None,
    seed: Seed = 0,
    simulation: bytes | None = None,
    features: bytes | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedCampaign:
    """Rehearse a protocol in a world, in a separate store; return the outcome.

    `episodes` more begin, by default all planned episodes; then the campaign is stopped, unless a
    rule has stopped it. The same call continues a rehearsal; a campaign that is not a rehearsal is
    never touched. `simulation` and `features` are the report and the feature map; the protocol
    holds their digests. `progress` is called with the episodes begun and all episodes. At the end
    the whole record is verified.

    >>> import tempfile
    >>> import rareswitch as rs
    >>> from rareswitch.campaigns import FiniteWorld, open_store
    >>> world = rs.worlds.tabular(states=2, actions=2, horizon=2, seed=1)
    >>> plan = Protocol(
    ...     name="small",
    ...     task=world.task(episodes=60),
    ...     schedule=rs.UniformGrid(batches=3),
    ...     budget=2,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_store(f"{folder}/small.sqlite", create=True) as store:
    ...         done = simulate(plan, FiniteWorld(world), store)
    >>> done.begun, done.deployments, done.problems
    (60, 2, ())
    """
    if circumstances is None:
        circumstances = Circumstances()
    if not isinstance(circumstances, Circumstances):
        raise TypeError(f"circumstances must be Circumstances; got {short_repr(circumstances)}")
    clock = SimulatedClock()
    check_fit(world, protocol)
    given: Any = {"simulation": simulation, "features": features}
    given |= {"by": SIMULATION, "reason": REHEARSAL, "clock": clock}
    campaign = Campaign.create(store, protocol, rehearsal=True, **given)
    if episodes is not None:
        episodes = whole("episodes", episodes, least=0)
    field = Field(campaign, world, circumstances, clock=clock, seed=seed)
    try:
        field.play(episodes, progress)
    finally:
        field.learner.end()
    return _summary(field)


def check_fit(world: World, protocol: Protocol) -> None:
    """Refuse a world whose rows do not fit the protocol's task."""
    task = protocol.task
    try:
        protocol.learner().policy.choices(0, world.begin(1))
    except (TypeError, ValueError) as error:
        raise ValueError(f"world must offer rows of the protocol's task; {error}") from None
    if (horizon := getattr(world, "horizon", task.horizon)) != task.horizon:
        raise ValueError(f"world must have the protocol's horizon, {task.horizon}; got {horizon}")
    if (norm := getattr(world, "feature_norm", 0.0)) > task.feature_norm * (1.0 + 1e-9):
        raise ValueError(
            f"world must offer rows no longer than the protocol's feature_norm, "
            f"{task.feature_norm:g}; got {norm:g}"
        )


def _summary(field: Field) -> SimulatedCampaign:
    campaign, count = field.campaign, field.count
    with campaign.store.reading() as connection:
        state = campaign.state_at(connection)
        heads = heads_of(connection, campaign.name)
    totals = field.totals.values()
    return SimulatedCampaign(
        **{name: count[name] for name in COUNTED},
        deaths=field.learner.deaths,
        mean_delay=field.delays / count["recorded"] if count["recorded"] else None,
        mean_return=fsum(totals) / len(totals) if totals else None,
        regret=field.lost,
        deployments=state.spent,
        budget=state.terms.budget,
        rejections=sum(one.status == "rejected" for one in state.candidates.values()),
        declined=len(state.declined),
        waiting=None if state.waiting is None or state.stopped else state.waiting.number,
        decision_delays=tuple(
            version.since - version.seq
            for version in state.versions[1:]
            if version.rollback_to is None
        ),
        stopped=None if state.stopped is None else state.stopped.reason,
        problems=tuple(verify(campaign).problems),
        links={chain: head.link for chain, head in heads.items()},
    )
