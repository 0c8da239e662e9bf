"""The forms of an export."""

FORMATS = ("parquet", "arrow", "csv", "json")
TABLE_FORMATS = ("delta", "iceberg")
