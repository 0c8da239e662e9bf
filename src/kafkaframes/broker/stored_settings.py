"""Settings that a broker starts with: those it was given have to be right, stored ones that are not are left out.

A directory may hold a setting that an earlier version took without looking at it. The broker starts without it, and a
warning names it; the file is without it after the next change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kafkaframes.broker.config_changes import check_broker, check_group, check_metrics, checked_topic
from kafkaframes.broker.config_values import TYPES, normalized
from kafkaframes.broker.metadata_file import StoredMetadata
from kafkaframes.broker.properties import general_name
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.errors import OptionError

_LOG = logging.getLogger(__name__)


def check_static(settings: BrokerSettings) -> None:
    """Refuse settings that the broker was started with, and that Kafka would not start with.

    Raises:
        OptionError: names the first.
    """
    for name, value in settings.explicit.items():
        key = general_name(name)
        if key not in TYPES:
            continue
        try:
            normalized(key, value)
        except OptionError as error:
            raise OptionError(f"{name.removesuffix(key)}{error}") from None


def leave_out_unreadable(settings: BrokerSettings, metadata: StoredMetadata) -> None:
    """Take stored settings that cannot be read out of ``metadata``, each with a warning."""
    metadata.configs = _readable("the broker", metadata.configs, check_broker)
    for name, topic in metadata.topics.items():
        topic.configs = _readable(f"topic {name}", topic.configs, partial(checked_topic, settings))
    for entity, words, check in (("group_configs", "group", check_group), ("client_metrics", "metrics", check_metrics)):
        stored = metadata.entities.get(entity, {})
        for name, configs in stored.items():
            stored[name] = _readable(f"{words} {name}", configs, partial(check, settings))


def _readable(owner: str, configs: Mapping[str, str], check: Callable[[dict[str, str]], object]) -> dict[str, str]:
    kept = {}
    for name, value in configs.items():
        try:
            check({name: value})
        except OptionError as error:
            _LOG.warning("a stored setting of %s is left out: %s", owner, error)
        else:
            kept[name] = value
    return kept
