"""``kafkaframes analyze records LOG|CAPTURE...``: what record format 2 saves for given records."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING

import click

from kafkaframes.capture.files import CAPTURE_NAME, is_traffic
from kafkaframes.cli.options import json_option_of, opens_batches, ports_option, workers_option
from kafkaframes.cli.text import print_table, say
from kafkaframes.cli.workers import measured, spark_option, traffic_tasks
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.records import RecordSizes


@click.command("records")
@click.argument("sources", nargs=-1, required=True, metavar="INPUT...")
@ports_option
@json_option_of("One JSON object for each source: log, produced, fetched.")
@spark_option
@workers_option
@opens_batches
def command(sources: tuple[str, ...], ports: str, as_json: bool, on_spark: bool, jobs: int | None) -> None:
    """Lay records out in formats 0, 1 and 2, and print the bytes of each field.

    INPUT is a log, a partition directory, segments, or a capture: then records produced and records fetched have a
    table each. Records of every format are measured, uncompressed; those of formats 0 and 1 are laid out in format 2 as
    `convert` writes them. Formats 0 and 1 write each length in four bytes, format 2 as a varint; it has one header a
    batch instead of fields in each message.
    """
    captures = tuple(source for source in sources if _is_capture(source))
    logs = [source for source in sources if source not in captures]
    result: dict[str, RecordSizes] = {"log": _measure_logs(logs)} if logs else {}
    if captures:
        result |= _measure_captures(captures, ports, on_spark=on_spark, jobs=jobs)
    elif ports or on_spark:
        raise OptionError(f"{'--ports' if ports else '--spark'} is for captures")
    for what, sizes in result.items():
        if as_json:
            say(json.dumps({"source": what} | dataclasses.asdict(sizes) | {"totals": sizes.totals}))
            continue
        if captures:
            say(f"Records {what}:" if what != "log" else "Records of logs:")
        _print(sizes)


def _is_capture(source: str) -> bool:
    """Tell a capture, or a folder of them, from a log.

    Raises:
        OptionError: a request log.
    """
    from kafkaframes.capture.reader import is_request_log

    if not is_traffic(source):
        return False
    if os.path.isfile(source) and not CAPTURE_NAME.search(os.path.basename(source)):
        if is_request_log(source):
            raise OptionError(f"{source}: a request log has no records; give a capture or a log")
        return False
    return True


def _measure_logs(sources: list[str]) -> RecordSizes:
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.storage.files.scan import scan_segment
    from kafkaframes.storage.log.discover import discover

    sizes = RecordSizes()
    for directory in discover(sources):
        for partition in directory.partitions:
            for segment in partition.segments:
                with directory.filesystem.open(segment.path) as read_at:
                    for window in scan_segment(read_at, size_bytes=segment.size_bytes, whole=True, file=segment.path):
                        sizes.add(window.data, window.in_data())
    return sizes


def _measure_captures(
    paths: tuple[str, ...], ports: str, *, on_spark: bool, jobs: int | None
) -> dict[str, RecordSizes]:
    from kafkaframes.jobs.analyze.records import RecordSizes
    from kafkaframes.jobs.analyze.traffic import FETCHED, PRODUCED, measure_records

    tasks, share_bytes = traffic_tasks(paths, ports, jobs)
    result = {PRODUCED: RecordSizes(), FETCHED: RecordSizes()}
    for part in measured(measure_records, tasks, share_bytes, on_spark=on_spark, jobs=jobs):
        for what, sizes in part.items():
            result[what].merge(sizes)
    return result


def _print(sizes: RecordSizes) -> None:
    if sizes.records:
        rows = [_row(name, found, sizes.records) for name, found in sizes.sizes.items()]
        print_table(
            ["field", "format 0", "format 1", "format 2", "a record"], [*rows, _row("all", sizes.totals, sizes.records)]
        )
    say(_summary(sizes.totals, sizes.records, sizes.batches, sizes.left_out))


def _row(name: str, sizes: list[int], records: int) -> list[str]:
    each = "/".join(f"{size / records:.1f}" for size in sizes)
    return [name, *(f"{size:,}" for size in sizes), each]


def _summary(totals: list[int], records: int, batches: int, left_out: int) -> str:
    if not records:
        return f"no record can be measured; {left_out} batches left out (control batches, LogAppendTime, damage)"
    saved = [f"{100 * (old - totals[2]) / old:.1f} % against format {number}" for number, old in enumerate(totals[:2])]
    return (
        f"{records:,} records in {batches:,} batches: format 2 saves {' and '.join(saved)}, uncompressed; "
        f"{left_out:,} batches left out (control batches, LogAppendTime, damage)"
    )
