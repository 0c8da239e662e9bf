"""Interfaces that the coordinators need: a clock, a log for records, and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Protocol

from kafkaframes.errors import ErrorCode, OptionError, RefusedError
from kafkaframes.wire.integers import MAX_INT32

Record = tuple[bytes, bytes | None]  # key and value; a value of None is a tombstone


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock(Protocol):
    """The broker's clock."""

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, for times that are stored, displayed, or compared with a stored time."""

    @property
    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that is never adjusted, for timeouts and intervals."""

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds."""


class CoordinatorLog(Protocol):
    """An internal topic: ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``."""

    @property
    def partitions(self) -> int:
        """Number of partitions."""

    def append(
        self, partition: int, records: Sequence[Record], *, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        """Append the records as one batch. With a producer id, the batch is part of that producer's transaction."""


_NO_GENERATION = -1


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class OffsetClient(NamedTuple):
    """The client of an OffsetCommit or OffsetFetch request.

    Attributes:
        generation: generation of a classic group, or member epoch of a consumer group; -1 for a client that is not a
            member.
        has_member_field: whether the version of an OffsetFetch request has a member id. If the version has this field,
            a consumer group rejects an empty member id.
        supports_epoch_errors: whether the response may have KIP-848's error codes (OffsetCommit and OffsetFetch 9 and
            later).
    """

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = _NO_GENERATION
    supports_epoch_errors: bool = True
    has_member_field: bool = False


class LoadedRecord(NamedTuple):
    """A record that is read from an internal topic.

    Attributes:
        key, value: bytes of the record, or of the control record for a marker.
        producer_id, producer_epoch: fields of the batch; -1 without a producer.
        is_transactional: whether the record takes effect only when its transaction commits.
        is_marker: whether the record ends the transaction of ``producer_id``. ``is_commit`` is the marker's outcome.
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
        """Whether a marker commits. A control record's key has a version and a type; type 1 is COMMIT."""
        return self.key is not None and self.key[2:4] == b"\x00\x01"


class Group(Protocol):
    """A group of any type (classic, consumer, share, streams), as seen by offset commits and administration."""

    group_id: str
    type: ClassVar[str]

    @property
    def members(self) -> Mapping[str, object]:
        """Members by member id."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state_name(self) -> str:
        """Name of the state, in Kafka's spelling."""

    @property
    def protocol_type_name(self) -> str:
        """The protocol type; empty if the group has none."""
        return self.type

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic."""

    def check_commit(self, committer: OffsetClient, *, transactional: bool) -> None:
        """Reject a commit of a client that is not a member, or has a stale epoch."""

    def check_fetch(self, committer: OffsetClient) -> None:
        """Reject an OffsetFetch of a client that is no longer a member. By default every client may fetch."""
        return

    def check_offset_delete(self) -> None:
        """Reject the deletion of single offsets in the cases where Kafka rejects it.

        By default, the deletion is allowed.
        """
        return

    def check_delete(self) -> None:
        """Reject the deletion of a group that has members (NON_EMPTY_GROUP)."""
        if not self.is_empty:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP)

    def get_retention_start_function(self) -> Callable[[int], int] | None:
        """Return a function that maps an offset's commit time to the start of its retention, both in milliseconds.

        By default retention starts at the commit. None means that no offset of the group can expire now.
        """
        return lambda commit_ms: commit_ms

    def stop_timers(self) -> None:
        """Cancel all scheduled calls of the group."""


ATTRIBUTES_BY_SETTING: Final[Mapping[str, str]] = MappingProxyType(
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


GroupSetting = Callable[[str, str], int]  # (group id, name of a group setting) -> value
_MIGRATION_POLICY_SETTING: Final = "group.consumer.migration.policy"
UPGRADE_POLICIES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADE_POLICIES: Final = frozenset({"downgrade", "bidirectional"})
MIGRATION_DISABLED: Final = "disabled"
MIGRATION_POLICIES: Final = UPGRADE_POLICIES | DOWNGRADE_POLICIES | {MIGRATION_DISABLED}


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of the group coordinator. The defaults are the same as in Kafka, except for the initial rebalance delay.

    Attributes:
        initial_rebalance_delay_ms: time for which a new group waits for more members, in milliseconds. Kafka's default
            is 3000. The default here is 0, because the delay would slow down each test and each short program.
        consumer_migration_policy: conversions that are allowed for groups with members: ``disabled``, ``upgrade``,
            ``downgrade`` or ``bidirectional``.
        new_member_join_timeout_ms: longest time that a new member's JoinGroup request waits, in milliseconds (an
            internal setting of Kafka).
    """

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = MAX_INT32
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    consumer_max_size: int = MAX_INT32
    share_max_size: int = 200
    streams_max_size: int = MAX_INT32
    consumer_migration_policy: str = "bidirectional"

    @property
    def offsets_retention_ms(self) -> int:
        """Retention of offsets after their group becomes empty or a standalone consumer commits, in milliseconds."""
        return self.offsets_retention_minutes * 60_000

    @classmethod
    def from_config(cls, text: Callable[[str], str]) -> GroupSettings:
        """Create the settings from a broker's configuration.

        Raises:
            OptionError: a value is not valid; the message names the setting.
        """
        policy = (text(_MIGRATION_POLICY_SETTING) or "bidirectional").lower()
        if policy not in MIGRATION_POLICIES:
            raise OptionError(
                f"{_MIGRATION_POLICY_SETTING} is {policy!r}; expected one of {', '.join(sorted(MIGRATION_POLICIES))}"
            )
        return cls(consumer_migration_policy=policy, **read_integers_from_config(ATTRIBUTES_BY_SETTING, text))


def read_integers_from_config(names: Mapping[str, str], text: Callable[[str], str]) -> dict[str, int]:
    """Return the integer settings of a configuration, by attribute name.

    Args:
        names: attribute name by Kafka's name of the setting.
        text: function that returns a setting's value by Kafka's name, or an empty text if the setting is not set.

    Raises:
        OptionError: a value is not an integer; the message names the setting.
    """
    numbers: dict[str, int] = {}
    for key, name in names.items():
        value = text(key)
        if value:
            try:
                numbers[name] = int(value)
            except ValueError:
                raise OptionError(f"{key} is {value!r}; expected an integer") from None
    return numbers
