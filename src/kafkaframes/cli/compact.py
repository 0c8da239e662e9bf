"""``kafkaframes compact SRC --to DIR``: Kafka's log compaction, offline; and the proof that a key is gone."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli import convert
from kafkaframes.cli.text import print_table, say, size_text
from kafkaframes.cli.workers import runner
from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import CompactSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.compact.compaction import CompactionReport, Proof

EXIT_PRESENT = 1


@click.command("compact")
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option("--to", metavar="DIR", help="The new directory; it must not exist, and appears complete.")
@click.option("--dry-run", is_flag=True, help="Write nothing: show what would be removed, and why.")
@click.option("--scratch", metavar="DIR", help="With --dry-run: where workers leave files for each other.")
@click.option("--prove-gone", metavar="KEY", help="Afterwards, or alone: read every file and search for this key.")
@convert.run_options(CompactSettings)
def command(
    sources: tuple[str, ...],
    to: str | None,
    dry_run: bool,
    scratch: str | None,
    prove_gone: str | None,
    as_json: bool,
    jobs: int | None,
    master: str | None,
    settings: CompactSettings,
) -> None:
    """Compact topics as a broker's cleaner does: keep the last record of each key.

    Without --topic, compacts the topics in SRC's cleaner-offset-checkpoint and Kafka's own compacted ones. The active
    (last) segment of a partition is never compacted. Several SRC are read as one log, with copies merged; --prove-gone
    reads them all. With --prove-gone alone SRC is only searched. KEY is text, or 0x and hexadecimal digits. Exit status
    1: the key is still there, or something could not be read.

    Large partitions are divided by segments. Workers exchange files beside DIR, about 18 bytes a record, which every
    worker must see (with --dry-run: in --scratch, by default the directory for temporary files).

    Example: kafkaframes compact /backup/kafka-logs --topic users --to /backup/compacted --prove-gone user-17
    """
    from kafkaframes.jobs.compact.compaction import compact
    from kafkaframes.jobs.compact.compaction import prove_gone as prove
    from kafkaframes.storage.files.atomic import refuse_inside

    if (to is not None) == dry_run and not (prove_gone is not None and to is None and not dry_run):
        raise OptionError("give --to DIR, or --dry-run, or --prove-gone KEY alone")
    if scratch is not None:
        refuse_inside(Path(scratch), sources)
    report, proof = None, None
    with runner(master, jobs, label="compacting") as run:
        if to is not None or dry_run:
            how: dict[str, Any] = {"topics": settings.topics, "run": run, "storage": settings.storage}
            with convert.scratch(scratch, master) if dry_run else nullcontext() as directory:
                split = convert.split(master, jobs)
                report = compact(
                    convert.source_of(sources),
                    to,
                    settings.cleaner(time.time_ns() // 1_000_000),
                    split=split,
                    scratch=directory,
                    **how,
                )
        if prove_gone is not None:
            proof = prove(to or convert.source_of(sources), _key(prove_gone), run=run, storage=settings.storage)
    _print(report, proof, as_json=as_json)
    if proof is not None and not proof.is_gone:
        sys.exit(EXIT_PRESENT)


def _key(text: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise OptionError(f"--prove-gone {text}: no hexadecimal digits") from None


def _print(report: CompactionReport | None, proof: Proof | None, *, as_json: bool) -> None:
    if as_json:
        said = {} if report is None else report.as_json()
        click.echo(json.dumps(said | ({} if proof is None else {"proof": _proof_json(proof)})))
        return
    if report is not None:
        _show(report)
    if proof is not None:
        _show_proof(proof)


def _proof_json(proof: Proof) -> dict[str, Any]:
    return {"gone": proof.is_gone, "files": proof.files, "found": proof.records, "unread": proof.unread}


def _show(report: CompactionReport) -> None:
    rows = []
    for partition in report.partitions:
        why = "; ".join(f"{number:,} {reason}" for reason, number in sorted(partition.dropped.items()))
        if not partition.cleaned:
            why = f"nothing to clean ({partition.reason})"
        span = f"{partition.first_dirty_offset:,} to {partition.end_offset:,}"
        gone = f"{partition.records_read - partition.records_kept:,} of {partition.records_read:,}"
        rows.append(
            (partition.name, span, gone, size_text(partition.bytes_read), size_text(partition.bytes_written), why)
        )
    goes = "removed" if report.destination else "would go"
    print_table(("name", "dirty offsets", goes, "size", "becomes", "why"), rows)
    say(report.counted)
    if report.destination:
        say(report.ending)


def _show_proof(proof: Proof) -> None:
    for file, offset in proof.records:
        say(f"the key is in {file}, offset {offset}")
    for file, position, reason in proof.unread:
        say(f"not read: {file}, byte {position}: {reason}")
    verdict = "gone: no record has the key" if proof.is_gone else "NOT proven gone"
    say(f"{verdict}; {proof.files:,} files were read")
