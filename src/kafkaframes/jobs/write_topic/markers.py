"""Read and check the markers that a sink writes for each micro-batch in the compacted topic ``MARKER_TOPIC``.

A marker is a record whose key is the sink's transactional id. The marker is written in the same transaction as the
rows. A marker's value is a JSON object with the fields of ``StreamBatch.as_json`` (``jobs/micro_batch.py``) and these:
``queryId``; ``openMs``, for how long the transaction was open, in milliseconds; and ``topicId``, which changes if the
topic is deleted and created again. Version 0.1.0 wrote only ``batchId`` and ``openMs``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkaframes.client import Admin, Consumer, NewTopic, TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError
from kafkaframes.jobs.micro_batch import StreamBatch, explain_conflict, find_mark, list_starting_offsets
from kafkaframes.scan.topic.options import TopicWriteOptions

MARKER_TOPIC: Final = "__kafkaframes_spark_sinks"  # compacted topic with the newest micro-batch of each sink


class Marker(NamedTuple):
    """A committed micro-batch, the duration of its transaction, and the id of the topic that has its rows."""

    batch: StreamBatch
    open_ms: int = 0
    topic_id: str = ""  # "" if the rows specify their topics, or if the brokers do not support topic ids

    def to_record_value(self) -> str:
        """Return the value of the marker's record."""
        note = self.batch.as_json() | {"queryId": self.batch.query_id, "openMs": self.open_ms}
        return json.dumps(note | ({"topicId": self.topic_id} if self.topic_id else {}))


def create_marker_topic(options: TopicWriteOptions) -> None:
    """Create the topic of markers unless it exists."""
    configs = {"cleanup.policy": "compact"}
    with Admin(**options.connection) as admin:
        try:
            admin.create_topics([NewTopic(name=MARKER_TOPIC, num_partitions=1, configs=configs)])
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def read_markers(options: TopicWriteOptions) -> dict[str, bytes]:
    """Return the newest committed marker of each transactional id."""
    topic_partition = TopicPartition(MARKER_TOPIC, 0)
    newest: dict[str, bytes] = {}
    with Consumer(**options.connection, isolation_level="read_committed", enable_auto_commit=False) as consumer:
        end = consumer.end_offsets([topic_partition])[topic_partition]
        consumer.assign({topic_partition: consumer.beginning_offsets([topic_partition])[topic_partition]})
        while consumer.position(topic_partition) < end:
            records = consumer.poll(1_000)
            if not records:  # compaction may have left nothing before the end
                consumer.skip_gap(topic_partition, end)
            for record in records:
                if record.key is not None and record.value is not None:
                    newest[record.key.decode(errors="replace")] = record.value
    return newest


def find_marker(markers: Mapping[str, bytes], transactional_id: str, batch: StreamBatch) -> Marker | None:
    """Return the marker that a micro-batch must continue: its sink's own, or the newest of the same checkpoint path.

    Raises:
        KafkaframesError: the sink's own marker cannot be parsed.
    """
    markers_by_query: dict[str, Marker] = {}
    for key, value in markers.items():
        try:
            note = json.loads(value)
            query_id = batch.query_id if key == transactional_id else note.get("queryId", key)
            newest_batch = StreamBatch.from_json(query_id, note)
            marker = Marker(newest_batch, int(note.get("openMs", 0)), str(note.get("topicId", "")))
        except (ValueError, AttributeError, TypeError):
            if key == transactional_id:
                raise KafkaframesError(f"the marker {key} in {MARKER_TOPIC} cannot be read: {value[:80]!r}") from None
            continue
        if key == transactional_id or (query_id != batch.query_id and marker.batch.sink == batch.sink):
            markers_by_query[query_id] = marker
    mark = find_mark(batch, {query_id: marker.batch for query_id, marker in markers_by_query.items()})
    return None if mark is None else markers_by_query[mark.query_id]


def check_marker_topic(marker: Marker, topic: str, topic_id: str) -> None:
    """Check that a topic is the one that has the rows of a marker's micro-batch. A topic id of "" is unknown.

    Raises:
        KafkaframesError: the topic was deleted and created again. The message has the remedies.
    """
    if marker.topic_id and topic_id and marker.topic_id != topic_id:
        raise KafkaframesError(
            f"topic {topic} was deleted and recreated after micro-batch {marker.batch.batch_id} was written to it (its "
            f"id was {marker.topic_id} and is {topic_id}): the rows of earlier micro-batches are gone. Set the option "
            "onForeignMarker=skip to continue after that micro-batch, or use a new checkpoint to write all rows that "
            "the sources still have"
        )


def is_written(mark: StreamBatch, batch: StreamBatch, transactional_id: str) -> bool:
    """Return whether a micro-batch is the one that the newest marker describes.

    Raises:
        KafkaframesError: the micro-batch neither equals nor follows the one in the marker. The message has the
            remedies.
    """
    reason = explain_conflict(mark, batch)
    if reason is None:
        return mark.batch_id == batch.batch_id
    offsets = next(list_starting_offsets(mark), "")
    raise KafkaframesError(
        f"micro-batch {batch.batch_id} does not fit the marker of micro-batch {mark.batch_id} of {transactional_id} in "
        f"{MARKER_TOPIC}: {reason}. The micro-batch was not written. Set onForeignMarker=skip, and the query continues "
        f"after the offsets of the marker's micro-batch{offsets and ' ' + offsets}; or set another sink=NAME, "
        "and the query writes everything after its checkpoint, which may repeat rows of the topic"
    )
