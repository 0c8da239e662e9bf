"""Check that a source is the one from which a table was filled, by the fingerprints of records in the table's state.

Topic ids distinguish topics of the same name, but brokers before 2.8, and copies of their directories, have none. They
also remain the same if a log is truncated and then gets other records at the same offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.range_reader import RangeReader
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import task_of
from kafkaframes.jobs.export.tally import SOURCE_COLUMNS
from kafkaframes.jobs.export.task import read_fingerprints
from kafkaframes.jobs.tables.state import Fingerprints, TableState
from kafkaframes.scan.fingerprints import Fingerprint, create_collector, find_difference
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Segment
from kafkaframes.scan.log.resolve import Logs, plan_slices
from kafkaframes.scan.ranges import Name, format_partition

Lookup = Callable[[Fingerprints], Mapping[Name, Mapping[int, Fingerprint]]]


def check_identity(
    names: Iterable[Name],
    state: TableState | None,
    look_up: Lookup,
    *,
    topic_ids: Mapping[str, str],
    remedy: str,
    acceptance: str | None,
) -> None:
    """Check that a source has the last records of a table at the same offsets.

    Args:
        names: topic partitions to which records will be added.
        state: state of the table.
        look_up: returns the fingerprints of the source's records at the offsets of other fingerprints.
        topic_ids: ids of the source's topics, which are already compared with those in the state. If the source or
            the state has no id of a topic, at least one record of each partition must be compared.
        remedy: what to do about another log, for messages.
        acceptance: which setting continues without a comparison, for messages; None if it is set.

    Raises:
        OptionError: the source has another record at an offset, or no record can be compared.
    """
    if state is None:
        return
    resumed_ends = {name: end for name in names if (end := state.end_of(name))}
    expected_fingerprints = {name: state.fingerprints.get(name, ()) for name in resumed_ends}
    source = look_up({name: rows for name, rows in expected_fingerprints.items() if rows})
    for name, rows in expected_fingerprints.items():
        there = source.get(name, {})
        difference = find_difference(rows, there)
        if difference is not None:
            row, other = difference
            raise OptionError(
                f"{format_partition(name)} is not the log from which the table was filled: at offset {row.offset} the "
                f"table has a record with {row}, and the log has one with {other}. {remedy}"
            )
        has_same_id = name[0] in topic_ids and state.topic_number_of(name[0]) is not None
        if acceptance is not None and not has_same_id and not any(row.offset in there for row in rows):
            raise OptionError(
                f"{format_partition(name)}: nothing shows that this is the log from which the table was filled: there "
                f"is no topic id to compare, and {_missing_text(rows)}. {remedy}; {acceptance}"
            )


def _missing_text(rows: tuple[Fingerprint, ...]) -> str:
    if not rows:
        return "the table's state has no fingerprint of a record"
    offsets = ", ".join(str(row.offset) for row in rows)
    return f"the log no longer has the last records of the table (offset {offsets})"


def look_up_in_logs(segments: list[Segment], logs: Logs, options: ReadOptions) -> Lookup:
    """Return a lookup in logs on disk or in a store. Damaged records and unreadable segments have no fingerprint."""

    def look_up(expected_fingerprints: Fingerprints) -> Mapping[Name, Mapping[int, Fingerprint]]:
        result: dict[Name, dict[int, Fingerprint]] = {name: {} for name in expected_fingerprints}
        segments_to_check = [one for one in segments if (one.topic, one.partition) in expected_fingerprints]
        whole = ReadOptions(
            options.paths,
            start={name: rows[0].offset for name, rows in expected_fingerprints.items()},
            end={name: rows[-1].offset + 1 for name, rows in expected_fingerprints.items()},
            isolation="read_uncommitted",
            storage=options.storage,
        )
        slices, _ = plan_slices(segments_to_check, whole, logs) if segments_to_check else ([], None)
        for part in slices:
            name = part.segment.topic, part.segment.partition
            result[name].update(
                read_fingerprints(task_of(part, whole), expected_fingerprints[name], storage=options.storage)
            )
        return result

    return look_up


def look_up_in_topics(consumer: Consumer, silence_ms: int) -> Lookup:
    """Return a lookup in live topics.

    Args:
        consumer: consumer without a group. Its assignment is replaced.
        silence_ms: longest time without records, in milliseconds.
    """

    def look_up(expected_fingerprints: Fingerprints) -> Mapping[Name, Mapping[int, Fingerprint]]:
        result: dict[Name, dict[int, Fingerprint]] = {name: {} for name in expected_fingerprints}
        for name, rows in expected_fingerprints.items():
            first, end = rows[0].offset, rows[-1].offset + 1
            range_reader = RangeReader(
                consumer, TopicPartition(*name), first, end, on_loss=lambda problem: None, silence_ms=silence_ms
            )
            collect = create_collector(rows, result[name])
            for fetched_batches in iter(range_reader.read_next, None):
                for batch in fetched_batches.read(SOURCE_COLUMNS, end_offset=end, on_damage="drop"):
                    collect(batch)
        consumer.assign({})
        return result

    return look_up
