"""Copy a topic into a database table, each record exactly once: rows and offsets share one transaction. No Spark.

python examples/into_a_database.py   an embedded broker; KAFKA_BOOTSTRAP_SERVERS names a cluster of yours
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Collection
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc

import kafkaframes
from kafkaframes.client import Admin, AsyncConsumer, NewTopic, Producer, TopicPartition

TOPIC = "example-orders"
TABLES = """
CREATE TABLE orders (topic TEXT, partition INTEGER, "offset" INTEGER, value BLOB);
CREATE TABLE positions (topic TEXT, partition INTEGER, next_offset INTEGER, PRIMARY KEY (topic, partition));
"""


def next_offset(database: sqlite3.Connection, partition: TopicPartition) -> int:
    """Return the partition's next offset. The database, not the consumer group, stores it."""
    query = "SELECT next_offset FROM positions WHERE topic = ? AND partition = ?"
    row = database.execute(query, (partition.topic, partition.partition)).fetchone()
    return row[0] if row else 0


def store(database: sqlite3.Connection, table: pa.Table) -> None:
    """Insert rows and advance the stored offsets, in one transaction.

    Raises:
        RuntimeError: another member of the group has stored these offsets, so nothing is inserted.
    """
    with database:  # commits at the end, rolls back on an exception
        for number in pc.unique(table["partition"]).to_pylist():
            part = table.filter(pc.equal(table["partition"], number)).select(["topic", "partition", "offset", "value"])
            rows = [tuple(row.values()) for row in part.to_pylist()]
            topic, _, first, _ = rows[0]
            if first < next_offset(database, TopicPartition(topic, number)):
                raise RuntimeError(f"{topic}-{number} was taken over by another member")
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", rows)
            database.execute("REPLACE INTO positions VALUES (?, ?, ?)", (topic, number, rows[-1][2] + 1))


async def copy(servers: str, database: sqlite3.Connection, count: int, *, fails: bool = False) -> None:
    """Read until the table has ``count`` rows. ``fails`` ends the run after a transaction, as a crash would."""
    options = {"group_id": "orders-database", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    async with AsyncConsumer(servers, **options) as consumer:

        def begin(partitions: Collection[TopicPartition]) -> None:
            """Start reading each assigned partition at the offset in the database."""
            for partition in partitions:  # also called after each rebalance
                consumer.seek(partition, next_offset(database, partition))

        await consumer.subscribe(TOPIC, on_assign=begin)
        while database.execute("SELECT count(*) FROM orders").fetchone()[0] < count:
            table = await consumer.fetch_arrow(max_bytes=1)  # returns one fetch response
            if table.num_rows:
                store(database, table)
                if fails:
                    raise ConnectionError("the program stops here, before it commits these rows' offsets to the group")
        await consumer.commit()  # only shows the group's lag; the copy does not need it


def main() -> None:
    """Run a program that fails, and a second one that resumes."""
    with ExitStack() as stack:
        servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        if not servers:
            servers = stack.enter_context(kafkaframes.Broker()).bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 2)])
            stack.callback(lambda: delete(servers))
        with Producer(servers, batch_size=1_000) as producer:
            producer.send_arrow(pa.table({"key": [f"{n}" for n in range(500)], "value": ["order"] * 500}), topic=TOPIC)

        database = sqlite3.connect(":memory:")
        stack.callback(database.close)
        database.executescript(TABLES)
        try:
            asyncio.run(copy(servers, database, 500, fails=True))
        except ConnectionError as error:
            print(error)
        asyncio.run(copy(servers, database, 500))
        query = 'SELECT count(*), count(DISTINCT partition || "-" || "offset") FROM orders'
        print("{} rows, {} different".format(*database.execute(query).fetchone()))


def delete(servers: str) -> None:
    """Delete the example's topic."""
    with Admin(servers) as admin:
        admin.delete_topics([TOPIC])


if __name__ == "__main__":
    main()
