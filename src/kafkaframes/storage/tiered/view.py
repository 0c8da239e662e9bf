"""Present a tiered store as log directories: read manifests, select each log's segments, report the other segments.

The selection uses all available sources: Kafka's topic of remote segments, and the leader epochs, topic id and log
start offset of a local copy of the partition. Without a local copy, the newest upload defines the history. Omitted and
contradictory uploads are listed in ``problems`` with their object. Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from kafkaframes.errors import LogDirError, MissingSegmentError
from kafkaframes.storage.files import names as log_names
from kafkaframes.storage.files.checkpoints import Epochs, EpochStart, assign_epoch, get_latest_epoch, read_leader_epochs
from kafkaframes.storage.files.directory import LogDirectory, Partition, build_partition, partitions_of
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, FileInfo, FileSystem, join, split_path
from kafkaframes.storage.files.names import TopicPartition, name_segment_file
from kafkaframes.storage.tiered import names
from kafkaframes.storage.tiered.filesystem import TieredFileSystem, index_size
from kafkaframes.storage.tiered.lineage import (
    RemoteLogMetadata,
    SegmentChain,
    build_chain,
    replay_metadata_topic,
    sort_newest_first,
)
from kafkaframes.storage.tiered.manifest import Manifest
from kafkaframes.storage.tiered.names import (
    ObjectName,
    Objects,
    PartitionFolder,
    TieredObjectStore,
    ViewPath,
    directory_view_path,
    find_store,
)

_LOG_START_FILE = log_names.LOG_START_CHECKPOINT


@dataclass(frozen=True, slots=True)
class LocalPartitionInfo:
    """Information from local log directories about a store's partitions: local copies and remote segment metadata.

    Attributes:
        metadata: state of the remote segments according to ``__remote_log_metadata``; empty without this topic.
        copies: local copies of each partition.
    """

    metadata: RemoteLogMetadata = field(default_factory=RemoteLogMetadata)
    copies: Mapping[TopicPartition, tuple[Partition, ...]] = field(default_factory=dict)

    @classmethod
    def from_directories(cls, directories: Iterable[LogDirectory]) -> LocalPartitionInfo:
        """Collect the information about a store's partitions from log directories."""
        all_directories = list(directories)
        copies: dict[TopicPartition, tuple[Partition, ...]] = {}
        for _directory, partition in partitions_of(all_directories):
            copies[partition.topic_partition] = (*copies.get(partition.topic_partition, ()), partition)
        return cls(replay_metadata_topic(all_directories), copies)

    def local_copies(self, topic_partition: TopicPartition, topic_id: str) -> tuple[Partition, ...]:
        """Return the local copies of a partition, without copies of another topic with the same name."""
        return tuple(
            partition
            for partition in self.copies.get(topic_partition, ())
            if partition.metadata is None or partition.metadata.topic_id == topic_id
        )


@dataclass(slots=True)
class SegmentUpload:
    """A readable upload: the path of its objects without suffix, the objects, and the manifest."""

    main: str
    objects: Objects
    manifest: Manifest


@dataclass(slots=True)
class PartitionDraft:
    """The segments and problems of one tiered partition, collected while the view is built.

    Attributes:
        notes: reason for each upload that is not part of the log, by object name; these uploads are not damaged.
    """

    folder: PartitionFolder
    topic_partition: TopicPartition
    uploads: dict[str, SegmentUpload] = field(default_factory=dict)
    chain: SegmentChain = field(default_factory=SegmentChain)
    problems: list[LogDirError] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)


def build_view(
    store: TieredObjectStore, knowledge: LocalPartitionInfo, *, key_files: Sequence[str] = ()
) -> LogDirectory:
    """Return a store as a log directory.

    Raises:
        LogDirError: the store cannot be read, or a segment's leader epochs are needed and it is encrypted.
    """
    listings: dict[str, tuple[FileInfo, ...]] = {}
    filesystem = TieredFileSystem(store.filesystem, list_partition, tuple(key_files), listings)
    tiered_logs = [choose_uploads(filesystem, folder, knowledge) for folder in store.folders]
    partitions = [
        _build_partition(filesystem, tiered_log, store.path, knowledge, listings)
        for tiered_log in tiered_logs
        if not _is_of_former_topic(tiered_log, tiered_logs, knowledge)
    ]
    listings[store.path] = tuple(
        FileInfo(partition.directory, str(partition.topic_partition), is_directory=True) for partition in partitions
    )
    sorted_partitions = sorted(partitions, key=lambda partition: (partition.topic_partition, partition.directory))
    problems = tuple(problem for partition in sorted_partitions for problem in partition.problems)
    return LogDirectory(
        store.path, filesystem, tuple(sorted_partitions), problems=(*knowledge.metadata.problems, *problems)
    )


def _is_of_former_topic(
    tiered_log: PartitionDraft, tiered_logs: Iterable[PartitionDraft], knowledge: LocalPartitionInfo
) -> bool:
    """Return whether a folder belongs to a deleted topic with a name that was used again.

    Only a local copy with another topic id, or the metadata topic, proves the deletion. If neither exists, both topics
    are shown, and the user has to choose one.
    """
    topic_id = tiered_log.folder.topic.topic_id
    other_ids = {
        other.folder.topic.topic_id for other in tiered_logs if other.topic_partition == tiered_log.topic_partition
    } - {topic_id}
    copies = knowledge.copies.get(tiered_log.topic_partition, ())
    local_ids = {copy.metadata.topic_id for copy in copies if copy.metadata is not None}
    is_deleted = (topic_id, tiered_log.folder.partition) in knowledge.metadata.deleted_partitions
    return bool(other_ids) and topic_id not in local_ids and (is_deleted or bool(other_ids & local_ids))


def make_tiered_filesystem(inner: FileSystem, key_files: Sequence[str] = ()) -> TieredFileSystem:
    """Return a file system that serves view paths from the file system that contains the objects."""
    return TieredFileSystem(inner, list_partition, tuple(key_files))


def list_partition(filesystem: TieredFileSystem, view: ViewPath) -> list[FileInfo]:
    """List a partition by reading only the store, for a process that has only the partition's path."""
    entries = filesystem.inner.list_directory(view.main)
    store = find_store(filesystem.inner, view.main, entries)
    if store is None:
        raise LogDirError("contains no objects of a tiered segment", file=view.main)
    tiered_log = build_view(store, LocalPartitionInfo(), key_files=filesystem.key_files)
    return tiered_log.filesystem.list_directory(str(view))


def choose_uploads(
    filesystem: TieredFileSystem, folder: PartitionFolder, knowledge: LocalPartitionInfo
) -> PartitionDraft:
    """Select the uploads of one partition that belong to its log, and record the reason for each omitted upload.

    Raises:
        LogDirError: the store cannot be read, or a required key is missing.
    """
    tiered_log = PartitionDraft(folder, TopicPartition(folder.topic.name, folder.partition))
    unreadable_uploads: list[tuple[ObjectName | None, LogDirError]] = []
    for stem, objects in sorted(folder.uploads.items()):
        try:
            upload = _open_upload(filesystem, folder, stem, objects)
        except LogDirError as problem:
            if names.MANIFEST in objects:
                unreadable_uploads.append((ObjectName.parse(f"{stem}.{names.MANIFEST}"), problem))
            else:
                tiered_log.notes[stem] = problem.reason
            continue
        tiered_log.uploads[upload.manifest.metadata.segment_id] = upload
    _choose_chain(filesystem, tiered_log, knowledge)
    for name, error in unreadable_uploads:
        location: dict[str, Any] = {"position": error.position, "path": error.path, "file": error.file}
        if name is not None and _is_lost_at_end(tiered_log, name, knowledge.metadata):
            offsets = error.offsets if isinstance(error, MissingSegmentError) else None
            offsets = offsets or (name.base_offset, name.base_offset)  # the end offset is unknown
            tiered_log.problems.append(MissingSegmentError(error.reason, offsets=offsets, **location))
        else:
            tiered_log.problems.append(LogDirError(error.reason, **location))
    return tiered_log


def _is_lost_at_end(tiered_log: PartitionDraft, name: ObjectName, metadata: RemoteLogMetadata) -> bool:
    """Return whether an upload that has a manifest, but cannot be read, is a lost segment after the log's end.

    Offsets that are missing between two segments are reported as a hole. The plugin uploads the manifest last, so the
    upload was complete. Kafka deletes the segments of a log from its start. The upload may therefore be a deletion if
    no earlier segment exists. If the metadata topic has records about the partition, it contains the state of each
    segment.
    """
    owner = tiered_log.folder.topic.topic_id, tiered_log.folder.partition
    if tiered_log.folder.is_selected_by_name:
        return False
    segments = tiered_log.chain.segments
    if segments and name.base_offset <= segments[-1].end_offset:
        return False
    if metadata.has_records_of(owner):
        return metadata.is_valid(owner, name.segment_id)
    return bool(segments)


def _open_upload(filesystem: TieredFileSystem, folder: PartitionFolder, stem: str, objects: Objects) -> SegmentUpload:
    """Return an upload whose objects are complete, with its manifest."""
    main = join(folder.path, stem)
    if names.MANIFEST not in objects:
        present = ", ".join(sorted(objects))
        raise LogDirError(f"objects without a manifest ({present}): an upload that was not finished", file=main)
    manifest = filesystem.read_manifest(main)
    _check_identity(manifest, folder, stem, f"{main}.{names.MANIFEST}")
    if names.LOG not in objects:
        reason = "a manifest without its .log object: the segment is lost"
        offsets = manifest.metadata.start_offset, manifest.metadata.end_offset
        raise MissingSegmentError(reason, offsets=offsets, file=f"{main}.{names.MANIFEST}")
    return SegmentUpload(main, objects, manifest)


def _check_identity(manifest: Manifest, folder: PartitionFolder, stem: str, file: str) -> None:
    """Check that a manifest describes the segment of its key."""
    metadata, key = manifest.metadata, ObjectName.parse(f"{stem}.{names.MANIFEST}")
    checks = [
        ("base offset", metadata.start_offset, key and key.base_offset),
        ("id", metadata.segment_id, key and key.segment_id),
    ]
    if folder.topic.topic_id:
        checks += [("topic id", metadata.topic_id, folder.topic.topic_id)]
        checks += [("partition", metadata.topic_partition.partition, folder.partition)]
        if not folder.topic.name.endswith(metadata.topic_partition.topic):
            checks += [("topic", metadata.topic_partition.topic, folder.topic.name)]
    for name, manifest_value, key_value in checks:
        if manifest_value != key_value:
            reason = f"the manifest states {name} {manifest_value}, but the object key has {key_value}"
            raise LogDirError(reason, file=file)


def _choose_chain(filesystem: TieredFileSystem, tiered_log: PartitionDraft, knowledge: LocalPartitionInfo) -> None:
    """Select the uploads that form the log, and record the reason for each omitted upload."""
    uploads = tiered_log.uploads
    if not uploads:
        return
    tiered_log.topic_partition = next(iter(uploads.values())).manifest.metadata.topic_partition
    if tiered_log.folder.is_selected_by_name:
        tiered_log.chain = SegmentChain(
            sorted(
                (upload_of.manifest.metadata for upload_of in uploads.values()),
                key=lambda upload_of: upload_of.start_offset,
            )
        )
        return
    candidates = dict(uploads)
    owner = tiered_log.folder.topic.topic_id, tiered_log.folder.partition
    if knowledge.metadata.has_records_of(owner):
        for segment_id, upload_of in uploads.items():
            if not knowledge.metadata.is_valid(owner, segment_id):
                del candidates[segment_id]
                tiered_log.notes[split_path(upload_of.main)[1]] = _explain_state(knowledge.metadata, owner, segment_id)
        _note_missing_segments(tiered_log, knowledge.metadata, owner)
    segments = [upload_of.manifest.metadata for upload_of in candidates.values()]
    copies = knowledge.local_copies(tiered_log.topic_partition, owner[0])
    tiered_log.chain = build_chain(segments, _choose_epochs(filesystem, tiered_log, candidates, copies))
    for segment_id, reason in tiered_log.chain.omission_reasons.items():
        tiered_log.notes[split_path(uploads[segment_id].main)[1]] = reason
    _note_holes(tiered_log)


def _explain_state(metadata: RemoteLogMetadata, owner: tuple[str, int], segment_id: str) -> str:
    """Return the reason why Kafka does not count a segment as uploaded."""
    if owner in metadata.deleted_partitions:
        return f"its partition is {metadata.deleted_partitions[owner]}"
    return (
        f"its state is {metadata.states[segment_id]}" if segment_id in metadata.states else "not in the metadata topic"
    )


def _note_missing_segments(tiered_log: PartitionDraft, metadata: RemoteLogMetadata, owner: tuple[str, int]) -> None:
    """Record the segments that Kafka would serve but that are missing from the store or unreadable."""
    segment_ids = {
        name.segment_id for stem in tiered_log.folder.uploads if (name := ObjectName.parse(f"{stem}.{names.LOG}"))
    }
    for segment_id in sorted(metadata.segments.get(owner, ())):
        if metadata.is_valid(owner, segment_id) and segment_id not in segment_ids:
            reason = f"the metadata topic lists segment {segment_id}, but none of its objects is in the store"
            offsets = metadata.find_offsets(segment_id)
            tiered_log.problems.append(MissingSegmentError(reason, offsets=offsets, file=tiered_log.folder.path))


def _choose_epochs(
    filesystem: TieredFileSystem,
    tiered_log: PartitionDraft,
    candidates: Mapping[str, SegmentUpload],
    copies: Iterable[Partition],
) -> Epochs:
    """Return the leader epochs of the local copy or upload with the latest last epoch."""
    local = max((segment.leader_epochs or () for segment in copies), key=get_latest_epoch, default=())
    later: list[EpochStart] = []
    for segment in sort_newest_first(upload.manifest.metadata for upload in candidates.values()):
        if get_latest_epoch(local) >= get_latest_epoch(segment.leader_epochs):
            return local
        upload = candidates[segment.segment_id]
        filesystem.make_segment_decryptor(
            upload.manifest, file=upload.objects.get(names.INDEXES, upload.objects[names.LOG]).path
        )
        try:
            path = f"{upload.main}{VIEW_SEPARATOR}{tiered_log.topic_partition}/leader-epoch-checkpoint"
            epochs = read_leader_epochs(filesystem.read(path), file=path)
        except LogDirError as problem:
            tiered_log.problems.append(problem)
            later += segment.leader_epochs  # the manifest has its epochs; earlier ones are in an older upload
            continue
        return _with_later(epochs, later)
    return _with_later((), later)


def _with_later(epochs: Epochs, later: Iterable[EpochStart]) -> Epochs:
    return reduce(assign_epoch, sorted(later, key=lambda epoch: (epoch.leader_epoch, epoch.start_offset)), epochs)


def _note_holes(tiered_log: PartitionDraft) -> None:
    """Record the missing offsets of the log, and the segments that overlap."""
    for first, last in tiered_log.chain.gaps:
        reason = f"no segment has the offsets {first} to {last} of {tiered_log.topic_partition}"
        tiered_log.problems.append(MissingSegmentError(reason, offsets=(first, last), file=tiered_log.folder.path))
    for segment, other in tiered_log.chain.overlaps:
        reason = f"the segments {segment.segment_id} and {other.segment_id} both have offset {other.start_offset}"
        tiered_log.problems.append(LogDirError(reason, file=tiered_log.folder.path))


def _build_partition(
    filesystem: TieredFileSystem,
    tiered_log: PartitionDraft,
    store_path: str,
    knowledge: LocalPartitionInfo,
    listings: dict[str, tuple[FileInfo, ...]],
) -> Partition:
    """Return the partition of the view, and store its directory entries in ``listings``."""
    directory = directory_view_path(tiered_log.folder.path, tiered_log.topic_partition)
    entries = tuple(sorted(_list_entries(tiered_log, directory), key=lambda entry: entry.name))
    listings[directory] = entries
    ends = {tiered_segment.start_offset: tiered_segment.end_offset for tiered_segment in tiered_log.chain.segments}
    starts = _make_log_start_checkpoint(knowledge, tiered_log)
    partition = build_partition(filesystem, directory, entries, store_path, starts)
    for upload in (tiered_log.uploads[tiered_segment.segment_id] for tiered_segment in tiered_log.chain.segments):
        tiered_log.problems += _find_size_problems(upload)
    return replace(
        partition,
        segments=tuple(
            replace(tiered_segment, end_offset=ends[tiered_segment.base_offset])
            for tiered_segment in partition.segments
        ),
        problems=(*partition.problems, *tiered_log.problems),
        notes=tuple(
            f"{join(tiered_log.folder.path, stem)}: {reason}" for stem, reason in sorted(tiered_log.notes.items())
        ),
    )


def _make_log_start_checkpoint(
    knowledge: LocalPartitionInfo, tiered_log: PartitionDraft
) -> dict[str, dict[TopicPartition, int]]:
    """Return the largest log start offset of the local copies, by partition and name of the checkpoint file."""
    copies = knowledge.local_copies(tiered_log.topic_partition, tiered_log.folder.topic.topic_id)
    starts = [
        partition.checkpointed_offsets[_LOG_START_FILE]
        for partition in copies
        if _LOG_START_FILE in partition.checkpointed_offsets
    ]
    return {_LOG_START_FILE: {tiered_log.topic_partition: max(starts)}} if starts else {}


def _list_entries(tiered_log: PartitionDraft, directory: str) -> Iterator[FileInfo]:
    """Yield the directory entries of a partition in the view."""
    last = directory.rpartition("/")[2]
    for segment in tiered_log.chain.segments:
        upload = tiered_log.uploads[segment.segment_id]
        for kind in ("log", *log_names.SEGMENT_KINDS[1:], "snapshot"):
            offset = segment.end_offset + 1 if kind == "snapshot" else segment.start_offset
            yield from _make_entry(upload, last, name_segment_file(offset, kind))
    if tiered_log.chain.segments:
        upload = tiered_log.uploads[tiered_log.chain.segments[-1].segment_id]
        yield from _make_entry(upload, last, log_names.LEADER_EPOCH_CHECKPOINT)
    if tiered_log.folder.topic.topic_id:
        yield FileInfo(join(directory, log_names.PARTITION_METADATA), log_names.PARTITION_METADATA, 1)


def _make_entry(upload: SegmentUpload, directory: str, name: str) -> Iterator[FileInfo]:
    """Yield the directory entry of a file if the upload contains this file."""
    view = ViewPath(upload.main, directory, name)
    if view.index is None:
        yield FileInfo(str(view), name, upload.manifest.size_bytes, upload.objects[names.LOG].mtime_ms)
        return
    size = index_size(upload.manifest, view.index)
    if size is not None and names.INDEXES in upload.objects:
        yield FileInfo(str(view), name, size, upload.objects[names.INDEXES].mtime_ms)


def _find_size_problems(upload: SegmentUpload) -> Iterator[LogDirError]:
    manifest, objects = upload.manifest, upload.objects
    if names.INDEXES not in objects:
        yield LogDirError("a manifest without its .indexes object", file=f"{upload.main}.{names.MANIFEST}")
    expected_sizes = {names.LOG: manifest.chunks.stored_size, names.INDEXES: manifest.indexes_size}
    for suffix, size in expected_sizes.items():
        info = objects.get(suffix)
        if info is not None and info.size_bytes != size:
            reason = f"the object has {info.size_bytes} bytes, but its manifest states {size}"
            yield LogDirError(reason, position=min(info.size_bytes, size), file=info.path)
