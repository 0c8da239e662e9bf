"""``make agreement``: our product beside Kafka's own verdicts, case by case."""
