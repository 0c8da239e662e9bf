"""A streaming query: flights and minutes late by airline, into a Delta table, exactly once.

Spark keeps the running totals in its state and passes each micro-batch's result to ``_write_batch``. The Delta commit
records the query and the batch number (a ``txn`` action), so that a batch that Spark repeats after a failure is not
written again. No jar is needed, because ``kafka-topic`` and ``deltalake`` are Python packages.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from telling import note, tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_DELTA_APP_ID = "flights-by-airline"
_SCHEMA = "carrier STRING, dep_delay INT"


class Totals:
    """The streaming query that counts flights by airline. It is restarted if the broker was down for too long."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, out: Path) -> None:
        self.restarts = 0
        self._spark, self._servers, self._topic, self._out = spark, servers, topic, out
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        """Start the query at its checkpoint."""
        from pyspark.sql import functions as f

        flights = (
            self._spark.readStream.format("kafka-topic")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        flight = f.from_json(f.col("value").cast("string"), _SCHEMA)
        late = f.greatest(flight["dep_delay"], f.lit(0))
        totals = (
            flights.select(flight["carrier"].alias("carrier"), f.coalesce(late, f.lit(0)).alias("late"))
            .groupBy("carrier")
            .agg(f.count("*").alias("flights"), f.sum("late").alias("minutes_late"))
        )
        return (
            totals.writeStream.outputMode("complete")
            .option("checkpointLocation", str(self._out / "checkpoint"))
            .foreachBatch(self._write_batch)
            .start()
        )

    def _write_batch(self, batch: DataFrame, number: int) -> None:
        """Write the totals of a micro-batch to the Delta table, once."""
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        table = str(self.path)
        if DeltaTable.is_deltatable(table):
            written_version = DeltaTable(table).transaction_version(_DELTA_APP_ID)
            if written_version is not None and written_version >= number:
                return  # Spark repeats a batch if its commit was not recorded
        once = CommitProperties(app_transactions=[Transaction(_DELTA_APP_ID, number)])
        totals = batch.toArrow()
        write_deltalake(table, totals, mode="overwrite", commit_properties=once)
        flight_count = sum(totals.column("flights").to_pylist())
        note(f"micro-batch {number} is in the Delta table: {flight_count:,} flights counted", "batch")

    @property
    def path(self) -> Path:
        """The table's path."""
        return self._out / "totals"

    def read(self) -> dict[str, tuple[int, int]]:
        """Return the table's totals."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(str(self.path)):
            return {}
        table: pa.Table = DeltaTable(str(self.path)).to_pyarrow_table()
        return {row["carrier"]: (row["flights"], row["minutes_late"]) for row in table.to_pylist()}

    @property
    def flights(self) -> int:
        """The number of flights that the table has counted."""
        return sum(count for count, _ in self.read().values())

    @property
    def commits(self) -> int:
        """The number of micro-batches in the table."""
        from deltalake import DeltaTable

        return int(DeltaTable(str(self.path)).version()) + 1

    def wait_for(self, flights: int, *, timeout: float = 120.0) -> None:
        """Wait until this many flights are counted. Restart the query if it fails."""
        deadline = time.monotonic() + timeout
        while self.flights < flights:
            if (error := self._query.exception()) is not None:
                tell(f"  the query failed ({_first_line(error)}); it starts again from its checkpoint")
                self.restarts += 1
                self._query = self._start()
            if time.monotonic() > deadline:
                raise SystemExit(f"the query counted {self.flights:,} flights of {flights:,} in {timeout:.0f} s")
            time.sleep(0.2)

    def stop(self) -> None:
        """End the query."""
        self._query.stop()


def _first_line(error: Any) -> str:
    return str(error).strip().splitlines()[0][:100]
