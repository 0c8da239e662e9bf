"""What is in a log's files, as lines: Kafka's own text, JSON lines, CSV, Arrow."""
