"""``make agreement``: our results and Kafka's own, case by case."""
