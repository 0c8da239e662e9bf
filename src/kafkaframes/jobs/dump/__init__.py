"""Print the contents of log files: in kafka-dump-log's text, as JSON lines, CSV or Arrow."""
