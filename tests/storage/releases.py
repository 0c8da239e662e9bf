"""The generation of brokers for a Kafka release: releases with equal recovery rules."""

from __future__ import annotations

from kafkaframes.storage.log.producer_state import BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD


def release_of_version(version: str) -> str:
    """Return the broker generation for a Kafka version."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < (3, 1):
        return BEFORE_HORIZONS
    return KEEPS_FORMATS if numbers < (4, 0) else REWRITES_OLD
