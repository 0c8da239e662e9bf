"""Options of Spark's sources and sinks: from Spark's text to immutable values. No I/O."""
