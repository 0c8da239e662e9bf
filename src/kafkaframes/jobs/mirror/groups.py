"""Committed offsets of groups, carried to the copy: each as the copy's offset of the same record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from kafkaframes.client import AsyncAdmin, CommittedOffset, TopicPartition
from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.jobs.mirror.report import MirrorReport

Translate = Callable[[TopicPartition, int], int]
_KINDS: Final = frozenset({"", "classic", "consumer"})  # a share group has no committed offsets
_PROTOCOLS: Final = frozenset({"", "consumer"})
_IS_IN_USE: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.NON_EMPTY_GROUP})
HAS_MEMBERS, IS_AHEAD = "the target's group has members", "the target's group is further"


async def source_commits(
    admin: AsyncAdmin, partitions: Collection[TopicPartition]
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    """Return what each group has committed for partitions that are copied."""
    commits = {}
    for group in await admin.list_groups():
        if group.type.lower() in _KINDS and group.protocol_type in _PROTOCOLS:
            committed = await admin.group_offsets(group.group_id)
            mine = {partition: one for partition, one in committed.items() if partition in partitions}
            if mine:
                commits[group.group_id] = mine
    return commits


async def copy_groups(
    target: AsyncAdmin,
    commits: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    translate: Translate,
    report: MirrorReport,
) -> None:
    """Commit offsets in the target; a group there that has members, or is further, is left as it is.

    Args:
        target: where to.
        commits: of the source, by group.
        translate: a partition and an offset of the source to the copy's.
        report: gets the counts, anew each time.

    Raises:
        BrokerError: the target refuses for another reason.
    """
    report.groups = report.commits = 0
    report.commits_left.clear()
    for group, committed in commits.items():
        known = await target.group_offsets(group)
        moved, same = {}, 0
        for partition, commit in committed.items():
            offset = translate(partition, commit.offset)
            there = known.get(partition)
            if there is not None and there.offset > offset:
                report.commits_left[IS_AHEAD] += 1
            elif there is not None and there.offset == offset:
                same += 1
            else:
                moved[partition] = CommittedOffset(offset, -1, commit.metadata)
        if moved and not await _commit(target, group, moved):
            report.commits_left[HAS_MEMBERS] += len(moved)
            moved = {}
        report.commits += len(moved) + same
        report.groups += bool(moved or same)


async def _commit(target: AsyncAdmin, group: str, moved: Mapping[TopicPartition, CommittedOffset]) -> bool:
    try:
        await target.alter_group_offsets(group, moved)
    except BrokerError as error:
        if error.code in _IS_IN_USE:
            return False
        raise
    return True
