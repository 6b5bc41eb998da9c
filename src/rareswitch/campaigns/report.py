"""The report of an episode by an actor, with all data for learning, evidence and later readers."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import add
from types import MappingProxyType
from typing import Any

import numpy as np

from rareswitch.campaigns.rulebook.claims import CLAIMED_TEXTS, checked_events, occurred
from rareswitch.campaigns.rulebook.names import checked_name, checked_text
from rareswitch.campaigns.rulebook.rows import canonical, digest_of
from rareswitch.core.control import Player
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.support import codec
from rareswitch.support.arguments import (
    LARGEST_COUNT,
    Floats,
    Ints,
    Rows,
    floats,
    positions,
    set_fields,
    short_repr,
    whole,
)

ARRAYS = ("features", "rewards", "next_features", "lengths")
MORE_ARRAYS = ("first_features", "actions", "propensities", "recommended")


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """One finished episode, as its actor reports it.

    `version` is the version that acted; None means the assigned version, or the version in force.
    `member` follows from version and id; if given, it is checked. Evidence about candidates needs
    more data than a learner: `first_features` are the rows offered at the first state, `actions`
    (n,) the indices of the chosen rows among the offered rows, and `propensities` (n,) the
    probability of each action given the earlier actions, if the policy does not decide alone.
    `recommended` (n,) are the indices that the policy recommended, if people may choose otherwise.
    `site`, `began` and `ended` are unverified claims, and so are `subgroup` and `events`, which the
    protocol declares. `events` counts adverse events by kind. A kind with 0, or without a count,
    did not occur; an empty table means no events, and None means unknown. `participant` identifies
    the person, and is stored separately.

    >>> episode = Episode(features=[[1.0, 0.0]], rewards=[1.0], next_features=[])
    >>> Report(id="ada", episode=episode, version=1).digest[:12]
    '...'
    """

    id: str
    episode: Episode
    version: int | None = None
    member: int | None = None
    first_features: Rows | None = None
    actions: Ints | None = None
    propensities: Floats | None = None
    recommended: Ints | None = None
    site: str | None = None
    began: str | None = None
    ended: str | None = None
    subgroup: str | None = None
    events: Mapping[str, int] | None = None
    participant: str | None = None

    def __post_init__(self) -> None:
        self._check_words()
        self._check_offers()

    @classmethod
    def trusted(cls, **told: Any) -> "Report":
        """Return a report of read-only, validated arrays; only texts are checked."""
        report = cls._of(**told)
        report._check_words()
        return report

    @classmethod
    def _of(cls, **told: Any) -> "Report":
        """Return a report of these values without any check."""
        report = cls.__new__(cls)
        report.__dict__.update(told)
        return report

    def _check_words(self) -> None:
        """Refuse invalid texts, and an `episode` that is not an Episode."""
        checked_name("id", self.id)
        if not isinstance(self.episode, Episode):
            raise TypeError(f"episode must be an Episode; got {short_repr(self.episode)}")
        for name, least in (("version", 1), ("member", 0)):
            if (given := getattr(self, name)) is not None:
                set_fields(self, **{name: whole(name, given, least=least, most=2**31)})
        for name in CLAIMED_TEXTS:
            if (text := getattr(self, name)) is not None:
                set_fields(self, **{name: checked_text(name, text, most=1000)})
        if self.events is not None:
            set_fields(self, events=MappingProxyType(checked_events(self.events)))
        if self.participant is not None:
            set_fields(self, participant=checked_participant(self.participant))

    def _check_offers(self) -> None:
        """Refuse choices that are not among the offered rows."""
        episode, steps, first = self.episode, len(self.episode), self.first_features
        if first is not None:
            if episode.one_hot:
                first = positions("first_features", first, LARGEST_COUNT)
            else:
                first = floats("first_features", first, ("A", episode.dim))
            if not len(first):
                raise ValueError("first_features must have at least one row; got none")
            set_fields(self, first_features=first)
        sizes = (LARGEST_COUNT if first is None else len(first), *episode.lengths)[:steps]
        if self.recommended is not None:
            set_fields(self, recommended=_places("recommended", self.recommended, sizes))
        if self.actions is not None:
            actions = _places("actions", self.actions, sizes)
            set_fields(self, actions=actions)
            if not _were_chosen(actions, first, episode):
                raise ValueError(
                    "actions must be the places of the features chosen among those offered; got "
                    f"{short_repr(actions)}"
                )
        if self.propensities is not None:
            chances = floats("propensities", self.propensities, (steps,))
            if chances.min() <= 0.0 or chances.max() > 1.0:
                raise ValueError(f"propensities must be above 0 and at most 1; got {chances.min()}")
            set_fields(self, propensities=chances)

    @cached_property
    def total(self) -> float:
        return float(np.add.reduce(self.episode.rewards))

    @property
    def episode_with_offers(self) -> Episode:
        """The episode with `first_features`, for a rule that examines candidates."""
        told, first = self.episode, self.first_features
        return Episode.trusted(told.features, told.rewards, told.next_rows, told.lengths, first)

    @cached_property
    def claims(self) -> str:
        """Site, begin, end, subgroup and events in canonical JSON."""
        told = self.claimed
        return canonical(told) if told else "{}"

    @property
    def claimed(self) -> dict[str, Any]:
        """The claims as plain values."""
        told: dict[str, Any] = {
            name: text for name in CLAIMED_TEXTS if (text := getattr(self, name)) is not None
        }
        return told if self.events is None else told | {"events": occurred(self.events)}

    @cached_property
    def body(self) -> bytes:
        """The numbers, in the format of `support/codec.py`."""
        episode = self.episode
        arrays: codec.Arrays = {
            "features": episode.features,
            "rewards": episode.rewards,
            "next_features": episode.next_rows,
            "lengths": np.array(episode.lengths, np.int64),
        }
        for name in MORE_ARRAYS:
            if (array := getattr(self, name)) is not None:
                arrays[name] = array
        return codec.pack("report", {}, arrays)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 that distinguishes this report from another with the same id."""
        return report_digest(self.body, self.claims, self.id, self.version, self.member)

    @property
    def plain(self) -> dict[str, Any]:
        """The fields as JSON values, without the participant."""
        episode = self.episode
        values: dict[str, Any] = {
            "id": self.id,
            "version": self.version,
            "member": self.member,
            "features": episode.features.tolist(),
            "rewards": episode.rewards.tolist(),
            "next_features": [rows.tolist() for rows in episode.next_features],
        }
        for name in MORE_ARRAYS:
            if (array := getattr(self, name)) is not None:
                values[name] = array.tolist()
        return {name: value for name, value in values.items() if value is not None} | self.claimed

    @classmethod
    def from_body(cls, body: bytes, **known: Any) -> "Report":
        """Return the report in a body; it was checked when it was recorded."""
        (report,) = read_bodies([body])
        report.__dict__.update(known)
        return report


def report_digest(
    body: bytes, claims: str, name: str, version: int | None, member: int | None
) -> str:
    """Return the digest of the canonical JSON of a report's values.

    The body enters by its checksum. A name needs no escapes, and claims are JSON already.
    """
    told = ["null" if number is None else number for number in (member, version)]
    return digest_of(
        f'{{"body":"{body[-32:].hex()}","claims":{claims},"id":"{name}",'
        f'"member":{told[0]},"version":{told[1]}}}'
    )


def count_deviations(
    policy: Policy,
    members: Sequence[int],
    reports: Sequence[Report],
    keys: Sequence[str] | None = None,
) -> list[int | None]:
    """Count the steps of each report whose action differs from its member's action.

    The count is None for a report without actions or without `first_features`.
    `keys` drew the members, by default the reports' ids; a floor acts by its key.

    >>> episode = Episode(features=[[1.0, 0.0]], rewards=[1.0], next_features=[])
    >>> report = Report(id="ada", episode=episode, first_features=np.eye(2), actions=[0])
    >>> count_deviations(Policy(weights=[[0.0, 1.0]]), [0], [report])
    [1]
    """
    found: list[int | None] = [None] * len(reports)
    alike: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for place, report in enumerate(reports):
        if report.first_features is not None and report.actions is not None:
            if members[place] >= policy.members:  # a control, or the floor
                key = report.id if keys is None else keys[place]
                found[place] = _count_alone(policy.player(members[place], key), report)
                continue
            lengths = report.episode.lengths
            form = (len(report.actions), len(report.first_features), lengths)
            alike.setdefault(form, []).append(place)
    for (steps, size, lengths), places in alike.items():
        if {*lengths[: steps - 1]} <= {size}:  # usual: the same number of actions at all steps
            rows: list[Any] = []
            for place in places:
                following = reports[place].episode.next_rows[: (steps - 1) * size]
                rows += reports[place].first_features, following
            joined = np.concatenate(rows)
            offers = joined.reshape(len(places), steps, size, *joined.shape[1:])
            chosen = policy.act_through(offers, np.array([members[place] for place in places]))
            taken: Any = [reports[place].actions for place in places]
            counts = (chosen != np.concatenate(taken).reshape(chosen.shape)).sum(axis=1).tolist()
        else:
            counts = [_count_alone(policy.member(members[at]), reports[at]) for at in places]
        for place, count in zip(places, counts, strict=True):
            found[place] = count
    return found


def _count_alone(member: Policy | Player, report: Report) -> int:
    offers: list[Any] = [report.first_features, *report.episode.next_features]
    assert report.actions is not None
    return sum(
        member.act(stage, rows) != action
        for stage, (rows, action) in enumerate(zip(offers, report.actions.tolist(), strict=False))
    )


def episode_of(body: bytes) -> Episode:
    """Return the episode in a body; it was checked when it was recorded."""
    return read_bodies([body])[0].episode


def read_bodies(bodies: Sequence[bytes]) -> list[Report]:
    """Return the reports in bodies, without ids; bodies of one form are read together."""
    found: dict[int, Report] = {}
    alike: dict[tuple[bytes, int], list[int]] = {}
    for place, body in enumerate(bodies):
        alike.setdefault((_header(body), len(body)), []).append(place)
    for (header, _), places in alike.items():
        reports = _read_alike([bodies[place] for place in places], len(header))
        found.update(zip(places, reports, strict=True))
    return [found[place] for place in range(len(bodies))]


def pack_bodies(arrays: codec.Arrays) -> list[bytes]:
    """Return the bodies of reports of one form; `arrays` holds the stacked arrays by name."""
    first = codec.pack("report", {}, {name: array[0] for name, array in arrays.items()})
    header, parts = _header(first), [array.reshape(len(array), -1) for array in arrays.values()]
    values = np.concatenate([part.view(np.int64) for part in parts], axis=1)
    bodies = [header + row.tobytes() for row in values[1:]]
    return [first, *(body + hashlib.sha256(body).digest() for body in bodies)]


def _header(body: bytes) -> bytes:
    """Return the header of a body: the names, types and shapes of its arrays."""
    return body[: 14 + int.from_bytes(body[10:14], "little")]


def _read_alike(bodies: Sequence[bytes], start: int) -> list[Report]:
    """Return the reports of bodies with one header, whose values begin at byte `start`."""
    parts = codec.unpack("report", bodies[0])
    for body in bodies[1:]:
        if hashlib.sha256(memoryview(body)[:-32]).digest() != body[-32:]:
            codec.unpack("report", body)  # raises with the reason
    values = np.frombuffer(b"".join(bodies), np.uint8).reshape(len(bodies), -1)[:, start:-32]
    # Each report is aligned to 16 bytes, as if read alone: BLAS rounding may depend on alignment.
    block = np.zeros((len(bodies), -(-values.shape[1] // 16) * 16), np.uint8)
    block[:, : values.shape[1]] = values
    block.flags.writeable = False
    arrays, begin = codec.Arrays(), 0
    for name, first in parts.arrays.items():
        own = block[:, begin : (begin := begin + first.nbytes)]
        arrays[name] = own.view(first.dtype).reshape(len(bodies), *first.shape)
    with parts.reading():
        parts.only(meta=(), arrays=ARRAYS, optional=MORE_ARRAYS)
        steps, rewarded, rows, cuts = (len(parts.arrays[name]) for name in ARRAYS)
        lengths: list[list[int]] = arrays["lengths"].tolist()
        whole = steps == rewarded > 0 and steps - cuts in (0, 1)
        if not whole or {*map(sum, lengths)} != {rows}:
            raise ValueError("its arrays must be those of one episode")
        more = [name for name in MORE_ARRAYS if name in arrays]
        totals = np.add.reduce(arrays["rewards"], axis=1).tolist()
        told = zip(*(arrays[name] for name in (*ARRAYS[:3], *more)), strict=True)
        return [
            Report._of(
                episode=Episode.trusted(features, rewards, following, lengths[place]),
                total=totals[place],
                **dict(zip(more, others, strict=True)),
            )
            for place, (features, rewards, following, *others) in enumerate(told)
        ]


def _places(name: str, given: Any, sizes: Sequence[int]) -> Ints:
    """Return indices, one into the offered rows of each step."""
    places = positions(name, given, 2**31)
    if len(places) != len(sizes):
        raise ValueError(f"{name} must be one for each of {len(sizes)} steps; got {len(places)}")
    for step, (size, place) in enumerate(zip(sizes, places.tolist(), strict=True)):
        if place >= size:
            raise ValueError(
                f"{name} must be places among the {size} rows offered; got {place} at step {step}"
            )
    return places


def _were_chosen(actions: Ints, first: Rows | None, episode: Episode) -> bool:
    """Return whether the features are the rows at these indices, at all steps with known offers."""
    data, sizes, unknown = episode.next_rows.tobytes(), episode.lengths, 1
    if first is not None:
        data, sizes, unknown = first.tobytes() + data, (len(first), *sizes), 0
    taken, width = episode.features[unknown:], episode.features.nbytes // len(episode)
    rows = map(add, accumulate(sizes, initial=0), actions[unknown:].tolist())
    chosen = b"".join([data[row * width : (row + 1) * width] for row in rows])
    if chosen == taken.tobytes():
        return True
    return bool((np.frombuffer(chosen, taken.dtype) == taken.ravel()).all())  # 0.0 equals -0.0


def checked_participant(participant: Any) -> str:
    """Return a participant's name; an error omits it, because a refusal is recorded permanently."""
    try:
        return checked_text("participant", participant, most=1000)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "participant must be a text of one line, 1 to 1000 visible characters"
        ) from None
