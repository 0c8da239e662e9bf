"""Fill a table from logs or live topics, once or continuously.

The functions ``table_log`` and ``table_topics`` and the command share this code.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafkaframes.errors import NetworkError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.export.live_planning import make_topic_planner
from kafkaframes.jobs.export.positions import Plan
from kafkaframes.jobs.export.run import Outcome
from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.job import JobResult, Runner, run_here
from kafkaframes.jobs.tables.content import RAW_CONTENT
from kafkaframes.jobs.tables.planning import make_log_planner
from kafkaframes.jobs.tables.run import TableRun
from kafkaframes.jobs.tables.settings import TopicTableSettings
from kafkaframes.jobs.tables.state import make_stored_settings
from kafkaframes.jobs.tables.targets import TableOpeners, ValueSettings, open_tables, read_value_settings
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.topic.options import TopicOptions

ROUNDS_BETWEEN_COMPACTIONS: Final = 20  # number of rounds of a continuous job between two compactions of small files
log = logging.getLogger("kafkaframes.jobs")
Report = Callable[[Outcome], None]


@dataclass(frozen=True)
class TableJob:
    """An export into a table that is ready to run.

    Attributes:
        settings: settings that select the records to add, and the form of the table.
        plan: function that plans the offsets to add, given the table's state.
        files: settings of the data files, with the isolation level of the read.
        values: settings for decoding record values into columns.
        tables: the table and its dead letters.
    """

    settings: TopicTableSettings
    plan: Plan
    files: ExportTaskSettings
    values: ValueSettings
    tables: TableOpeners

    def run_once(self, run: Runner = run_here) -> Outcome:
        """Add the new records to the table.

        Args:
            run: function that runs the tasks.

        Raises:
            OptionError: the table does not match the settings or the source, or records were lost.
            NetworkError, BrokerError: the cluster or the registry does not respond, or responds with an error.
        """
        table = self.tables.table()
        content = self.values.choose_content(table.read_state(), self.plan, self.files)
        content_settings = make_stored_settings(self.files, isolation=self.files.isolation)
        export = TableRun(
            table,
            self.files,
            content_settings | self.values.make_stored_value_settings(content),
            run=run,
            content=content,
            dead_letters=None
            if content == RAW_CONTENT
            else self.tables.dead_letters(),  # raw records are rows of bytes, none of which is invalid
            commit_bytes=self.settings.commit_bytes,
        )
        return export.add_new_offsets(self.plan, incremental=True, overwrite=self.settings.overwrite)

    def run_continuously(
        self, run: Runner, *, stop: threading.Event, report: Report, retry: Callable[[str], None] = log.warning
    ) -> None:
        """Add new records until ``stop`` is set. The current increment is then completed.

        If the cluster or the registry cannot be reached, the next round tries again. Small files are compacted every
        ``ROUNDS_BETWEEN_COMPACTIONS`` rounds.

        Args:
            run: function that runs the tasks.
            stop: event that ends the job.
            report: function that receives the outcome of each round.
            retry: function that receives a message if a round has failed and will be repeated. Default: it is logged as
                a warning.
        """
        rounds, interval = 0, self.settings.interval
        while not stop.is_set():
            try:
                outcome = self.run_once(run)
            except NetworkError as error:
                retry(f"{error}; trying again in {interval:g} s")
            else:
                report(outcome)
                rounds += 1
                if rounds % ROUNDS_BETWEEN_COMPACTIONS == 0:
                    self.tables.table().compact_small_files()
            stop.wait(interval)


def plan_log_table(
    read: ReadOptions, topics: Sequence[str], to: str, settings: TopicTableSettings, values: ValueSettings | None = None
) -> TableJob:
    """Prepare the job that writes the records of logs to a table.

    Schema files are read, and the location is checked. Nothing is written.

    Args:
        read: options of the read.
        topics: selected topic names or patterns, from which a registry's subject is derived.
        to: location of the table.
        settings: settings that select the records to add, and the form of the table.
        values: settings for decoding record values into columns; None derives them from ``settings``.

    Raises:
        OptionError: a setting, a schema or the location is invalid.
        MissingExtraError: the library for the table format or the value format is not installed.
    """
    values = values or read_value_settings(topics, settings)
    values.check_early()
    tables = open_tables(to, settings, sources=read.paths)
    files = replace(settings.make_task_settings(to), isolation=settings.isolation, storage=read.storage)
    return TableJob(settings, make_log_planner(read), files, values, tables)


def plan_topic_table(
    connect: Callable[[], TopicOptions],
    topics: Sequence[str],
    to: str,
    settings: TopicTableSettings,
    values: ValueSettings | None = None,
) -> TableJob:
    """Plan an export of live topics into a table. Other arguments and exceptions are those of ``plan_log_table``.

    Args:
        connect: function that returns the options for reading the topics. The function is called after the settings
            were checked.
    """
    values = values or read_value_settings(topics, settings)
    values.check_early()
    tables = open_tables(to, settings, sources=())
    read = connect()
    files = replace(settings.make_task_settings(to), isolation=read.isolation)
    return TableJob(settings, make_topic_planner(read), files, values, tables)


def run_table(
    job: TableJob,
    *,
    run: Runner = run_here,
    stop: threading.Event | None = None,
    report: Callable[[JobResult[Outcome]], None] | None = None,
) -> JobResult[Outcome]:
    """Fill a table once, or continuously if its settings request it.

    Args:
        job: the planned table.
        run: function that runs the tasks.
        stop: event that ends a continuous job. If None, only an exception ends the job.
        report: function that receives the result of each round of a continuous job.

    Returns:
        The result of the last round.

    Raises:
        OptionError: a continuous job was stopped before its first round.
    """
    if not job.settings.continuous:
        return summarize_round(job.run_once(run))
    results: list[JobResult[Outcome]] = []

    def take(outcome: Outcome) -> None:
        results[:] = [summarize_round(outcome)]
        if report is not None:
            report(results[0])

    job.run_continuously(run, stop=stop or threading.Event(), report=take)
    if not results:
        raise OptionError("the job was stopped before its first round; nothing was written")
    return results[0]


def summarize_round(outcome: Outcome) -> JobResult[Outcome]:
    """Return the result of one increment for users: faults, notes, and the number of added records."""
    problems = outcome.problem_lines(failure="not in the table")
    added_text = f"{count_text(outcome.summary.records, 'record')} written to {outcome.summary.output}"
    commits = (outcome.table or {}).get("commits", 0)
    commit_text = count_text(commits, "commit") if commits else "nothing new"
    return JobResult(outcome, outcome.as_json(), (*problems, *outcome.notes, f"{added_text}; {commit_text}"))
