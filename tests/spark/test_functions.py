"""Schema registry headers as columns, compared with the decoder of the workers; values without a header."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.values.registry import split_indexes, split_prefix
from kafkaframes.spark.functions import payload, schema_id

UUID = bytes(range(16))
VALUES = [
    b"\0\x00\x00\x01\x02payload",
    b"\0\xff\xff\xff\xff",
    b"\0\0\0\0\x07\0m",
    b"\0\0\0\0\x07\2\4m",
    b"\0\0\0\0\x07\4\2\0mm",
    b"\0\0\0\0\0\0\0\1\0rest",
    b"\3\0" + UUID + b"glued",
    b"\3\5" + UUID + b"compressed",
    b"\1\0\0\0\1x",
    b"\0\0",
    b"",
    None,
]


def expected_fields(value):
    """Return id, payload and message of Confluent's header, as the decoder returns them."""
    if value is None or len(value) < 5 or value[0]:
        return None, None, None
    number, rest = split_prefix(value)
    return number, rest, split_indexes(rest)[1] if rest and rest[0] in (0, 2, 4) else None


def test_an_unknown_kind_of_header_is_rejected():
    with pytest.raises(OptionError, match="unknown schema registry 'gleu'; expected one of confluent, apicurio, glue"):
        schema_id("value", "gleu")


@pytest.mark.spark
def test_ids_and_payloads_equal_those_of_the_decoder_and_are_null_without_a_header(spark):
    frame = spark.createDataFrame([(number, value) for number, value in enumerate(VALUES)], "n int, value binary")
    rows = frame.select(
        schema_id("value").alias("id"),
        payload("value").alias("rest"),
        payload(frame.value, protobuf=True).alias("message"),
        schema_id("value", "apicurio").alias("long"),
        schema_id("value", "glue").alias("uuid"),
        payload("value", "glue").alias("glued"),
    )
    rows_as_dicts = [row.asDict() for row in rows.orderBy("n").collect()]
    for value, row in zip(VALUES, rows_as_dicts, strict=True):
        texts = [None if row[name] is None else bytes(row[name]) for name in ("rest", "message")]
        assert (row["id"], *texts) == expected_fields(value)
    assert rows_as_dicts[5]["long"] == 256
    assert (rows_as_dicts[6]["uuid"], bytes(rows_as_dicts[6]["glued"])) == (
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
        b"glued",
    )
    assert rows_as_dicts[7]["glued"] is None
