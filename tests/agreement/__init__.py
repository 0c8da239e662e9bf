"""``make agreement``: our results compared with Kafka's, case by case."""
