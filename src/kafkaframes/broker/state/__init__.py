"""The state that request handlers read and change: topics, logs, configurations, coordinators, the clock."""
