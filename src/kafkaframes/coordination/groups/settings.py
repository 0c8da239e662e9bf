"""What a broker's configuration says about groups, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kafkaframes.errors import OptionError

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


# Settings that a group may have of its own, where nobody says otherwise; the intervals of assignments are Kafka's 1000.
OF_GROUPS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "consumer.assignment.interval.ms": 0,
        "consumer.heartbeat.interval.ms": 5_000,
        "consumer.session.timeout.ms": 45_000,
        "share.assignment.interval.ms": 0,
        "share.heartbeat.interval.ms": 5_000,
        "share.session.timeout.ms": 45_000,
        "streams.assignment.interval.ms": 1_000,
        "streams.heartbeat.interval.ms": 5_000,
        "streams.initial.rebalance.delay.ms": 0,
        "streams.num.standby.replicas": 0,
        "streams.session.timeout.ms": 45_000,
    }
)
GroupSetting = Callable[[str, str], int]  # a group's id and one of these names -> its value


def by_default(group_id: str, name: str) -> int:
    """Return a setting of a group that has none of its own."""
    return OF_GROUPS[name]


_POLICY: Final = "group.consumer.migration.policy"
UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})
POLICIES: Final = UPGRADES | DOWNGRADES | {"disabled"}


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
        """Return the settings that a configuration asks for.

        Args:
            text: a setting by Kafka's name; empty where nothing is known of it.

        Raises:
            OptionError: a value is no whole number, or no policy.
        """
        policy = (text(_POLICY) or "bidirectional").lower()
        if policy not in POLICIES:
            raise OptionError(f"{_POLICY} is {', '.join(sorted(POLICIES))}, not {policy!r}")
        return cls(consumer_migration_policy=policy, **numbers_of_config(CONFIG_NAMES, text))


def numbers_of_config(names: Mapping[str, str], text: Callable[[str], str]) -> dict[str, int]:
    """Return the whole numbers that a configuration gives, by our names.

    Args:
        names: ours, by Kafka's.
        text: a setting by Kafka's name; empty where nothing is known of it.

    Raises:
        OptionError: a value is no whole number.
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
