"""Whether a partition holds anything between two offsets: its end may lie behind its last batch.

Compaction can take every batch of a log's last segments while the log still ends where it did. A consumer waits there
for what never comes: an answer without records says nothing by itself, as a broker leaves out what another partition
had no space for, and answers nothing while a tiered store is slow (KIP-405).
"""

from __future__ import annotations

from typing import Final

from kafkaframes.client import offsets
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.fetch_session import NO_SESSION, NONE, Requested, SessionRequest
from kafkaframes.client.fetcher import BY_ID, write_partitions
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import broker_error
from kafkaframes.protocol.spec.model import NIL_UUID
from kafkaframes.protocol.spec.versions import Versions

_LOCAL_SINCE: Final = 8  # of ListOffsets: brokers of before have no tiered storage
_LIST_OFFSETS: Final = 2
_FETCH_BYTES: Final = 1 << 20


async def holds_nothing(
    cluster: ClusterClient, partition: TopicPartition, first: int, end: int, *, read_committed: bool = False
) -> bool:
    """Return whether a log is known to have no batch with offsets from ``first`` on, below ``end``.

    The leader is asked for this partition alone, of which it must give a batch if there is one; what a tiered store
    holds may come later, and is never said not to be there.

    Args:
        cluster: whom to ask.
        partition: which.
        first, end: offsets; the end is exclusive.
        read_committed: whether ``end`` is a last stable offset, else a high watermark.

    Raises:
        BrokerError: the leader refuses, or nobody leads the partition.
        NetworkError: the leader cannot be reached.
    """
    leader = await cluster.leader_of(partition)
    connection = await cluster.connection(leader)
    if connection.ranges.get(_LIST_OFFSETS, Versions.NONE).highest >= _LOCAL_SINCE:
        local = await offsets.ends(cluster, [partition], offsets.EARLIEST_LOCAL)
        if local[partition] > first:
            return False
    cls = cluster.settings.message("FetchRequest")
    body = cls(max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES, isolation_level=int(read_committed))
    topic_id = cluster.cluster.topic_id(partition.topic)
    at = connection.version_of(body, most=BY_ID - 1 if topic_id == NIL_UUID else None)
    requested = {partition: Requested(first, _FETCH_BYTES, -1, topic_id)}
    write_partitions(body, SessionRequest(NO_SESSION, NONE, [partition], {}), requested, at)
    response = await connection.request(body, version=at)
    answers = [entry for topic in response.responses for entry in topic.partitions]
    number = response.error_code or (answers[0].error_code if answers else 0)
    if number:
        raise broker_error(number, f"fetch of {partition}")
    if len(answers) != 1 or answers[0].records:  # a broker that throttles names no partition
        return False
    known: int = answers[0].last_stable_offset if read_committed else answers[0].high_watermark
    return known >= end
