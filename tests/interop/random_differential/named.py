"""The table of named differences: values that always differ, and differences by design, each with its reason.

A row applies if its API and path match the field. A row with ``when`` also checks both values. ``docs/tables.py``
prints the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class NamedDifference:
    """An accepted difference.

    Attributes:
        apis: a pattern for API names.
        path: a pattern for field paths such as ``$.topics[].errorCode``.
        reason: the reason of the difference, for the docs.
        when: a condition on our value and Kafka's; by default, all values match.
        parts: whether the brokers' states diverge, which ends the episode.
    """

    apis: str
    path: str
    reason: str
    when: Callable[[Any, Any], bool] = field(default=lambda ours, theirs: True)
    parts: bool = False

    @property
    def shown(self) -> str:
        """The field, for the docs."""
        return re.sub(r"\(\?i\)|[\\$^.]", "", self.path) or "the answer"

    def fits(self, api: str, path: str, ours: Any, theirs: Any) -> bool:
        """Return whether this row applies to a difference."""
        return bool(re.fullmatch(self.apis, api) and re.search(self.path, path) and self.when(ours, theirs))


def either(*pairs: tuple[Any, Any]) -> Callable[[Any, Any], bool]:
    """Return a condition that is true for certain pairs of our value and Kafka's."""
    return lambda ours, theirs: (ours, theirs) in pairs


# Values that differ between any two clusters.
CLUSTER_SPECIFIC = (
    NamedDifference(".*", r"\.(host|port|clusterId|rack|clientHost|controllerId)$", "where a broker is"),
    NamedDifference(".*", r"(?i)(errorMessage|message)$", "texts of errors"),
    NamedDifference(".*", r"\.throttleTimeMs$", "quotas throttle nobody here"),
    NamedDifference("DescribeLogDirs", r"\.(logDir|totalBytes|usableBytes|partitionSize|size|offsetLag)$", "the disk"),
    NamedDifference(".*", r"\.(logAppendTimeMs|transactionStartTimeMs|lastTimestamp)$", "a clock"),
)


def of_kind(ours: Any, theirs: Any) -> bool:
    """Return whether both are lists."""
    return isinstance(ours, list) and isinstance(theirs, list)


def differs_in_rejection(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka fails with an internal error and our broker rejects the request."""
    return theirs == -1 and ours != 0


def never_answered(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka never responds."""
    return theirs == "no answer yet"


def has_internal_failure(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka fails with an internal error and our broker responds; compares a whole response."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    return (ours.get("errorCode"), theirs.get("errorCode")) == (0, -1)


def has_one_unwritten_group(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka lists one more consumer group than our broker."""
    more = [row for row in theirs if row not in ours]
    return len(theirs) == len(ours) + 1 == len(ours) + len(more) and more[0]["protocolType"] == "consumer"


def both_now(ours: Any, theirs: Any) -> bool:
    """Return whether both values are times during the run."""
    return isinstance(ours, int) and isinstance(theirs, int) and min(ours, theirs) > _NOW_MS


_NOW_MS = 1_750_000_000_000

# Differences by design.
NAMED_DIFFERENCES = (
    NamedDifference(
        "ApiVersions",
        r"\.apiKeys",
        "APIs that are not implemented, or that are listed for client tests; see the table above",
    ),
    NamedDifference(
        "ApiVersions",
        r"(supported|finalized)Features",
        "kraft.version is 0 in a cluster with static voters, and always 1 here",
    ),
    NamedDifference(
        "CreateTopics|DescribeConfigs", r"\.configs", "settings that the broker does not use are not listed"
    ),
    NamedDifference(
        ".*",
        r"(?i)errorCode$",
        "if Kafka fails internally (UNKNOWN_SERVER_ERROR), the broker returns the specific error",
        differs_in_rejection,
    ),
    NamedDifference(
        "AddPartitionsToTxn", r"^\$$", "Kafka never responds to version 4 without transactions", never_answered
    ),
    NamedDifference(
        "AlterConfigs",
        r"^\$$",
        "Kafka never responds if a resource is listed twice, because counting the errors fails",
        never_answered,
    ),
    NamedDifference(
        "Produce|TxnOffsetCommit",
        r"\.errorCode$",
        "Kafka sends one request to its coordinator for several clients, and uses the first client's "
        "version for all of them",
        either((120, 48), (48, 120)),
    ),
    NamedDifference(
        "ListGroups",
        r"\.groups\.length$",
        "an empty consumer group that a JoinGroup with a member id has removed; Kafka lists it until its next write",
        has_one_unwritten_group,
    ),
    NamedDifference(
        "ShareFetch",
        r"\.partitions\[\]$",
        "with read_committed, Kafka fails (UNKNOWN_SERVER_ERROR) if the group's position is inside an aborted batch",
        has_internal_failure,
    ),
    NamedDifference(
        "ShareFetch",
        r"^\$$",
        "Kafka fails (UNKNOWN_SERVER_ERROR) if a session starts with an unknown topic id; here the "
        "topic's row has the error",
        has_internal_failure,
    ),
    NamedDifference(
        "IncrementalAlterConfigs",
        r"\.responses\[\]\.errorCode$",
        "if a resource has two invalid changes, Kafka returns the error that is first in its hash table",
        either((42, 40)),
    ),
    NamedDifference(
        "DeleteGroups",
        r"\.results\[\]$",
        "Kafka fails (UNKNOWN_SERVER_ERROR) if offsets of a share group were set for an unknown partition",
        has_internal_failure,
        parts=True,
    ),
    NamedDifference("CreateTopics", r"\.topicId$", "Kafka assigns an id even if it only validates the topic"),
    NamedDifference("ListOffsets", r"\.timestamp$", "the timestamp of a marker", both_now),
)

# Differences from Kafka 3.9.1 with ``broker_release="3.9"``, whose group coordinator has different code, by API and
# version.
DIFFERENCES_OF_3_9 = (
    NamedDifference(
        "OffsetCommit 0",
        r"\.errorCode$",
        "3.9 stores these offsets in ZooKeeper, and rejects them in a cluster without it; here they "
        "are stored like those of later versions",
        lambda ours, theirs: theirs == _UNSUPPORTED_VERSION,
    ),
    NamedDifference(
        "OffsetFetch 0",
        r"\.(errorCode|committedOffset)$",
        "as for OffsetCommit 0; if the client may not describe the group, 3.9 returns "
        "GROUP_AUTHORIZATION_FAILED, and this broker UNKNOWN_TOPIC_OR_PARTITION",
        lambda ours, theirs: theirs in (_UNSUPPORTED_VERSION, _GROUP_AUTHORIZATION_FAILED, -1),
    ),
    NamedDifference(
        "OffsetFetch 1",
        r"\.topics\.length$",
        "if the client may not describe the group, 3.9 returns no rows and no error; here each row has the error",
        lambda ours, theirs: theirs == 0,
    ),
    NamedDifference(
        "ConsumerGroupDescribe 0",
        r"\.(groupEpoch|assignmentEpoch)$",
        "a new group has epoch 1 in 3.9; here it has epoch 2 if its first member subscribes to topics, as from 4.0 on",
        either((2, 1)),
    ),
)
_UNSUPPORTED_VERSION, _GROUP_AUTHORIZATION_FAILED = 35, 30


def find_named(api: str, path: str, ours: Any, theirs: Any) -> NamedDifference | None:
    """Return the row that applies to a difference, or None."""
    return next((row for row in (*CLUSTER_SPECIFIC, *NAMED_DIFFERENCES) if row.fits(api, path, ours, theirs)), None)
