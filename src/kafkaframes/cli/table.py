"""``kafkaframes table SOURCE... --to FORMAT DIR``: writes live topics or logs to a table, decoded, exactly once."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import add_connection_options
from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_log_settings,
    json_option,
    key_options,
    master_option,
    workers_option,
)
from kafkaframes.cli.outcome_text import print_problems, summarize_table
from kafkaframes.cli.sources import are_topics, check_source_flags, convert_to_topic_settings, make_live_read_options
from kafkaframes.cli.text import escape_unprintable, format_size, print_note, print_text
from kafkaframes.cli.workers import open_runner
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.tables.settings import TableSettings, TopicTableSettings

if TYPE_CHECKING:
    from kafkaframes.jobs.export.run import Outcome
    from kafkaframes.jobs.tables.job import TableJob

TABLE_FORMATS = ("delta", "iceberg", "parquet")
EXIT_INCOMPLETE = 1  # exit status if some records are not in the table
_SETTINGS_WITH_OWN_FLAGS = (
    "format",
    "timestamp",
    "keys",
    "key_regex",
    "storage",
)  # settings whose flags differ from the setting, or that have no flag


@click.command("table")
@click.argument("sources", nargs=-1, required=True, metavar="TOPIC|LOGDIR...")
@click.option(
    "--to", nargs=2, type=(click.Choice(TABLE_FORMATS), str), required=True, metavar="FORMAT DIR",
    help=f"Format ({', '.join(TABLE_FORMATS)}) and the table's folder, created if missing. Extras: [delta], [iceberg].",
)  # fmt: skip
@add_connection_options
@add_click_options(*key_options, master_option, workers_option, json_option)
@add_budget_option
@add_log_settings("sources", kind=TableSettings, leave_out=_SETTINGS_WITH_OWN_FLAGS)
def command(
    sources: tuple[str, ...],
    settings: TableSettings,
    to: tuple[Any, str],
    keys: tuple[str, ...],
    key_regex: str | None,
    master: str | None,
    jobs: int | None,
    as_json: bool,
    **connection: Any,
) -> None:
    """Write the records of live topics or log directories into a table; run it again to continue.

    Each record becomes exactly one row, even if the command is killed and run again: each commit also stores the
    offsets that it adds. A value that does not fit its schema goes to the table of dead letters, with topic, partition,
    offset and the reason.

    With -b, sources are topics. Without -b, a source is a log directory if such a path exists, else a topic of the
    cluster in $KAFKA_BOOTSTRAP_SERVERS.

    Exit status: 0 complete; 1 a part of a log could not be read, or an open transaction in a log directory hides
    records; 2 the command failed.

    \b
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --mode json
    kafkaframes table users -b kafka:9092 --to iceberg lake --mode latest
    kafkaframes table orders -b kafka:9092 --to delta lake/orders --continuous \\
        --mode avro --registry http://registry:8081
    kafkaframes table /backup/broker-1 --topic orders --to parquet out/orders \\
        --mode avro --schema order.avsc
    """
    settings = replace(settings, format=to[0], keys=tuple(key.encode() for key in keys), key_regex=key_regex)
    job = _plan_table(sources, settings, to[1], connection)
    if master is not None and not as_json:
        print_note(f"starting Spark at {master} ...")
    is_complete = True

    def report(outcome: Outcome) -> None:
        nonlocal is_complete
        is_complete = outcome.is_complete and is_complete
        _print_outcome(outcome, as_json=as_json)

    with open_runner(master, jobs, label="exporting") as run:
        if settings.continuous:
            with _stop_on_signals() as stop:
                if not as_json:
                    print_note(f"a commit every {settings.interval:g} s at most; press Ctrl-C to stop")
                job.run_continuously(run, stop=stop, report=report, retry=_say_retry)
        else:
            report(job.run_once(run))
    if not is_complete:
        sys.exit(EXIT_INCOMPLETE)


def _plan_table(sources: tuple[str, ...], settings: TableSettings, to: str, connection: dict[str, Any]) -> TableJob:
    from kafkaframes.jobs.tables.job import plan_log_table, plan_topic_table

    is_live = are_topics(sources, connection["servers"])
    check_source_flags(TableSettings, TopicTableSettings, is_live=is_live)
    if is_live:
        own_settings = convert_to_topic_settings(settings, TopicTableSettings)
        connect = partial(make_live_read_options, sources, own_settings, **connection)
        return plan_topic_table(connect, sources, to, own_settings)
    topics = settings.make_filter(settings.topics).topic_names
    return plan_log_table(settings.make_read_options(sources), topics, to, settings)


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT or SIGTERM sets. A second signal interrupts the current increment."""
    stop = threading.Event()
    previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def begin(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, previous_handlers[signal.Signals(number)])

    for number in previous_handlers:
        signal.signal(number, begin)
    try:
        yield stop
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _say_retry(text: str) -> None:
    print_text(f"kafkaframes: {text}", err=True)


def _print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    print_problems(outcome, failure="not in the table")
    facts = dict(outcome.table or {})
    if as_json:
        counts = {"records": outcome.summary.records, "complete": outcome.is_complete}
        click.echo(json.dumps({**counts, "table": facts, **outcome.notes.as_json()}))
        return
    dead_letter_count = facts.get("dead_letters", {}).get("records", 0)
    if facts["commits"]:
        rows = (
            f"{count_text(outcome.summary.records - dead_letter_count, 'record')}, {format_size(outcome.output_bytes)}"
        )
        print_text(f"{rows}, in {outcome.summary.seconds:.1f} s")
    for line in summarize_table(facts):
        print_text(escape_unprintable(line))
    if dead_letter_count:
        path = facts["dead_letters"].get("location") or facts["dead_letters"].get("table")
        print_text(
            f"{count_text(dead_letter_count, 'record')} {verb_text(dead_letter_count, 'does', 'do')} "
            f"not fit the schema: see {escape_unprintable(str(path))}, "
            "with the reason"
        )
