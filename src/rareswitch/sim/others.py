"""The actions of a control and of the floor in the states of a finite world.

The floor has a seat for each position among the feasible actions; at each step its draw selects the
seat. A control has a seat for each of its members.
"""

from functools import cached_property

import numpy as np

from rareswitch.core.control import FLOOR_BITS, floor_draw
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.support.arguments import Ints


class Others:
    """The seats of a recipe's control and floor, after those of its M learned members.

    `rows` and `actions` (H, C+A, S) are the row of the catalogue and the action of each seat in
    each state, with A = 0 without random play.
    """

    def __init__(self, world: FiniteMDP, recipe: Recipe) -> None:
        self.menus = [world.features[s][mask] for s, mask in enumerate(world.feasible)]
        self._options = [np.flatnonzero(mask) for mask in world.feasible]
        self.counts = np.array([len(options) for options in self._options])
        self._world, self._recipe = world, recipe
        self.members = recipe.exploration.members
        self.random = recipe.floor > 0.0 or recipe.burn_in
        places = self._control()
        if self.random:
            places += [self._always(place) for place in range(self.counts.max())]
        horizon, states = world.horizon, world.states
        self.actions = np.zeros((horizon, len(places), states), np.int64)
        for seat, chosen in enumerate(places):
            for state, options in enumerate(self._options):
                self.actions[:, seat, state] = options[chosen[:, state]]
        self.rows = np.empty_like(self.actions)
        if places:
            self._find_rows()

    def _find_rows(self) -> None:
        """Fill in the rows of the catalogue; actions with the same features share a row."""
        catalogue, world = self._world.space, self._world
        for state, options in enumerate(self._options):
            start = catalogue.starts[state]
            known = catalogue.rows[start : start + catalogue.lengths[state]] + 0.0  # no -0.0
            row_of = {row.tobytes(): start + place for place, row in enumerate(known)}
            of_action = np.zeros(world.features.shape[1], np.int64)
            of_action[options] = [row_of[row.tobytes()] for row in self.menus[state] + 0.0]
            self.rows[..., state] = of_action[self.actions[..., state]]

    @property
    def seats(self) -> int:
        """The number of seats, including the learned members."""
        return self.members + self.actions.shape[1]

    @cached_property
    def controls(self) -> int:
        """The number of the control's members."""
        return len(self._control())

    def _always(self, place: int) -> Ints:
        """Return that place in every state (H, S), or the last place in states with fewer."""
        places = np.minimum(place, self.counts - 1)
        return np.broadcast_to(places, (self._world.horizon, len(places)))

    def _control(self) -> list[Ints]:
        """Return the places (H, S) that each member of the control takes."""
        control = self._recipe.control
        if control is None:
            return []
        if isinstance(control.plays, int):
            control.take(int(self.counts.min()))
            return [self._always(control.plays)]
        policy = Policy.from_bytes(control.plays)
        horizon = self._world.horizon
        if (policy.horizon, policy.dim) != (horizon, self._world.dim) or policy.one_hot:
            raise ValueError(
                f"control must have the world's horizon {horizon} and dim {self._world.dim}, "
                f"without one_hot; got {policy}"
            )
        chosen = [[policy.choices(h, menu) for menu in self.menus] for h in range(horizon)]
        return list(np.array(chosen).transpose(2, 0, 1))

    def draws(self, allocation: int, keys: list[int]) -> Ints:
        """Return the draws (n, H) of the floor in the episodes of these n keys."""
        steps = range(self._world.horizon)
        found = [[floor_draw(allocation, key, h) for h in steps] for key in keys]
        return np.array(found, np.int64).reshape(len(keys), self._world.horizon)

    def seat(self, draws: Ints, states: Ints) -> Ints:
        """Return the seats of the floor, given its draws and the states."""
        return self.members + self.controls + (draws * self.counts[states] >> FLOOR_BITS)
