"""The modules that Spark's Python processes import: workers before their first row, planners before their response."""

import json
import subprocess
import sys
from pathlib import Path

from kafkaframes.broker import Broker

LOG = next((Path(__file__).parents[2] / "examples" / "logs").iterdir())
READ = """
import json, sys
import pyspark.worker
from pyspark.sql.worker import plan_data_source_read
import kafkaframes.spark.sources.kafka_log
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.spark.options import parse_log_options
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.sources.tasks import read_table
options = parse_log_options({"path": sys.argv[1], "includeHeaders": "true"})
columns = choose_columns(None, include_headers=True, table=options.layout)
work = plan_log(options, cores=1).works[0]
rows = next(iter(read_table(work, columns, options))).num_rows
print(json.dumps([rows > 0, sorted({"pandas", "numba", "llvmlite", "fsspec"} & sys.modules.keys())]))
"""

TOPIC = """
import json, sys
import pyspark.worker
from kafkaframes.client import Producer
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.shares import PartitionRange
from kafkaframes.spark.sources.tasks import read_topic
servers = sys.argv[1]
options = TopicOptions(client={"bootstrap_servers": servers})
columns = choose_columns(None)
(rows,) = read_topic(PartitionRange("orders", 0, 10, 20), columns, options)
reading = {"pyarrow.compute", "importlib.metadata"} & sys.modules.keys()  # 27 and 15 ms
with Producer(servers) as producer:
    producer.send_arrow(rows.select(["key", "value", "timestamp"]), topic="copies")
heavy = {"pandas", "numba", "llvmlite", "fsspec"}
print(json.dumps([rows.column("offset").to_pylist(), sorted(reading | heavy & sys.modules.keys())]))
"""

ANSWER = """
import json, sys
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.worker import commit_data_source_write, create_data_source, lookup_data_sources, write_into_data_source
import pyspark_kafka_capture, pyspark_kafka_log, pyspark_kafka_topic
client = {"kafka.bootstrap.servers": "localhost:9092"}
schema = StructType([StructField("value", BinaryType())])
pyspark_kafka_log.DefaultSource({"path": sys.argv[1]}).schema()
pyspark_kafka_topic.DefaultSource(client | {"subscribe": "t"}).schema()
source = pyspark_kafka_topic.DefaultSource(client | {"topic": "t"})
source.writer(schema, False).commit([])
source.streamWriter(schema, False).commit([], 0)
heavy = {"asyncio", "numpy", "pyarrow", "pandas", "kafkaframes.client.cluster", "kafkaframes.storage.log"}
print(json.dumps(sorted(heavy & sys.modules.keys())))
"""


def test_sources_are_loaded_and_writers_checked_without_the_reader_and_writer_modules():
    command = [sys.executable, "-c", ANSWER, str(LOG)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert json.loads(process.stdout) == []


def test_the_first_batch_needs_neither_pandas_nor_numba(require_compiler):
    command = [sys.executable, "-c", READ, str(LOG)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert json.loads(process.stdout) == [True, []]


def test_a_slice_of_a_topic_is_read_and_written_without_pandas(require_compiler):
    with Broker() as broker:
        broker.create_topic("orders")
        broker.create_topic("copies")
        broker.append("orders", [{"key": b"k", "value": b"%d" % number} for number in range(30)])
        command = [sys.executable, "-c", TOPIC, broker.bootstrap_servers]
        process = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert json.loads(process.stdout) == [list(range(10, 20)), []]
