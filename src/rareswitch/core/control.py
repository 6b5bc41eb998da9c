"""Episodes of a control and of the floor, which plays uniformly at random.

A version may give a fixed share c of its episodes to a *control*, an action or a policy that never
learns, and a share f to the *floor*, which draws each action uniformly from the feasible actions.
The M learned members share the rest, 1 − c − f. So every action has a probability of at least f/A
at every step, and each version has a concurrent control.

Players are numbered: the M learned members, then the members of the control (one if it is an
action), then the floor. The key of an episode determines its player.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rareswitch.support import codec
from rareswitch.support.arguments import NOT_NUMBERS, real, set_fields, short_repr, whole
from rareswitch.support.streams import keyed_hash

LEARNED, CONTROL, FLOOR = "learned", "control", "floor"
ROLES = (LEARNED, CONTROL, FLOOR)
# Bits of a draw of the floor: with A actions, shares differ by less than A/2⁴⁸.
FLOOR_BITS = 48
MOST_ACTIONS = 2**15  # the position times the draw must fit in 63 bits


@dataclass(frozen=True)
class Control:
    """The control of a version, and the share of episodes that it plays.

    `plays` is the position of an action among the offered rows, counted from 0, or a `Policy` (or
    its bytes), which may be a mixture. An action is an error at a step that offers fewer rows: if
    the feasible actions differ from state to state, give a policy.

    >>> Control(0, share=0.2)
    Control(plays=0, share=0.2)
    """

    plays: int | bytes
    share: float

    def __init__(self, plays: Any, share: float) -> None:
        if hasattr(plays, "to_bytes") and not isinstance(plays, int):
            plays = plays.to_bytes()
        if isinstance(plays, bytes):
            codec.unpack("policy", plays)
        elif isinstance(plays, int | np.integer) and not isinstance(plays, NOT_NUMBERS):
            plays = whole("plays", plays, least=0, most=MOST_ACTIONS - 1)
        else:
            raise TypeError(
                "plays must be the place of an action, a Policy or its bytes; got "
                f"{short_repr(plays)}"
            )
        set_fields(self, plays=plays, share=real("share", share, above=0.0, most=1.0))

    @property
    def action(self) -> int | None:
        """The position of the control's action; None if the control is a policy."""
        return self.plays if isinstance(self.plays, int) else None

    @property
    def digest(self) -> str | None:
        """The digest of the control's policy; None if the control is an action."""
        return hashlib.sha256(self.plays).hexdigest() if isinstance(self.plays, bytes) else None

    def take(self, offered: int) -> int:
        """Return the control's action; an error if fewer rows are offered."""
        assert self.action is not None
        if self.action >= offered:
            raise ValueError(
                f"features must have a row for action {self.action}, which the control takes; got "
                f"{offered} rows. If feasible actions differ between states, the control must "
                "be a policy"
            )
        return self.action

    def __repr__(self) -> str:
        plays = self.action if self.digest is None else f"<policy {self.digest[:12]}>"
        return f"Control(plays={plays}, share={self.share})"


def check_shares(control: Any, floor: Any) -> float:
    """Return the floor's share, or raise an error if the shares exceed 1."""
    if control is not None and not isinstance(control, Control):
        raise TypeError(f"control must be a Control, or None; got {short_repr(control)}")
    floor = real("floor", floor, least=0.0, most=1.0)
    if control is not None and control.share + floor > 1.0:
        raise ValueError(
            f"floor must be at most 1 minus the control's share, {1.0 - control.share:g}; got "
            f"{floor:g}"
        )
    return floor


class Split(NamedTuple):
    """The split of a version's episodes between M `members`, a control and the floor.

    `controls` is the number of the control's members. `allocation` seeds the draws of players.
    """

    members: int
    allocation: int | None = None
    control: float = 0.0
    controls: int = 0
    floor: float = 0.0

    @property
    def shares(self) -> dict[str, Any] | None:
        """The shares of the control and the floor as plain values; None if there is neither."""
        if self.even:
            return None
        return {"control": self.control, "controls": self.controls, "floor": self.floor}

    @property
    def players(self) -> int:
        """The number of players: learned members, members of the control, and the floor."""
        return self.members + self.controls + (self.floor > 0.0)

    @property
    def even(self) -> bool:
        """Whether all players are learned members, with equal shares."""
        return not self.controls and not self.floor

    @property
    def learned(self) -> float:
        """The share of episodes that learned members play."""
        return max(0.0, 1.0 - self.control - self.floor)

    @property
    def tickets(self) -> tuple[float, ...]:
        """Each player's share times M, which is 1 for members without a control and a floor."""
        learned = [self.learned] * self.members
        control = [self.control * self.members / max(self.controls, 1)] * self.controls
        return (*learned, *control, *([self.floor * self.members] if self.floor else []))

    def role(self, player: int) -> str:
        """Return "learned", "control" or "floor"."""
        player = whole("player", player, least=0, most=self.players - 1)
        others = player - self.members
        return LEARNED if others < 0 else CONTROL if others < self.controls else FLOOR

    def draw(self, key: str | int) -> int:
        """Return the player of the episode with this key.

        >>> split = Split(members=4, allocation=2026, control=0.2, controls=1, floor=0.1)
        >>> [split.draw(patient) for patient in ("ada", "ben", "cleo", "dan", 3)]
        [2, 5, 3, 2, 4]
        """
        number = keyed_hash(f"{self.allocation or 0}", key)
        if self.even:
            return number * self.members >> 64
        low = int(self.control * 2**64)
        high = low + int(self.floor * 2**64)
        if number < low:
            return self.members + number * self.controls // low
        if number < high:
            return self.members + self.controls
        return (number - high) * self.members // (2**64 - high)


def floor_draw(allocation: int, key: str | int, step: int) -> int:
    """Return the floor's draw at a step of an episode, an integer below 2⁴⁸."""
    return keyed_hash(f"{allocation}/{step}", key, size=FLOOR_BITS // 8, person=b"floor")


def floor_action(draw: int, offered: int) -> int:
    """Return the action of a draw of the floor, given the number of offered rows."""
    whole("the number of rows that the floor chooses from", offered, least=1, most=MOST_ACTIONS)
    return draw * offered >> FLOOR_BITS


@dataclass(frozen=True, kw_only=True)
class Player:
    """The control or the floor in one episode, with the `act` of a policy and a `role`.

    A control has an `action`, or a `policy` of one member. The floor has `draws`, the allocation
    and the key of its episode.
    """

    role: str
    horizon: int
    control: Control | None = None
    policy: Any = None
    draws: tuple[int, str | int] | None = field(default=None, repr=False)

    def act(self, h: int, features: Any, step: int | None = None) -> int:
        """Return the action at stage h, an index into the rows of features.

        `step` is the step in an episode longer than the horizon; the default is h.
        """
        h = whole("h", h, least=0, most=self.horizon - 1)
        if self.policy is not None:
            return int(self.policy.act(h, features))
        if not len(features):
            raise ValueError("features must have at least one row; got an empty feasible set")
        if self.control is not None:
            return self.control.take(len(features))
        assert self.draws is not None
        step = h if step is None else whole("step", step, least=0)
        return floor_action(floor_draw(*self.draws, step), len(features))
