"""Write the rows of Spark tasks to topics, optionally in one Kafka transaction for each micro-batch."""
