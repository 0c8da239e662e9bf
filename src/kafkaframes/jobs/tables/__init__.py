"""Delta and Iceberg tables of records: files that tasks write, commits that a driver makes. No JVM, no pyspark."""
