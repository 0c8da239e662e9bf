"""Present log directories, stores and copies as the files of one directory. Content is read from the original files.

If there are several copies of a partition, they are merged as in ``read_records``, with verified checksums.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kafkaframes.errors import MissingSegmentError, OptionError
from kafkaframes.storage.copies.decisions import MERGED_ROOT
from kafkaframes.storage.copies.one_log import merge_copies, select_copies
from kafkaframes.storage.copies.reading import CopySource, group_by_partition
from kafkaframes.storage.copies.view import FileExtent, MergedViewBuilder
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Remark, ServedDirectory
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, FileInfo, FileSystem, join
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import FileName, TopicPartition

_WRITTEN_FILES = (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)  # files that are written for the view


def present_as_one_directory(
    directories: Sequence[LogDirectory],
    partition_paths: Collection[str],
    *,
    merge: bool,
    options: Mapping[str, Any],
    root_files: Collection[str] = (names.META_PROPERTIES,),
) -> ServedDirectory:
    """Present the live partitions of log directories, and the partitions that the user named, as one directory.

    Args:
        partition_paths: paths of partition directories that the user named.
        root_files: names of files to present besides the partitions, from the first log directory with an identity.

    Raises:
        LogDirError: copies belong to different topics or clusters, or cannot be read.
        OptionError: a partition has several copies, and ``merge`` is false.
    """
    sources_by_partition = group_by_partition(select_copies(directories, partition_paths))
    sources_by_partition.pop(TopicPartition(names.CLUSTER_METADATA_TOPIC, 0), None)
    several = [key for key, copies in sources_by_partition.items() if len(copies) > 1]
    if several and not merge:
        reason = f"{several[0]} has several copies, but a broker has each partition once"
        raise OptionError(f"{reason}: merge the copies, or specify one directory")
    root = next((directory for directory in directories if directory.meta is not None), None)
    infos = {} if root is None else {name: root.filesystem.stat(join(root.path, name)) for name in root_files}
    tree = _TreeBuilder(options)
    for name, entry in infos.items():
        if root is not None and entry is not None:
            tree.root.append(tree.view.add_file(join(MERGED_ROOT, name), root.filesystem.read(entry.path)))
    return tree.build(sources_by_partition.values())


class _TreeBuilder:
    """A builder of a view that presents the partitions of several log directories as one directory."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.root: list[FileInfo] = []
        self.view = MergedViewBuilder(options)
        self._was_clean: dict[TopicPartition, bool] = {}
        self._remarks: list[Remark] = []

    def build(self, sources_by_partition: Collection[Sequence[CopySource]]) -> ServedDirectory:
        """Return the view of partitions, given the copies of each partition."""
        view = self.view
        directory_names = [
            self._add_merged_partition(copies) if len(copies) > 1 else self._add_single_partition(copies[0])
            for copies in sources_by_partition
        ]
        root = [*self.root, *(FileInfo(join(MERGED_ROOT, name), name, is_directory=True) for name in directory_names)]
        root += view.add_checkpoints()
        view.listings[MERGED_ROOT] = tuple(sorted(root, key=lambda entry: entry.name))
        remarks = tuple(sorted(self._remarks, key=lambda remark: -remark.severity))
        return ServedDirectory(MERGED_ROOT, view.filesystem, self._was_clean, remarks)

    def _add_single_partition(self, source: CopySource) -> str:
        partition = source.partition
        self.view.add_checkpointed_offsets(partition)
        is_uploaded = VIEW_SEPARATOR in partition.directory  # only whole segments are uploaded
        self._was_clean[partition.topic_partition] = is_uploaded or source.log_directory.clean_shutdown is not None
        self._remarks += [
            Remark(Severity.ERROR if isinstance(problem, MissingSegmentError) else Severity.WARNING, str(problem))
            for problem in partition.problems
        ]
        entries = source.filesystem.list_directory(partition.directory)
        return self._add_files(partition.topic_partition, ((source.filesystem, entry) for entry in entries))

    def _add_merged_partition(self, copies: Sequence[CopySource]) -> str:
        merged_partition = merge_copies(copies, check=True, scan=True)
        self._remarks += [
            Remark(decision.severity, str(decision))
            for decision in merged_partition.decisions
            if decision.severity > Severity.NOTE
        ]
        view = MergedViewBuilder(self.view.options)
        partition = view.add_merged(merged_partition, copies)
        self.view.add_checkpointed_offsets(partition)
        self._was_clean[partition.topic_partition] = True  # the merge has read every batch
        owners = {
            entry.path: decision.filesystem
            for decision in copies
            for entry in decision.filesystem.list_directory(decision.partition.directory)
        }
        entries = view.filesystem.list_directory(partition.directory)
        return self._add_files(
            partition.topic_partition, ((owners.get(entry.path, view.filesystem), entry) for entry in entries)
        )

    def _add_files(self, topic_partition: TopicPartition, entries: Iterable[tuple[FileSystem, FileInfo]]) -> str:
        """Add a partition's files below the root of the view; files that are not Kafka's are omitted."""
        directory = join(MERGED_ROOT, str(topic_partition))
        files = []
        for filesystem, entry in entries:
            path = join(directory, entry.name)
            if entry.name in _WRITTEN_FILES:
                files.append(self.view.add_file(path, filesystem.read(entry.path)))
            elif FileName.parse(entry.name) is not None:
                self.view.parts[path] = (FileExtent(filesystem, entry.path, 0, entry.size_bytes),)
                files.append(FileInfo(path, entry.name, entry.size_bytes, entry.mtime_ms))
        self.view.listings[directory] = tuple(sorted(files, key=lambda info: info.name))
        return str(topic_partition)
