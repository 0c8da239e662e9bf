"""What a broker knows, and request handlers read and change: topics, logs, configurations, coordinators, the clock."""
