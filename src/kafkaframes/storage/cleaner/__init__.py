"""Kafka's log cleaner: keep the latest record of each key, and the data that producers and transactions need."""

from kafkaframes.storage.cleaner.plan import CleanerSettings
from kafkaframes.storage.cleaner.round import CleaningResult, clean_partition, plan_round, preview_partition

__all__ = ["CleanerSettings", "CleaningResult", "clean_partition", "plan_round", "preview_partition"]
