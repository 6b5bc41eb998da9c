"""Terms of a protocol: who approves, which episodes are taken, which features are meant."""

from dataclasses import dataclass

from rareswitch.campaigns.record.names import checked_digest
from rareswitch.support.arguments import flag, one_of, set_fields, short_repr, whole

APPROVALS = ("schedule", "second-person")
LATE = ("learn", "record")


@dataclass(frozen=True, kw_only=True)
class Approval:
    """How a candidate comes into force.

    By the "schedule" alone, or signed by a "second-person" who did not propose it. After a
    rejection the schedule is asked again when `retry_after` more episodes were recorded.
    """

    by: str = "schedule"
    retry_after: int = 1

    def __post_init__(self) -> None:
        set_fields(
            self,
            by=one_of("by", self.by, APPROVALS),
            retry_after=whole("retry_after", self.retry_after, least=1),
        )


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Which episodes are taken.

    `late` says whether episodes of a version that is no longer in force are there to "learn" from,
    or only to "record". One that was not assigned may name an earlier version while at most `grace`
    episodes were recorded since that was replaced. With `assigned` only episodes that were assigned
    are taken at all.
    """

    late: str = "learn"
    grace: int = 1000
    assigned: bool = False

    def __post_init__(self) -> None:
        set_fields(
            self,
            late=one_of("late", self.late, LATE),
            grace=whole("grace", self.grace, least=0),
            assigned=flag("assigned", self.assigned),
        )


@dataclass(frozen=True, kw_only=True)
class FeatureName:
    """The feature map that actors use: its name, and the digest that tells it from others."""

    name: str
    digest: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a text; got {short_repr(self.name)}")
        if self.digest:
            checked_digest("digest", self.digest)
