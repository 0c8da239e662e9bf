"""Read and write the files of a streaming query's checkpoint through Hadoop's file systems, as Spark does.

A ``foreachBatch`` function receives the number of a micro-batch, but not its offsets, which are in the checkpoint. A
Spark Connect session cannot call Java, so it reads the files as a DataFrame and cannot write them.

A query has an id, which stays the same for all runs on one checkpoint. In a classic session, the id is a local property
of the thread that calls the function. Under Spark Connect, the function runs in a process of the server and receives
only the rows and the batch number. The query is then found by its name among the running queries of the session that
started it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kafkaframes.errors import KafkaframesError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointFiles(Protocol):
    """The files of a checkpoint, by their names relative to ``path``."""

    path: str

    def read_text(self, name: str) -> str | None:
        """Return a file's text; None if it does not exist."""


def get_checkpoint_files(spark: Any, checkpoint: str) -> CheckpointFiles:
    """Return an object that reads and writes the files of a checkpoint, through the JVM or Spark Connect."""
    return ConnectFiles(spark, checkpoint) if is_connect(spark) else HadoopFiles(spark, checkpoint)


class HadoopFiles:
    """Checkpoint files that a classic session reads and writes through the JVM."""

    def __init__(self, spark: Any, checkpoint: str) -> None:
        self._jvm = spark._jvm
        top = self._path(checkpoint)
        self._store = top.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self.path: str = self._store.makeQualified(top).toString()

    def read_text(self, name: str) -> str | None:
        """Return a file's text; None if it does not exist."""
        path = self._path(f"{self.path}/{name}")
        if not self._store.exists(path):
            return None
        stream = self._store.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        """Write a file, and replace an existing one."""
        stream = self._store.create(self._path(f"{self.path}/{name}"), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty if it does not exist."""
        path = self._path(f"{self.path}/{folder}")
        if not self._store.exists(path):
            return []
        return [str(entry.getPath().getName()) for entry in self._store.listStatus(path)]

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)


class ConnectFiles:
    """Checkpoint files that a Spark Connect session reads as DataFrames."""

    def __init__(self, spark: Any, checkpoint: str) -> None:
        self._spark = spark
        self.path = checkpoint.rstrip("/")

    def read_text(self, name: str) -> str | None:
        """Return a file's text.

        Raises:
            KafkaframesError: the file cannot be read.
        """
        try:
            rows = self._spark.read.format("binaryFile").load(f"{self.path}/{name}").select("content").collect()
        except Exception as error:  # the exception's class depends on the Spark version
            raise KafkaframesError(f"{self.path}/{name} cannot be read: {error}") from error
        return "".join(bytes(row.content).decode() for row in rows)


_LOCAL_CONNECT_VARIABLE = "SPARK_CONNECT_LOCAL_URL"  # the Spark Connect server sets this variable for its processes


def is_connect(spark: Any) -> bool:
    """Return whether a session is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def create_query_id_lookup(spark: SparkSession, query_name: str | None) -> tuple[str | None, Callable[[Any], str]]:
    """Return the name that the query must have, and a function that finds its id from the session of a batch.

    Args:
        spark: session that starts the query.
        query_name: requested name of the query; if it is None, a Spark Connect query gets a generated name.
    """
    if not is_connect(spark):
        return query_name, _query_id_of_thread
    name = query_name or f"kafkaframes-{uuid.uuid4()}"
    session_id = spark.session_id
    known_files: list[str] = []

    def look_up_query_id(spark: Any) -> str:
        """Return the id of the query with this name in a Spark Connect session."""
        if not known_files:
            known_files.append(_find_query_id(session_id, name))
        return known_files[0]

    return name, look_up_query_id


def _query_id_of_thread(spark: Any) -> str:
    return str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))


def _find_query_id(session_id: str, name: str) -> str:
    """Return the id of a Spark Connect query by session and name."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    url = f"{os.environ[_LOCAL_CONNECT_VARIABLE]};session_id={session_id}"
    session: Any = ConnectSession.builder.remote(url).create()
    result = [str(query.id) for query in session.streams.active if query.name == name]
    if len(result) != 1:
        raise KafkaframesError(f"the query {name!r} does not run in its Spark Connect session")
    return result[0]
