"""Kafka's log cleaner: keep the latest record of each key, and what producers and transactions still need."""

from kafkaframes.storage.cleaner.round import CleaningRound, clean_partition, plan_round, preview_partition
from kafkaframes.storage.cleaner.settings import CleanerSettings

__all__ = ["CleanerSettings", "CleaningRound", "clean_partition", "plan_round", "preview_partition"]
