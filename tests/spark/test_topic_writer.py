"""Rows that become records of topics, and rows that cannot."""

import pytest
from tests.spark.topics import read

pytestmark = pytest.mark.spark


def test_rows_into_a_topic_and_back_as_they_were(spark, servers):
    frame = spark.sql(
        "SELECT CAST(id AS string) AS key, concat('v', id) AS value, "
        "timestamp_millis(1700000000000 + id) AS timestamp, "
        "array(named_struct('key', 'h', 'value', CAST('x' AS binary))) AS headers FROM range(500)"
    )
    writer = frame.write.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    writer.option("topic", "written").option("kafka.compression.type", "zstd").mode("append").save()
    back = read(spark, servers, subscribe="written", includeHeaders="true").collect()
    assert sorted(int(row.key) for row in back) == list(range(500))
    assert all(row.value == b"v" + row.key for row in back)
    assert {(one.key, bytes(one.value)) for row in back for one in row.headers} == {("h", b"x")}
    assert min(row.timestamp.timestamp() for row in back) == 1_700_000_000.0


@pytest.mark.parametrize(
    ("select", "options", "reason"),
    [
        ("1 AS value", {"topic": "t"}, "column value is int and must be binary or string"),
        ("'v' AS value", {}, "give the option topic, or a column topic"),
        ("'v' AS value, 1 AS other", {"topic": "t"}, "no column 'other'"),
        ("'v' AS value", {"topic": "t", "tpoic": "x"}, "did you mean topic"),
        ("'v' AS value", {"topic": "t", "delivery": "exactly-once"}, "write_topic"),
    ],
)
def test_rows_that_are_no_records(spark, servers, select, options, reason):
    writer = spark.sql(f"SELECT {select}").write.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    with pytest.raises(Exception, match=reason):
        writer.options(**options).mode("append").save()
