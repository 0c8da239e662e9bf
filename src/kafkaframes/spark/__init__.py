"""Spark: session, data sources, jobs. The only room that imports pyspark."""
