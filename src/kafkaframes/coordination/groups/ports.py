"""What the coordinators need from outside: the time, a log to write their records into, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol

from kafkaframes.errors import ErrorCode, OptionError, RefusedError

Record = tuple[bytes, bytes | None]  # key, value; no value is a tombstone


class Timer(Protocol):
    """Something that is due at a time."""

    def cancel(self) -> None:
        """Never call it."""


class Clock(Protocol):
    """The broker's clock."""

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970: for what is stored, shown, or compared with a stored time."""

    @property
    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, unaffected when the system's time is set: for timeouts and intervals."""

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds."""


class CoordinatorLog(Protocol):
    """An internal topic: ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``."""

    @property
    def partitions(self) -> int:
        """How many partitions it has."""

    def append(
        self, partition: int, records: Sequence[Record], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        """Write the records as one batch, or raise; with a producer id as part of its transaction."""


_NONE = -1


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class Committer(NamedTuple):
    """Who commits, or fetches.

    Attributes:
        generation: of a classic group; the member epoch of a consumer group; -1 for nobody.
        says_member: a fetch says which member it is from; to a consumer group "" is one, and none of its own.
        knows_epochs: the request can be answered with the errors of KIP-848 (OffsetCommit and OffsetFetch 9 and later).
    """

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = _NONE
    knows_epochs: bool = True
    says_member: bool = False


class LoadedRecord(NamedTuple):
    """A record of an internal topic as it is read back.

    Attributes:
        key, value: its bytes; a marker's are those of the control record.
        producer_id, producer_epoch: of its batch; -1 without a producer.
        is_transactional: it counts once its transaction is committed.
        is_marker: it ends the transaction of ``producer_id``: ``is_commit`` says how.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_marker: bool

    @property
    def is_commit(self) -> bool:
        """Whether a marker commits: its key is version and type, type 1 is COMMIT."""
        return self.key is not None and self.key[2:4] == b"\x00\x01"


class Group(Protocol):
    """A group of any type (classic, consumer, share, streams), for the rules of offsets and of administration."""

    group_id: str
    type: ClassVar[str]

    @property
    def members(self) -> Mapping[str, object]:
        """By member id."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def state_name(self) -> str:
        """Its state, in Kafka's spelling."""

    @property
    def protocol_type_name(self) -> str:
        """The type of its protocol; empty where there is none."""
        return self.type

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""

    def check_commit(self, committer: Committer, *, transactional: bool) -> None:
        """Refuse a commit of somebody who may not."""

    def check_fetch(self, committer: Committer) -> None:
        """Refuse to give offsets to somebody who is no member any more; by default nobody is refused."""
        return

    def check_offset_delete(self) -> None:
        """Refuse to delete single offsets, as Kafka refuses it; by default it does not."""
        return

    def check_delete(self) -> None:
        """Refuse to delete a group with members: NON_EMPTY_GROUP."""
        if not self.is_empty:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP)

    def offsets_age_from(self) -> Callable[[int], int] | None:
        """Return from when on a commit ages, of when it was made: by default from then. None: nothing expires now."""
        return lambda commit_ms: commit_ms

    def stop_timers(self) -> None:
        """Cancel everything that is due for it."""


CONFIG_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "group.initial.rebalance.delay.ms": "initial_rebalance_delay_ms",
        "group.min.session.timeout.ms": "min_session_timeout_ms",
        "group.max.session.timeout.ms": "max_session_timeout_ms",
        "group.max.size": "max_size",
        "group.new.member.join.timeout.ms": "new_member_join_timeout_ms",
        "offset.metadata.max.bytes": "offset_metadata_max_bytes",
        "offsets.retention.minutes": "offsets_retention_minutes",
        "offsets.retention.check.interval.ms": "offsets_retention_check_interval_ms",
        "group.consumer.max.size": "consumer_max_size",
        "group.share.max.size": "share_max_size",
        "group.streams.max.size": "streams_max_size",
    }
)


GroupSetting = Callable[[str, str], int]  # a group's id, and the name of a setting of its own -> the value
_POLICY: Final = "group.consumer.migration.policy"
UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})
MIGRATION_DISABLED: Final = "disabled"
POLICIES: Final = UPGRADES | DOWNGRADES | {MIGRATION_DISABLED}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of the group coordinator; the defaults are Kafka's but for the initial delay.

    Attributes:
        initial_rebalance_delay_ms: how long a new group waits for more members; Kafka's is 3000, which every test and
            every short program would wait for.
        consumer_migration_policy: which conversions of groups with members are allowed: ``disabled``, ``upgrade``,
            ``downgrade`` or ``bidirectional``.
        new_member_join_timeout_ms: how long a new member's JoinGroup may be parked (an internal setting of Kafka's).
    """

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    consumer_max_size: int = 2**31 - 1
    share_max_size: int = 200
    streams_max_size: int = 2**31 - 1
    consumer_migration_policy: str = "bidirectional"

    @property
    def offsets_retention_ms(self) -> int:
        """How long offsets outlive their group, or a standalone consumer's commit."""
        return self.offsets_retention_minutes * 60_000

    @classmethod
    def of_config(cls, text: Callable[[str], str]) -> GroupSettings:
        """Return the settings that a configuration asks for; an ``OptionError`` names a wrong value."""
        policy = (text(_POLICY) or "bidirectional").lower()
        if policy not in POLICIES:
            raise OptionError(f"{_POLICY} is {', '.join(sorted(POLICIES))}, not {policy!r}")
        return cls(consumer_migration_policy=policy, **numbers_of_config(CONFIG_NAMES, text))


def numbers_of_config(names: Mapping[str, str], text: Callable[[str], str]) -> dict[str, int]:
    """Return the whole numbers that a configuration gives, by our names; an ``OptionError`` names a wrong one.

    Args:
        names: ours, by Kafka's.
        text: a setting by Kafka's name; empty where nothing is known of it.
    """
    numbers: dict[str, int] = {}
    for key, name in names.items():
        said = text(key)
        if said:
            try:
                numbers[name] = int(said)
            except ValueError:
                raise OptionError(f"{key} is a whole number, not {said!r}") from None
    return numbers
