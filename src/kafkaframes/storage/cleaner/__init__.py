"""Kafka's log cleaner: keep the latest record of each key, and the data that producers and transactions need."""

from kafkaframes.storage.cleaner.plan import CleanerSettings
from kafkaframes.storage.cleaner.round import CleaningRound, clean_partition, plan_round, preview_partition

__all__ = ["CleanerSettings", "CleaningRound", "clean_partition", "plan_round", "preview_partition"]
