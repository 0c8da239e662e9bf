"""Kafka's log cleaner: keep the latest record of each key, and what producers and transactions still need."""

from kafkaframes.storage.cleaner.plan import CleanerSettings
from kafkaframes.storage.cleaner.round import CleaningRound, clean_partition, plan_round, preview_partition

__all__ = ["CleanerSettings", "CleaningRound", "clean_partition", "plan_round", "preview_partition"]
