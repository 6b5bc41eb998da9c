"""A campaign played against a world: the acceptance test of a protocol, and a rehearsal for people.

Sites ask for assignments, play, and report late, never, twice or wrongly; the learner's process
dies; somebody signs, or does not. Everything is drawn from the seed, and the clock is simulated
too, so the same seed makes the same ledger, link by link.
"""

from collections.abc import Callable

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.simulated.circumstances import Circumstances
from rareswitch.campaigns.simulated.clock import SimulatedClock
from rareswitch.campaigns.simulated.field import SIMULATION, Field
from rareswitch.campaigns.simulated.result import SimulatedCampaign
from rareswitch.campaigns.simulated.world import World
from rareswitch.campaigns.store import Store
from rareswitch.support.arguments import short_repr, whole
from rareswitch.support.streams import Seed

REHEARSAL = "a rehearsal: a world answers, and nobody is treated"


def simulate_campaign(
    protocol: Protocol,
    world: World,
    store: Store,
    *,
    circumstances: Circumstances | None = None,
    episodes: int | None = None,
    seed: Seed = 0,
    simulation: bytes | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SimulatedCampaign:
    """Play a protocol against a world, in a store of its own; return what it came to.

    `episodes` more begin, by default all that the protocol plans; then, unless a rule has done so
    already, the campaign is stopped. A simulated campaign may be gone on with, by the same call; a
    campaign that anybody else has created is never touched. `simulation` is the report whose digest
    the protocol has. `progress` is told the episodes begun, of all.

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
    ...         done = simulate_campaign(plan, FiniteWorld(world), store)
    >>> done.begun, done.deployments, done.agrees_with_learner
    (60, 2, True)
    """
    if circumstances is None:
        circumstances = Circumstances()
    if not isinstance(circumstances, Circumstances):
        raise TypeError(f"circumstances must be Circumstances; got {short_repr(circumstances)}")
    clock = SimulatedClock()
    _check_fit(world, protocol)
    campaign = Campaign.create(
        store, protocol, actor=SIMULATION, reason=REHEARSAL, simulation=simulation, clock=clock
    )
    if campaign.entries[0].actor != SIMULATION:
        raise NotAllowedError(
            f"campaign {protocol.name} was created by {campaign.entries[0].actor}; only a campaign "
            "that a simulation has created is played on"
        )
    if episodes is not None:
        episodes = whole("episodes", episodes, least=0)
    field = Field(campaign, world, circumstances, clock=clock, seed=seed)
    try:
        field.play(episodes, progress)
    finally:
        field.learner.end()
    return field.summary()


def _check_fit(world: World, protocol: Protocol) -> None:
    """Refuse a world whose rows are not those of the protocol's task."""
    try:
        protocol.learner().policy.choices(0, world.begin(1))
    except (TypeError, ValueError) as error:
        raise ValueError(f"world must offer rows of the protocol's task; {error}") from None
    horizon = getattr(world, "horizon", protocol.task.horizon)
    if horizon != protocol.task.horizon:
        raise ValueError(
            f"world must have the protocol's horizon, {protocol.task.horizon}; got {horizon}"
        )
    norm = getattr(world, "feature_norm", 0.0)
    if norm > protocol.task.feature_norm * (1.0 + 1e-9):
        raise ValueError(
            f"world must offer rows no longer than the protocol's feature_norm, "
            f"{protocol.task.feature_norm:g}; got {norm:g}"
        )
