"""Export of segments to Parquet, Arrow, CSV and JSON: one file a segment, committed one by one. No pyspark, no pool."""
