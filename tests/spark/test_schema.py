"""Spark schemas are translated to the columns of this package."""

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kafkaframes.errors import OptionError
from kafkaframes.spark.sinks.columns import map_column_types
from kafkaframes.spark.sources.schemas import check_schema


def test_a_users_schema_selects_our_columns_with_our_types():
    offset, file = StructField("offset", LongType()), StructField("file", StringType())
    assert [column.name for column in check_schema(StructType([offset, file]))] == ["offset", "file"]
    assert map_column_types(StructType([offset, file])) == {"offset": "bigint", "file": "string"}
    with pytest.raises(OptionError, match="schema: column offset is bigint, not string"):
        check_schema(StructType([StructField("offset", StringType())]))
    with pytest.raises(OptionError, match="columns contains offset twice"):
        check_schema(StructType([offset, offset]))
