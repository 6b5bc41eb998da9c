"""The frozen policy of one fit: Q_h(φ) = min{l_h + φᵀw_h + β‖W_hφ‖, H−h}⁺ and its greedy action.

Letters: w_h `weights`, W_h `whitener` (WᵀW = Λ_h⁻¹, so ‖φ‖_{Λ⁻¹} = ‖Wφ‖), β `beta`, z_h
`directions`, l_h `levels` (0 unless estimated). Stages are counted from 0, so the cap of stage h is
H−h. A perturbed fit adds the largest φᵀo_j of its `offsets` o_j.

A policy may be a mixture of M members: arrays then have a first axis for members, unless all
members share them. One member plays a whole episode. The member is a hash of the episode's key and
of the `allocation`, a random number of the version: actors without shared state agree on the member
at any time and on any machine, and versions allocate independently.

A control and a floor may play a share of the episodes (`core/control.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.core.control import FLOOR, LEARNED, Control, Player, Split, check_shares
from rareswitch.core.estimation import EstimatedRegression
from rareswitch.core.lsvi import (
    QFunction,
    Regressor,
    RidgeRegression,
    Statistics,
    backward,
    project,
)
from rareswitch.core.recipe import ALLOCATIONS, Recipe
from rareswitch.core.sharing import KINDS, BothStatistics, compare_stages
from rareswitch.core.wide_table import WideStatistics, WideTable, keep_columns
from rareswitch.support import codec
from rareswitch.support.arguments import (
    FLOAT64,
    Floats,
    Ints,
    Rows,
    flag,
    floats,
    one_of,
    positions,
    real,
    set_fields,
    short_repr,
    whole,
)
from rareswitch.support.streams import keyed_hash

# Values closer than this count as equal, so results do not depend on the last bit of a BLAS.
TIE_TOLERANCE = 1e-9
# Squares of larger numbers overflow.
LARGEST = 1e100


def policy_arrays(one_hot: bool) -> dict[str, int]:
    """Return the names of a policy's arrays, and the number of axes of each for one member."""
    whitener = 2 if one_hot else 3  # one-hot features have a diagonal
    return {"weights": 2, "whitener": whitener, "levels": 1, "directions": 2, "offsets": 3}


def fit(statistics: Statistics | BothStatistics, recipe: Recipe, version: int) -> "Policy":
    """Fit the policy of one version to one learner's statistics.

    A fit is a pure function: repeated calls return the same bytes.
    """
    stages: str | None = None
    if isinstance(statistics, BothStatistics):
        both = statistics.fold()
        stages = compare_stages(both.own, both.shared).better
        statistics = both.shared if stages == "shared" else both.own
    statistics = statistics.fold()
    if statistics.ridge != recipe.ridge:
        raise ValueError(
            f"ridge must be {statistics.ridge:g}, as in the statistics; the recipe has "
            f"{recipe.ridge:g}"
        )
    horizon, dim, shared = statistics.pools.horizon, statistics.dim, statistics.pools.shared
    table = None
    if isinstance(statistics, WideStatistics):
        visited, known = statistics.visited, statistics.known
        table = recipe.table(version, statistics.table_dim, visited, shared=shared)
        perturbations = recipe.table_perturbations(table, horizon, known)
    else:
        perturbations = recipe.perturbations(version, horizon, dim, shared=shared)
    q_functions = backward(
        statistics,
        regressor_of(statistics, recipe),
        beta=recipe.exploration.beta,
        perturbations=perturbations,
        clip=recipe.clip,
    )
    if table is not None:
        kept = np.append(np.searchsorted(known, visited), len(known))
        q_functions = tuple(keep_columns(stage, kept) for stage in q_functions)
    return policy_of(
        q_functions,
        recipe,
        directions=recipe.directions(version, horizon, dim) if table is None else None,
        version=version,
        one_hot=statistics.one_hot,
        stages=stages,
        table=table,
    )


def regressor_of(statistics: Statistics, recipe: Recipe) -> Regressor:
    """Return the regression of a recipe, either the paper's or with estimates."""
    perturbed = recipe.exploration.draws > 0
    if recipe.exploration.estimate:
        return EstimatedRegression(statistics, perturbed=perturbed)
    return RidgeRegression(statistics, perturbed=perturbed)


def policy_of(
    q_functions: Sequence[QFunction],
    recipe: Recipe,
    *,
    directions: Floats | None,
    version: int,
    one_hot: bool = False,
    stages: str | None = None,
    table: WideTable | None = None,
) -> "Policy":
    """Return the policy of a version with these Q_h, of one member or with a member axis."""
    first, axes = q_functions[0], policy_arrays(one_hot)
    arrays: dict[str, Floats | None] = dict.fromkeys(axes) | {"directions": directions}
    for name in ("weights", "whitener", "levels", "offsets"):
        if getattr(first, name) is not None:
            # The last stage regresses on rewards only, so members share it: broadcast.
            parts = np.broadcast_arrays(*(getattr(stage, name) for stage in q_functions))
            array = np.stack(parts, axis=-axes[name])
            if array.ndim > axes[name] and len(array) == 1:
                array = array[0]
            arrays[name] = floats(name, array, ("n",) * array.ndim, owned=True)
    return Policy.trusted(
        **arrays,
        beta=recipe.exploration.beta,
        allocation=recipe.allocation(version),
        clip=recipe.clip,
        one_hot=one_hot,
        stages=stages,
        table=table,
        control=None if recipe.starts_at_random(version) else recipe.control,
        floor=1.0 if recipe.starts_at_random(version) else recipe.floor,
    )


def member_of(allocation: int, key: str | int, members: int) -> int:
    """Return the member, from 0 to members − 1, that plays the episode with this key.

    7 and "7" are the same key. Over many keys all members get equal shares.

    >>> [member_of(2026, patient, 4) for patient in ("ada", "ben", 3, "3")]
    [2, 1, 0, 0]
    """
    return keyed_hash(f"{allocation}", key) * members >> 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """One policy, or a mixture of several; immutable.

    `directions` break ties; None means the lowest index. A `Perturbation` has `offsets`, and a fit
    may estimate `levels`. `clip=False` leaves Q unclipped. In a mixture, arrays that differ between
    members are (M, H, …) instead of (H, …), and `allocation` is the number that allocates members
    to episodes. With `one_hot` features, rows are given by the positions of their ones, integers
    (A,) instead of (A, d), and `whitener` by its diagonal. If Λ has blocks of m coordinates,
    `whitener` is (H, d, m) in stacked blocks. `stages` is "own" or "shared" if the fit chose it.
    The arrays of a wide `table` have n+1 columns instead of d: one for each of its n positions, and
    the scale of the draws for all others; directions are drawn too.

    A `control` plays its share of the episodes, and the share `floor` is played uniformly at
    random; the learned members share the rest. `allocation` seeds the draws of players.

    >>> rows = np.eye(2)
    >>> policy = Policy(weights=np.array([[0.2, 0.5]]), whitener=np.eye(2)[None], beta=0.25)
    >>> policy.q_values(0, rows), policy.act(0, rows), policy.value(0, rows)
    (array([0.45, 0.75]), 1, 0.75)
    >>> Policy.from_bytes(policy.to_bytes()).digest == policy.digest
    True
    >>> mixture = Policy(weights=np.array([[[0.2, 0.5]], [[0.4, 0.1]]]), allocation=7)
    >>> mixture.propensities(0, rows), mixture.draw("ada").act(0, rows)
    (array([0.5, 0.5]), 1)
    >>> trial = Policy(weights=[[0.0, 1.0]], control=Control(0, share=0.3), floor=0.2, allocation=7)
    >>> trial.propensities(0, rows), [trial.draw(name).role for name in ("ben", "dan", "ada")]
    (array([0.4, 0.6]), ['learned', 'control', 'floor'])
    """

    weights: Floats
    whitener: Floats | None = None
    beta: float = 0.0
    levels: Floats | None = None
    directions: Floats | None = None
    offsets: Floats | None = None
    allocation: int | None = None
    clip: bool = True
    one_hot: bool = False
    stages: str | None = None
    table: WideTable | None = None
    control: Control | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        weights = _stacked("weights", self.weights, ("H", "d"))
        *_, horizon, columns = weights.shape
        if not weights.size:
            raise ValueError(
                f"weights must have a stage and a dimension; got shape {weights.shape}"
            )
        beta = real("beta", self.beta, least=0.0)
        if beta and self.whitener is None:
            raise ValueError(f"whitener must be given for a bonus with beta = {beta:g}; got None")
        clip, one_hot = flag("clip", self.clip), flag("one_hot", self.one_hot)
        set_fields(self, weights=weights, beta=beta, clip=clip, one_hot=one_hot)
        if self.stages is not None:
            one_of("stages", self.stages, KINDS)
        shapes: dict[str, tuple[int | str, ...]] = {
            "whitener": (horizon, columns)
            if one_hot
            else (horizon, columns, _block_size(self.whitener, columns)),
            "levels": (horizon,),
            "directions": (horizon, columns),
            "offsets": (horizon, "J", columns),
        }
        for name, shape in shapes.items():
            if (given := getattr(self, name)) is not None:
                set_fields(self, **{name: _stacked(name, given, shape)})
        if self.offsets is not None and not self.offsets.size:
            raise ValueError("offsets must hold at least one estimate; got none")
        sizes = {name: len(array) for name, array in self._by_member.items()}
        if self.table is not None:
            self._check_table(self.table)
            sizes |= {"table": self.table.members} if sizes or self.table.members > 1 else {}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"all arrays of members must have the same first axis; got {sizes}")
        set_fields(self, floor=check_shares(self.control, self.floor))
        check_control(self.control, self)
        if not sizes and self.control is None and not self.floor:
            if self.allocation is not None:
                raise ValueError(f"allocation must be None for one policy; got {self.allocation}")
        elif self.allocation is None:
            kind = "a mixture" if sizes else "a control or a floor"
            raise ValueError(f"allocation must be given for {kind}; got None")
        else:
            most = ALLOCATIONS - 1
            set_fields(self, allocation=whole("allocation", self.allocation, least=0, most=most))

    def _check_table(self, table: WideTable) -> None:
        if not isinstance(table, WideTable):
            raise TypeError(f"table must be a WideTable; got {short_repr(table)}")
        if not self.one_hot or self.directions is not None:
            raise ValueError("table must be of one-hot features, without directions; got others")
        if self.weights.shape[-1] != len(table.positions) + 1:
            raise ValueError(
                f"weights must have a column for each of the {len(table.positions)} positions of "
                f"the table and one more; got shape {self.weights.shape}"
            )
        drawn = "weights" if self.offsets is None else "offsets"
        shared = table.members > 1 and drawn not in self._by_member
        if shared and getattr(self, drawn)[..., -1].any():
            raise ValueError(
                f"{drawn} must be of {table.members} members, as the table's draws are"
            )

    @property
    def horizon(self) -> int:
        return self.weights.shape[-2]

    @property
    def dim(self) -> int:
        return self.weights.shape[-1] if self.table is None else self.table.dim

    @classmethod
    def trusted(cls, **fields: Any) -> "Policy":
        """Return a policy of valid, read-only, unshared fields, without checks."""
        policy = cls.__new__(cls)
        policy.__dict__.update(fields)
        return policy

    @cached_property
    def members(self) -> int:
        """The number M of members, 1 for a single policy."""
        if self.table is not None:
            return self.table.members
        return next((len(array) for array in self._by_member.values()), 1)

    def member(self, index: int) -> "Policy":
        """Return one member, counted from 0, as a policy."""
        index = whole("index", index, least=0, most=self.members - 1)
        own = {name: array[index] for name, array in self._by_member.items()}
        if self.members == 1 and self.learned_only:
            return self
        fields = {name: getattr(self, name) for name in FIELDS}
        table = None if self.table is None else self.table.member(index)
        alone = {"allocation": None, "table": table, "control": None, "floor": 0.0}
        return Policy.trusted(**fields | own | alone)

    @cached_property
    def controlling(self) -> "Policy":
        """The policy of the control."""
        assert self.control is not None
        assert isinstance(self.control.plays, bytes)
        return Policy.from_bytes(self.control.plays)

    @property
    def learned_only(self) -> bool:
        """Whether learned members play every episode, without a control and a floor."""
        return self.control is None and not self.floor

    @cached_property
    def split(self) -> Split:
        """The split of episodes between learned members, the control and the floor."""
        if self.control is None:
            return Split(self.members, self.allocation, floor=self.floor)
        controls = 1 if self.control.action is not None else self.controlling.members
        return Split(self.members, self.allocation, self.control.share, controls, self.floor)

    @property
    def players(self) -> int:
        """The number P of players: M members, the members of the control, and the floor."""
        return self.split.players

    @cached_property
    def tickets(self) -> Floats:
        """Each player's probability of playing an episode, times M (P,)."""
        return np.array(self.split.tickets)

    @property
    def role(self) -> str:
        """The role of a drawn policy, "learned"; a `Player` has "control" or "floor".

        `split.role(player)` is the role of a player by its number.
        """
        return LEARNED

    def allocate(self, key: str | int) -> int:
        """Return the number of the player of the episode with this key, counted from 0.

        The M learned members come first, then the members of a control, then the floor.
        """
        if self.learned_only:
            return member_of(self.allocation or 0, key, self.members)
        return self.split.draw(key)

    def draw(self, key: str | int) -> "Policy | Player":
        """Return the player of the episode with this key, a string or an integer.

        It is a member, or a `Player` for the control or the floor, according to `role`. It depends
        only on the policy's bytes and the key.
        """
        return self.player(self.allocate(key), key)

    def player(self, number: int, key: str | int) -> "Policy | Player":
        """Return a player by its number, for the episode with this key."""
        if self.learned_only or number < self.members:
            return self.member(number)
        role, horizon = self.split.role(number), self.horizon
        if role == FLOOR:
            return Player(role=role, horizon=horizon, draws=(self.allocation or 0, key))
        assert self.control is not None
        if self.control.action is not None:
            return Player(role=role, horizon=horizon, control=self.control)
        member = self.controlling.member(number - self.members)
        return Player(role=role, horizon=horizon, policy=member)

    def alone(self, number: int) -> "Policy":
        """Return the policy in which the player with this number plays every episode."""
        role = self.split.role(number)
        if role == LEARNED:
            return self.member(number)
        fields = {name: getattr(self, name) for name in FIELDS}
        if role == FLOOR:
            return Policy.trusted(**fields | {"control": None, "floor": 1.0})
        assert self.control is not None
        if self.control.action is None:
            return self.controlling.member(number - self.members)
        always = Control(self.control.action, share=1.0)
        return Policy.trusted(**fields | {"control": always, "floor": 0.0})

    @property
    def learned(self) -> "Policy":
        """The same policy without control and floor."""
        fields = {name: getattr(self, name) for name in FIELDS}
        return Policy.trusted(**fields | {"control": None, "floor": 0.0})

    def stage(self, h: int) -> QFunction:
        """Return Q_h of every member, over the columns of the arrays."""
        if type(h) is int and (known := self._stages.get(h)) is not None:
            return known
        h = whole("h", h, least=0, most=self.horizon - 1)
        self._stages[h] = QFunction(
            weights=self.weights[..., h, :],
            levels=None if self.levels is None else self.levels[..., h],
            whitener=self._whitener(h),
            beta=self.beta,
            offsets=None if self.offsets is None else self.offsets[..., h, :, :],
            cap=float(self.horizon - h) if self.clip else None,
        )
        return self._stages[h]

    @cached_property
    def _stages(self) -> dict[int, QFunction]:
        """A cache of stages, which are views of the arrays."""
        return {}

    def q_values(self, h: int, features: Rows) -> Floats:
        """Return the value of each feasible action, features (A, d) to (A,).

        If the values of members differ, the result is (M, A).
        """
        return self._values(h, self._feasible(features))

    def act(self, h: int, features: Rows) -> int:
        """Return the greedy action as an index into the rows of features (A, d)."""
        if self.members > 1 or not self.learned_only:
            raise ValueError(
                f"a mixture of {self.players} members acts through the member drawn for the "
                "episode: call policy.draw(key).act(…) with the episode's number or name as key"
            )
        return int(self._choices_in_one(h, features)[0])

    def choices(self, h: int, features: Rows) -> Ints:
        """Return every learned member's greedy action (M,), as an index into the rows of features.

        For n states with A actions each, features (n, A, d) or positions (n, A), it is (M, n).
        """
        try:
            many = np.ndim(features) == 2 + (not self.one_hot) and len(features) > 0
        except ValueError:  # a ragged list; the check below raises the error
            many = False
        if not many:
            return self._choices_in_one(h, features)
        return self._greedy(h, self._feasible(np.concatenate(features)), states=len(features))

    def chances(self, h: int, features: Rows, action: int | Ints) -> Floats:
        """Return each player's probability of an action (P,).

        It is 1 or 0 for learned members and the control, and 1/A for the floor. For n states with A
        actions each and actions (n,), the result is (P, n).
        """
        return self.chances_of(self.choices(h, features), h, features, action)

    def chances_of(self, choices: Ints, h: int, features: Rows, action: int | Ints) -> Floats:
        """Return `chances`, given the choices of the learned members."""
        found: list[Any] = [choices == action]
        shape = (1, *choices.shape[1:])
        offered = len(features[0]) if choices.ndim > 1 else len(features)
        if self.control is not None:
            if self.control.action is None:
                found.append(self.controlling.choices(h, features) == action)
            else:
                found.append(np.full(shape, self.control.take(offered)) == action)
        if self.floor:
            found.append(np.full(shape, 1.0 / offered))
        return np.concatenate(found).astype(np.float64)

    def act_through(self, features: Rows, members: Ints) -> Ints:
        """Return the greedy actions of whole episodes, (k, n), each played by a learned member.

        `features` are the rows offered at the first n stages, (k, n, A, d) or positions (k, n, A);
        `members` (k,) play them. One call replaces k·n calls of `act`.
        """
        k, n = features.shape[:2]
        if self.table is not None:  # choices of all members need less code, and draws are cheap
            chosen = [self._greedy(h, np.ravel(features[:, h]), states=k) for h in range(n)]
            return np.stack([each[members, np.arange(k)] for each in chosen], axis=1)
        axes = policy_arrays(self.one_hot)

        def own(name: str) -> Floats | None:
            array: Floats | None = getattr(self, name)
            if array is None:
                return None
            mine = array[members] if array.ndim > axes[name] else array[None]
            return mine[:, :n]

        weights = own("weights")
        assert weights is not None
        cap = np.arange(self.horizon, self.horizon - n, -1.0)[:, None] if self.clip else None
        stages = QFunction(weights, own("levels"), own("whitener"), self.beta, own("offsets"), cap)

        def along() -> Floats:
            ties = own("directions")
            assert ties is not None
            return project(ties, features)

        return self._furthest(stages.q_values(features), along)

    def value(self, h: int, features: Rows) -> float:
        """Return the value of the state with these actions, the mean over members."""
        return float(self.q_values(h, features).max(axis=-1).mean())

    def propensities(self, h: int, features: Rows) -> Floats:
        """Return the probability of each action, features (A, d) to (A,).

        It is the share of members that take the action, plus the shares of the control and the
        floor.
        """
        return self._propensities(h, features, self._choices_in_one(h, features))

    def propensities_in(self, h: int, features: Rows) -> Floats:
        """Return `propensities` in n states with A actions each, features (n, A, d) to (n, A)."""
        return self._propensities(h, features, self.choices(h, features))

    def _propensities(self, h: int, features: Rows, choices: Ints) -> Floats:
        offered = len(features[0]) if choices.ndim > 1 else len(features)
        taken = choices[..., None] == np.arange(offered)  # (M, A) or (M, n, A)
        learned: Floats = np.add.reduce(taken, axis=0) / self.members
        if self.learned_only:
            return learned
        found = self.split.learned * learned + self.floor / offered
        if self.control is not None and self.control.action is None:
            control = self.controlling
            chosen = control.choices(h, features)
            found += self.control.share * control._propensities(h, features, chosen)
        elif self.control is not None:
            found[..., self.control.take(offered)] += self.control.share
        return found

    def likelihood(self, steps: Iterable[tuple[Rows, int]]) -> float:
        """Return the probability of an episode's actions, the share of members that take all.

        `steps` are (features (A, d), action) from the first stage on. The ratio of two policies'
        likelihoods is the importance weight of a logged episode. One member plays the whole
        episode, so the propensities of its steps must not be multiplied. A control and a floor
        count by their shares; the floor's probability of n actions is the product of their 1/A.
        """
        if not isinstance(steps, Iterable) or isinstance(steps, np.ndarray):
            raise TypeError(f"steps must be pairs (features, action); got {short_repr(steps)}")
        taken = np.ones(self.players)
        for h, step in enumerate(steps):
            if not isinstance(step, tuple | list) or len(step) != 2:
                raise TypeError(f"steps must be pairs (features, action); got {short_repr(step)}")
            features, action = step
            choices = self._choices_in_one(h, features)
            place = whole("action", action, least=0, most=len(features) - 1)
            taken *= self.chances_of(choices, h, features, place)
        return float(taken @ self.tickets / self.members)

    def conditional(self, chances: Floats) -> Floats:
        """Return the probability of each action of an episode given the earlier actions, (n,).

        `chances` (n, P) are each player's probabilities of the actions. The result is 0 from the
        first action on that no player takes after the earlier actions.
        """
        likely = np.multiply.accumulate(chances) @ self.tickets
        before = np.concatenate([[self.members], likely[:-1]])
        # A value above 1 is a rounding error.
        found: Floats = np.minimum(likely / np.where(before > 0.0, before, 1.0), 1.0)
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()` in hexadecimal; equal digests mean equal behaviour."""
        return codec.digest("policy", *self._contents())

    def to_bytes(self) -> bytes:
        """Return the policy in the format of `support/codec.py`."""
        return codec.pack("policy", *self._contents())

    def _contents(self) -> tuple[dict[str, Any], codec.Arrays]:
        arrays: codec.Arrays = {
            name: array
            for name in policy_arrays(self.one_hot)
            if (array := getattr(self, name)) is not None
        }
        meta: dict[str, Any] = {"beta": self.beta, "clip": self.clip}
        if self.allocation is not None:
            meta["allocation"] = self.allocation
        if self.one_hot:
            meta["one_hot"] = True
        if self.stages is not None:
            meta["stages"] = self.stages
        if self.table is not None:
            meta["table"], arrays["positions"] = self.table.plain, self.table.positions
        if self.floor:
            meta["floor"] = self.floor
        if self.control is not None:
            meta["control"] = {"share": self.control.share}
            if isinstance(self.control.plays, bytes):
                arrays["control"] = np.frombuffer(self.control.plays, np.uint8)
            else:
                meta["control"]["action"] = self.control.plays
        return meta, arrays

    @classmethod
    def from_bytes(cls, data: bytes) -> "Policy":
        """Return the policy that `to_bytes` wrote, or raise an error if the bytes were altered."""
        parts = codec.unpack("policy", data)
        parts.only(
            meta=("beta", "clip"),
            arrays=("weights",),
            optional_meta=("allocation", "one_hot", "stages", "table", "control", "floor"),
            optional=(*policy_arrays(one_hot=False), "positions", "control"),
        )
        arrays = {
            name: parts.array(name, "<f8", ("n",) * array.ndim)
            for name, array in parts.arrays.items()
            if name not in ("positions", "control")
        }
        values: dict[str, Any] = parts.meta | arrays
        with parts.reading():
            if "table" in values or "positions" in parts.arrays:
                positions = parts.array("positions", "<i8", ("n",))
                values["table"] = WideTable.from_plain(values["table"], positions)
            if "control" in values or "control" in parts.arrays:
                values["control"] = _control(parts)
            if values.get("floor") == 0.0:
                raise ValueError("its floor must be above 0 or left out")
            return cls(**values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle through the bytes, so that copies are frozen too."""
        return Policy.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        mixture = f"members={self.members}, " if self.members > 1 else ""
        mixture += "" if self.control is None else f"control={self.control.share:g}, "
        mixture += f"floor={self.floor:g}, " if self.floor else ""
        return f"Policy(dim={self.dim}, horizon={self.horizon}, {mixture}digest={self.digest[:12]})"

    def _choices_in_one(self, h: int, features: Rows) -> Ints:
        """Return every member's greedy action (M,) in one state."""
        return self._greedy(h, self._feasible(features), states=1)[:, 0]

    def _greedy(self, h: int, rows: Rows, *, states: int) -> Ints:
        """Return every member's greedy action (M, n) in n states, given concatenated rows.

        π_h = argmax_a Q_h: Alg. 1, lines 10 and 16; Alg. 2, lines 13 and 19.
        """

        def by_state(values: Floats) -> Floats:
            return values.reshape(-1, states, len(rows) // states)

        choices = self._furthest(
            by_state(self._values(h, rows)), lambda: by_state(self._ties(h, rows))
        )
        return choices if len(choices) == self.members else choices.repeat(self.members, axis=0)

    def _values(self, h: int, rows: Rows) -> Floats:
        """Return Q_h of n rows, (n,) or (M, n)."""
        stage = self.stage(h)
        if self.table is None:
            return stage.q_values(rows)
        return self.table.at_rows(stage, int(h), rows).q_values(np.arange(len(rows)))

    def _ties(self, h: int, rows: Rows) -> Floats:
        """Return the products of n rows with the directions that break ties, (n,) or (M, n)."""
        if self.table is not None:
            return self.table.directions(int(h), rows)
        assert self.directions is not None
        return project(self.directions[..., h, :], rows)

    def _furthest(self, values: Floats, along: Callable[[], Floats]) -> Ints:
        """Return the best action of values (..., A); ties go to the action furthest `along`."""
        best = values >= values.max(axis=-1, keepdims=True) - TIE_TOLERANCE
        breaks = self.directions is not None if self.table is None else self.table.ties
        if breaks and np.count_nonzero(best) > best.size // best.shape[-1]:
            furthest = np.where(best, along(), -np.inf)
            best = furthest >= furthest.max(axis=-1, keepdims=True) - TIE_TOLERANCE
        choices: Ints = best.argmax(axis=-1)
        return choices

    @cached_property
    def _by_member(self) -> dict[str, Floats]:
        """The arrays with an axis for members."""
        return {
            name: array
            for name, own in policy_arrays(self.one_hot).items()
            if (array := getattr(self, name)) is not None and array.ndim > own
        }

    def _whitener(self, h: int) -> Floats | None:
        if self.whitener is None:
            return None
        return self.whitener[..., h, :] if self.one_hot else self.whitener[..., h, :, :]

    def _feasible(self, features: Rows) -> Rows:
        """Return the rows of the feasible actions, checked and contiguous."""
        if self.one_hot:
            rows: Rows = positions("features", features, self.dim)
        elif type(features) is np.ndarray and features.dtype is FLOAT64:
            if features.ndim != 2 or features.shape[1] != self.dim:
                raise ValueError(f"features must have shape (A, {self.dim}); got {features.shape}")
            rows = np.ascontiguousarray(features)  # BLAS may round differently on other layouts
        else:
            rows = floats("features", features, ("A", self.dim))
        if not len(rows):
            raise ValueError("features must have at least one row; got an empty feasible set")
        if not self.one_hot and not np.abs(rows).max() <= LARGEST:  # NaN fails too
            floats("features", rows, ("A", self.dim))  # raises with the position
            raise ValueError(f"features must be within ±{LARGEST:g}; got {np.abs(rows).max():g}")
        return rows


FIELDS = tuple(Policy.__dataclass_fields__)


def check_control(control: Control | None, policy: Policy) -> None:
    """Raise an error if the control is a policy of other sizes or has a control or a floor."""
    if control is None or isinstance(control.plays, int):
        return
    own = Policy.from_bytes(control.plays)
    ours, theirs = ((one.horizon, one.dim, one.one_hot) for one in (policy, own))
    if ours != theirs:
        raise ValueError(
            f"control must have horizon {ours[0]}, dim {ours[1]} and one_hot = {ours[2]}; got "
            f"{theirs[0]}, {theirs[1]} and {theirs[2]}"
        )
    if not own.learned_only:
        raise ValueError("control must be a policy without control and floor: use its `learned`")


def _control(parts: codec.Parts) -> Control:
    """Unpack a control: an action among the values, or a policy as an array."""
    told = dict(parts.meta["control"])
    if ("control" in parts.arrays) == ("action" in told):
        raise ValueError("its control must be an action or a policy, and only one of them")
    plays = told.pop("action", None)
    if plays is None:
        plays = parts.array("control", "|u1", ("n",)).tobytes()
    elif not isinstance(plays, int):
        raise ValueError(f"its control must be an action; got {short_repr(plays)}")
    return Control(plays, **told)


def _block_size(whitener: Any, dim: int) -> int:
    """Return the size of the blocks of a whitener (..., d, m); d if m does not divide it."""
    try:
        size = np.shape(whitener)[-1]
    except (ValueError, IndexError):  # a ragged list or a number: `_stacked` raises the error
        return dim
    return size if size and dim % size == 0 else dim


def _stacked(name: str, value: Any, shape: tuple[int | str, ...]) -> Floats:
    """Return an array of one policy, or of a mixture with a first axis for members."""
    try:
        stacked = np.ndim(value) > len(shape)
    except ValueError:  # a ragged list: `floats` raises the error
        stacked = False
    array = floats(name, value, ("M", *shape) if stacked else shape)
    if array.ndim > len(shape) and len(array) < 2:
        raise ValueError(f"{name} must be of two members or more, or of shape {shape}")
    return array
