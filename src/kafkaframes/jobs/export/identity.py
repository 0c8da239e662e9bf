"""Check that a source is the one from which a table was filled, by the fingerprints that it has stored.

Topic ids distinguish topics of the same name, but brokers before 2.8, and copies of their directories, do not have
topic ids. Topic ids also remain the same if a log is truncated and then gets other records at the same offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.range_reader import RangeReader
from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import make_task
from kafkaframes.jobs.export.positions import Destination, Fingerprints, Positions
from kafkaframes.jobs.export.tally import SOURCE_COLUMNS
from kafkaframes.jobs.export.task import read_fingerprints
from kafkaframes.scan.fingerprints import Fingerprint, create_collector, find_difference
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Segment
from kafkaframes.scan.log.resolve import Logs, plan_slices
from kafkaframes.scan.ranges import Name, format_partition

Lookup = Callable[[Fingerprints], Mapping[Name, Mapping[int, Fingerprint]]]


def check_identity(
    names: Iterable[Name],
    positions: Positions | None,
    read_fingerprints: Lookup,
    *,
    topic_ids: Mapping[str, str],
    destination: Destination,
    acceptance: str | None,
) -> None:
    """Check that a source has the last records of a destination at the same offsets.

    Args:
        names: topic partitions to which records will be added.
        positions: positions that the destination has stored; None if the destination is empty.
        read_fingerprints: function that takes the destination's fingerprints and returns those of the source's records
            at the same offsets.
        topic_ids: ids of the source's topics. The caller has already compared them with the stored ids. If the source
            or the destination does not have the id of a topic, at least one record of each partition must be compared.
        destination: kind of the destination, for messages.
        acceptance: text for messages, which names the setting that allows continuing without a comparison; None if that
            setting is on.

    Raises:
        OptionError: the source has another record at an offset, or no record can be compared.
    """
    if positions is None:
        return
    resumed_ends = {name: end for name in names if (end := positions.find_end(name))}
    expected_fingerprints = {name: positions.fingerprints.get(name, ()) for name in resumed_ends}
    source = read_fingerprints({name: rows for name, rows in expected_fingerprints.items() if rows})
    for name, rows in expected_fingerprints.items():
        there = source.get(name, {})
        difference = find_difference(rows, there)
        if difference is not None:
            row, actual_fingerprint = difference
            raise OptionError(
                f"{format_partition(name)} is not the log that {destination.name} was filled from: at offset "
                f"{row.offset}, {destination.name} has a record with {row}, but the log has a record with "
                f"{actual_fingerprint}. {destination.new}"
            )
        has_same_id = name[0] in topic_ids and positions.find_topic_number(name[0]) is not None
        if acceptance is not None and not has_same_id and not any(row.offset in there for row in rows):
            raise OptionError(
                f"{format_partition(name)}: this may not be the log that {destination.name} was filled from: there "
                f"is no topic id to compare, and {_describe_missing_records(rows, destination)}. "
                f"{destination.new}; {acceptance}"
            )


def suggest_acceptance(fail_on_data_loss: bool) -> str | None:
    """Return the text that names the setting to continue without comparing records; None if it is already set."""
    return "`fail_on_data_loss`=false continues without a comparison" if fail_on_data_loss else None


def _describe_missing_records(rows: tuple[Fingerprint, ...], destination: Destination) -> str:
    """Return which of a destination's last records the log does not have."""
    if not rows:
        return f"{destination.name} does not have record fingerprints"
    offsets = ", ".join(str(row.offset) for row in rows)
    return f"the log no longer has the last records of {destination.name} (offset {offsets})"


def make_log_lookup(segments: list[Segment], logs: Logs, options: ReadOptions) -> Lookup:
    """Return a function that looks up fingerprints of records in logs, on disk or in a store.

    Damaged records and unreadable segments have no fingerprint.
    """

    def look_up(expected_fingerprints: Fingerprints) -> Mapping[Name, Mapping[int, Fingerprint]]:
        result: dict[Name, dict[int, Fingerprint]] = {name: {} for name in expected_fingerprints}
        segments_to_check = [
            segment for segment in segments if (segment.topic, segment.partition) in expected_fingerprints
        ]
        whole = ReadOptions(
            options.paths,
            start={name: rows[0].offset for name, rows in expected_fingerprints.items()},
            end={name: rows[-1].offset + 1 for name, rows in expected_fingerprints.items()},
            isolation="read_uncommitted",
            storage=options.storage,
        )
        slices, _ = (
            plan_slices(segments_to_check, whole, logs, omit_unreadable=True) if segments_to_check else ([], None)
        )
        for part in slices:
            name = part.segment.topic, part.segment.partition
            result[name].update(
                read_fingerprints(make_task(part, whole), expected_fingerprints[name], storage=options.storage)
            )
        return result

    return look_up


def make_topic_lookup(consumer: Consumer, silence_ms: int) -> Lookup:
    """Return a function that looks up fingerprints of records in live topics.

    Args:
        consumer: a consumer that does not belong to a group, for reading the topics. The consumer's assignment is
            replaced.
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
