"""The files of a streaming query's checkpoint, wherever Spark keeps them: by Hadoop's file systems, as Spark does.

A function of ``foreachBatch`` learns the number of a micro-batch and not its offsets; they stand in the checkpoint.
Under Spark Connect there is no Java to call: files are read as a DataFrame there, and not written.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkaframes.errors import KafkaframesError
from kafkaframes.spark.query_ids import is_connect


class CheckpointFiles(Protocol):
    """Files below ``path``, by their names from there on."""

    path: str

    def read(self, name: str) -> str | None:
        """Return a file's text; None where there is none."""


def checkpoint_files(spark: Any, checkpoint: str) -> CheckpointFiles:
    """Return the files of a checkpoint."""
    return ConnectFiles(spark, checkpoint) if is_connect(spark) else HadoopFiles(spark, checkpoint)


class HadoopFiles:
    """Files by the Java of a classic session."""

    def __init__(self, spark: Any, checkpoint: str) -> None:
        self._jvm = spark._jvm
        top = self._path(checkpoint)
        self._store = top.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        self.path: str = self._store.makeQualified(top).toString()

    def read(self, name: str) -> str | None:
        """Return a file's text; None where there is none."""
        path = self._path(f"{self.path}/{name}")
        if not self._store.exists(path):
            return None
        stream = self._store.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file, in place of one that is there."""
        stream = self._store.create(self._path(f"{self.path}/{name}"), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none where it is not there."""
        path = self._path(f"{self.path}/{folder}")
        if not self._store.exists(path):
            return []
        return [str(entry.getPath().getName()) for entry in self._store.listStatus(path)]

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)


class ConnectFiles:
    """Files by DataFrames of a session of Spark Connect."""

    def __init__(self, spark: Any, checkpoint: str) -> None:
        self._spark = spark
        self.path = checkpoint.rstrip("/")

    def read(self, name: str) -> str | None:
        """Return a file's text.

        Raises:
            KafkaframesError: it cannot be read.
        """
        try:
            rows = self._spark.read.format("binaryFile").load(f"{self.path}/{name}").select("content").collect()
        except Exception as error:  # of another class in each Spark
            raise KafkaframesError(f"{self.path}/{name} cannot be read: {error}") from error
        return "".join(bytes(row.content).decode() for row in rows)
