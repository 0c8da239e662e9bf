"""Call ``kafkaframes table`` and read what it has written, as the tests of its parts do."""

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.cli.calling import ask as call

from kafkaframes.client import Producer
from kafkaframes.errors import KafkaframesError

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog.sql")
FORMATS = ("delta", "iceberg", "parquet")
ORDERS = [{"id": number, "amount": number * 0.5, "lines": [{"sku": "a", "count": 2}]} for number in range(40)]
BAD = b"{no json"


def send(broker, topic, values, *, keys=None, partition=0, **settings):
    with Producer(broker.bootstrap_servers, **settings) as producer:
        columns = {"value": pa.array(values, pa.binary())}
        if keys is not None:
            columns["key"] = pa.array(keys, pa.binary())
        columns["partition"] = pa.array([partition] * len(values), pa.int32())
        producer.send_arrow(pa.table(columns), topic=topic)


def ask(*args):
    result = call("table", *args)
    if result.exception is not None and not isinstance(result.exception, SystemExit | KafkaframesError):
        raise result.exception
    return result


def run_json(*args):
    result = ask(*args, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def run_refused(*args):
    result = ask(*args)
    assert isinstance(result.exception, KafkaframesError), result.output
    return str(result.exception)


def rows(form, place, *, dead=False):
    """Return a table's rows by partition and offset, as any reader sees them."""
    if form == "iceberg":
        catalog = catalogs.SqlCatalog("kafkaframes", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
        table = catalog.load_table("kafka.records" + ("_dead_letters" if dead else "")).scan().to_arrow()
    elif form == "delta":
        table = deltalake.DeltaTable(str(place) + ("-dead-letters" if dead else "")).to_pyarrow_table()
    else:
        files = ds.dataset(str(place) + ("-dead-letters" if dead else ""), partitioning="hive")
        parts = [fragment.to_table(schema=None) for fragment in files.get_fragments()]
        hive = [ds.get_partition_keys(fragment.partition_expression) for fragment in files.get_fragments()]
        table = [dict(row, **keys) for part, keys in zip(parts, hive, strict=True) for row in part.to_pylist()]
        names = dict.fromkeys(name for row in table for name in row)
        table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in table])
    return sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))


def as_json(values):
    return [json.dumps(value).encode() for value in values]
