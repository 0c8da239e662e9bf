"""Start, find, query and stop helper processes on the machine of Spark's driver."""
