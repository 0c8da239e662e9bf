"""A stream reader for invalid options, whose error Spark would otherwise replace with another one.

If ``streamReader`` raises an error, PySpark 4.2 and 4.3 stop the reader that was not created. The query then fails with
``UnboundLocalError: cannot access local variable 'reader'`` (``main`` in ``python_streaming_source_runner.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from kafkaframes.errors import KafkaframesError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    StreamReaderMethod = Callable[[Any, StructType], DataSourceStreamReader]


def defer_errors(create_reader: StreamReaderMethod) -> StreamReaderMethod:
    """Make ``streamReader`` return a reader that raises its error at Spark's first call, which reports it."""

    @wraps(create_reader)
    def create_or_reject(source: Any, schema: StructType) -> DataSourceStreamReader:
        try:
            return create_reader(source, schema)
        except KafkaframesError as error:
            return _create_rejected_reader(error)

    return create_or_reject


def _create_rejected_reader(error: KafkaframesError) -> DataSourceStreamReader:
    """Return a reader that raises an error.

    With Spark before 4.2, which does not have these stream readers, raise the error at once.
    """
    try:
        from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
    except ImportError:
        raise error from None
    from pyspark.sql.datasource import DataSourceStreamReader

    from kafkaframes.spark.runtime.worker import hide_tracebacks

    @hide_tracebacks
    class RejectedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """A reader whose methods all raise an error, except ``stop``."""

        def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802 (Spark's name, as those below)
            """Raise the error."""
            raise error

        def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802
            """Raise the error."""
            raise error

        def initialOffset(self) -> NoReturn:  # noqa: N802
            """Raise the error."""
            raise error

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:  # noqa: N802
            """Raise the error."""
            raise error

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
            """Raise the error."""
            raise error

        def read(self, partition: object) -> NoReturn:
            """Raise the error."""
            raise error

    return RejectedStreamReader()
