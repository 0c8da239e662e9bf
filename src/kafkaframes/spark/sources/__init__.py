"""The data sources ``kafka-log``, ``kafka-topic`` and ``kafka-capture``, with their readers of batches and streams."""
