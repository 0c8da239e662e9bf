"""Write records to Delta, Iceberg and Parquet tables: tasks write files, the driver commits. No JVM, no pyspark."""
