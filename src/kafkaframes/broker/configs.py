"""Settings of topics, brokers, groups and client metrics: what is described, and how they are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kafkaframes.broker.access import CLUSTER_NAME, denied
from kafkaframes.broker.api import Answer
from kafkaframes.broker.changes import once
from kafkaframes.broker.config_types import DYNAMIC, LIST, type_of
from kafkaframes.broker.errors import CODE, NONE
from kafkaframes.broker.request import Request
from kafkaframes.broker.settings import DEFAULTS, TOPIC_KEYS, BrokerSettings
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import Message

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
# ConfigSource
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, IN_FILE, BY_DEFAULT, OF_LOGGER, OF_METRICS, OF_GROUP = range(1, 9)
_RIGHT_TO = {TOPIC: "TOPIC", GROUP: "GROUP"}  # of all others, the right is one to the cluster
SET, DELETE, APPEND, SUBTRACT = range(4)
# What is as it is on one node, for tools that ask.
_FIXED = {
    "group.consumer.assignors": "uniform,range",
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "offsets.topic.replication.factor": "1",
    "process.roles": "broker,controller",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
_KNOWN_OF_BROKERS = frozenset(DEFAULTS) | frozenset(key for key, _ in TOPIC_KEYS.values()) | frozenset(_FIXED)
_CLIENT_METRICS = {"metrics": "", "interval.ms": "300000", "match": ""}
_GROUP = {
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.auto.offset.reset": "",
    "share.heartbeat.interval.ms": "",
    "share.isolation.level": "",
    "share.record.lock.duration.ms": "",
    "share.session.timeout.ms": "",
}
_GROUP_DEFAULTS = {
    "share.auto.offset.reset": "latest",
    "share.heartbeat.interval.ms": "5000",
    "share.isolation.level": "read_uncommitted",
    "share.record.lock.duration.ms": "30000",
    "share.session.timeout.ms": "45000",
}


class ConfigRow(NamedTuple):
    """One setting of a resource, with where its value comes from and what it would be otherwise."""

    name: str
    value: str
    source: int
    synonyms: tuple[tuple[str, str, int], ...] = ()
    is_read_only: bool = False

    @property
    def kind(self) -> int:
        """Its ConfigType."""
        return type_of(self.name, self.value)


def topic_rows(settings: BrokerSettings, configs: Mapping[str, str]) -> Iterator[ConfigRow]:
    """Yield every setting of a topic."""
    for name, (broker_key, default) in TOPIC_KEYS.items():
        values = []
        if name in configs:
            values.append((name, configs[name], OF_TOPIC))
        if broker_key in settings.given:
            source = OF_BROKER if broker_key in settings.dynamic else IN_FILE
            values.append((broker_key, settings.given[broker_key], source))
        if broker_key:
            values.append((broker_key, default, BY_DEFAULT))
        first = values[0] if values else (name, default, BY_DEFAULT)
        yield ConfigRow(name, first[1], first[2], tuple(values))


def broker_rows(settings: BrokerSettings, fixed: Mapping[str, str]) -> Iterator[ConfigRow]:
    """Yield every setting of the broker; ``fixed`` are those that follow from how it was started."""
    defaults = {**DEFAULTS, **{key: default for key, default in TOPIC_KEYS.values() if key}}
    for name in sorted({*defaults, *settings.given, *fixed}):
        values = []
        if name in fixed:
            values.append((name, fixed[name], IN_FILE))
        elif name in settings.given:
            values.append((name, settings.given[name], OF_BROKER if name in settings.dynamic else IN_FILE))
        if name in defaults:
            values.append((name, defaults[name], BY_DEFAULT))
        yield ConfigRow(name, values[0][1], values[0][2], tuple(values), name not in DYNAMIC)


def _fixed(broker: BrokerState, node_id: int) -> dict[str, str]:
    """Return what follows from how a node was started: its number, its listeners, its directory."""
    told = ",".join(f"{name}://{at.host}:{at.port}" for name, at in broker.nodes.by_id[node_id].endpoints.items())
    own = {"advertised.listeners": told, "listeners": told, "log.dirs": broker.logs.path}
    return _FIXED | own | {"broker.id": str(node_id), "node.id": str(node_id)}


def _plain_rows(given: Mapping[str, str], defaults: Mapping[str, str], source: int) -> Iterator[ConfigRow]:
    for name, default in defaults.items():
        yield ConfigRow(name, given.get(name, default), source if name in given else BY_DEFAULT)


def rows_of(request: Request, broker: BrokerState, kind: int, name: str) -> tuple[int, str | None, list[ConfigRow]]:
    """Return an error code, a message, and the settings of a resource."""
    code = _denied(request, broker, kind, name)
    if code != NONE:
        return code, None, []
    if kind == TOPIC:
        return _topic(broker, name)
    if kind in (BROKER, BROKER_LOGGER):
        return _broker(broker, kind, name)
    if kind == CLIENT_METRICS:
        given = broker.metadata.entities.get("client_metrics", {}).get(name, {})
        return NONE, None, list(_plain_rows(given, _CLIENT_METRICS, OF_METRICS)) if given else []
    if kind == GROUP:
        given = broker.metadata.entities.get("group_configs", {}).get(name, {})
        defaults = {key: broker.settings.text(own) or _GROUP_DEFAULTS.get(key, "") for key, own in _GROUP.items()}
        return NONE, None, list(_plain_rows(given, defaults, OF_GROUP))
    return CODE["INVALID_REQUEST"], f"there is no type of resource {kind}", []


def _denied(request: Request, broker: BrokerState, kind: int, name: str) -> int:
    resource = _RIGHT_TO.get(kind, "CLUSTER")
    return denied(request, broker.access, resource, name if kind in _RIGHT_TO else CLUSTER_NAME)


def _topic(broker: BrokerState, name: str) -> tuple[int, str | None, list[ConfigRow]]:
    topic = broker.topics.get(name)
    if topic is None:
        return CODE["UNKNOWN_TOPIC_OR_PARTITION"], None, []
    return NONE, None, list(topic_rows(broker.settings, topic.configs))


def _broker(broker: BrokerState, kind: int, name: str) -> tuple[int, str | None, list[ConfigRow]]:
    if name and not (name.isdigit() and int(name) in broker.nodes.by_id):
        return CODE["INVALID_REQUEST"], f"no broker {name!r} here", []
    if kind == BROKER_LOGGER:
        return NONE, None, [ConfigRow("root", "INFO", OF_LOGGER)]
    if name:
        return NONE, None, list(broker_rows(broker.settings, _fixed(broker, int(name))))
    rows = broker_rows(broker.settings, {})  # of what was set for all brokers, no node is asked for more
    return NONE, None, [row._replace(source=OF_ALL_BROKERS) for row in rows if row.source == OF_BROKER]


# ---------------------------------------------------------------------------------------------- changing

Change = Callable[[dict[str, str]], dict[str, str]]


def change(
    request: Request, broker: BrokerState, kind: int, name: str, make: Change, *, validate_only: bool
) -> tuple[int, str | None]:
    """Change the settings of a resource; return an error code and a message.

    Args:
        request: who asks.
        broker: whose.
        kind, name: of the resource.
        make: gives the new settings for the old ones.
        validate_only: only look whether it could be done.
    """
    if broker.is_read_only:
        return CODE["POLICY_VIOLATION"], "the broker serves a directory that is only read"
    changers = {TOPIC: _change_topic, BROKER: _change_broker, CLIENT_METRICS: _change_stored, GROUP: _change_stored}
    if kind not in (*changers, BROKER_LOGGER):
        return CODE["INVALID_REQUEST"], f"there is no type of resource {kind}"
    code = _denied(request, broker, kind, name)
    if code != NONE or kind == BROKER_LOGGER:
        return code, None
    try:
        return changers[kind](broker, kind, name, make, validate_only)
    except OptionError as error:
        return CODE["INVALID_CONFIG"], str(error)


def alter_resources(request: Request, broker: BrokerState, change_of: Callable[[list[Any]], Change]) -> Answer:
    """Answer AlterConfigs and IncrementalAlterConfigs: each resource for itself, after what was asked for before.

    Args:
        request: of either.
        broker: whose settings.
        change_of: makes a change of a resource's rows.
    """
    resources = request.body.resources
    return broker.changes.run(once(lambda: _altered(request, broker, resources, change_of)))


def _altered(
    request: Request, broker: BrokerState, resources: list[Any], change_of: Callable[[list[Any]], Change]
) -> Message:
    rows = []
    for asked in resources:
        kind, name = asked.resource_type, asked.resource_name
        make = change_of(asked.configs)
        code, message = change(request, broker, kind, name, make, validate_only=request.body.validate_only)
        rows.append(
            request.types.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=kind, resource_name=name
            )
        )
    return request.response(responses=rows)


def _change_topic(
    broker: BrokerState, kind: int, name: str, make: Change, validate_only: bool
) -> tuple[int, str | None]:
    topic = broker.topics.get(name)
    if topic is None:
        return CODE["UNKNOWN_TOPIC_OR_PARTITION"], "there is no such topic"
    configs = make(dict(topic.configs))
    check_topic_configs(broker.settings, configs)
    if not validate_only:
        broker.configure_topic(topic, configs)
    return NONE, None


def check_topic_configs(settings: BrokerSettings, configs: Mapping[str, str]) -> None:
    """Refuse settings that no topic has.

    Raises:
        OptionError: names the setting.
    """
    for name in configs:
        if name not in TOPIC_KEYS:
            raise OptionError(f"Unknown topic config name: {name}")
    settings.log_settings(configs)


def _change_broker(
    broker: BrokerState, kind: int, name: str, make: Change, validate_only: bool
) -> tuple[int, str | None]:
    if name and not (name.isdigit() and int(name) in broker.nodes.by_id):
        return CODE["INVALID_REQUEST"], f"no broker {name!r} here"
    settings = broker.settings
    configs = make({key: settings.given[key] for key in settings.dynamic})
    fixed = sorted(key for key in configs if key in _KNOWN_OF_BROKERS and key not in DYNAMIC)
    if fixed:
        return CODE["INVALID_REQUEST"], f"cannot be changed while the broker runs: {', '.join(fixed)}"
    trial = BrokerSettings({**settings.given, **configs})
    trial.log_settings({})
    if not validate_only:
        broker.configure_broker(configs)
    return NONE, None


def _change_stored(
    broker: BrokerState, kind: int, name: str, make: Change, validate_only: bool
) -> tuple[int, str | None]:
    place, known = ("client_metrics", _CLIENT_METRICS) if kind == CLIENT_METRICS else ("group_configs", _GROUP)
    stored: dict[str, dict[str, str]] = broker.metadata.entities.setdefault(place, {})
    configs = make(dict(stored.get(name, {})))
    unknown = sorted(configs.keys() - known.keys())
    if unknown:
        raise OptionError(f"Unknown config name: {', '.join(unknown)}")
    if not validate_only:
        stored[name] = configs
        if not configs:
            del stored[name]
        broker.save()
    return NONE, None


def altered(operations: list[Any]) -> Change:
    """Return what IncrementalAlterConfigs makes of settings (KIP-339)."""

    def make(configs: dict[str, str]) -> dict[str, str]:
        seen = set()
        for one in operations:
            if one.name in seen:
                raise OptionError(f"{one.name} is changed twice")
            seen.add(one.name)
            _alter(configs, one)
        return configs

    return make


def _alter(configs: dict[str, str], one: Any) -> None:
    if one.config_operation == DELETE:
        configs.pop(one.name, None)
        return
    if one.value is None:
        raise OptionError(f"{one.name} has no value")
    if one.config_operation == SET:
        configs[one.name] = one.value
        return
    if one.config_operation not in (APPEND, SUBTRACT) or type_of(one.name, "") != LIST:
        raise OptionError(f"{one.name} is no list that can be added to or taken from")
    default = TOPIC_KEYS[one.name][1] if one.name in TOPIC_KEYS else ""
    parts = [part for part in configs.get(one.name, default).split(",") if part]
    named = [part.strip() for part in one.value.split(",") if part.strip()]
    kept = [part for part in parts if part not in named]
    configs[one.name] = ",".join(kept if one.config_operation == SUBTRACT else [*kept, *named])
