"""The features of a cluster (KIP-584, KIP-1022): supported levels by release of Kafka, and changes of levels.

Levels that clients set are stored in the broker's metadata and survive a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA, KRAFT = "metadata.version", "kraft.version"
GROUP, SHARE, STREAMS = "group.version", "share.version", "streams.version"
TRANSACTION_FEATURE = "transaction.version"
GROUP_FEATURES: Final[Mapping[str, str]] = {"consumer": GROUP, "share": SHARE, "streams": STREAMS}
FEATURES_KEY: Final = "features"  # key of the levels in the broker's metadata
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # Kafka's FeatureUpdate.UpgradeType
_LATEST_RELEASE: Final = (4, 3)
_FIRST_RELEASE_WITH_FEATURES: Final = (3, 3)  # KRaft, production-ready
_FIRST_RELEASE_WITHOUT_ZOOKEEPER: Final = (4, 0)
_METADATA_LEVELS: Final[Mapping[tuple[int, int], int]] = {
    (3, 3): 7,
    (3, 4): 8,
    (3, 5): 11,
    (3, 6): 14,
    (3, 7): 19,
    (3, 8): 20,
    (3, 9): 21,
    (4, 0): 25,
    (4, 1): 27,
    (4, 2): 29,
    (4, 3): 30,
}
# Lowest level of metadata.version (3.3-IV3) that can be upgraded or downgraded.
_MIN_BRIDGE_LEVEL: Final = 7

# Levels of metadata.version that changed the metadata's records (MetadataVersion.didMetadataChange).
_METADATA_LEVELS_WITH_RECORD_CHANGES: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})


class Feature(NamedTuple):
    """Supported levels of a feature, and the finalized level. Level 0 means that the feature is disabled."""

    lowest: int
    highest: int
    level: int


# By feature (except metadata.version): the first release that supports it, the first release that enables it by
# default, both as (major, minor), and its highest level in the latest release.
_FEATURE_RELEASES: Final[Mapping[str, tuple[tuple[int, int], tuple[int, int], int]]] = {
    KRAFT: ((3, 9), (4, 0), 1),
    TRANSACTION_FEATURE: ((4, 0), (4, 0), 2),
    GROUP: ((4, 0), (4, 0), 1),
    "eligible.leader.replicas.version": ((4, 0), (4, 1), 1),
    SHARE: ((4, 1), (4, 2), 1),
    STREAMS: ((4, 1), (4, 2), 1),
}


def build_release_features(version: tuple[int, ...] = _LATEST_RELEASE) -> dict[str, Feature]:
    """Return the features of a new cluster that a release creates; none before Kafka 3.3.

    >>> build_release_features((3, 9, 1))["metadata.version"]
    Feature(lowest=1, highest=21, level=21)
    """
    release = (version[0], version[1])
    if release < _FIRST_RELEASE_WITH_FEATURES:
        return {}
    level = _METADATA_LEVELS.get(release, _METADATA_LEVELS[_LATEST_RELEASE])
    lowest = _MIN_BRIDGE_LEVEL if release >= _FIRST_RELEASE_WITHOUT_ZOOKEEPER else 1
    features = {METADATA: Feature(lowest, level, level)}
    for name, (since, default_since, highest) in _FEATURE_RELEASES.items():
        if release >= since:
            features[name] = Feature(0, highest, highest if release >= default_since else 0)
    return features


def get_transaction_version(features: Mapping[str, Feature]) -> int:
    """Return the finalized level of transaction.version; the newest level if the cluster lacks the feature."""
    feature = features.get(TRANSACTION_FEATURE)
    return _FEATURE_RELEASES[TRANSACTION_FEATURE][2] if feature is None else feature.level


def restore_levels(features: Mapping[str, Feature], levels: Mapping[str, int]) -> dict[str, Feature]:
    """Return the features with their stored levels; a level that is not supported is ignored."""
    return {
        name: feature._replace(level=levels[name])
        if feature.lowest <= levels.get(name, -1) <= feature.highest
        else feature
        for name, feature in features.items()
    }


def check_update(features: Mapping[str, Feature], name: str, level: int, upgrade_type: int, *, node: int) -> str | None:
    """Return why Kafka's controller rejects a change to a level; None if it accepts the change."""
    prefix = f"Invalid update version {level} for feature {name}. "
    feature = features.get(name)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{prefix}The controller does not support the given upgrade type."
    if level < 0:
        return f"{prefix}A feature version cannot be less than 0."
    if feature is None and level == 0:
        return f"{prefix}Feature {name} not found."
    if feature is None:
        return f"{prefix}Local controller {node} does not support this feature."
    if not feature.lowest <= level <= feature.highest:
        return f"{prefix}Local controller {node} only supports versions {feature.lowest}-{feature.highest}"
    return None if level >= feature.level else _check_downgrade(name, feature, level, upgrade_type, prefix)


def _check_downgrade(name: str, feature: Feature, level: int, upgrade_type: int, prefix: str) -> str | None:
    """Return the error message for a downgrade of a feature; None if it is allowed."""
    if name == KRAFT:
        return f"{prefix}Can't downgrade the version of this feature."
    if upgrade_type == UPGRADE:
        return (
            f"{prefix}Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if name == METADATA and any(
        level < changing_level <= feature.level for changing_level in _METADATA_LEVELS_WITH_RECORD_CHANGES
    ):
        refusal = f"Unsupported metadata.version downgrade from {feature.level} to {level}. "
        if upgrade_type == UNSAFE_DOWNGRADE:
            return f"{refusal}Unsafe metadata downgrade is not supported in this version."
        return f"{refusal}Refusing to perform the requested downgrade because it might delete metadata information."
    return None
