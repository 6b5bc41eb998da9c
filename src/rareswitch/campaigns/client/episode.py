"""An episode at a site: the assigned member's actions, the rewards, and the report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np

from rareswitch.campaigns.client.agreement import Agreement
from rareswitch.campaigns.client.assignments import Assignment
from rareswitch.campaigns.client.journal import Journal
from rareswitch.campaigns.report import checked_participant
from rareswitch.campaigns.report_values import report_from
from rareswitch.campaigns.rulebook.claims import (
    CLAIMED_TEXTS,
    CLAIMS,
    broken_claim,
    checked_events,
    occurred,
    undeclared_event,
)
from rareswitch.campaigns.rulebook.names import checked_text
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import Rows, real, short_repr, whole


@dataclass
class _Step:
    """An observed state, the recommended action, the action taken, and its reward."""

    seen: dict[str, Any]  # {"observation": …} or {"features": …}
    recommended: int
    taken: int
    reward: float | None = None


class Episode:
    """One episode in progress. Every change is on disk before a method returns.

    Leaving a `with` block reports the episode if every action has its reward. After an exception,
    or with an action without a reward, the episode stays in progress: `client.episode(id)`
    continues it, even in another process or after a crash.
    """

    def __init__(
        self,
        journal: Journal,
        assignment: Assignment,
        agreement: Agreement,
        policy: Policy,
        *,
        put: Callable[[dict[str, Any]], Any],
        now: Callable[[], str],
    ) -> None:
        self._journal, self._agreement, self._policy = journal, agreement, policy
        self._put, self._now = put, now
        self.assignment = assignment
        self._player = policy.player(assignment.member, assignment.key)
        self._steps: list[_Step] = []
        self._claims: dict[str, Any] = {}
        self._cut: dict[str, Any] | None = None
        self._report: dict[str, Any] | None = None
        for line in journal.lines:
            self._read(line)

    def _read(self, line: Mapping[str, Any]) -> None:
        """Update the state with a line of the journal."""
        self._claims |= line.get("claims", {})
        if "act" in line:
            self._steps.append(_Step(line["act"], line["place"], line["place"]))
        elif "take" in line:
            self._steps[-1].taken = line["take"]
        elif "reward" in line:
            self._steps[-1].reward = line["reward"]
        elif "cut" in line:
            self._cut = line["cut"]
        elif "report" in line:
            self._report = line["report"]

    def _write(self, line: dict[str, Any]) -> None:
        self._journal.append(line)
        self._read(line)

    @property
    def id(self) -> str:
        return self.assignment.episode_id

    @property
    def version(self) -> int:
        return self.assignment.version

    @property
    def member(self) -> int:
        return self.assignment.member

    @property
    def stage(self) -> int:
        """The number of actions so far."""
        return len(self._steps)

    @property
    def waits(self) -> bool:
        """Whether the last action waits for its reward."""
        return bool(self._steps) and self._steps[-1].reward is None

    @property
    def is_over(self) -> bool:
        """Whether the report exists; after a crash, it may not be in the outbox yet."""
        return self._report is not None or self._cut is not None

    @property
    def action(self) -> str | int:
        """The last action taken: its name, or its index for feature rows."""
        if not self._steps:
            raise ValueError("act must be called first: the episode has no action yet")
        return self._name(self._steps[-1].seen, self._steps[-1].taken)

    @property
    def probability(self) -> float:
        """The probability of the last recommended action, given the earlier actions."""
        chances = [
            self._policy.chances(stage, self._rows(step.seen, stage), step.recommended)
            for stage, step in enumerate(self._steps)
        ]
        if not chances:
            raise ValueError("act must be called first: the episode has no action yet")
        return float(self._policy.conditional(np.array(chances))[-1])

    def act(self, observation: Any) -> str | int:
        """Return the action's name for a raw observation, or its index for feature rows."""
        self._check_open()
        if self.waits:
            raise ValueError("reward must be called for the last action before the next act")
        horizon = self._agreement.task.horizon
        if self.stage >= horizon:
            raise ValueError(f"act must be called at most {horizon} times, the horizon")
        seen = self._seen(observation)
        place = int(self._player.act(self.stage, self._rows(seen, self.stage)))
        line = {"act": seen, "place": place}
        if not self._steps and "began" not in self._claims:
            line["claims"] = {"began": self._now()}
        self._write(line)
        return self._name(seen, place)

    def take(self, action: str | int) -> None:
        """Record that a person took another action than the recommended action."""
        self._check_open()
        if not self.waits:
            raise ValueError("take must be called after act and before reward")
        step = self._steps[-1]
        if "observation" in step.seen:
            place = self._agreement.observer.place(action)
        else:
            most = len(step.seen["features"]) - 1
            place = whole("action", action, least=0, most=most)
        self._write({"take": place})

    def reward(self, reward: float) -> None:
        """Record the reward of the last action, from 0 to 1."""
        self._check_open()
        if not self.waits:
            raise ValueError("act must be called first: no action waits for a reward")
        self._write({"reward": real("reward", reward, least=0.0, most=1.0)})

    def tell(self, **claims: Any) -> None:
        """Set site, began, ended, subgroup, events or participant; the last value counts."""
        self._check_open()
        self._write({"claims": checked_claims(self._agreement, claims)})

    def cut_off(self, observation: Any = None) -> None:
        """Report the episode as truncated in its last state.

        The state is `observation` (or feature rows); by default it is the state of the action
        without a reward, and the report omits that action.
        """
        self._check_open()
        if observation is not None and self.waits:
            raise ValueError("reward must be called for the last action before a new observation")
        if observation is None and not self.waits:
            raise ValueError(
                "observation must be the state in which the episode was cut off; got None, and no "
                "action waits for a reward"
            )
        if self.stage - self.waits < 1:
            raise ValueError("cut_off needs a step with a reward; cancel this episode instead")
        seen = {} if observation is None else self._seen(observation)
        self._write({"cut": seen})
        self.finish()

    def finish(self) -> None:
        """Put the report in the outbox and end the episode."""
        if self._cut is None and (self.waits or not self._steps):
            raise ValueError("reward must be called for the last action before finish")
        if self._report is None:
            self._write({"report": self._made_report()})
        assert self._report is not None
        # The journal holds the report: after a crash here, it goes to the outbox again.
        self._put(self._report)
        self._journal.remove()

    def suspend(self) -> None:
        """Leave the episode on disk, to continue later."""
        self._journal.close()

    def discard(self) -> None:
        """Remove the episode from disk without a report."""
        self._journal.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._journal.closed:
            return
        if kind is not None or self.waits:
            self.suspend()
        elif self._steps:
            self.finish()
        else:
            self.discard()

    def __repr__(self) -> str:
        return f"Episode({self.id!r}, version={self.version}, stage={self.stage})"

    def _check_open(self) -> None:
        if self._journal.closed or self.is_over:
            raise ValueError("the episode is closed; open it again with client.episode(id)")

    def _seen(self, observation: Any) -> dict[str, Any]:
        """Return an observation or feature rows as checked plain values."""
        if isinstance(observation, Mapping):
            observer = self._agreement.observer
            observer.rows(observation, self.stage)
            plain = {one.name: one.checked(observation[one.name]) for one in observer.columns}
            seen: dict[str, Any] = {"observation": plain}
        else:
            seen = {"features": self._agreement.offer(observation).tolist()}
        if self._steps and seen.keys() != self._steps[0].seen.keys():
            raise ValueError(
                "observation must be of one kind in an episode, columns or rows of features; got "
                f"{short_repr(observation)}"
            )
        return seen

    def _rows(self, seen: Mapping[str, Any], stage: int) -> Rows:
        if "observation" in seen:
            return self._agreement.observer.rows(seen["observation"], stage)
        return self._agreement.offer(seen["features"])

    def _name(self, seen: Mapping[str, Any], place: int) -> str | int:
        return self._agreement.actions[place] if "observation" in seen else place

    def _made_report(self) -> dict[str, Any]:
        """Return the report of the steps with a reward, with the server's checks."""
        steps = [step for step in self._steps if step.reward is not None]
        states = [step.seen for step in self._steps] + ([self._cut] if self._cut else [])
        told: dict[str, Any] = {"id": self.id, "version": self.version, "member": self.member}
        told["rewards"] = [step.reward for step in steps]
        if "observation" in states[0]:
            told["observations"] = [seen["observation"] for seen in states]
        else:
            offers = [seen["features"] for seen in states]
            told["features"] = [offers[t][step.taken] for t, step in enumerate(steps)]
            told["first_features"], *told["next_features"] = offers
        told["actions"] = [self._name(step.seen, step.taken) for step in steps]
        if any(step.taken != step.recommended for step in steps):
            told["recommended"] = [self._name(step.seen, step.recommended) for step in steps]
        told |= {"ended": self._now()} | self._claims
        check_report(self._agreement, told)
        return told


def checked_claims(agreement: Agreement, claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return valid claims without None values."""
    told: dict[str, Any] = {}
    for name, value in claims.items():
        if value is None:
            continue
        if name == "participant":
            told[name] = checked_participant(value)
        elif name == "events":
            told[name] = checked_events(value)
        elif name in CLAIMED_TEXTS:
            told[name] = checked_text(name, value, most=1000)
        else:
            raise TypeError(f"claims must be {', '.join(CLAIMS)} or participant; got {name!r}")
    kinds = undeclared_event(agreement.analysis, told.get("events"))
    if "events" in told:
        told["events"] = occurred(told["events"])
    claimed = {name: value for name, value in told.items() if name != "participant"}
    if (why := kinds or broken_claim(agreement.analysis, claimed)) is not None:
        raise ValueError(why)
    return told


def check_report(agreement: Agreement, values: Mapping[str, Any]) -> None:
    """Refuse a report that does not fit the protocol's task, before it enters the outbox."""
    raw = "observations" in values
    report = agreement.observer.report(values) if raw else report_from(values)
    episode, horizon = report.episode, agreement.task.horizon
    if len(episode) > horizon:
        raise ValueError(f"rewards must be at most {horizon}, the horizon; got {len(episode)}")
    agreement.rows(episode.features)
    if report.first_features is not None:
        agreement.offer(report.first_features, "first_features")
    for t, rows in enumerate(episode.next_features):
        agreement.offer(rows, f"next_features[{t}]")
    kinds = undeclared_event(agreement.analysis, report.events)
    if (why := kinds or broken_claim(agreement.analysis, report.claimed)) is not None:
        raise ValueError(why)
