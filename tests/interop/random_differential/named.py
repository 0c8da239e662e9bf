"""What is free, and what differs by design: the table of named differences, each with its reason.

A row is free where the path of a field matches; a ``when`` further looks at both values. ``docs/tables.py`` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Named:
    """A difference that may be.

    Attributes:
        apis: a pattern for the API's name.
        path: a pattern for the field, as in ``$.topics[].errorCode``.
        reason: why it is there, for the docs.
        when: of our value and Kafka's; always by default.
        parts: from here on the two have not done the same: the episode ends.
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
        """Return whether this row names a difference."""
        return bool(re.fullmatch(self.apis, api) and re.search(self.path, path) and self.when(ours, theirs))


def either(*pairs: tuple[Any, Any]) -> Callable[[Any, Any], bool]:
    """Return a check for certain pairs of our value and Kafka's."""
    return lambda ours, theirs: (ours, theirs) in pairs


# What no two clusters share.
FREE = (
    Named(".*", r"\.(host|port|clusterId|rack|clientHost|controllerId)$", "where a broker is"),
    Named(".*", r"(?i)(errorMessage|message)$", "texts of errors"),
    Named(".*", r"\.throttleTimeMs$", "quotas throttle nobody here"),
    Named("DescribeLogDirs", r"\.(logDir|totalBytes|usableBytes|partitionSize|size|offsetLag)$", "the disk"),
    Named(".*", r"\.(logAppendTimeMs|transactionStartTimeMs|lastTimestamp)$", "a clock"),
)


def of_kind(ours: Any, theirs: Any) -> bool:
    """Return whether both are lists."""
    return isinstance(ours, list) and isinstance(theirs, list)


def refused_else(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka failed where we refuse."""
    return theirs == -1 and ours != 0


def never_answered(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka is silent for good."""
    return theirs == "no answer yet"


def failed_inside(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka failed where we answer: a row of an answer, compared as a whole."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    return (ours.get("errorCode"), theirs.get("errorCode")) == (0, -1)


def removed_unwritten(ours: Any, theirs: Any) -> bool:
    """Return whether Kafka lists one group of consumers more than we."""
    more = [row for row in theirs if row not in ours]
    return len(theirs) == len(ours) + 1 == len(ours) + len(more) and more[0]["protocolType"] == "consumer"


def both_now(ours: Any, theirs: Any) -> bool:
    """Return whether both are times of the run."""
    return isinstance(ours, int) and isinstance(theirs, int) and min(ours, theirs) > _NOW_MS


_NOW_MS = 1_750_000_000_000

# What is here otherwise, by design.
NAMED = (
    Named(
        "ApiVersions", r"\.apiKeys", "APIs that are not built, or are listed for tests of clients; see the table above"
    ),
    Named(
        "ApiVersions",
        r"(supported|finalized)Features",
        "levels of kraft.version: a cluster with static voters has 0, here it is always 1",
    ),
    Named("CreateTopics|DescribeConfigs", r"\.configs", "settings that have no meaning here are not listed"),
    Named(
        ".*",
        r"(?i)errorCode$",
        "where Kafka fails inside (UNKNOWN_SERVER_ERROR), the error that says why",
        refused_else,
    ),
    Named("AddPartitionsToTxn", r"^\$$", "Kafka never answers version 4 without transactions", never_answered),
    Named(
        "AlterConfigs",
        r"^\$$",
        "Kafka never answers where a resource comes twice: it fails inside while it counts the errors",
        never_answered,
    ),
    Named(
        "Produce|TxnOffsetCommit",
        r"\.errorCode$",
        "Kafka asks its coordinator about many clients at once, and answers all of them by the version of the first",
        either((120, 48), (48, 120)),
    ),
    Named(
        "ListGroups",
        r"\.groups\.length$",
        "an empty consumer group that JoinGroup with a member id has ended: Kafka lists it until it writes something",
        removed_unwritten,
    ),
    Named(
        "ShareFetch",
        r"\.partitions\[\]$",
        "Kafka fails (UNKNOWN_SERVER_ERROR) with read_committed where a group stands inside an aborted batch",
        failed_inside,
    ),
    Named(
        "ShareFetch",
        r"^\$$",
        "Kafka fails (UNKNOWN_SERVER_ERROR) where a session begins with an id that no topic has; here its row says so",
        failed_inside,
    ),
    Named(
        "IncrementalAlterConfigs",
        r"\.responses\[\]\.errorCode$",
        "of two wrong changes in one resource Kafka answers the one that its hash table has first",
        either((42, 40)),
    ),
    Named(
        "DeleteGroups",
        r"\.results\[\]$",
        "Kafka fails (UNKNOWN_SERVER_ERROR) where offsets of a share group were set for an unknown partition",
        failed_inside,
        parts=True,
    ),
    Named("CreateTopics", r"\.topicId$", "Kafka gives an id to a topic that it only validates"),
    Named("ListOffsets", r"\.timestamp$", "a marker's time", both_now),
)

# Beside Kafka 3.9.1 with ``broker_release="3.9"``, whose groups are coordinated by other code; of an API and a version.
OF_3_9 = (
    Named(
        "OffsetCommit 0",
        r"\.errorCode$",
        "3.9 keeps these offsets in ZooKeeper, and refuses them where there is none; here they are like the others",
        lambda ours, theirs: theirs == _UNSUPPORTED_VERSION,
    ),
    Named(
        "OffsetFetch 0",
        r"\.(errorCode|committedOffset)$",
        "likewise; without the right to the group 3.9 answers its error, here it is UNKNOWN_TOPIC_OR_PARTITION",
        lambda ours, theirs: theirs in (_UNSUPPORTED_VERSION, _GROUP_AUTHORIZATION_FAILED, -1),
    ),
    Named(
        "OffsetFetch 1",
        r"\.topics\.length$",
        "without the right to the group 3.9 answers without rows and errors; here each row has the error",
        lambda ours, theirs: theirs == 0,
    ),
    Named(
        "ConsumerGroupDescribe 0",
        r"\.(groupEpoch|assignmentEpoch)$",
        "a new group is in epoch 1 in 3.9; here in 2 if its first member reads topics, as from 4.0 on",
        either((2, 1)),
    ),
)
_UNSUPPORTED_VERSION, _GROUP_AUTHORIZATION_FAILED = 35, 30


def name_of(api: str, path: str, ours: Any, theirs: Any) -> Named | None:
    """Return the row that names a difference, or None."""
    return next((row for row in (*FREE, *NAMED) if row.fits(api, path, ours, theirs)), None)
