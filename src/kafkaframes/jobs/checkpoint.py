"""Read and convert the checkpoints of streaming queries that read topics. Neither pyspark nor Spark is needed to read a
checkpoint.

A checkpoint is a directory with ``metadata`` (the query's id), ``offsets/N`` (micro-batch N is planned), ``commits/N``
(micro-batch N is finished), ``sources/S/0`` (start offsets of Spark's own Kafka connector) and ``state`` (state of
operators such as aggregates, independent of sources). ``kafka-topic``, ``kafka-log`` and Spark's own connector write
offsets in the same form. A query can therefore continue with another of these sources and keep its state.
``convert_checkpoint`` copies a checkpoint for this purpose. The copied files contain the new topic names and the start
offsets that Spark's own connector expects.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, Literal

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.job import ReprAsText
from kafkaframes.jobs.micro_batch import Offsets, parse_all_offsets, parse_offsets
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.paths import to_path

# Formats of Spark sources that share the form of their offsets.
SOURCE_FORMATS: Final = ("kafka", "kafka-topic", "kafka-log")
_VERSION, _NOTHING = "v1", "-"
_MAX_CHECKPOINT_FILE_BYTES: Final = 64 << 20  # larger files are rejected, because they are not files of a checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """One source of a query. Offsets are None if the source has no topic offsets.

    Attributes:
        number: index of the source in the query.
        begins: start offsets that Spark's connector stored.
        planned_batch: end offsets of the newest planned micro-batch.
        committed_batch: end offsets of the newest finished micro-batch.
    """

    number: int
    begins: Offsets | None
    planned_offsets: Offsets | None
    committed_offsets: Offsets | None


@dataclass(frozen=True, slots=True, repr=False)
class Checkpoint(ReprAsText):
    """The contents of a Spark checkpoint. ``str()`` returns a readable summary.

    Attributes:
        path: the checkpoint's directory.
        query_id: id of the query.
        planned_batch: number of the newest planned micro-batch; -1 if none was planned.
        committed_batch: number of the newest finished micro-batch; -1 if none was finished.
        sources: sources of the query, in order.
        operators: names of the operators that have state.
    """

    path: Path
    query_id: str
    planned_batch: int
    committed_batch: int
    sources: tuple[CheckpointSource, ...] = ()
    operators: tuple[str, ...] = ()

    @property
    def is_in_flight(self) -> bool:
        """Whether a micro-batch was planned but not finished. The next run repeats that micro-batch."""
        return self.planned_batch > self.committed_batch

    @property
    def is_first_batch_in_flight(self) -> bool:
        """Whether the query's first micro-batch is in flight. Spark's checkpoint stores only its end offsets."""
        return self.is_in_flight and self.committed_batch < 0

    @property
    def starting_offsets(self) -> dict[int, str]:
        """``startingOffsets`` by source number if the first micro-batch is in flight, else an empty dict."""
        if not self.is_first_batch_in_flight:
            return {}
        return {source.number: json.dumps(source.begins) for source in self.sources if source.begins is not None}

    @property
    def advice(self) -> tuple[str, ...]:
        """Lines about the options that the next run with ``kafka-topic`` or ``kafka-log`` needs; usually empty."""
        if not self.is_first_batch_in_flight:
            return ()
        lines = [
            f"source {number}, if kafka-topic reads it next: set startingOffsets={text} until that micro-batch is done"
            for number, text in self.starting_offsets.items()
        ]
        if len(lines) < len([source for source in self.sources if source.planned_offsets is not None]):
            lines.append(
                "the query's first micro-batch is in flight, and its start offsets are not "
                "stored: set startingOffsets to offsets in JSON"
            )
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        sources = [
            {
                "number": source.number,
                "begins": source.begins,
                "planned": source.planned_offsets,
                "done": source.committed_offsets,
            }
            for source in self.sources
        ]
        return {
            "queryId": self.query_id,
            "planned": self.planned_batch,
            "done": self.committed_batch,
            "operators": list(self.operators),
            "sources": sources,
        }

    def __str__(self) -> str:
        state = "in flight: the next run repeats it" if self.is_in_flight else "done"
        lines = [f"query {self.query_id}, micro-batch {self.planned_batch} {state}"]
        if self.operators:
            lines.append(f"state of {', '.join(self.operators)}")
        for source in self.sources:
            offsets = source.planned_offsets
            text = "the source has no topic offsets" if offsets is None else f"up to {json.dumps(offsets)}"
            lines.append(f"source {source.number}: {text}")
        return "\n".join([*lines, *self.advice])


def read_checkpoint(path: PathLike[str] | str) -> Checkpoint:
    """Read the checkpoint of a Spark streaming query over topics or logs. The function needs neither Spark nor PySpark.

    >>> read_checkpoint("/checkpoints/orders").sources[0].committed_offsets  # doctest: +SKIP
    {'orders': {'0': 21, '1': 29}}

    Args:
        path: the checkpoint's directory, on a local disk.

    Returns:
        The contents: the query, its newest micro-batches, and the offsets of each source.

    Raises:
        LogDirError: the directory is not a checkpoint, is damaged or has an unknown version.
    """
    top = Path(to_path(path))
    if not (top / "metadata").is_file():
        raise LogDirError("is not a checkpoint of a streaming query: the file metadata is missing", file=str(top))
    query_id = _parse_json(top / "metadata", _read_text(top / "metadata")).get("id")
    if not isinstance(query_id, str):
        raise LogDirError("is damaged: the query id is missing", file=str(top / "metadata"))
    batches, committed_batches = _list_batch_numbers(top / "offsets"), _list_batch_numbers(top / "commits")
    planned_lines = _read_offset_lines(top, batches[-1]) if batches else []
    committed_numbers = [number for number in batches if committed_batches and number <= committed_batches[-1]]
    done_lines = _read_offset_lines(top, committed_numbers[-1]) if committed_numbers else []
    sources = []
    for number, line in enumerate(planned_lines):
        done_line = done_lines[number] if number < len(done_lines) else _NOTHING
        begins = _read_start_offsets(top / "sources" / str(number) / "0")
        sources.append(CheckpointSource(number, begins, parse_all_offsets(line), parse_all_offsets(done_line)))
    return Checkpoint(
        top,
        query_id,
        batches[-1] if batches else -1,
        committed_batches[-1] if committed_batches else -1,
        tuple(sources),
        tuple(_list_stateful_operators(top / "state")),
    )


def convert_checkpoint(
    path: PathLike[str] | str,
    to: PathLike[str] | str,
    *,
    target: Literal["kafka", "kafka-topic", "kafka-log"],
    topics: Mapping[str, str] | None = None,
    begins: Mapping[int, Offsets] | None = None,
) -> Checkpoint:
    """Copy a checkpoint so that a query with another source can continue from it. The original is not modified.

    The copy has no topic ids. The copy is therefore also valid for restored topics with other ids and the same offsets.
    The copy keeps the offsets of partitions that brokers did not list.

    Args:
        path: path of the checkpoint. No query may be using the checkpoint.
        to: path of the copy, which must not exist.
        target: source format of the new query: ``kafka`` (Spark's own connector), ``kafka-topic`` or ``kafka-log``.
        topics: new topic names by old name, if the records are now in other topics at the same offsets.
        begins: start offsets of the first micro-batch by source number. Required if the first micro-batch is in flight
            and the checkpoint does not store its start offsets.

    Returns:
        The contents of the copy.

    Raises:
        OptionError: the format is unknown, or the start offsets of the first micro-batch are required but missing.
        LogDirError: a file is damaged or cannot be written.
    """
    if target not in SOURCE_FORMATS:
        raise OptionError(f"unknown format {target!r}; expected {', '.join(SOURCE_FORMATS)}")
    checkpoint, new_names = read_checkpoint(path), dict(topics or {})
    _check_names(checkpoint, new_names)
    notes = {source.number: (begins or {}).get(source.number, source.begins) for source in checkpoint.sources}
    if target == "kafka" and checkpoint.is_first_batch_in_flight:
        missing = [
            str(source.number)
            for source in checkpoint.sources
            if source.planned_offsets is not None and notes[source.number] is None
        ]
        if missing:
            raise OptionError(
                f"the first micro-batch is in flight: specify the start offsets of source {', '.join(missing)} "
                "(`begins`), because Spark's connector would look them up again, and lose or repeat rows"
            )
    target_path = Path(to)
    atomic.reject_nested_destination(target_path, [fspath(path)])
    with atomic.hold_lock(target_path), atomic.write_directory(target_path) as copy:
        with atomic.name_path_in_errors(copy):
            shutil.copytree(checkpoint.path, copy, dirs_exist_ok=True)
        for number in _list_batch_numbers(copy / "offsets"):
            _rename_topics_in_file(copy / "offsets" / str(number), new_names)
        for number, note in notes.items():
            if note is not None and target == "kafka":
                file = copy / "sources" / str(number) / "0"
                file.parent.mkdir(parents=True, exist_ok=True)
                _write_text(file, f"\0{_VERSION}\n{json.dumps(_rename_topics(note, new_names), separators=(',', ':'))}")
    return read_checkpoint(target_path)


# ------------------------------------------------------------------------------------------------------------- files


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_CHECKPOINT_FILE_BYTES:
            raise LogDirError("is too large for a checkpoint file", file=str(path))
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LogDirError("is damaged: not UTF-8 text", file=str(path)) from None
    except OSError as error:
        raise LogDirError(f"cannot be read: {error.strerror or error}", file=str(path)) from None


def _parse_json(path: Path, text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise LogDirError("is damaged: not a JSON object", file=str(path))
    return values


def _list_batch_numbers(folder: Path) -> list[int]:
    """Return the micro-batch numbers in a directory of a checkpoint, in ascending order."""
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isascii() and entry.name.isdigit())


def _read_offset_lines(top: Path, batch: int) -> list[str]:
    """Return the line of each source in an offsets file."""
    path = top / "offsets" / str(batch)
    lines = _read_text(path).splitlines()
    if not lines or lines[0] != _VERSION or len(lines) < 2:
        raise LogDirError(f"is not an offsets file of version {_VERSION}", file=str(path))
    return lines[2:]


def _read_start_offsets(path: Path) -> Offsets | None:
    """Read the start offsets that Spark's connector stored: a zero byte, the version, and the offsets."""
    if not path.is_file():
        return None
    text = _read_text(path).removeprefix("\0")
    version, _, line = text.partition("\n")
    return parse_offsets(line) if version == _VERSION else None


def _list_stateful_operators(state: Path) -> Iterator[str]:
    """Yield the names of a query's stateful operators, such as aggregations."""
    for number in _list_batch_numbers(state):
        path = state / str(number) / "_metadata" / "metadata"
        if path.is_file():
            line = _read_text(path).partition("\n")[2]
            try:
                yield str(json.loads(line)["operatorInfo"]["operatorName"])
            except (ValueError, KeyError, TypeError, RecursionError):
                yield "an operator"


def _write_text(path: Path, text: str) -> None:
    """Write a file, and remove Hadoop's checksum file of the previous contents."""
    with atomic.name_path_in_errors(path):
        path.write_text(text, encoding="utf-8")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------------- names


def _check_names(checkpoint: Checkpoint, new_names: Mapping[str, str]) -> None:
    """Check that the renamed topics are in the checkpoint, and that no two topics get the same name."""
    planned_topics = {topic for source in checkpoint.sources for topic in source.planned_offsets or ()}
    missing = sorted(set(new_names) - planned_topics)
    if missing:
        raise OptionError(f"unknown topic {', '.join(missing)}; the checkpoint has {', '.join(sorted(planned_topics))}")
    new_topics = [new_names.get(topic, topic) for topic in planned_topics]
    if len(set(new_topics)) < len(new_topics):
        raise OptionError("two topics would get the same name; `topics` must give each topic a different name")


def _rename_topics(offsets: Offsets, new_names: Mapping[str, str]) -> Offsets:
    return {new_names.get(topic, topic): numbers for topic, numbers in offsets.items()}


def _rename_topics_in_file(path: Path, new_names: Mapping[str, str]) -> None:
    """Rename the topics in an offsets file and remove their topic ids."""
    old_lines = _read_text(path).splitlines()
    new_lines = list(old_lines)
    for index, line in enumerate(old_lines[2:], 2):
        offsets = parse_all_offsets(line)
        if offsets is not None and (offsets != json.loads(line) or new_names.keys() & offsets.keys()):
            new_lines[index] = json.dumps(_rename_topics(offsets, new_names), separators=(",", ":"))
    if new_lines != old_lines:
        _write_text(path, "\n".join(new_lines))
