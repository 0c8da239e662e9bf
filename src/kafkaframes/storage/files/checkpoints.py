"""Read and write the small text files of a log directory: checkpoints, leader epochs, ids, the shutdown marker.

Each file has a function ``read_x(raw, file=...) -> value`` and a function ``write_x(value) -> bytes``. A file of Kafka
that is read and written again has the same bytes, except an empty checkpoint, which is read as a checkpoint without
entries. Malformed bytes raise a ``LogDirError`` with file and position. The formats are those of Kafka's
CheckpointFile, LeaderEpochCheckpointFile, OffsetCheckpointFile, PartitionMetadataFile, MetaProperties and
CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64, MIN_INT32, MIN_INT64

_VERSION_LINE = "0"
_INT32_RANGE = (MIN_INT32, MAX_INT32)
_INT64_RANGE = (MIN_INT64, MAX_INT64)
_TOPIC_ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class EpochStart:
    """One line of a ``leader-epoch-checkpoint``: a leader epoch and its first offset."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The content of ``partition.metadata``: the topic id, a UUID as 22 characters of URL-safe base64."""

    topic_id: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of ``meta.properties``: cluster and node of a log directory.

    Attributes:
        values: all properties, in file order.
        comments: leading comment lines with their ``#``, for example Java's time of writing.
    """

    values: Mapping[str, str]
    comments: tuple[str, ...] = ()

    @property
    def node_id(self) -> int | None:
        """The node id (``node.id`` or ``broker.id``); None if it is missing or malformed."""
        text = self.values.get("node.id", self.values.get("broker.id", ""))
        return int(text) if re.fullmatch(r"-?[0-9]{1,10}", text) else None

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None if it is missing, as for brokers before 0.10.1."""
        return self.values.get("cluster.id")

    @property
    def version(self) -> int | None:
        """The version: 0 (ZooKeeper) or 1 (KRaft); None if it is missing or malformed."""
        text = self.values.get("version", "")
        return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The content of ``.kafka_cleanshutdown``: empty before 3.8, later JSON with the broker epoch."""

    broker_epoch: int | None = None
    version: int = 0
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CheckpointLine:
    """A line of a checkpoint file, and its byte position."""

    text: str
    position: int


def _parse_lines(raw: bytes, file: str | None) -> Iterator[_CheckpointLine]:
    position = 0
    for line in raw.split(b"\n"):
        try:
            yield _CheckpointLine(line.decode("utf-8").rstrip("\r"), position)
        except UnicodeDecodeError as error:
            raise LogDirError("not UTF-8 text", position=position + error.start, file=file) from error
        position += len(line) + 1


def _parse_integer(
    text: str, limits: tuple[int, int], line: _CheckpointLine, description: str, file: str | None
) -> int:
    value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text) else None
    if value is None or not limits[0] <= value <= limits[1]:
        raise LogDirError(
            f"{description} is {text[:40]!r}; expected a number in the valid range", position=line.position, file=file
        )
    return value


def _parse_checkpoint_lines(raw: bytes, file: str | None) -> Iterator[_CheckpointLine]:
    """Check the version and count of a checkpoint, and yield its entry lines.

    An empty file has no entries, as in Kafka's CheckpointReadBuffer.
    """
    lines = list(_parse_lines(raw, file))
    if lines[-1].text == "":
        lines.pop()
    if not lines:
        return
    if _parse_integer(lines[0].text.strip(), _INT32_RANGE, lines[0], "version", file) != 0:
        raise LogDirError(f"unknown checkpoint version {lines[0].text!r}", position=0, file=file)
    if len(lines) < 2:
        raise LogDirError("the count of entries is missing", position=len(raw), file=file)
    count = _parse_integer(lines[1].text.strip(), _INT32_RANGE, lines[1], "count", file)
    if count != len(lines) - 2:
        position = lines[1].position
        raise LogDirError(
            f"the file states {count} entries, but contains {len(lines) - 2}", position=position, file=file
        )
    yield from lines[2:]


def _write_checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION_LINE, str(len(lines)), *lines)).encode()


def _split_fields(line: _CheckpointLine, count: int, file: str | None) -> list[str]:
    fields = line.text.split()
    if len(fields) != count:
        raise LogDirError(f"{line.text[:80]!r} does not consist of {count} words", position=line.position, file=file)
    return fields


def read_leader_epochs(raw: bytes, *, file: str | None = None) -> tuple[EpochStart, ...]:
    """Read a ``leader-epoch-checkpoint`` file, and return its entries in the file's order.

    Raises:
        LogDirError: the file is malformed; ``position`` is the start of the invalid line.
    """
    epochs = []
    for line in _parse_checkpoint_lines(raw, file):
        epoch, offset = _split_fields(line, 2, file)
        epochs.append(
            EpochStart(
                _parse_integer(epoch, _INT32_RANGE, line, "epoch", file),
                _parse_integer(offset, _INT64_RANGE, line, "offset", file),
            )
        )
    return tuple(epochs)


def write_leader_epochs(epochs: Iterable[EpochStart]) -> bytes:
    """Return the content of a ``leader-epoch-checkpoint`` file."""
    return _write_checkpoint(f"{entry.leader_epoch} {entry.start_offset}" for entry in epochs)


def read_offset_checkpoint(raw: bytes, *, file: str | None = None) -> dict[TopicPartition, int]:
    """Read one of the four ``*-offset-checkpoint`` files, in the file's order.

    Raises:
        LogDirError: the file is malformed; ``position`` is the start of the invalid line.
    """
    offsets: dict[TopicPartition, int] = {}
    for line in _parse_checkpoint_lines(raw, file):
        topic, partition, offset = _split_fields(line, 3, file)
        key = TopicPartition(topic, _parse_integer(partition, _INT32_RANGE, line, "partition", file))
        offsets[key] = _parse_integer(offset, _INT64_RANGE, line, "offset", file)
    return offsets


def write_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of a ``*-offset-checkpoint`` file, in the mapping's order."""
    return _write_checkpoint(f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items())


def read_partition_metadata(raw: bytes, *, file: str | None = None) -> PartitionMetadata:
    """Read a ``partition.metadata`` (KIP-516).

    Raises:
        LogDirError: the version is not 0, or the id is malformed.
    """
    values = {}
    for line in _parse_lines(raw, file):
        if line.text.strip():
            name, colon, value = line.text.partition(":")
            if not colon:
                raise LogDirError(f"{line.text[:80]!r} has no colon", position=line.position, file=file)
            values[name.strip()] = (value.strip(), line)
    if not {"version", "topic_id"} <= values.keys():
        raise LogDirError("version or topic_id is missing", position=len(raw), file=file)
    text, line = values["version"]
    if _parse_integer(text, _INT32_RANGE, line, "version", file) != 0:
        raise LogDirError(f"unknown version {text!r}", position=line.position, file=file)
    topic_id, line = values["topic_id"]
    if not _TOPIC_ID_PATTERN.fullmatch(topic_id):
        raise LogDirError(f"{topic_id[:40]!r} is not a topic id", position=line.position, file=file)
    return PartitionMetadata(topic_id)


def write_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Return the content of a ``partition.metadata`` file, without a final newline, like Kafka."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def read_meta_properties(raw: bytes, *, file: str | None = None) -> MetaProperties:
    """Read a ``meta.properties`` file, in the subset of Java's property format that Kafka uses.

    Raises:
        LogDirError: a line is not a property.
    """
    values: dict[str, str] = {}
    comments: list[str] = []
    for line in _parse_lines(raw, file):
        text = line.text.strip()
        if text.startswith(("#", "!")):
            comments.append(text)
        elif text:
            name, separator, value = re.match(r"([^=:\s]*)\s*([=:]?)\s*(.*)", text, re.S).groups()  # type: ignore[union-attr]
            if not separator:
                raise LogDirError(
                    f"{text[:80]!r} is not a property; expected name=value", position=line.position, file=file
                )
            values[name] = value.replace("\\:", ":").replace("\\=", "=")
    return MetaProperties(values, tuple(comments))


def write_meta_properties(properties: MetaProperties) -> bytes:
    """Return the content of a ``meta.properties`` file."""
    lines = [*properties.comments, *(f"{name}={value}" for name, value in properties.values.items())]
    return "".join(f"{line}\n" for line in lines).encode()


def read_clean_shutdown(raw: bytes, *, file: str | None = None) -> CleanShutdown:
    """Read a ``.kafka_cleanshutdown``. A broker only checks that the file exists.

    Raises:
        LogDirError: the file is neither empty nor JSON with a version.
    """
    if not raw.strip():
        return CleanShutdown()
    try:
        fields = json.loads(raw)
        version, epoch = fields["version"], fields.get("brokerEpoch")
        if not isinstance(version, int) or not (epoch is None or isinstance(epoch, int)):
            raise TypeError("its fields are not numbers")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise LogDirError(f"neither empty nor a clean-shutdown marker: {error}", position=0, file=file) from error
    return CleanShutdown(epoch, version, fields)


def write_clean_shutdown(marker: CleanShutdown) -> bytes:
    """Return the content of a ``.kafka_cleanshutdown`` file, which is empty without a broker epoch, as before 3.8."""
    if marker.broker_epoch is None:
        return b""
    return json.dumps({"version": marker.version, "brokerEpoch": marker.broker_epoch}, separators=(",", ":")).encode()


# ---------------------------------------------------------------------------------------------------------------------
# Updates of a partition's leader epochs when a log is loaded, truncated and led (LeaderEpochFileCache, KIP-101).
#
# The functions return new values. Entries are in ascending order of epoch and offset, as in the file.

Epochs = tuple[EpochStart, ...]
NO_EPOCH = -1


def get_latest_epoch(epochs: Epochs) -> int:
    """Return the latest epoch; -1 if there are no entries."""
    return epochs[-1].leader_epoch if epochs else NO_EPOCH


def assign_epoch(epochs: Epochs, epoch_start: EpochStart) -> Epochs:
    """Return the epochs with another one added, without the entries that contradict it.

    >>> assign_epoch((EpochStart(0, 0), EpochStart(3, 10)), EpochStart(4, 10))
    (EpochStart(leader_epoch=0, start_offset=0), EpochStart(leader_epoch=4, start_offset=10))
    """
    if epoch_start.leader_epoch < 0 or epoch_start.start_offset < 0:
        return epochs
    if (
        epochs
        and epochs[-1].leader_epoch == epoch_start.leader_epoch
        and epochs[-1].start_offset <= epoch_start.start_offset
    ):
        return epochs
    kept_epochs = list(epochs)
    while kept_epochs and (
        kept_epochs[-1].leader_epoch >= epoch_start.leader_epoch
        or kept_epochs[-1].start_offset >= epoch_start.start_offset
    ):
        kept_epochs.pop()
    return (*kept_epochs, epoch_start)


def load_epochs(epochs: Epochs) -> Epochs:
    """Load the entries of a file in order; like in a broker, each replaces earlier entries that contradict it."""
    return reduce(assign_epoch, epochs, ())


def add_recovered_epochs(epochs: Epochs, new_epochs: Iterable[EpochStart]) -> Epochs:
    """Add the epochs of a recovered segment that are above the latest entry."""
    for entry in new_epochs:
        if not epochs or entry.leader_epoch > epochs[-1].leader_epoch:
            epochs = assign_epoch(epochs, entry)
    return epochs


def end_of_epoch(lineage: Epochs, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
    """Return the largest epoch at or below ``epoch`` and its end offset, as in OffsetsForLeaderEpoch.

    If all epochs of the leader are above ``epoch``, the result is ``epoch`` and the start offset of the first entry.

    Returns:
        None if the leader has no entries, or all of them are below ``epoch``.

    >>> end_of_epoch((EpochStart(0, 0), EpochStart(3, 10)), 2, 50)
    (0, 10)
    >>> end_of_epoch((EpochStart(0, 0), EpochStart(3, 10)), 3, 50)
    (3, 50)
    """
    if not lineage or epoch > lineage[-1].leader_epoch:
        return None
    if epoch == lineage[-1].leader_epoch:
        return epoch, log_end_offset
    index = bisect_right(lineage, epoch, key=lambda start: start.leader_epoch)
    return lineage[max(index - 1, 0)].leader_epoch if index else epoch, lineage[index].start_offset


def truncate_epochs(epochs: Epochs, *, start_offset: int, end_offset: int) -> Epochs:
    """Remove the epochs that start at or after the log end offset, and those that end before the log start offset.

    >>> truncate_epochs((EpochStart(0, 0), EpochStart(2, 40), EpochStart(3, 90)), start_offset=50, end_offset=90)
    (EpochStart(leader_epoch=2, start_offset=50),)
    """
    kept_epochs = [entry for entry in epochs if entry.start_offset < end_offset]
    earlier_entries = [entry for entry in kept_epochs if entry.start_offset <= start_offset]
    first = [EpochStart(earlier_entries[-1].leader_epoch, start_offset)] if earlier_entries else []
    return (*first, *kept_epochs[len(earlier_entries) :])
