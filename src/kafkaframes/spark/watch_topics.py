"""``kafkaframes.spark.watch_topics``: how far behind a stream is. Imports its work only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaframes.spark.topic_listener import TopicListener
    from kafkaframes.spark.topic_progress import TopicProgress


@contextmanager
def watch_topics(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    query_name: str | None = None,
    group_id: str | None = None,
    report: Callable[[TopicProgress], None] | None = None,
    samples: bool = True,
) -> Iterator[TopicListener]:
    """Watch streams of ``format("kafka-topic")`` while the block runs; start the queries inside it.

    Args:
        spark: whose queries are watched.
        options: how to reach the cluster: those of the stream that begin with ``kafka.``; others are passed over.
        query_name: of the one query to watch; without, all of the session that read topics.
        group_id: a consumer group that the offsets are committed to after each micro-batch, the last one of
            ``Trigger.AvailableNow`` too, for tools that show lag. The query itself goes by its checkpoint. No consumer
            may be a member of the group.
        report: called with each ``TopicProgress``, on a thread of its own.
        samples: estimate records, bytes and age of what is not read yet, by a small fetch of each partition.

    Yields:
        What listens; ``latest`` is the newest ``TopicProgress``.

    Raises:
        OptionError: no servers, an unknown setting, or a group without the name of a query: two queries must not
            commit to one group.
    """
    from kafkaframes.spark.topic_listener import TopicListener, check_client

    if group_id is not None and query_name is None:
        raise OptionError("group_id needs query_name: two queries must not commit to one group")
    values = {name.lower(): value for name, value in options.items()}
    client = {name.removeprefix("kafka."): value for name, value in values.items() if name.startswith("kafka.")}
    if "bootstrap.servers" not in client:
        raise OptionError("option kafka.bootstrap.servers is missing: host:port, or several with commas")
    check_client(client)
    listener = TopicListener(client, query_name=query_name, group_id=group_id, report=report, samples=samples)
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        listener.close(spark)
