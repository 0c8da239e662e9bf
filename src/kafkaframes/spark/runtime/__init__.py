"""What Spark's processes share: errors of workers, functions that run on workers, Spark's versions."""
