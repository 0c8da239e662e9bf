"""Open the source and the target of a mirror as clusters.

If one of them is a log directory, an embedded broker serves it.

A source directory is served without modification. A target directory is a broker's data directory. A missing target
directory is created, and nothing in it expires while the mirror runs. Apart from records, a mirror copies topics, with
the settings that the target accepts, and committed offsets of groups.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncAdmin, CommittedOffset, NewTopic, TopicPartition
from kafkaframes.client.metadata import list_partitions_with_leader
from kafkaframes.errors import AuthorizationError, BrokerError, ErrorCode, LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.mirror.settings import GAPS_SETTING, MirrorReport, is_directory
from kafkaframes.jobs.restore.source import read_metadata
from kafkaframes.storage.copies.one_log import open_one_log
from kafkaframes.storage.files.findings import Finding
from kafkaframes.storage.log.discover import check_topics, discover, is_selected
from kafkaframes.storage.log.notes import HiddenRecords, LogNotes
from kafkaframes.storage.log.transactions import TransactionState, find_hidden_records, read_transactions
from kafkaframes.wire.integers import MAX_INT32

_UNLIMITED_MS: Final = str(2**63 - 1)
# While a mirror runs, neither broker may delete or clean records or abort transactions. Open transactions stay open.
_UNLIMITED_TIMES: Final = {
    "log.retention.check.interval.ms": _UNLIMITED_MS,
    "log.cleaner.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(MAX_INT32),  # the setting's maximum, 24 days
}


@asynccontextmanager
async def open_cluster(
    endpoint: str,
    properties: Mapping[str, Any],
    wait_for_cluster: Callable[[dict[str, Any]], Awaitable[None]],
    print_message: Callable[[str], None],
    *,
    writes: bool,
    report_loss: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[dict[str, Any]]:
    """Yield client settings for the source or the target.

    Args:
        endpoint: bootstrap servers, or a log directory.
        properties: client settings from the user.
        wait_for_cluster: coroutine function that waits until a cluster responds.
        print_message: function that receives messages about a directory, line by line.
        writes: whether the mirror writes to a directory.
        report_loss: function that receives messages about records that are not served.

    Raises:
        LogDirError: the directory cannot be served or written to.
        NetworkError: the cluster does not respond.
    """
    if not is_directory(endpoint):
        client = {**properties, "bootstrap.servers": endpoint}
        await wait_for_cluster(client)
        yield client
        return
    data_dir, serve = (endpoint, None) if writes else (None, endpoint)
    async with Broker(data_dir=data_dir, serve=serve, journal=False, config=_UNLIMITED_TIMES) as broker:
        reported_remarks: set[str] = set()
        _report_findings(broker, reported_remarks, print_message, report_loss)
        try:
            yield {"bootstrap.servers": broker.bootstrap_servers}
        except BrokerError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                raise _explain_failed_write(endpoint, broker) from error
            raise
        _report_findings(
            broker, reported_remarks, print_message, report_loss
        )  # findings since the broker opened the directory


def _explain_failed_write(directory: str, broker: Broker) -> LogDirError:
    """Return the error that explains why a write to a directory failed.

    The old version of Produce that is used does not return a reason.
    """
    free_bytes = shutil.disk_usage(directory).free
    failures = [line for line in broker.losses if "offline" in line]
    reason = f"a write failed, and the disk has {count_text(free_bytes, 'free byte')}"
    remedy = "run the command again to continue, after the disk has space"
    return LogDirError("; ".join((reason, *failures, remedy)), file=directory)


def _report_findings(
    broker: Broker, reported_remarks: set[str], print_message: Callable[[str], None], report_loss: Callable[[str], None]
) -> None:
    """Report a broker's findings about a log directory that were not reported before."""
    losses = set(broker.losses)
    for remark in broker.remarks:
        if remark not in reported_remarks:
            reported_remarks.add(remark)
            print_message(remark)
            if remark in losses:
                report_loss(remark)


def read_directory_configs(directory: str) -> dict[str, dict[str, str]]:
    """Return the topic settings in the KRaft metadata of a log directory; empty if it has none."""
    try:
        return {name: metadata.configs for name, metadata in read_metadata(discover(directory)).topics.items()}
    except LogDirError:  # a store that only a broker can read, without controller metadata
        return {}


def replay_transactions(path: str, topics: Collection[str]) -> tuple[dict[TopicPartition, TransactionState], LogNotes]:
    """Return the transactions of topics in a log directory, replayed from their markers, and notes to report.

    A broker that serves the directory trusts its transaction indexes if it was shut down cleanly.

    Raises:
        LogDirError: the directory cannot be read, or copies contradict each other.
    """
    states, findings, hidden_records = dict[TopicPartition, TransactionState](), list[Finding](), list[HiddenRecords]()
    for directory in open_one_log(discover(path), check=False).directories:
        for partition in directory.partitions:
            if partition.is_live and partition.topic in topics:
                state = read_transactions(directory.filesystem, partition)
                states[TopicPartition(partition.topic, partition.partition)] = state
                findings += state.findings
                records = find_hidden_records(directory.filesystem, partition, state)
                hidden_records += [] if records is None else [records]
    return states, LogNotes(tuple(findings), tuple(hidden_records))


def has_topic_id(path: str, topic: str) -> bool:
    """Return whether a log directory stores the id of a topic (KIP-516). Brokers before 2.8 do not store topic ids."""
    partitions = (
        partition for directory in discover(path) for partition in directory.partitions if partition.topic == topic
    )
    return any(partition.metadata is not None and partition.metadata.topic_id for partition in partitions)


# ------------------------------------------------------------------------------------------------------------- topics


_TOPIC_CONFIG_SOURCE: Final = 1  # ConfigSource of settings of the topic itself
# Settings that depend on a cluster's layout instead of a topic's records. MirrorMaker 2 omits them too.
_CLUSTER_SETTINGS: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    }
)
_LOG_APPEND_TIME_CONFIG: Final = ("message.timestamp.type", "LogAppendTime")
_UNLIMITED_RETENTION: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic to copy.

    Attributes:
        configs: settings that are set on the topic itself.
        configs_problem: reason why the settings cannot be read; empty if they were read.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    configs_problem: str = ""


async def select_topics(
    admin: AsyncAdmin,
    patterns: Iterable[str],
    source_configs: Mapping[str, Mapping[str, str]],
    *,
    requires_match: bool = True,
) -> list[MirroredTopic]:
    """Return the selected topics of the source, without internal topics.

    Args:
        admin: admin client of the source.
        patterns: topic names or patterns; empty selects all.
        source_configs: topic settings from the metadata of a source directory. The embedded broker does not have them.
        requires_match: whether each pattern must match a topic.

    Raises:
        OptionError: a pattern matches no topic, and ``requires_match`` is set.
    """
    names = tuple(patterns)
    topics = [topic for topic in (await admin.describe_cluster()).topics.values() if not topic.is_internal]
    if requires_match:
        check_topics(names, (topic.name for topic in topics))
    topics_read = []
    for topic in sorted(topics, key=lambda topic: topic.name):
        if is_selected(topic.name, names):
            partitions = tuple(list_partitions_with_leader(topic))
            try:
                own_configs, problem = await read_own_configs(admin, topic.name), ""
            except AuthorizationError as error:
                own_configs, problem = {}, f"its settings are not copied, because they cannot be read: {error}"
            configs = {**source_configs.get(topic.name, {}), **own_configs}
            topics_read.append(MirroredTopic(topic.name, str(topic.topic_id), partitions, configs, problem))
    return topics_read


async def read_own_configs(admin: AsyncAdmin, topic: str) -> dict[str, str]:
    """Return the settings that are set on the topic itself; empty for brokers before 0.11, which do not report them.

    Raises:
        AuthorizationError: the principal may not read the topic's settings (DESCRIBE_CONFIGS).
    """
    try:
        entries = await admin.describe_configs("topic", topic)
    except AuthorizationError:
        raise
    except BrokerError:
        return {}
    return {
        entry.name: entry.value
        for entry in entries.values()
        if entry.value is not None
        and not entry.is_read_only
        and (entry.source == _TOPIC_CONFIG_SOURCE or (entry.source <= 0 and not entry.is_default))
    }


async def can_keep_offsets(admin: AsyncAdmin) -> bool:
    """Return whether the target is a kafkaframes broker, which can append batches with their own offsets.

    Raises:
        AuthorizationError: the user may not read the settings of the target's brokers.
    """
    cluster = await admin.describe_cluster()
    try:
        configs = await admin.describe_configs("broker", str(min(cluster.brokers)), keys=[GAPS_SETTING])
    except AuthorizationError:
        raise
    except BrokerError:  # a broker before 0.11
        return False
    return GAPS_SETTING in configs


def select_copy_configs(
    topic: MirroredTopic, *, keeps_offsets: bool, holds_gaps: bool
) -> tuple[dict[str, str], list[str]]:
    """Return the settings that a copy gets, and the names of settings that it must not get.

    Args:
        topic: the source's topic and its settings.
        keeps_offsets: whether the target keeps offsets. A target that keeps offsets also keeps timestamps, so
            ``message.timestamp.type`` can be copied.
        holds_gaps: whether to set unlimited retention.

    >>> topic = MirroredTopic("t", "", (0,), {"message.timestamp.type": "LogAppendTime"})
    >>> select_copy_configs(topic, keeps_offsets=False, holds_gaps=True)
    ({'retention.ms': '-1', 'retention.bytes': '-1'}, ['message.timestamp.type'])
    """
    configs = {name: value for name, value in topic.configs.items() if name not in _CLUSTER_SETTINGS | {GAPS_SETTING}}
    left_out_configs = []
    if (
        not keeps_offsets and configs.get(_LOG_APPEND_TIME_CONFIG[0]) == _LOG_APPEND_TIME_CONFIG[1]
    ):  # the target's broker would set its own time
        left_out_configs.append(_LOG_APPEND_TIME_CONFIG[0])
        configs.pop(_LOG_APPEND_TIME_CONFIG[0])
    if holds_gaps and "delete" in configs.get("cleanup.policy", "delete"):
        configs |= _UNLIMITED_RETENTION
    return configs | ({GAPS_SETTING: "keep"} if keeps_offsets else {}), left_out_configs


async def prepare_target_topic(
    admin: AsyncAdmin, topic: MirroredTopic, report: MirrorReport, *, keeps_offsets: bool, holds_gaps: bool
) -> None:
    """Create a topic in the target, or add its missing partitions. The settings of an existing topic are not changed.

    Raises:
        BrokerError: the target rejects a request.
    """
    count = max(topic.partitions, default=0) + 1
    target_topic = (await admin.describe_cluster()).topics.get(topic.name)
    if target_topic is None:
        configs, left_out_configs = select_copy_configs(topic, keeps_offsets=keeps_offsets, holds_gaps=holds_gaps)
        refused_keys = await _create_topic(admin, topic.name, count, configs)
        if left_out_configs or refused_keys:
            report.configs_left[topic.name] = sorted([*left_out_configs, *refused_keys])
        report.created.append(topic.name)
        return
    if len(target_topic.partitions) < count:
        await admin.create_partitions({topic.name: count})
    if keeps_offsets:
        await admin.alter_configs("topic", topic.name, {GAPS_SETTING: "keep"})


async def _create_topic(admin: AsyncAdmin, name: str, count: int, configs: dict[str, str]) -> list[str]:
    """Create a topic, and return the settings that its broker does not accept."""
    topic = NewTopic(name=name, num_partitions=count, configs=configs)
    if await _try_to_create(admin, topic):
        return []
    single_changes = {key: replace(topic, configs={key: value}) for key, value in configs.items()}
    refused_keys = [
        key for key, config in single_changes.items() if not await _try_to_create(admin, config, validate_only=True)
    ]
    accepted_keys = {key: value for key, value in configs.items() if key not in refused_keys}
    await admin.create_topics([replace(topic, configs=accepted_keys)])
    return refused_keys


async def _try_to_create(admin: AsyncAdmin, topic: NewTopic, *, validate_only: bool = False) -> bool:
    """Create a topic, or only validate the request. Return whether the broker accepts the topic's settings."""
    try:
        await admin.create_topics([topic], validate_only=validate_only)
    except BrokerError as error:
        if error.code == ErrorCode.INVALID_CONFIG:
            return False
        raise
    return True


async def reset_gap_settings(admin: AsyncAdmin, topics: Iterable[MirroredTopic]) -> None:
    """Let producers append to finished copies: set the handling of noncontiguous offsets as in the source topic."""
    for topic in topics:
        await admin.alter_configs("topic", topic.name, {GAPS_SETTING: topic.configs.get(GAPS_SETTING)})


Translate = Callable[[TopicPartition, int], int]
_COPIED_GROUP_TYPES: Final = frozenset({"", "classic", "consumer"})  # share groups have no committed offsets
_COPIED_PROTOCOLS: Final = frozenset({"", "consumer"})
_GROUP_IN_USE_ERRORS: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.NON_EMPTY_GROUP}
)
HAS_MEMBERS, IS_AHEAD = "the target's group has members", "the target's group is further"


async def read_source_commits(
    admin: AsyncAdmin, partitions: Collection[TopicPartition], report_problem: Callable[[str], None] = lambda _: None
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """Return the committed offsets of each group for the copied partitions.

    Args:
        admin: admin client of the source.
        partitions: copied partitions.
        report_problem: function that receives a message about groups that the user may not describe.

    Raises:
        BrokerError: the source rejects a request for a reason other than missing permissions.
    """
    commits = {}
    groups = await admin.list_groups()
    if not await _can_list_all_groups(admin):
        report_problem(
            f"committed offsets are only copied for the groups that the user may describe: {len(groups):,} now. "
            "With DESCRIBE on the source's cluster, the user sees all groups"
        )
    for group in groups:
        if group.type.lower() in _COPIED_GROUP_TYPES and group.protocol_type in _COPIED_PROTOCOLS:
            try:
                committed_offsets = await admin.group_offsets(group.group_id)
            except AuthorizationError as error:
                report_problem(f"the committed offsets of group {group.group_id} are not copied: {error}")
                continue
            partition_offsets = {
                partition: committed_offset
                for partition, committed_offset in committed_offsets.items()
                if partition in partitions
            }
            if partition_offsets:
                commits[group.group_id] = partition_offsets
    return commits


async def _can_list_all_groups(admin: AsyncAdmin) -> bool:
    """Return whether the source lists all its groups; True if this is unknown, as for a broker before 2.8.

    Without DESCRIBE on the cluster, a broker only lists the groups that the user may describe, without an error.
    """
    try:
        return "describe" in await admin.authorized_operations("cluster")
    except BrokerError:
        return True


async def copy_groups(
    target: AsyncAdmin,
    commits: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    translate: Translate,
    report: MirrorReport,
) -> None:
    """Commit the groups' translated offsets in the target.

    A target group with members or a larger offset is not changed.

    Args:
        target: admin client of the target.
        commits: committed offsets of the source, by group.
        translate: function that translates a source offset of a partition to the copy's offset.
        report: report in which the counts are stored. Each call resets them.

    Raises:
        BrokerError: the target rejects a commit for another reason.
    """
    report.groups = report.commits = 0
    report.commits_left.clear()
    for group, committed_offsets in commits.items():
        target_offsets = await target.group_offsets(group)
        translated_offsets, unchanged_offsets = {}, 0
        for partition, commit in committed_offsets.items():
            offset = translate(partition, commit.offset)
            target_offset = target_offsets.get(partition)
            if target_offset is not None and target_offset.offset > offset:
                report.commits_left[IS_AHEAD] += 1
            elif target_offset is not None and target_offset.offset == offset:
                unchanged_offsets += 1
            else:
                translated_offsets[partition] = CommittedOffset(offset, -1, commit.metadata)
        if translated_offsets and not await _commit_offsets(target, group, translated_offsets):
            report.commits_left[HAS_MEMBERS] += len(translated_offsets)
            translated_offsets = {}
        report.commits += len(translated_offsets) + unchanged_offsets
        report.groups += bool(translated_offsets or unchanged_offsets)


async def _commit_offsets(
    target: AsyncAdmin, group: str, translated_offsets: Mapping[TopicPartition, CommittedOffset]
) -> bool:
    try:
        await target.alter_group_offsets(group, translated_offsets)
    except BrokerError as error:
        if error.code in _GROUP_IN_USE_ERRORS:
            return False
        raise
    return True
