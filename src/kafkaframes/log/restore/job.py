"""Restore logs into a new directory: the whole of it, complete or absent.

Partitions are restored one a task, here, in a pool of processes or on Spark, with the same result. Then come the
committed offsets, and the files that make the directory one that a broker opens (``cluster.py``). The report is left in
it as ``_SUCCESS``: a broker looks at directories only, so it may stay, and another run of the same job is done at once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.log.directory import LogDirectory, discover
from kafkaframes.log.names import TopicPartition
from kafkaframes.log.restore.cluster import Ends, Node, checkpoint_files, node_files, write_all
from kafkaframes.log.restore.groups import (
    Commit,
    CommitKey,
    Groups,
    GroupsReport,
    csv_text,
    read_groups,
    translated,
    write_groups,
)
from kafkaframes.log.restore.kraft import TopicLayout
from kafkaframes.log.restore.metadata import TopicSettings, metadata_of
from kafkaframes.log.restore.partition import PartitionReport, RestoreTask, restore_partition
from kafkaframes.log.restore.plan import OFFSETS_TOPIC, NewId, RestorePlan, plan_restore
from kafkaframes.log.restore.settings import KRAFT, RestoreSettings
from kafkaframes.log.rewrite import files
from kafkaframes.log.rewrite.job import Runner, described, earlier, run_here, write_report

GROUP_OFFSETS_CSV = "group-offsets.csv"
_DEFAULT_OFFSETS_PARTITIONS = 50
_PRODUCER_ID_BLOCK = 1000  # a broker asks the controller for so many at once
_OFFSETS_CONFIGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
_HOLD = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(slots=True)
class RestoreReport:
    """What a restore did, or (``dry_run``) would do.

    Attributes:
        settings: those of the job.
        fingerprint: of the names, sizes and times of the sources' segments.
        partitions: in their order.
        topic_ids: name to id.
        groups: what became of the committed offsets; None where none were asked for.
        left_out: directories of the sources that were not restored, with the reason.
        held: topics that keep everything (``retention.ms`` is -1) until somebody says otherwise.
        cluster_id: of the new node; empty for an existing cluster.
        done_before: an earlier run of the same job had finished; nothing was done now.
    """

    source: Any
    destination: str
    settings: dict[str, Any]
    fingerprint: str
    partitions: list[PartitionReport] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    groups: GroupsReport | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    cluster_id: str = ""
    dry_run: bool = False
    done_before: bool = False

    @property
    def bytes_lost(self) -> int:
        """Bytes of damaged batches that are not in the result; unfinished tails do not count."""
        return sum(one.end - one.start for report in self.partitions for one in report.lost if not one.is_tail)

    def as_json(self) -> dict[str, Any]:
        """Return the report as values that JSON has."""
        found = {name: getattr(self, name) for name in self.__slots__}
        groups = self.groups and {name: getattr(self.groups, name) for name in self.groups.__slots__}
        return found | {"partitions": [one.as_json() for one in self.partitions], "groups": groups}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> RestoreReport:
        """Return what ``as_json`` said."""
        partitions = [PartitionReport.from_json(one) for one in said["partitions"]]
        groups = said["groups"] and GroupsReport(**said["groups"] | {"dropped": Counter(said["groups"]["dropped"])})
        left_out = [(directory, reason) for directory, reason in said["left_out"]]
        return cls(**said | {"partitions": partitions, "groups": groups, "left_out": left_out})


def restore(
    sources: str | Sequence[str],
    destination: str | Path,
    settings: RestoreSettings | None = None,
    *,
    now_ms: int,
    new_id: NewId,
    run: Runner = run_here,
    filesystem: Any = None,
    dry_run: bool = False,
    storage: Mapping[str, Any] | None = None,
) -> RestoreReport:
    """Restore segments into ``destination``, a directory that does not exist yet.

    Args:
        sources: log directories, partitions or segments, on a disk or by URL; they are only read.
        now_ms, new_id: the clock, and what makes ids (22 characters of URL-safe base64).
        run: carries tasks out, in their order.
        filesystem: for the sources; by default their own.
        dry_run: say what would be done; committed offsets and listings are read, segments are not.
        storage: options of the stores that have the sources; ``key_files`` of encrypted tiered segments.

    Raises:
        LogDirError: something is damaged, contradicts something else, cannot be read or written, or exists; nothing
            is left behind.
        OptionError: there is nothing to restore, or a setting does not fit the sources.
    """
    settings, target = settings or RestoreSettings(), Path(destination)
    named = [sources] if isinstance(sources, str) else list(sources)
    found = discover(named, filesystem=filesystem, options=storage)
    report = RestoreReport(named, str(target), described(settings), _fingerprint(found), dry_run=dry_run)
    if dry_run:
        _Job(found, settings, report, now_ms, new_id).preview()
        return report
    _refuse_inside(target, found)
    with files.locked(target):
        if target.exists():
            return replace(RestoreReport.from_json(earlier(target, _comparable(report))), done_before=True)
        with files.unfinished(target) as directory:
            _Job(found, settings, report, now_ms, new_id).write(directory, run)
            write_report(directory, report)
    return report


def _comparable(report: RestoreReport) -> dict[str, Any]:
    """Return what the report of the same job says, with JSON's lists for tuples."""
    settings = {name: _listed(value) for name, value in report.settings.items()}
    return {"source": report.source, "settings": settings, "fingerprint": report.fingerprint}


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def _refuse_inside(target: Path, found: Sequence[LogDirectory]) -> None:
    for directory in found:
        if target.absolute().is_relative_to(Path(directory.path).absolute()):
            raise OptionError(f"{target} lies in the source {directory.path}, which is not to be changed")


def _fingerprint(found: Sequence[LogDirectory]) -> str:
    """Return a digest of the segments' names, sizes and times: a source that went on is another job."""
    listed = [
        (file.path, file.log.size_bytes, file.log.mtime_ms)
        for directory in found
        for one in directory.partitions
        for file in one.segments
    ]
    return hashlib.sha256(repr(listed).encode()).hexdigest()


class _Job:
    """One restore while it is worked out and carried out."""

    def __init__(
        self,
        found: tuple[LogDirectory, ...],
        settings: RestoreSettings,
        report: RestoreReport,
        now_ms: int,
        new_id: NewId,
    ) -> None:
        self._settings, self._report, self._now_ms, self._new_id = settings, report, now_ms, new_id
        metadata = metadata_of(found)
        self._known, self._next_producer_id = metadata.topics, metadata.next_producer_id
        counts = {topic: said.partitions for topic, said in self._known.items()}
        self._plan: RestorePlan = plan_restore(found, settings, new_id=new_id, partition_counts=counts)
        self._groups = read_groups(self._plan.offsets_copies) if settings.groups else Groups()
        report.topic_ids, report.left_out = self._plan.topic_ids, self._plan.left_out

    def preview(self) -> None:
        """Fill the report with what would be done."""
        self._report.partitions = [
            PartitionReport(
                one.target.topic,
                one.target.partition,
                segments=len(one.parts),
                bytes_read=one.size_bytes,
                log_start_offset=one.log_start_offset,
            )
            for one in self._plan.partitions
        ]
        targets = {one.source: one.target for one in self._plan.partitions if one.source is not None}

        def stays(source: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
            return (targets[source], offset) if source in targets else None

        _, self._report.groups = self._translated(stays)
        self._report.held = sorted(name for name, configs in self._configs().items() if _is_held(configs))

    def write(self, directory: Path, run: Runner) -> None:
        """Write everything into an empty directory."""
        tasks = self._tasks(directory)
        for one in run(restore_partition, tasks):
            self._report.partitions.append(one)
        logs = {TopicPartition(one.topic, one.partition): one.ends for one in self._report.partitions}
        commits = self._restored_commits()
        if self._settings.bootstrap != KRAFT:
            if commits:
                write_all(directory, iter([(GROUP_OFFSETS_CSV, csv_text(commits).encode())]))
            write_all(directory, checkpoint_files(logs))
            return
        if self._settings.groups:
            ends = self._write_groups(directory, commits)
            logs |= {partition: Ends(0, 0, end) for partition, end in ends.items()}
        write_all(directory, checkpoint_files(logs))
        self._write_node(directory, logs)

    def _tasks(self, directory: Path) -> list[RestoreTask]:
        committed = self._groups.committed()
        return [
            RestoreTask(
                target=one.target,
                directory=str(directory),
                topic_id=self._plan.topic_ids[one.target.topic],
                settings=self._settings,
                parts=one.parts,
                log_start_offset=one.log_start_offset,
                committed=committed.get(one.source, ()) if one.source is not None else (),
                now_ms=self._now_ms,
            )
            for one in self._plan.partitions
        ]

    # ------------------------------------------------------------------------------------------------------ groups

    def _restored_commits(self) -> dict[CommitKey, Commit]:
        moved = {
            one.source: (one.target, dict(report.committed))
            for one, report in zip(self._plan.partitions, self._report.partitions, strict=True)
            if one.source is not None
        }

        def follow(source: TopicPartition, offset: int) -> tuple[TopicPartition, int] | None:
            if source not in moved:
                return None
            target, offsets = moved[source]
            return target, offsets[offset]

        commits, self._report.groups = self._translated(follow)
        return commits

    def _translated(self, translate: Any) -> tuple[dict[CommitKey, Commit], GroupsReport | None]:
        if not self._settings.groups:
            return {}, None
        settings = self._settings
        return translated(
            self._groups,
            translate,
            now_ms=self._now_ms,
            keep_times=settings.keep_commit_times,
            keep_epochs=not settings.moves_offsets and settings.leader_epoch is None,
        )

    def _write_groups(self, directory: Path, commits: Mapping[CommitKey, Commit]) -> dict[TopicPartition, int]:
        count = self._settings.offsets_partitions or self._groups.partitions or _DEFAULT_OFFSETS_PARTITIONS
        topic_id = self._report.topic_ids[OFFSETS_TOPIC] = self._offsets_topic_id()
        return write_groups(
            directory,
            commits,
            self._groups.protocols,
            partitions=count,
            topic_id=topic_id,
            now_ms=self._now_ms,
            keep_times=self._settings.keep_commit_times,
        )

    def _offsets_topic_id(self) -> str:
        known = [one.metadata.topic_id for _, one in self._plan.offsets_copies if one.metadata is not None]
        return dict(self._settings.topic_ids).get(OFFSETS_TOPIC) or (
            known[0] if len(set(known)) == 1 else self._new_id()
        )

    # ------------------------------------------------------------------------------------------------------ the node

    def _write_node(self, directory: Path, logs: Mapping[TopicPartition, Ends]) -> None:
        settings, report = self._settings, self._report
        epochs = {TopicPartition(one.topic, one.partition): one.leader_epoch for one in report.partitions}
        counts = Counter(partition.topic for partition in logs)
        configs = self._configs()
        layouts = [
            TopicLayout(
                name=topic,
                topic_id=report.topic_ids[topic],
                leader_epochs=tuple(epochs.get(TopicPartition(topic, number), 0) for number in range(count)),
                configs=configs.get(topic, {}),
            )
            for topic, count in sorted(counts.items())
        ]
        report.held = sorted(name for name, said in configs.items() if _is_held(said))
        report.cluster_id = settings.cluster_id or self._new_id()
        node = Node(
            node_id=settings.node_id,
            cluster_id=report.cluster_id,
            directory_id=self._new_id(),
            release=settings.release,
        )
        last = max((one.last_producer_id for one in report.partitions), default=-1)
        beyond = (last // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK if last >= 0 else 0
        first_free = max(beyond, self._next_producer_id)
        write_all(directory, node_files(node, layouts, now_ms=self._now_ms, next_producer_id=first_free))

    def _configs(self) -> dict[str, dict[str, str]]:
        """Return each topic's settings: the source's, what keeps a broker from deleting it all, what is asked for."""
        sources = {self._settings.new_name(topic): said for topic, said in self._known.items()}
        found = {topic: self._configs_of(topic, sources.get(topic)) for topic in self._plan.topic_ids}
        if self._settings.groups:
            found[OFFSETS_TOPIC] = _OFFSETS_CONFIGS | self._asked(OFFSETS_TOPIC)
        return found

    def _configs_of(self, topic: str, source: TopicSettings | None) -> dict[str, str]:
        configs = dict(source.configs) if source is not None else {}
        if not self._settings.keep_retention and "delete" in configs.get("cleanup.policy", "delete"):
            configs |= _HOLD
        return configs | self._asked(topic)

    def _asked(self, topic: str) -> dict[str, str]:
        pairs = [(name.rpartition(":"), value) for name, value in self._settings.topic_configs]
        return {name: value for (of, _, name), value in pairs if of in ("", topic)}


def _is_held(configs: Mapping[str, str]) -> bool:
    return configs.get("retention.ms") == "-1"
