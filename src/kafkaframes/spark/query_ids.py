"""Which streaming query a function of ``foreachBatch`` works for: it stays the same for all runs on one checkpoint.

In a classic session Spark says it on the thread that calls the function. Under Spark Connect the function runs in a
process of the server, and gets no more than the rows and the batch's number; there the query is found by its name
among those that run in the session that started it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import KafkaframesError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL_URL = "SPARK_CONNECT_LOCAL_URL"  # that the server gives to its processes


def is_connect(spark: Any) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def asker(spark: SparkSession, query_name: str | None) -> tuple[str | None, Callable[[Any], str]]:
    """Return the name that the query must have, and a function that finds its id from the session of a batch.

    Args:
        spark: the session that starts the query.
        query_name: asked for; under Spark Connect another is made where there is none.
    """
    if not is_connect(spark):
        return query_name, _of_thread
    name = query_name or f"kafkaframes-{uuid.uuid4()}"
    session_id = spark.session_id
    known: list[str] = []

    def ask(_: Any) -> str:
        if not known:
            known.append(_of_name(session_id, name))
        return known[0]

    return name, ask


def _of_thread(spark: Any) -> str:
    return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _of_name(session_id: str, name: str) -> str:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    url = f"{os.environ[_LOCAL_URL]};session_id={session_id}"
    session: Any = ConnectSession.builder.remote(url).create()
    result = [str(query.id) for query in session.streams.active if query.name == name]
    if len(result) != 1:
        raise KafkaframesError(f"the query {name!r} is not found among those of its Spark Connect session")
    return result[0]
