"""Export segments to Parquet, Arrow, CSV or JSON files. Small segments share a file. No pyspark, no process pool."""
