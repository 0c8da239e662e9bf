"""What each micro-batch that was written exactly once leaves in the compacted topic ``MARKERS``. No pyspark.

A marker is a record whose key is the sink's transactional id; it is written in the transaction of the rows. Its value
is JSON: what identifies the micro-batch (``jobs/restore/writing/micro_batch.py``), ``openMs``, for how long the
transaction was open, and ``topicId``, by which a topic that was made anew is known. Version 0.1.0 wrote ``batchId``
and ``openMs`` alone.

With ``onForeignMarker=skip`` a checkpoint that does not fit the newest marker of its sink goes on behind it. Before the
query starts, its checkpoint is written as the run left it that wrote the marker: the query's id, the marker's
micro-batch as the newest one, planned and done. The next micro-batch begins at the offsets where that ended.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkaframes.client import Admin, Consumer, NewTopic, TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError, OptionError
from kafkaframes.jobs.restore.writing.micro_batch import StreamBatch, behind, conflict, mark_for, offsets_in, offsets_of
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.checkpoint_files import CheckpointFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MARKERS: Final = "__kafkaframes_spark_sinks"


class Marker(NamedTuple):
    """A committed micro-batch, for how long its transaction was open, and the id of the topic that it went to."""

    batch: StreamBatch
    open_ms: int = 0
    topic_id: str = ""  # of one topic, where brokers have ids

    def value(self) -> str:
        """Return the value of its record."""
        noted = self.batch.as_json() | {"queryId": self.batch.query_id, "openMs": self.open_ms}
        return json.dumps(noted | ({"topicId": self.topic_id} if self.topic_id else {}))


def make_topic(options: TopicWriteOptions) -> None:
    """Make the topic of markers, unless it is there."""
    configs = {"cleanup.policy": "compact"}
    with Admin(**options.connection) as admin:
        try:
            admin.create_topics([NewTopic(name=MARKERS, num_partitions=1, configs=configs)])
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def read_markers(options: TopicWriteOptions) -> dict[str, bytes]:
    """Return the newest committed marker under each transactional id."""
    topic_partition = TopicPartition(MARKERS, 0)
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


def marker_for(markers: Mapping[str, bytes], transactional_id: str, batch: StreamBatch) -> Marker | None:
    """Return the marker that a micro-batch must fit: its sink's, else one that came from the same checkpoint path.

    Raises:
        KafkaframesError: the sink's own is none of ours.
    """
    known: dict[str, Marker] = {}
    for key, value in markers.items():
        try:
            noted = json.loads(value)
            query_id = batch.query_id if key == transactional_id else noted.get("queryId", key)
            batch_of_it = StreamBatch.from_json(query_id, noted)
            marker = Marker(batch_of_it, int(noted.get("openMs", 0)), str(noted.get("topicId", "")))
        except (ValueError, AttributeError, TypeError):
            if key == transactional_id:
                raise KafkaframesError(f"the marker {key} in {MARKERS} cannot be read: {value[:80]!r}") from None
            continue
        if key == transactional_id or (query_id != batch.query_id and marker.batch.sink == batch.sink):
            known[query_id] = marker
    mark = mark_for(batch, {query_id: marker.batch for query_id, marker in known.items()})
    return None if mark is None else known[mark.query_id]


def check_topic(marker: Marker, topic: str, topic_id: str) -> None:
    """Check that a topic is the one that a marker's micro-batch was written to; "" where an id is not known.

    Raises:
        KafkaframesError: it was deleted and made anew; says what to do.
    """
    if marker.topic_id and topic_id and marker.topic_id != topic_id:
        raise KafkaframesError(
            f"topic {topic} was deleted and made anew since micro-batch {marker.batch.batch_id} was written to it (its "
            f"id was {marker.topic_id} and is {topic_id}): what was written before is gone. Either give the option "
            "onForeignMarker=skip: the query goes on behind that micro-batch; or begin on a new checkpoint: everything "
            "that the sources still have is written"
        )


def is_written(mark: StreamBatch, batch: StreamBatch, transactional_id: str) -> bool:
    """Return whether a micro-batch is the one that the newest marker is of.

    Raises:
        KafkaframesError: it is another one that does not fit behind the marker either; says what to do.
    """
    reason = conflict(mark, batch)
    if reason is None:
        return mark.batch_id == batch.batch_id
    offsets = next(behind(mark), "")
    raise KafkaframesError(
        f"micro-batch {batch.batch_id} does not fit the marker of micro-batch {mark.batch_id} of {transactional_id} in "
        f"{MARKERS}: {reason}. Nothing of it was written. Either give the option onForeignMarker=skip: the query goes "
        f"on behind what the marker's micro-batch has written{offsets and ' ' + offsets}; or another sink name, "
        "sink=...: all that the checkpoint has not done is written, what is in the topic already a second time"
    )


log = logging.getLogger("kafkaframes.spark")
_VERSION: Final = "v1"
_PLANNED_WITH: Final = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_DONE: Final = f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}'
_STATEFUL: Final = re.compile(
    r"^[\s:+\-]*~(Aggregate|Deduplicate\w*|Distinct|Join|GlobalLimit|\w*WithState\w*)\b", re.M
)


class WritableFiles(CheckpointFiles, Protocol):
    """Files of a checkpoint that can be written."""

    def write(self, name: str, text: str) -> None:
        """Write a file, in place of one that is there."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none where it is not there."""


def query_id_of(files: CheckpointFiles) -> str | None:
    """Return the id of a checkpoint's query; None where there is no checkpoint."""
    text = files.read("metadata")
    return None if text is None else str(json.loads(text)["id"])


def next_batch(files: WritableFiles, target: str) -> StreamBatch:
    """Return the micro-batch with which a query will go on: one in flight, or one that is not planned yet."""
    planned = _newest(files, "offsets")
    number = planned if planned > _newest(files, "commits") else planned + 1
    begins, ends = offsets_in(files.read, number)
    return StreamBatch(query_id_of(files) or "", number, files.path, target, begins, ends)


def skip_to(files: WritableFiles, mark: StreamBatch) -> None:
    """Write a checkpoint so that its query goes on behind a mark.

    Raises:
        OptionError: the mark does not say where that is, or the query has state that would miss rows.
    """
    batch = next_batch(files, mark.sink)
    if conflict(mark, batch) is None:
        return
    if files.names("state"):
        raise OptionError(f"onForeignMarker=skip: the query has state in {files.path}, which would miss rows; {_ELSE}")
    planned = _newest(files, "offsets")
    number = max(mark.batch_id, planned)
    if mark.ends is None and (batch.ends is None or batch.batch_id != mark.batch_id):
        raise OptionError(f"onForeignMarker=skip: the marker of version 0.1.0 does not say any offsets; {_ELSE}")
    if mark.ends is not None:
        if not all(offsets_of(line) for line in mark.ends):
            raise OptionError(f"onForeignMarker=skip: not all sources of the query have offsets of topics; {_ELSE}")
        text = "\n".join((_VERSION, _planned_with(files, planned), *mark.ends))
        if number and files.read(f"offsets/{number - 1}") is None:  # Spark looks at it too
            files.write(f"offsets/{number - 1}", text)
        files.write(f"offsets/{number}", text)
    files.write(f"commits/{number}", _DONE)
    if batch.query_id != mark.query_id:
        files.write("metadata", json.dumps({"id": mark.query_id}, separators=(",", ":")))
    log.warning("%s goes on behind micro-batch %s of query %s", files.path, mark.batch_id, mark.query_id)


_ELSE: Final = "give another sink name, sink=..., or a new checkpoint with startingOffsets where it is to go on"


def check_stateless(frame: DataFrame) -> None:
    """Refuse a query whose state would miss what is skipped.

    Raises:
        OptionError: it has aggregates, joins, or the like.
    """
    result = _STATEFUL.search(frame._jdf.queryExecution().analyzed().toString())
    if result is not None:
        raise OptionError(f"onForeignMarker=skip: {result[1]} in the query keeps state, which would miss rows; {_ELSE}")


def _planned_with(files: CheckpointFiles, planned: int) -> str:
    lines = (files.read(f"offsets/{planned}") or "").splitlines()
    return lines[1] if len(lines) > 1 else _PLANNED_WITH


def _newest(files: WritableFiles, folder: str) -> int:
    return max((int(name) for name in files.names(folder) if name.isdecimal()), default=-1)
