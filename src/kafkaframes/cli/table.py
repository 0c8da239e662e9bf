"""``kafkaframes table SOURCE... --to FORMAT DIR``: writes live topics or logs to a table, decoded, exactly once."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import SERVERS, connecting, reach_broker
from kafkaframes.cli.export import lines_of, say_notes
from kafkaframes.cli.options import (
    json_option,
    log_option,
    master_option,
    opens_batches,
    reads,
    with_options,
    workers_option,
)
from kafkaframes.cli.text import note, printable, say, size_text
from kafkaframes.cli.workers import runner
from kafkaframes.errors import NO_SUCH_PATH, NetworkError, OptionError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.tables.settings import TableSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.export.task import Settings
    from kafkaframes.jobs.job import Runner
    from kafkaframes.jobs.tables.run import Plan
    from kafkaframes.jobs.tables.targets import Tables, Values

FORMATS = ("delta", "iceberg", "parquet")
EXIT_INCOMPLETE = 1


@click.command("table")
@click.argument("sources", nargs=-1, required=True, metavar="TOPIC|LOGDIR...")
@click.option(
    "--to", nargs=2, type=(click.Choice(FORMATS), str), required=True, metavar="FORMAT DIR",
    help=f"The format ({', '.join(FORMATS)}) and the table's folder, made if missing. Extras: [delta], [iceberg].",
)  # fmt: skip
@log_option
@connecting
@with_options(master_option, workers_option, json_option)
@opens_batches
@reads("sources", kind=TableSettings)
def command(sources: tuple[str, ...], settings: TableSettings, **flags: Any) -> None:
    """Write the records of live topics or log directories into a table; run it again to continue.

    Each record becomes exactly one row, even if the command is killed and run again: each commit also stores the
    offsets that it adds. A value that does not fit its schema goes to the table of dead letters, with topic, partition,
    offset and the reason.

    With -b, sources are topics. Otherwise a source is a log directory if such a path exists, else a topic of the
    cluster in $KAFKA_BOOTSTRAP_SERVERS.

    Exit status: 0 complete; 1 a part of a log could not be read, or an open transaction in a log directory hides
    records; 2 nothing could be done.

    \b
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --mode json
    kafkaframes table users -b kafka:9092 --to iceberg lake --mode latest
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --continuous \\
        --mode avro --registry http://registry:8081
    kafkaframes table /backup/broker-1 --topic orders --to parquet out/orders \\
        --mode avro --schema order.avsc
    """
    from kafkaframes.jobs.tables.targets import tables_of, values_of

    topics, quiet = _are_topics(sources, flags), flags["as_json"]
    _check_source_flags(topics, {**flags, "topics": settings.topics, "storage": settings.storage})
    values = values_of(sources if topics else settings.topics, settings)
    values.check()
    form, to = flags["to"]
    tables = tables_of(form, to, settings, sources=() if topics else sources)
    plan, files = _live(sources, settings, flags) if topics else _of_logs(sources, settings, flags["options"])
    job = _Job(settings, plan, replace(files, to=to), values, tables, quiet)
    if flags["master"] is not None and not quiet:
        note(f"starting Spark at {flags['master']} ...")
    with runner(flags["master"], flags["jobs"], label="exporting") as writing:
        once = partial(_round, job, writing)
        is_whole = _again_and_again(once, tables, settings.interval, quiet=quiet) if settings.continuous else once()
    if not is_whole:
        sys.exit(EXIT_INCOMPLETE)


TIDY_EVERY = 20  # number of commits of one run between two clean-ups


@dataclass(frozen=True)
class _Job:
    """The work that the flags define."""

    settings: TableSettings
    plan: Plan
    files: Settings
    values: Values
    tables: Tables
    quiet: bool


def _are_topics(sources: tuple[str, ...], flags: Mapping[str, Any]) -> bool:
    """Return whether the sources are topics of a cluster. A source that is neither is an ``OptionError``."""
    if flags["servers"] is not None:
        return True
    paths = [one for one in sources if "/" in one or os.path.exists(one)]
    if not paths and os.environ.get(SERVERS):
        return True
    if len(paths) < len(sources):
        other = next(one for one in sources if one not in paths)
        raise OptionError(f"{NO_SUCH_PATH} (at {other}); for a topic, -b HOST:PORT or ${SERVERS} specifies the cluster")
    return False


def _check_source_flags(topics: bool, values: Mapping[str, Any]) -> None:
    kind, other = ("a topic", "a log directory") if topics else ("a log directory", "a topic")
    wrong = ("options", "topics", "storage") if topics else ("properties",)
    flags = {"options": "--option", "topics": "--topic", "properties": "-X", "storage": "--key-file, --follow-links"}
    for name in wrong:
        if values[name]:
            raise OptionError(f"{flags[name]} is for {other}, and the source is {kind}")


def _live(topics: tuple[str, ...], settings: TableSettings, flags: Mapping[str, Any]) -> tuple[Plan, Settings]:
    from kafkaframes.client.settings import ConsumerSettings
    from kafkaframes.jobs.export.task import Settings
    from kafkaframes.jobs.tables.planning import live_plan

    isolation = {"isolation": {"isolation.level": settings.isolation}}
    client = reach_broker(
        flags["servers"], flags["properties"], flags["timeout"], flags=isolation, kind=ConsumerSettings
    )
    return live_plan(topics, client, allow_loss=settings.allow_loss), Settings("", on_damage="fail")


def _of_logs(paths: tuple[str, ...], settings: TableSettings, options: Mapping[str, str]) -> tuple[Plan, Settings]:
    from kafkaframes.jobs.export.planning import check_accepted
    from kafkaframes.jobs.export.task import Settings
    from kafkaframes.jobs.tables.planning import table_plan
    from kafkaframes.scan.selection import topic_choice
    from kafkaframes.spark.options.log_options import log_options

    check_accepted(list(options), to_table=True)
    read = log_options(options, paths=paths, storage=settings.storage)
    fails = read.fail_on_data_loss and not settings.allow_loss
    read = replace(read, isolation=settings.isolation, fail_on_data_loss=fails, **topic_choice(settings.topics))
    return table_plan(read), Settings("", on_damage=read.on_damage, verify_crc=read.verify_crc, storage=read.storage)


def _round(job: _Job, writing: Runner) -> bool:
    """Add new records to the table, and report it."""
    from kafkaframes.jobs.tables.content import RAW
    from kafkaframes.jobs.tables.run import TableExport
    from kafkaframes.jobs.tables.state import table_settings

    table = job.tables.table()
    content = job.values.content(table.read(), job.plan, job.files)
    chosen = table_settings(job.files, isolation=job.settings.isolation) | job.values.settings_for(content)
    dead = None if content == RAW else job.tables.dead_letters()  # every record is a row of bytes
    export = TableExport(
        table,
        job.files,
        chosen,
        run=writing,
        content=content,
        dead_letters=dead,
        commit_bytes=job.settings.commit_bytes,
    )
    outcome = export.export(job.plan, incremental=True)
    _report(outcome, quiet=job.quiet)
    return outcome.is_complete


def _again_and_again(once: Callable[[], bool], tables: Tables, interval: float, *, quiet: bool) -> bool:
    """Repeat until a signal arrives. The current round is completed, unless a second signal interrupts it."""
    stop = threading.Event()
    with _stopping(stop):
        if not quiet:
            note(f"a commit every {interval:g} s at most; Ctrl-C ends it")
        whole, commits = True, 0
        while not stop.is_set():
            try:
                whole = once() and whole
                commits += 1
            except NetworkError as error:  # an unreachable broker or registry may return
                say(f"kafkaframes: {error}; trying again in {interval:g} s", err=True)
            if commits and commits % TIDY_EVERY == 0:
                tables.table().tidy()
            stop.wait(interval)
    return whole


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def begin(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, begin)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(outcome: Outcome, *, quiet: bool) -> None:
    for result in outcome.results:
        for fault in result.faults:
            say(f"kafkaframes: {fault}", err=True)
    for result in outcome.failed:
        say(f"kafkaframes: not in the table: {result.failed}", err=True)
    say_notes(outcome.notes)
    facts = dict(outcome.table or {})
    if quiet:
        counts = {"records": outcome.summary.records, "complete": outcome.is_complete}
        click.echo(json.dumps({**counts, "table": facts, **outcome.notes.as_json()}))
        return
    dead = facts.get("dead_letters", {}).get("records", 0)
    if facts["commits"]:
        rows = f"{count_text(outcome.summary.records - dead, 'record')}, {size_text(outcome.output_bytes)}"
        say(f"{rows}, in {outcome.summary.seconds:.1f} s")
    for line in lines_of(facts):
        say(printable(line))
    if dead:
        path = facts["dead_letters"].get("location") or facts["dead_letters"].get("table")
        say(
            f"{count_text(dead, 'record')} {verb_text(dead, 'does', 'do')} "
            f"not fit the schema: see {printable(str(path))}, "
            "with the reason"
        )
