"""Kind ``tiered``: stores of tiered segments and the broker's log directory, written by a real broker and plugin.

The product receives ``store/``, ``local/`` and the private keys. Compared are: every field of each upload (its objects,
state and records in the metadata topic, whether it is part of the log, manifest, chunk sizes, the segment and each
index rebuilt from the objects, by size and SHA-256); the segments that the store alone leads to; every line about each
batch, record and end of each segment, remote or local, with the output of Kafka's classes; the partitions' offsets and
checkpoints; and the records of live consumers, under both isolation levels. Excluded: ``made_by_hand`` and ``copy_of``
(the origin of a case), Kafka's text of an error, and the part of ``why_not`` after its colon.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.agreement.kind import Case, Kind, differences
from tests.agreement.kinds.logs import parse_lines

from kafkaframes.storage.files.checkpoints import write_leader_epochs
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.names import HIGH_WATERMARK_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, LOG_START_CHECKPOINT
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.tiered import names, view
from kafkaframes.storage.tiered.filesystem import TieredFileSystem
from kafkaframes.storage.tiered.lineage import MetadataEntry
from kafkaframes.storage.tiered.names import INDEX_BY_SUFFIX, ObjectName, TieredObjectStore, ViewPath, find_store

_UNCOMPARED_FIELDS = ("made_by_hand", "copy_of")
_NOT_NAMED = "not in the metadata topic"
_OTHER_HISTORY = "its leader epochs are not those of the log"
ISOLATIONS = ("read_committed", "read_uncommitted")
MAX_DIFFERENCES = 40


def cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield Case(path.name, str(path))


def disagreements(case: Case) -> Iterator[str]:
    folder = Path(case.payload)
    missing = [name for name in ("store", "local", "truth", "index.json") if not (folder / name).exists()]
    if missing:
        yield f"missing: {', '.join(missing)}"
        return
    truth = json.loads((folder / "index.json").read_text())
    product = _OurResults(folder)
    yield from differences(_expected_segments(truth["segments"]), dict(product.segments()), "segments")
    yield from product.check_store_alone(truth["segments"])
    yield from differences(
        _partitions(truth["partitions"]), dict(product.partitions(truth["partitions"])), "partitions"
    )
    yield from _compare_records(folder, product)


def _expected_segments(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the reference of uploads, by object; the text after the colon of a reason is the corpus's own."""
    entries_by_object = {}
    for entry in entries:
        kept_fields = {name: value for name, value in entry.items() if name not in _UNCOMPARED_FIELDS}
        if "why_not" in kept_fields:
            kept_fields["why_not"] = kept_fields["why_not"].partition(":")[0]
        entries_by_object[entry["object"]] = kept_fields
    return entries_by_object


def _partitions(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{entry['topic']}-{entry['partition']}": entry for entry in entries}


class _OurResults:
    """Our results for one case, in the form of the reference."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.options = {"key_files": tuple(map(str, sorted(folder.glob("*.private.pem"))))}
        directories = discover([str(folder / "local"), str(self.store)], options=self.options)
        self.local, self.tiered_directories = directories[0], directories[1:]
        self.knowledge = view.LocalPartitionInfo.from_directories([self.local])

    def segments(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield every upload of the store, and every segment that only the metadata topic names."""
        entries: dict[str, list[MetadataEntry]] = {}
        for entry in self.knowledge.metadata.entries:
            if entry.segment_id is not None:
                entries.setdefault(entry.segment_id, []).append(entry)
        seen_segments = set()
        for directory in self.tiered_directories:
            assert isinstance(directory.filesystem, TieredFileSystem)
            for store in _open_stores(directory):
                for folder in store.folders:
                    shown_view = view.choose_uploads(directory.filesystem, folder, self.knowledge)
                    for stem in folder.uploads:
                        name = ObjectName.parse(f"{stem}.{names.LOG}")
                        assert name is not None
                        seen_segments.add(name.segment_id)
                        yield self._describe_upload(directory, shown_view, stem, name, entries.get(name.segment_id, []))
        for segment_id, segment_entries in entries.items():
            if segment_id not in seen_segments:
                yield self._describe_deleted_segment(segment_entries)

    def _describe_upload(
        self,
        directory: LogDirectory,
        shown_view: view.PartitionDraft,
        stem: str,
        name: ObjectName,
        entries: list[MetadataEntry],
    ) -> tuple[str, dict[str, Any]]:
        key = Path(shown_view.folder.path, stem).relative_to(self.store).as_posix()
        valid = name.segment_id in {segment.segment_id for segment in shown_view.chain.segments}
        facts: dict[str, Any] = {
            "object": key,
            "objects_present": sorted(shown_view.folder.uploads[stem]),
            "topic": shown_view.topic_partition.topic,
            "topic_id": shown_view.folder.topic.topic_id,
            "partition": shown_view.folder.partition,
            "base_offset": name.base_offset,
            "segment_id": name.segment_id,
            "state": entries[-1].state if entries else None,
            "metadata_records": list(map(_describe_entry, entries)),
            "valid": valid,
        }
        if not valid:
            facts["why_not"] = _explain_invalid(entries, shown_view.notes.get(stem, ""))
        upload = shown_view.uploads.get(name.segment_id)
        return key, facts if upload is None else facts | self._describe_manifest(directory, upload, shown_view)

    def _describe_manifest(
        self, directory: LogDirectory, upload: view.SegmentUpload, shown_view: view.PartitionDraft
    ) -> dict[str, Any]:
        manifest, read = upload.manifest, directory.filesystem.read
        own, chunks = manifest.metadata, manifest.chunks
        directory_name = str(shown_view.topic_partition)
        log = ViewPath(upload.main, directory_name, f"{own.start_offset:020d}.log")
        plain = read(str(log))
        suffixes = {index: suffix for suffix, index in INDEX_BY_SUFFIX.items()}
        indexes: dict[str, Any] = dict.fromkeys(suffixes.keys())
        for index, place in manifest.indexes.items():
            suffix = suffixes[index]
            file = suffix if suffix == LEADER_EPOCH_CHECKPOINT else f"{own.start_offset:020d}.{suffix}"
            raw = read(str(ViewPath(upload.main, directory_name, file)))
            indexes[index] = {
                "position": place.position,
                "size": place.size,
                "original_size": len(raw),
                "original_sha256": hashlib.sha256(raw).hexdigest(),
            } | ({"text": raw.decode()} if index == "leaderEpoch" else {})
        beside = Path(self.local.path, directory_name, f"{own.start_offset:020d}.log")
        return {
            "end_offset": own.end_offset,
            "max_timestamp_ms": own.max_timestamp_ms,
            "broker_id": own.broker_id,
            "leader_epochs": {str(epoch.leader_epoch): epoch.start_offset for epoch in own.leader_epochs},
            "original_size": len(plain),
            "original_sha256": hashlib.sha256(plain).hexdigest(),
            "log_object_size": chunks.stored_size,
            "compressed": manifest.is_compressed,
            "encrypted": manifest.encryption is not None,
            "encryption_key_id": manifest.encryption.key_id if manifest.encryption else None,
            "chunk_index": chunks.kind,
            "original_chunk_size": chunks.original_chunk_size,
            "transformed_chunk_sizes": chunks.sizes(),
            "indexes": indexes,
            "also_local": beside.exists() and beside.read_bytes() == plain,
        }

    def _describe_deleted_segment(self, entries: list[MetadataEntry]) -> tuple[str, dict[str, Any]]:
        """Return a segment with deleted objects, as the metadata topic describes it."""
        first = entries[0]
        prefix = entries[1].facts.get("custom_metadata", {}).get("OBJECT_PREFIX", "") if len(entries) > 1 else ""
        stem = f"{first.facts['start_offset']:020d}-{first.segment_id}"
        key = f"{prefix}{first.topic}-{first.topic_id}/{first.of_partition}/{stem}"
        return key, {
            "object": key,
            "objects_present": [],
            "topic": first.topic,
            "topic_id": first.topic_id,
            "partition": first.of_partition,
            "base_offset": first.facts["start_offset"],
            "segment_id": first.segment_id,
            "state": entries[-1].state,
            "metadata_records": list(map(_describe_entry, entries)),
            "valid": False,
            "why_not": _explain_invalid(entries, ""),
            "end_offset": first.facts["end_offset"],
        }

    def check_store_alone(self, truth: list[dict[str, Any]]) -> Iterator[str]:
        """Check that the same offsets are read from the same bytes without metadata topic and local log, except
        pending deletions.
        """
        by_object = {entry["object"]: entry for entry in truth}
        under_way = {key for key, entry in by_object.items() if entry["state"] == "DELETE_SEGMENT_STARTED"}
        wanted_contents = {_content(entry) for key, entry in by_object.items() if entry["valid"]}
        contents = set()
        for directory in discover(str(self.store), options=self.options):
            for partition in directory.partitions:
                for segment in partition.segments:
                    main = names.ViewPath.parse(segment.path)
                    assert main is not None
                    key = Path(main.main).relative_to(self.store).as_posix()
                    if key not in under_way:
                        contents.add(_content(by_object.get(key, {"object": key})))
        for one in sorted(wanted_contents ^ contents, key=str):
            yield f"the store alone: {'missing' if one in wanted_contents else 'surplus'} segment {one}"

    def partitions(self, truth: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each partition of a tiered topic, or of one in the reference."""
        named_partitions = {f"{one['topic']}-{one['partition']}": one for one in truth}
        remote = {
            str(partition.topic_partition): (partition, directory)
            for directory in self.tiered_directories
            for partition in directory.partitions
        }
        local = {str(partition.topic_partition): partition for partition in self.local.partitions}
        for name in sorted(remote.keys() | named_partitions.keys()):
            yield (
                name,
                self._describe_partition(name, remote.get(name), local.get(name), named_partitions.get(name, {})),
            )

    def _describe_partition(
        self,
        name: str,
        remote: tuple[Partition, LogDirectory] | None,
        local: Partition | None,
        truth: Mapping[str, Any],
    ) -> dict[str, Any]:
        tiered_partition = remote[0] if remote else Partition(local.topic_partition, "") if local else None
        if tiered_partition is None:
            return {}
        local = local or Partition(tiered_partition.topic_partition, "")
        far = [segment.base_offset for segment in tiered_partition.segments]
        near = [segment.base_offset for segment in local.segments]
        announced_segments = {
            entry.facts["start_offset"]
            for entry in self.knowledge.metadata.entries
            if (entry.topic, entry.of_partition) == (tiered_partition.topic, tiered_partition.partition)
            and "start_offset" in entry.facts
        }
        both = sorted({*far, *near})
        log = TieredLog(tiered_partition, local, remote[1].filesystem if remote else LocalFileSystem())
        facts = {
            "topic": tiered_partition.topic,
            "partition": tiered_partition.partition,
            "remote_base_offsets": far,
            "local_base_offsets": near,
            "both": sorted({*far} & {*near}),
            "segments_in_store_or_local": both,
            "log_start_offset_checkpoint": local.checkpointed_offsets.get(LOG_START_CHECKPOINT),
            "checkpoints": {LEADER_EPOCH_CHECKPOINT: write_leader_epochs(local.leader_epochs or ()).decode()},
            "live": {"log_start_offset": log.partition.log_start_offset, "high_watermark": _high_watermark(local)}
            | {isolation: self._read_consumed(tiered_partition, isolation) for isolation in ISOLATIONS},
        }
        return facts | self._describe_original_segments(truth, announced_segments, both, log)

    def _read_consumed(self, partition: Partition, isolation: str) -> dict[str, Any]:
        """Return ``kafka-log``'s records of the store and the local directory together, in the reference's form."""
        from kafkaframes.scan.columns import choose_columns
        from kafkaframes.scan.log import reading, resolve
        from kafkaframes.spark.options import parse_log_options

        read_options = {
            "paths": json.dumps([str(self.folder / "local"), str(self.store)]),
            "assign": json.dumps({partition.topic: [partition.partition]}),
            "isolation": isolation,
        }
        keys = ",".join(self.options["key_files"])
        parsed_options = parse_log_options(read_options | ({"keyFile": keys} if keys else {}))
        digest, offsets = hashlib.sha256(), []
        for work in resolve.plan_log(parsed_options, cores=1).works:
            for batch in reading.read_work(work, choose_columns(("offset", "key", "value")), parsed_options):
                offsets += batch.column(0).to_pylist()
                for pair in zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True):
                    for part in pair:
                        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        return {"count": len(offsets), "ranges": _to_ranges(offsets), "sha256_of_keys_and_values": digest.hexdigest()}

    def _describe_original_segments(
        self, truth: Mapping[str, Any], announced_segments: set[int], have: list[int], log: TieredLog
    ) -> dict[str, Any]:
        """Return the original segments, and their contents if all still exist.

        Metadata of lost epochs were also announced, and the reference only counts deleted segments.
        """
        ever = truth.get("original_base_offsets", [])
        empty = {segment.base_offset for segment in log.partition.segments if segment.size_bytes == 0}
        # The last segment may have been rolled since.
        have = [base for base in have if base in ever or base not in empty]
        facts: dict[str, Any] = {"original_base_offsets": sorted({*have, *(announced_segments & {*ever})})}
        if ever == have:
            counts = log.counts()
            return facts | {"original_records": counts[0], "original_batches": counts[1]}
        return facts | {name: truth[name] for name in ("original_records", "original_batches") if name in truth}

    def log_lines(self) -> Iterator[tuple[str, dict[tuple[str, str], list[bytes]]]]:
        """Yield each partition's lines by segment: those of the store, and those of the local directory."""
        for directory in (*self.tiered_directories, self.local):
            for partition in directory.partitions:
                yield str(partition.topic_partition), _dump_segments(directory, partition)


class TieredLog:
    """A partition with older remote segments, as a broker serves it: remote up to the first local offset."""

    def __init__(self, tiered_partition: Partition, local: Partition, filesystem: Any) -> None:
        begin = local.segments[0].base_offset if local.segments else None
        older = [segment for segment in tiered_partition.segments if begin is None or segment.base_offset < begin]
        self.filesystem = filesystem
        self.partition = replace(
            local,
            segments=(*older, *local.segments),
            producer_snapshots=(*tiered_partition.producer_snapshots, *local.producer_snapshots),
        )

    def counts(self) -> tuple[int, int]:
        """Return the numbers of records without markers, and of batches."""
        records = batches = 0
        for segment in self.partition.segments:
            for line in map(json.loads, _json_lines(self.filesystem, segment.path)):
                records += line["type"] == "record" and "control_type" not in line
                batches += line["type"] == "batch"
        return records, batches


def _open_stores(directory: LogDirectory) -> Iterator[TieredObjectStore]:
    filesystem = directory.filesystem
    assert isinstance(filesystem, TieredFileSystem)
    store = find_store(filesystem.inner, directory.path, filesystem.inner.list_directory(directory.path))
    if store is not None:
        yield store


def _describe_entry(entry: MetadataEntry) -> dict[str, Any]:
    facts = dict(entry.facts)
    if "leader_epochs" in facts:
        facts["leader_epochs"] = {str(epoch): start for epoch, start in facts["leader_epochs"].items()}
    return {
        "metadata_partition": entry.partition,
        "metadata_offset": entry.offset,
        "record": entry.record,
        "state": entry.state,
    } | facts


def _explain_invalid(entries: list[MetadataEntry], note: str) -> str:
    if not entries:
        return _NOT_NAMED
    return "deleted" if entries[-1].state.startswith("DELETE") else note.partition(":")[0]


def _content(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("topic_id", "partition", "base_offset", "end_offset", "original_sha256"))


def _high_watermark(local: Partition) -> int | None:
    return local.checkpointed_offsets.get(HIGH_WATERMARK_CHECKPOINT)


def _to_ranges(offsets: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ranges


def _json_lines(filesystem: Any, path: str) -> Iterator[bytes]:
    from kafkaframes.jobs.dump.files import DumpFile
    from kafkaframes.jobs.dump.jsonl import JsonLinesDump, JsonLinesOptions

    for chunk in JsonLinesDump(DumpFile(filesystem, path, "log", filesystem.stat(path).size_bytes), JsonLinesOptions()):
        yield from bytes(chunk).splitlines()


def _dump_segments(directory: LogDirectory, partition: Partition) -> dict[tuple[str, str], list[bytes]]:
    return {
        (str(partition.topic_partition), str(segment.log.name)): list(_json_lines(directory.filesystem, segment.path))
        for segment in partition.segments
    }


def _compare_records(folder: Path, product: _OurResults) -> Iterator[str]:
    """Compare every line about every segment, of the store and of the local directory, with Kafka's classes."""
    truths: dict[str, dict[tuple[str, str], list[bytes]]] = {}
    for path in sorted((folder / "truth").glob("*.records.jsonl.gz")):
        truths[path.name.removesuffix(".records.jsonl.gz")] = _group_by_segment(gzip.decompress(path.read_bytes()))
    seen_segments: dict[str, set[tuple[str, str]]] = {name: set() for name in truths}
    for name, lines_by_segment in product.log_lines():
        if name not in truths:
            continue
        for segment, got in lines_by_segment.items():
            seen_segments[name].add(segment)
            if segment not in truths[name]:
                if all(json.loads(line)["type"] == "end" for line in got):
                    continue  # rolled after the reference was taken, and still empty
                yield f"{name}: the reference has no segment {segment[1]}"
                continue
            pairs = differences(
                list(parse_lines(truths[name][segment])), list(parse_lines(got)), f"{name}/{segment[1]}"
            )
            yield from (line for _, line in zip(range(MAX_DIFFERENCES), pairs, strict=False))
    yield from _report_missing_segments(product, truths, seen_segments)


def _report_missing_segments(
    product: _OurResults,
    truths: dict[str, dict[tuple[str, str], list[bytes]]],
    seen_segments: dict[str, set[tuple[str, str]]],
) -> Iterator[str]:
    """Report segments of the reference that are neither in the store nor local, except those that Kafka has deleted."""
    deleted_segments = {
        (f"{entry.topic}-{entry.of_partition}", entry.facts["start_offset"])
        for entry in product.knowledge.metadata.entries
        if "start_offset" in entry.facts
        and str(product.knowledge.metadata.states.get(entry.segment_id or "")).startswith("DELETE")
    }
    for name, segments in truths.items():
        for segment in sorted(segments.keys() - seen_segments[name]):
            if (name, int(segment[1][:20])) not in deleted_segments:
                yield f"{name}: segment {segment[1]} of the reference is neither in the store nor local"


def _group_by_segment(text: bytes) -> dict[tuple[str, str], list[bytes]]:
    """Group the lines of a reference by segment. A record's line follows that of its batch, which names the segment."""
    lines_by_segment: dict[tuple[str, str], list[bytes]] = {}
    current: list[bytes] = []
    for line in text.splitlines():
        fields = json.loads(line)
        if "segment" in fields:
            current = lines_by_segment.setdefault((fields["directory"], fields["segment"]), [])
        current.append(line)
    return lines_by_segment


KIND = Kind("tiered", ("tiered",), cases, disagreements)
