"""What an actor reports of an episode: all that learning, evidence and a later reader need.

In JSON a report is an object with the names of the fields below; arrays are nested lists, and what
is None is left out:

    {"id": "site-3:0042", "version": 2, "features": [[…], …], "rewards": […], "next_features": […],
     "first_features": [[…], …], "actions": […], "propensities": […], "recommended": […],
     "site": "3", "began": "2026-11-02T09:00Z", "ended": "2026-11-16T10:30Z", "participant": "…"}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.campaigns.record.canonical import canonical_row, digest_of
from rareswitch.campaigns.record.names import checked_name, checked_text
from rareswitch.campaigns.record.strict_json import numbers, read_json, rows_at_once
from rareswitch.core.episode import Episode
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

# Of what is read: longer texts are no reports.
MOST_BYTES = 16 * 2**20
CLAIMS = ("site", "began", "ended")
ARRAYS = ("features", "rewards", "next_features", "lengths")
MORE_ARRAYS = ("first_features", "actions", "propensities", "recommended")
JSON_FIELDS = (
    "id", "version", "member", "features", "rewards", "next_features", *MORE_ARRAYS, *CLAIMS,
    "participant",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """One finished episode as an actor tells it.

    `version` is the one that acted; None is the version of the assignment, or the one in force.
    `member` follows from version and id, and is checked where it is told. For evidence about
    candidates a report tells more than a learner needs: `first_features` are the rows offered at
    the first state, `actions` (n,) the places of what was chosen among the rows offered, and
    `propensities` (n,) the probability of each action given those before, if others decide
    than the policy alone. `recommended` (n,) are the places of what the policy recommended, where
    people may choose otherwise. `site`, `began` and `ended` are claims. `participant` says who it
    was, and is kept apart.

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
    participant: str | None = None

    def __post_init__(self) -> None:
        self._check_words()
        self._check_offers()

    @classmethod
    def of_checked(cls, **told: Any) -> "Report":
        """Return a report whose arrays are known to be sound, and read-only: words are checked."""
        report = cls.__new__(cls)
        vars(report).update(told)
        report._check_words()
        return report

    def _check_words(self) -> None:
        """Refuse names and texts that are none, and anything that is no episode."""
        checked_name("id", self.id)
        if not isinstance(self.episode, Episode):
            raise TypeError(f"episode must be an Episode; got {short_repr(self.episode)}")
        for name, least in (("version", 1), ("member", 0)):
            if (given := getattr(self, name)) is not None:
                set_fields(self, **{name: whole(name, given, least=least, most=2**31)})
        for name in CLAIMS:
            if (text := getattr(self, name)) is not None:
                checked_text(name, text, most=1000)
        if self.participant is not None:
            _check_participant(self.participant)

    def _check_offers(self) -> None:
        """Refuse choices that are not among what was offered."""
        episode, steps, first = self.episode, len(self.episode), self.first_features
        if first is not None:
            if episode.one_hot:
                first = positions("first_features", first, LARGEST_COUNT)
            else:
                first = floats("first_features", first, ("A", episode.dim))
            if not len(first):
                raise ValueError("first_features must have at least one row; got none")
            set_fields(self, first_features=first)
        offered = [first, *episode.next_features][:steps]
        if self.recommended is not None:
            set_fields(self, recommended=_places("recommended", self.recommended, offered))
        if self.actions is not None:
            actions = _places("actions", self.actions, offered)
            set_fields(self, actions=actions)
            if not _were_chosen(actions, offered, episode.features):
                raise ValueError(
                    "actions must be the places of the features chosen among those offered; got "
                    f"{short_repr(actions)}"
                )
        if self.propensities is not None:
            chances = floats("propensities", self.propensities, (steps,))
            if chances.min() <= 0.0 or chances.max() > 1.0:
                raise ValueError(f"propensities must be above 0 and at most 1; got {chances.min()}")
            set_fields(self, propensities=chances)

    @property
    def total(self) -> float:
        """The return."""
        return float(np.add.reduce(self.episode.rewards))

    @property
    def claims(self) -> dict[str, str]:
        """What the actor claims besides the numbers."""
        return {name: text for name in CLAIMS if (text := getattr(self, name)) is not None}

    @cached_property
    def body(self) -> bytes:
        """The numbers, in the format of `support/codec.py`."""
        episode = self.episode
        arrays: codec.Arrays = {
            "features": episode.features,
            "rewards": episode.rewards,
            "next_features": episode.next_rows,
            "lengths": np.array(list(map(len, episode.next_features)), np.int64),
        }
        for name in MORE_ARRAYS:
            if (array := getattr(self, name)) is not None:
                arrays[name] = array
        return codec.pack("report", {}, arrays)

    @cached_property
    def digest(self) -> str:
        """What tells this report from another under the same id."""
        return digest_of(
            canonical_row(
                {
                    "id": self.id,
                    "version": self.version,
                    "member": self.member,
                    "claims": self.claims,
                    "body": self.body[-32:].hex(),
                }
            )
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> "Report":
        """Read one JSON object, strictly: nothing is converted, guessed or left out in silence."""
        return cls.from_plain(values_of(text))

    @classmethod
    def from_plain(cls, values: Any) -> "Report":
        """Read the fields of a report as JSON has them."""
        if not isinstance(values, Mapping):
            raise TypeError(f"a report must be an object; got {short_repr(values)}")
        if unknown := [name for name in values if name not in JSON_FIELDS]:
            raise ValueError(
                f"a report has no field {unknown[0]!r}; it has {', '.join(JSON_FIELDS)}"
            )
        given = {name: value for name, value in values.items() if value is not None}
        for name in ("id", "features", "rewards"):
            if name not in given:
                raise ValueError(f"a report needs {name}; it has {', '.join(given) or 'nothing'}")
        episode = _episode_told(
            given.pop("features"), given.pop("rewards"), given.pop("next_features", [])
        )
        for name in MORE_ARRAYS:
            if name in given:
                given[name] = numbers(name, given[name])
        return cls(episode=episode, **given)

    @property
    def plain(self) -> dict[str, Any]:
        """What `from_plain` takes, without who it was."""
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
        return {name: value for name, value in values.items() if value is not None} | self.claims

    @classmethod
    def from_body(cls, body: bytes, **known: Any) -> "Report":
        """Read what `body` returned, with what is known beside it."""
        parts = codec.unpack("report", body)
        more: dict[str, Any] = {
            name: parts.arrays[name] for name in MORE_ARRAYS if name in parts.arrays
        }
        with parts.reading():
            return cls(episode=_episode(parts), **more, **known)


def values_of(text: str | bytes) -> Any:
    """Return what the text of a report holds, whatever that is."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"a report must have at most {MOST_BYTES} bytes; got {len(text)}")
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a report must be JSON; {error}") from None


def _episode_told(features: Any, rewards: Any, following: Any) -> Episode:
    """Return the episode of lists as JSON has them."""
    if not isinstance(following, list):
        raise TypeError(f"next_features must be a list; got {short_repr(following)}")
    earned = numbers("rewards", rewards)
    rows = rows_at_once([features, *following])
    if (
        rows is not None
        and (found := Episode.from_rows(rows, earned, list(map(len, following)))) is not None
    ):
        return found
    return Episode(
        features=numbers("features", features),
        rewards=earned,
        next_features=[numbers(f"next_features[{t}]", rows) for t, rows in enumerate(following)],
    )


def episode_of(body: bytes) -> Episode:
    """Return the episode that a body holds, which was checked when it was recorded."""
    parts = codec.unpack("report", body)
    with parts.reading():
        return _episode(parts)


def return_of(body: bytes) -> float:
    """Return the return of the episode that a body holds, of which nothing else is looked at."""
    rewards = codec.unpack("report", body, only="rewards").arrays.get("rewards")
    if rewards is None or rewards.ndim != 1:
        raise ValueError("data must be a report; it has no rewards")
    return float(rewards.sum())


def _episode(parts: codec.Parts) -> Episode:
    parts.only(meta=(), arrays=ARRAYS, optional=MORE_ARRAYS)
    arrays = parts.arrays
    features, rewards, following = (arrays[name] for name in ARRAYS[:3])
    lengths: list[int] = arrays["lengths"].tolist()
    whole = len(features) == len(rewards) > 0 and sum(lengths) == len(following)
    if not whole or len(features) - len(lengths) not in (0, 1):
        raise ValueError("its arrays must be those of one episode")
    return Episode.trusted(features, rewards, following, lengths)


def _places(name: str, given: Any, offered: Sequence[Rows | None]) -> Ints:
    """Return places, one among the rows that were offered at each step, if these are known."""
    places = positions(name, given, 2**31)
    if len(places) != len(offered):
        raise ValueError(f"{name} must be one for each of {len(offered)} steps; got {len(places)}")
    for step, (rows, place) in enumerate(zip(offered, places.tolist(), strict=True)):
        if rows is not None and place >= len(rows):
            raise ValueError(
                f"{name} must be places among the {len(rows)} rows offered; got {place} at step "
                f"{step}"
            )
    return places


def _were_chosen(actions: Ints, offered: Sequence[Rows | None], features: Rows) -> bool:
    """Return whether the features are the rows at these places, wherever an offer is known."""
    unknown = sum(rows is None for rows in offered)  # the first, or none
    places = zip(offered[unknown:], actions[unknown:].tolist(), strict=True)
    chosen = [rows[place] for rows, place in places if rows is not None]
    taken = features[unknown:]
    same_bytes = b"".join([row.tobytes() for row in chosen]) == taken.tobytes()
    return same_bytes or bool(np.array_equal(chosen, taken))  # 0.0 and -0.0 are equal


def _check_participant(participant: Any) -> None:
    """Refuse what is no text, without repeating it: a refusal is on record for good."""
    try:
        checked_text("participant", participant, most=1000)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "participant must be a text of 1 to 1000 characters, none of them a control character"
        ) from None
