"""Distinguish the sources of commands that read either log directories or live topics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

import click

from kafkaframes.cli.connecting import SERVERS_VARIABLE, is_specified, reach_broker
from kafkaframes.errors import NO_SUCH_PATH_TEXT, OptionError
from kafkaframes.jobs.export.settings import ExportSettings, TopicExportSettings
from kafkaframes.jobs.tables.settings import TableSettings, TopicTableSettings

if TYPE_CHECKING:
    from kafkaframes.scan.topic.options import TopicOptions

Settings = ExportSettings | TableSettings
TopicSettings = TypeVar("TopicSettings", TopicExportSettings, TopicTableSettings)


def are_topics(sources: Sequence[str], servers: str | None) -> bool:
    """Return whether the sources are topics of a cluster.

    Args:
        sources: arguments of the command.
        servers: value of ``-b``.

    Raises:
        OptionError: a source is neither a path nor a topic of a known cluster.
    """
    if servers is not None:
        return True
    paths = [source for source in sources if "/" in source or os.path.exists(source)]
    if not paths and os.environ.get(SERVERS_VARIABLE):
        return True
    if len(paths) < len(sources):
        missing = next(source for source in sources if source not in paths)
        raise OptionError(
            f"{NO_SUCH_PATH_TEXT} (at {missing}); for a topic, "
            f"-b HOST:PORT or ${SERVERS_VARIABLE} specifies the cluster"
        )
    return False


def check_source_flags(log_settings: type, live_settings: type, *, is_live: bool) -> None:
    """Reject flags that apply to the other kind of source.

    Args:
        log_settings: settings for log directories.
        live_settings: settings for topics.
        is_live: whether the sources are topics.

    Raises:
        OptionError: a flag does not apply to the source.
    """
    kind, other_kind = ("a topic", "a log directory") if is_live else ("a log directory", "a topic")
    names = {entry.name for entry in fields(log_settings)} - {entry.name for entry in fields(live_settings)}
    wrong_names = names if is_live else {"properties"}
    for option in click.get_current_context().command.params:
        if option.name in wrong_names and is_specified(option.name):
            raise OptionError(f"{max(option.opts, key=len)} is for {other_kind}, and the source is {kind}")


def convert_to_topic_settings(settings: Settings, kind: type[TopicSettings]) -> TopicSettings:
    """Convert the settings of a job that reads log directories to settings of the same job for topics.

    Args:
        settings: settings of the job over log directories.
        kind: settings class of the job over topics.
    """
    values = {entry.name: getattr(settings, entry.name) for entry in fields(kind)}
    return kind(**values | {"isolation": settings.isolation or "read_committed"})


def make_live_read_options(
    topics: Sequence[str],
    settings: TopicExportSettings | TopicTableSettings,
    *,
    servers: str | None,
    properties: tuple[str, ...],
    timeout: float,
) -> TopicOptions:
    """Wait until a broker has responded, and return the options for reading live topics.

    ``--isolation`` overrides ``isolation.level`` of ``-X``, which overrides the default.
    """
    from kafkaframes.client.settings import ConsumerSettings

    isolation = {"isolation": {"isolation.level": settings.isolation}}
    client = reach_broker(servers, properties, timeout, flags=isolation, kind=ConsumerSettings)
    return settings.make_topic_options(client, topics)
