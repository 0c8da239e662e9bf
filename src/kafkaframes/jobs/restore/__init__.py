"""Restore segments, Parquet files or a DataFrame to a log directory that a Kafka broker can open."""
