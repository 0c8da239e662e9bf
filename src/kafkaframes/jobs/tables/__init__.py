"""Write records to Delta, Iceberg and Parquet tables: tasks write files, the driver commits.

Neither a JVM nor pyspark is needed.
"""
