"""Change settings of topics, brokers, groups and client metrics: AlterConfigs, IncrementalAlterConfigs, CreateTopics.

A change is validated as a whole before it is applied. An invalid value is rejected with INVALID_CONFIG. A
request that is invalid for any value (no value, a static setting, a duplicate setting) is rejected with
INVALID_REQUEST. As in Kafka 3.9.1 and 4.3.1, an invalid value of a broker setting is also rejected with
INVALID_REQUEST, and unknown broker settings are stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafkaframes.broker.requests.api import Answer
from kafkaframes.broker.requests.request import Request
from kafkaframes.broker.settings.config_values import (
    DYNAMIC_KEYS,
    FIXED_AND_UNUSED_KEYS,
    LIST,
    LISTENER_ONLY_KEYS,
    find_config_type,
    normalize_value,
    split_list,
)
from kafkaframes.broker.settings.properties import is_known
from kafkaframes.broker.settings.settings import GROUP_SETTINGS, INTERNAL_TOPIC_KEYS, TOPIC_KEYS, BrokerSettings
from kafkaframes.broker.state.configs import (
    BROKER,
    BROKER_KEYS,
    BROKER_LOGGER,
    CLIENT_METRICS,
    CLIENT_METRICS_SETTINGS,
    GROUP,
    TOPIC,
    check_config_access,
    has_settings,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode, OptionError
from kafkaframes.storage.files.names import is_topic_name

_CONFIG_OPERATIONS = SET, DELETE, APPEND, SUBTRACT = tuple(range(4))
_CONTROLLER_RESOURCE_TYPES = frozenset({TOPIC, CLIENT_METRICS, GROUP})
_LOGGER_PREFIXES = ("root", "kafka", "org.apache.")
_LOG_LEVELS = frozenset({"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"})
Change = Callable[[dict[str, str]], dict[str, str]]
_SETTING_DEFAULTS = {key: default for name, (own, default) in TOPIC_KEYS.items() for key in (name, own) if key}
_SELECTOR_PATTERN = re.compile(r"client_(instance_id|id|software_name|software_version|source_address|source_port)")
_LISTENER_PREFIX = "listener.name."
_PUSH_INTERVAL_RANGE_MS = (100, 3_600_000)


class InvalidRequestError(OptionError):
    """Raised if a request is invalid regardless of the setting's value, for example without a value."""


def alter_resources(request: Request, broker: BrokerState, change_of: Callable[[list[Any]], Change]) -> Answer:
    """Answer AlterConfigs or IncrementalAlterConfigs: change each resource, after earlier requests have finished."""
    resources = request.body.resources
    counts_by_resource = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    fails = any(
        _has_unknown_operation(resource)
        for resource in resources
        if counts_by_resource[resource.resource_type, resource.resource_name] == 1
    )

    def alter_row(resource: Any) -> Any:
        """Change the settings of one resource, and return its response row."""
        kind, name = resource.resource_type, resource.resource_name
        code: int = ErrorCode.INVALID_REQUEST
        message: str | None = "the request has an unknown operation"
        if counts_by_resource[kind, name] > 1:
            message = f"{name} is listed twice"
        # An unknown operation prevents all changes. Kafka's controller then fails and returns error code -1 for all
        # resources.
        elif not fails or kind not in _CHANGE_FUNCTIONS:
            code, message = _change_resource(request, broker, resource, change_of(resource.configs))
        return request.response.AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=kind, resource_name=name
        )

    def build_response(rows: list[Any]) -> Answer:
        if not request.body.validate_only and any(row.error_code == ErrorCode.NONE for row in rows):
            broker.save_metadata()  # saved once for all resources, because each save writes all metadata
        response: Answer = request.response(responses=rows)
        return response

    return broker.changes.answer_rows(
        resources, alter_row, build_response, is_change=True, size=partial(_change_cost, broker)
    )


def _change_cost(broker: BrokerState, row: Any) -> int:
    """Return the cost of a settings change, as a number of ordinary rows: 1, and 1 for each log to reconfigure."""
    if row.resource_type == BROKER:
        return 1 + len(broker.topics)
    topic = broker.topics.get(row.resource_name) if row.resource_type == TOPIC else None
    return 1 if topic is None else 1 + len(topic.partitions)


def _change_resource(
    request: Request, broker: BrokerState, resource: Any, apply_change: Change
) -> tuple[int, str | None]:
    """Change the settings of a resource; return an error code and a message."""
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION, "the broker serves a directory read-only"
    kind, name = resource.resource_type, resource.resource_name
    is_level = kind == BROKER_LOGGER and request.api.name == "IncrementalAlterConfigs"
    if not is_level and not (kind in _CHANGE_FUNCTIONS and has_settings(broker, kind)):
        return ErrorCode.INVALID_REQUEST, f"unknown resource type {kind}"
    code = check_config_access(request, broker, kind, name)
    if code != ErrorCode.NONE:
        return code, None
    try:
        if is_level:
            return _check_levels(broker, name, resource.configs)
        return _CHANGE_FUNCTIONS[kind](broker, name, apply_change, request.body.validate_only)
    except InvalidRequestError as error:
        return ErrorCode.INVALID_REQUEST, str(error)
    except OptionError as error:
        return ErrorCode.INVALID_CONFIG, str(error)


def _has_unknown_operation(resource: Any) -> bool:
    """Return whether Kafka's controller would receive an unknown operation."""
    rows = resource.configs
    if all(getattr(row, "config_operation", SET) in _CONFIG_OPERATIONS for row in rows):
        return False
    try:
        return resource.resource_type in _CONTROLLER_RESOURCE_TYPES and bool(_check_rows(rows))
    except InvalidRequestError:  # the broker rejects the change before it reaches the controller
        return False


def _check_levels(broker: BrokerState, name: str, rows: list[Any]) -> tuple[int, str | None]:
    """Validate levels of loggers. Changes of levels have no effect."""
    if not (name.isdecimal() and int(name) in broker.nodes.by_id):
        raise InvalidRequestError(f"broker {name!r} does not exist")
    for row in _check_rows(rows):
        is_set = row.config_operation == SET
        if row.config_operation not in (SET, DELETE) or (not is_set and row.name == "root"):
            raise InvalidRequestError(f"the level of {row.name} can only be set or, except for root, deleted")
        if not row.name.startswith(_LOGGER_PREFIXES) or (is_set and row.value not in _LOG_LEVELS):
            raise OptionError(f"unknown logger {row.name!r}, or unknown level {row.value!r}")
    return ErrorCode.NONE, None


def _require_name(entity: str, name: str) -> None:
    """Raise an ``InvalidRequestError`` if a resource has no name."""
    if not name:
        raise InvalidRequestError(f"{entity} require a name; default settings belong to the broker")


def _change_topic(broker: BrokerState, name: str, apply_change: Change, validate_only: bool) -> tuple[int, str | None]:
    """Change a topic's settings, and return the error code and message."""
    topic = broker.topics.get(name)
    configs = apply_change(dict(topic.configs if topic is not None else {}))
    _require_name("topics", name)
    if not is_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is invalid"
    configs = check_topic_configs(broker.settings, configs)
    if topic is None:  # Kafka also validates the settings first (ControllerConfigurationValidator)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist"
    if not validate_only:
        broker.configure_topic(topic, configs)
    return ErrorCode.NONE, None


def _change_broker(broker: BrokerState, name: str, apply_change: Change, validate_only: bool) -> tuple[int, str | None]:
    """Change the settings of a node or of all nodes, and return the error code and message."""
    if name and not (name.isdecimal() and int(name) in broker.nodes.by_id):
        raise InvalidRequestError(f"broker {name!r} does not exist")
    node, settings = str(int(name)) if name else "", broker.settings
    configs = apply_change(dict(settings.dynamic_by_node.get(node, {})))
    check_broker_configs(configs)
    by_node = settings.dynamic_by_node | {node: configs}
    new_settings = BrokerSettings(dict(settings.static_settings))
    new_settings.set_dynamic(by_node)
    try:
        new_settings.build_log_settings({})
    except OptionError as error:
        raise InvalidRequestError(str(error)) from None
    if not validate_only:
        broker.configure_broker(by_node)
    return ErrorCode.NONE, None


def _change_stored_configs(
    entity: str,
    check: Callable[[BrokerSettings, Mapping[str, str]], None],
    broker: BrokerState,
    name: str,
    apply_change: Change,
    validate_only: bool,
) -> tuple[int, str | None]:
    """Change the settings of a group or client metrics subscription; return the error code and message."""
    stored_configs: dict[str, dict[str, str]] = broker.metadata.entities.setdefault(entity, {})
    configs = apply_change(dict(stored_configs.get(name, {})))
    _require_name(entity, name)
    check(broker.settings, configs)
    if not validate_only:
        stored_configs[name] = configs
        if not configs:
            del stored_configs[name]
    return ErrorCode.NONE, None


# ---------------------------------------------------------------------------------------------- what is allowed


def check_topic_configs(settings: BrokerSettings, configs: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's normalized settings; raise an ``OptionError`` for the first unknown or invalid setting."""
    unknown = next((name for name in configs if name not in TOPIC_KEYS.keys() | INTERNAL_TOPIC_KEYS), None)
    if unknown is not None:
        raise OptionError(f"Unknown topic config name: {unknown}")
    kept_values = {name: normalize_value(name, value) for name, value in configs.items()}
    min_lag_ms, max_lag_ms = (
        int(settings.get_topic_value(f"{bound}.compaction.lag.ms", kept_values)) for bound in ("min", "max")
    )
    if min_lag_ms > max_lag_ms:
        raise OptionError(
            f"min.compaction.lag.ms is {min_lag_ms}; expected at most max.compaction.lag.ms, {max_lag_ms}"
        )
    settings.build_log_settings(kept_values)
    return kept_values


def check_broker_configs(configs: Mapping[str, str]) -> None:
    """Reject invalid dynamic broker settings. Unknown settings are accepted without effect."""
    fixed_names = sorted(
        key for key in configs if key not in DYNAMIC_KEYS | LISTENER_ONLY_KEYS and _is_read_at_start(key)
    )
    if fixed_names:
        raise InvalidRequestError(f"Cannot update these configs dynamically: [{', '.join(fixed_names)}]")
    listener_only = sorted(LISTENER_ONLY_KEYS & configs.keys())
    if listener_only:
        raise InvalidRequestError(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(listener_only)}]"
        )
    for name in DYNAMIC_KEYS & configs.keys():
        try:
            normalize_value(name, configs[name])
        except OptionError as error:
            raise InvalidRequestError(str(error)) from None


def _is_read_at_start(key: str) -> bool:
    """Return whether a broker reads a setting when it starts, or reads it for a listener."""
    return key in BROKER_KEYS | FIXED_AND_UNUSED_KEYS or is_known(key) or key.startswith(_LISTENER_PREFIX)


def check_group_configs(settings: BrokerSettings, configs: Mapping[str, str]) -> None:
    """Reject unknown or invalid settings of a group.

    Values must be inside the broker's bounds, and session timeouts must exceed the heartbeat interval.
    """
    for name, value in configs.items():
        if name not in GROUP_SETTINGS:
            raise OptionError(f"Unknown group config name: {name}")
        text = normalize_value(name, value)
        kind, _, setting_suffix = name.partition(".")
        for word, sign, relation in (("min", 1, "greater"), ("max", -1, "less")):
            limit = f"group.{kind}.{word}.{setting_suffix.removeprefix('num.')}"
            limit_text = settings.get_text(limit)
            if limit_text and sign * int(text) < sign * int(limit_text):
                raise OptionError(f"{name} must be {relation} than or equal to {limit}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session_ms, heartbeat_ms = (
            int(configs.get(name) or settings.get_text(GROUP_SETTINGS[name])) for name in (session, heartbeat)
        )
        if not configs.keys().isdisjoint((session, heartbeat)) and session_ms <= heartbeat_ms:
            raise OptionError(f"{session} must be greater than {heartbeat}")


def check_metrics_configs(settings: BrokerSettings, configs: Mapping[str, str]) -> None:
    """Reject invalid settings of a client metrics subscription (KIP-714)."""
    unknown = next((name for name in configs if name not in CLIENT_METRICS_SETTINGS), None)
    if unknown is not None:
        raise InvalidRequestError(f"Unknown client metrics configuration: {unknown}")
    interval_ms = int(normalize_value("interval.ms", configs.get("interval.ms", "300000")))
    if not _PUSH_INTERVAL_RANGE_MS[0] <= interval_ms <= _PUSH_INTERVAL_RANGE_MS[1]:
        raise InvalidRequestError(
            f"interval.ms must be {_PUSH_INTERVAL_RANGE_MS[0]} to {_PUSH_INTERVAL_RANGE_MS[1]}, not {interval_ms}"
        )
    for part in split_list(configs.get("match", "")):
        selector, equals, pattern = part.partition("=")
        if (
            not equals
            or _SELECTOR_PATTERN.fullmatch(selector.strip()) is None
            or not _is_regular_expression(pattern.strip())
        ):
            raise OptionError(f"match must be a list of SELECTOR=PATTERN, not {part!r}")


def _is_regular_expression(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return bool(text)


_CHANGE_FUNCTIONS: Mapping[int, Callable[[BrokerState, str, Change, bool], tuple[int, str | None]]] = {
    TOPIC: _change_topic,
    BROKER: _change_broker,
    CLIENT_METRICS: partial(_change_stored_configs, "client_metrics", check_metrics_configs),
    GROUP: partial(_change_stored_configs, "group_configs", check_group_configs),
}


# ---------------------------------------------------------------------------------------------- what is changed


def create_replacement(rows: list[Any]) -> Change:
    """Return a function that replaces all settings, as AlterConfigs does (KIP-133)."""

    def replace(old: dict[str, str]) -> dict[str, str]:
        return {row.name: row.value for row in _check_rows(rows)}

    return replace


def create_alteration(operations: list[Any]) -> Change:
    """Return a function that applies single operations to the settings, as IncrementalAlterConfigs does (KIP-339)."""

    def apply_operations(configs: dict[str, str]) -> dict[str, str]:
        """Return the settings after all operations."""
        for row in _check_rows(operations):
            _apply_operation(configs, row)
        return configs

    return apply_operations


def _check_rows(rows: list[Any]) -> list[Any]:
    """Return the rows; raise an ``InvalidRequestError`` if a name is repeated or a value is missing."""
    repeated_names = [name for name, count in Counter(row.name for row in rows).items() if count > 1]
    if repeated_names:
        raise InvalidRequestError(f"{repeated_names[0]} is listed twice")
    for row in rows:
        if row.value is None and getattr(row, "config_operation", SET) != DELETE:
            raise InvalidRequestError(f"{row.name} has no value")
    return rows


def _apply_operation(configs: dict[str, str], change: Any) -> None:
    """Apply one operation to the settings: set, delete, append or subtract."""
    if change.config_operation == DELETE:
        configs.pop(change.name, None)
        return
    if change.config_operation == SET:
        configs[change.name] = change.value
        return
    if change.config_operation not in _CONFIG_OPERATIONS:
        raise InvalidRequestError(f"unknown operation {change.config_operation}")
    if change.config_operation not in (APPEND, SUBTRACT) or find_config_type(change.name, "") != LIST:
        raise OptionError(f"{change.name} is not a list, so APPEND and SUBTRACT are invalid")
    parts, named_parts = (
        split_list(configs.get(change.name, _SETTING_DEFAULTS.get(change.name, ""))),
        split_list(change.value),
    )
    kept_values = [part for part in parts if part not in named_parts]
    added_parts = [part for part in named_parts if part not in parts]
    configs[change.name] = ",".join(kept_values if change.config_operation == SUBTRACT else [*parts, *added_parts])
