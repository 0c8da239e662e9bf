"""``kafkaframes analyze records``: what record format 2 saves for the records of a log."""

from __future__ import annotations

import dataclasses
import json

import click

from kafkaframes.cli.tables import print_table


@click.command("records")
@click.argument("sources", nargs=-1, required=True, metavar="LOG...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(sources: tuple[str, ...], as_json: bool) -> None:
    """Lay the records of a log out in formats 0, 1 and 2, and print the bytes of each field.

    Measured are batches of format 2, uncompressed: a log, a partition directory or segments. Formats 0 and 1 write each
    length in four bytes, format 2 as a varint; it has one header a batch instead of fields in each message.
    """
    from kafkaframes.analysis.records import RecordSizes
    from kafkaframes.files.scan import scan_segment
    from kafkaframes.log.discover import discover

    sizes = RecordSizes()
    for directory in discover(list(sources)):
        for partition in directory.partitions:
            for segment in partition.segments:
                with directory.filesystem.open(segment.path) as read_at:
                    for window in scan_segment(read_at, size_bytes=segment.size_bytes, whole=True, file=segment.path):
                        sizes.add(window.data, window.in_data())
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(sizes) | {"totals": sizes.totals}))
        return
    rows = [_row(name, found, sizes.records) for name, found in sizes.sizes.items()]
    print_table(
        ["field", "format 0", "format 1", "format 2", "a record"], [*rows, _row("all", sizes.totals, sizes.records)]
    )
    click.echo(_summary(sizes.totals, sizes.records, sizes.batches, sizes.left_out))


def _row(name: str, sizes: list[int], records: int) -> list[str]:
    each = "/".join(f"{size / records:.1f}" for size in sizes) if records else "-"
    return [name, *(f"{size:,}" for size in sizes), each]


def _summary(totals: list[int], records: int, batches: int, left_out: int) -> str:
    if not records:
        return f"no record of format 2 was found; {left_out} batches left out"
    saved = [f"{100 * (old - totals[2]) / old:.1f} % against format {number}" for number, old in enumerate(totals[:2])]
    return (
        f"{records:,} records in {batches:,} batches: format 2 saves {' and '.join(saved)}, uncompressed; "
        f"{left_out:,} batches left out (older formats, control batches, LogAppendTime, damage)"
    )
