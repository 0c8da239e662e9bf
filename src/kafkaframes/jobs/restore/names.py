"""What can be chosen of a restore: how offsets and transactions are treated, for what node and release."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

KEEP, REASSIGN = "keep", "reassign"
ABORT = "abort"
KRAFT, NO_BOOTSTRAP = "kraft", "none"
# The feature levels that ``kafka-storage format --release-version`` writes, by release. A newer broker reads an older
# release's; ``kafka-features upgrade`` raises them. Not eligible.leader.replicas.version: with it a controller takes a
# broker that it has not seen before for one that stopped uncleanly, and no partition gets a leader (KIP-966).
RELEASES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "3.9": {"metadata.version": 21},
        "4.3": {
            "metadata.version": 30,
            "group.version": 1,
            "share.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
        },
    }
)
DEFAULT_RELEASE: Final = "3.9"
