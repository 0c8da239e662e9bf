"""Export segments to Parquet, Arrow, CSV or JSON files.

Small segments share a file. Neither pyspark nor a process pool is used.
"""
