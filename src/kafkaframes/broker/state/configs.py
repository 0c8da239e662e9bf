"""Settings of topics, brokers, groups and client metrics, as DescribeConfigs returns them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkaframes.broker.requests.request import Request
from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME, check_denied
from kafkaframes.broker.settings.config_values import DYNAMIC_KEYS, UNKNOWN, find_config_type
from kafkaframes.broker.settings.settings import DEFAULTS, GROUP_SETTINGS, NULL_DEFAULTS, TOPIC_KEYS, BrokerSettings
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.addresses import format_address
from kafkaframes.storage.files.names import is_topic_name

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
# ConfigSource
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, IN_FILE, BY_DEFAULT, OF_LOGGER, OF_METRICS, OF_GROUP = range(1, 9)
_ACL_RESOURCE_TYPES = {TOPIC: "TOPIC", GROUP: "GROUP"}  # other resources require the permission on the cluster
_KEYS_WITHOUT_DEFAULT = frozenset({"node.id"})
# Read-only settings with fixed values, which tools query.
_FIXED_SETTINGS = {
    "group.consumer.assignors": "uniform,range",
    "offsets.topic.replication.factor": "1",
    "process.roles": "broker,controller",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
BROKER_KEYS = frozenset(DEFAULTS) | frozenset(key for key, _ in TOPIC_KEYS.values() if key) | frozenset(_FIXED_SETTINGS)
CLIENT_METRICS_SETTINGS = {"metrics": "", "interval.ms": "300000", "match": ""}


class ConfigRow(NamedTuple):
    """A setting of a resource, with the source of its value and the values of lower precedence."""

    name: str
    value: str | None
    source: int
    synonyms: tuple[tuple[str, str, int], ...] = ()
    is_read_only: bool = False
    is_known: bool = True

    @property
    def kind(self) -> int:
        """The setting's ConfigType."""
        return UNKNOWN if not self.is_known else find_config_type(self.name, self.value or "")


def _find_explicit_values(
    settings: BrokerSettings, name: str, nodes: Iterable[str] | None = None
) -> list[tuple[str, str, int]]:
    """Return name, value and source of a broker's setting, wherever it is set, in order of precedence.

    Args:
        nodes: ids of the nodes with settings of their own that are considered. By default, only the node with the
            effective setting is considered.
    """
    values = []
    if nodes is None:
        nodes = [node for node in settings.changed_nodes if name in settings.dynamic_by_node[node]][:1]
    sources = [*((settings.dynamic_by_node.get(node, {}), OF_BROKER) for node in nodes)]
    sources += [(settings.dynamic_by_node.get("", {}), OF_ALL_BROKERS)]
    sources += [(settings.static_settings, IN_FILE)]
    for configs, source in sources:
        if name in configs:
            values.append((name, configs[name], source))
    return values


def build_topic_rows(settings: BrokerSettings, configs: Mapping[str, str]) -> Iterator[ConfigRow]:
    """Yield every setting of a topic."""
    for name, (broker_key, default) in TOPIC_KEYS.items():
        values = []
        if name in configs:
            values.append((name, configs[name], OF_TOPIC))
        values += _find_explicit_values(settings, broker_key)
        if broker_key and broker_key not in NULL_DEFAULTS:
            values.append((broker_key, settings.defaults.get(broker_key, default), BY_DEFAULT))
        _, value, source = values[0] if values else (name, default, BY_DEFAULT)
        yield ConfigRow(name, value, source, tuple(values))


def build_broker_rows(
    settings: BrokerSettings, fixed_values: Mapping[str, str] | None = None, *, node: str | None = None
) -> Iterator[ConfigRow]:
    """Yield every setting of a node, or of all nodes.

    Args:
        fixed_values: settings that are fixed when the node starts, such as its listeners.
        node: id of the node; None for the settings of all nodes.
    """
    fixed_values, nodes = fixed_values or {}, () if node is None else (node,)
    defaults = {**DEFAULTS, **{key: default for key, default in TOPIC_KEYS.values() if key}, **settings.defaults}
    dynamic_names = {*settings.dynamic_by_node.get("", {}), *settings.dynamic_by_node.get(node or "", {})}
    for name in sorted({*defaults, *(settings.static_settings or settings.explicit), *dynamic_names, *fixed_values}):
        values = (
            [(name, fixed_values[name], IN_FILE)]
            if name in fixed_values
            else _find_explicit_values(settings, name, nodes)
        )
        if name in defaults and name not in NULL_DEFAULTS and name not in _KEYS_WITHOUT_DEFAULT:
            values.append((name, defaults[name], BY_DEFAULT))
        value, source = values[0][1:] if values else (None, BY_DEFAULT)
        is_known = name in DYNAMIC_KEYS or name not in dynamic_names  # clients may set unknown settings
        yield ConfigRow(name, value, source, tuple(values), name not in DYNAMIC_KEYS, is_known)


def _build_startup_values(broker: BrokerState, node_id: int) -> dict[str, str]:
    """Return the settings that are fixed when a node starts: node id, listeners, log directory."""
    endpoint_items = broker.nodes.by_id[node_id].endpoints.items()
    endpoints = ",".join(
        f"{name}://{format_address(endpoint.host, endpoint.port)}" for name, endpoint in endpoint_items
    )
    listener_values = {"advertised.listeners": endpoints, "listeners": endpoints, "log.dirs": broker.logs.path}
    return _FIXED_SETTINGS | listener_values | {"broker.id": str(node_id), "node.id": str(node_id)}


def _build_metrics_rows(configs: Mapping[str, str]) -> Iterator[ConfigRow]:
    for name, default in CLIENT_METRICS_SETTINGS.items():
        synonyms = ((name, configs[name], OF_METRICS),) if name in configs else ()
        yield ConfigRow(name, configs.get(name, default), OF_METRICS if synonyms else BY_DEFAULT, synonyms)


def _build_group_rows(settings: BrokerSettings, configs: Mapping[str, str]) -> Iterator[ConfigRow]:
    for name, broker_key in GROUP_SETTINGS.items():
        values = [(name, configs[name], OF_GROUP)] if name in configs else []
        values += _find_explicit_values(settings, broker_key)
        is_named = broker_key in DEFAULTS
        values.append(
            (broker_key if is_named else name, settings.get_default(broker_key) if is_named else broker_key, BY_DEFAULT)
        )
        yield ConfigRow(name, values[0][1], values[0][2], tuple(values))


def get_group_setting(broker: BrokerState, group_id: str, name: str) -> str:
    """Return the value of a group setting: the group's own value, or else the broker's value."""
    group_value: str | None = broker.metadata.entities.get("group_configs", {}).get(group_id, {}).get(name)
    broker_key = GROUP_SETTINGS[name]
    return group_value if group_value is not None else broker.settings.get_text(broker_key) or broker_key


def describe_resource(
    request: Request, broker: BrokerState, kind: int, name: str
) -> tuple[int, str | None, list[ConfigRow]]:
    """Return an error code, a message, and the settings of a resource."""
    code = check_config_access(request, broker, kind, name)
    if code != ErrorCode.NONE:
        return code, None, []
    if kind == TOPIC:
        return _describe_topic(broker, name)
    if kind in (BROKER, BROKER_LOGGER):
        return _describe_broker(broker, kind, name)
    if kind == CLIENT_METRICS:
        configs = broker.metadata.entities.get("client_metrics", {}).get(name, {})
        return ErrorCode.NONE, None, list(_build_metrics_rows(configs))
    if kind == GROUP and name:
        configs = broker.metadata.entities.get("group_configs", {}).get(name, {})
        return ErrorCode.NONE, None, list(_build_group_rows(broker.settings, configs))
    if kind == GROUP:
        return ErrorCode.INVALID_REQUEST, "the default settings of groups are broker settings", []
    return ErrorCode.INVALID_REQUEST, f"unknown resource type {kind}", []


def has_settings(broker: BrokerState, kind: int) -> bool:
    """Return whether resources of a type have settings."""
    types = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS)
    return kind in types or (kind == GROUP and broker.settings.groups_have_settings)


def check_config_access(request: Request, broker: BrokerState, kind: int, name: str) -> int:
    """Return the error code if the client lacks permission for a resource, else 0."""
    resource = _ACL_RESOURCE_TYPES.get(kind, "CLUSTER")
    return check_denied(
        request, broker.access, resource, name if kind in _ACL_RESOURCE_TYPES else CLUSTER_RESOURCE_NAME
    )


def _describe_topic(broker: BrokerState, name: str) -> tuple[int, str | None, list[ConfigRow]]:
    """Return the error code, the message and the settings of a topic."""
    if not is_topic_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is invalid", []
    topic = broker.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, []
    return ErrorCode.NONE, None, list(build_topic_rows(broker.settings, topic.configs))


def _describe_broker(broker: BrokerState, kind: int, name: str) -> tuple[int, str | None, list[ConfigRow]]:
    is_for_all = not name and kind == BROKER  # loggers belong to a single broker
    if not is_for_all and not (name.isdigit() and int(name) in broker.nodes.by_id):
        return ErrorCode.INVALID_REQUEST, f"broker {name!r} does not exist", []
    if kind == BROKER_LOGGER:
        return ErrorCode.NONE, None, [ConfigRow("root", "INFO", OF_LOGGER)]
    if name:
        node = str(int(name))
        return (
            ErrorCode.NONE,
            None,
            list(build_broker_rows(broker.settings, _build_startup_values(broker, int(name)), node=node)),
        )
    rows = (row for row in build_broker_rows(broker.settings) if row.source == OF_ALL_BROKERS)
    return ErrorCode.NONE, None, [row._replace(synonyms=row.synonyms[:1]) for row in rows]
