"""Change settings of topics, brokers and groups on two brokers, with valid, invalid and empty values and each
operation.

Each case changes one resource and then describes the setting with its synonyms. ``ALLOWED`` lists the accepted
differences with their reasons. Settings of releases before 4.3 and settings of this package are skipped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.interop.broker_script import FrameClient

from kafkaframes.broker.settings.config_values import BOOLEAN, DOUBLE, DYNAMIC_KEYS, LIST
from kafkaframes.broker.settings.settings import GROUP_SETTINGS, TOPIC_KEYS
from kafkaframes.protocol.messages import message

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
IN_FILE, BY_DEFAULT = 4, 5
MAX_POLLS = 40
REQUIRED_SETTINGS = ("min.insync.replicas",)  # settings for which Kafka's clusters have a cluster-wide value
OPERATIONS = ("SET", "DELETE", "APPEND", "SUBTRACT")
# Settings of earlier releases and of this package, which Kafka 4.3 does not have.
OWN_SETTINGS = re.compile(r"^kafkaframes|message\.(format|downconversion|timestamp\.difference)")
# Changing these settings has effects other than storing them, such as another listener or key store.
SKIPPED_SETTINGS = re.compile(r"^(ssl\.|listener|log\.cleaner\.(threads|dedupe)|num\.|max\.connections)")
NUMBER_VALUES = (
    "-131073",
    "-3",
    "-2",
    "-1",
    "0",
    "1",
    "7",
    "10",
    "23",
    "100",
    "999",
    "1048576",
    "2147483648",
    "1.5",
    "x",
    "",
)
VALUES: Mapping[int, tuple[str, ...]] = {
    BOOLEAN: ("true", "False", "yes", ""),
    DOUBLE: ("0.3", "-0.1", "1.1", "1", "x", ""),
}
LIST_VALUES: Mapping[str, tuple[str, ...]] = {
    "policy": ("compact", "delete", "compact,delete", "delete,delete", "other", " compact ", "", "compact,"),
    "replicas": ("*", "0:1", "0:1,1:2", "0", "none", "x:y", ""),
}
TEXT_VALUES: Mapping[str, tuple[str, ...]] = {
    "compression.type": ("gzip", "none", "uncompressed", "GZIP", "x", ""),
    "timestamp.type": ("LogAppendTime", "CreateTime", "logappendtime", "x", ""),
    "auto.offset.reset": ("latest", "earliest", "by_duration:PT1H", "by_duration:x", "by_duration:-PT1H", "x", ""),
    "isolation.level": ("read_committed", "READ_COMMITTED", "x", ""),
}


@dataclass(frozen=True)
class ConfigCase:
    """One change of a setting: IncrementalAlterConfigs, or AlterConfigs without an operation."""

    kind: int
    name: str
    key: str
    value: str | None
    operation: int | None = SET
    validate_only: bool = False

    def __str__(self) -> str:
        operation_name = "AlterConfigs" if self.operation is None else OPERATIONS[self.operation]
        return (
            f"{self.kind} {self.name!r}: {operation_name} {self.key}={self.value!r}"
            + " only validated" * self.validate_only
        )

    def change(self, client: FrameClient) -> Any:
        """Return the error code."""
        api = "AlterConfigs" if self.operation is None else "IncrementalAlterConfigs"
        types = message(f"{api}Request")
        operation_field = {} if self.operation is None else {"config_operation": self.operation}
        row = types.AlterableConfig(name=self.key, value=self.value, **operation_field)
        resource = types.AlterConfigsResource(resource_type=self.kind, resource_name=self.name, configs=[row])
        body = types(resources=[resource], validate_only=self.validate_only)
        answer = client.ask(api, 1, body)
        return answer if isinstance(answer, str) else answer.responses[0].error_code

    def describe(self, client: FrameClient) -> Any:
        """Return the setting's value, source, type and synonyms, and whether it has documentation."""
        rows = describe_settings(client, self.kind, self.name, [self.key])
        return rows if isinstance(rows, int) else rows.get(self.key)

    @property
    def is_stored(self) -> bool:
        """Return whether the setting has its own value after the change."""
        return not self.validate_only and self.operation != DELETE

    def read_back(self, client: FrameClient, *, is_own: bool) -> Any:
        """Describe the setting until it has its own value (``is_own``) or no longer has it.

        Brokers of a cluster apply a change shortly after the response.
        """
        for _ in range(MAX_POLLS):
            description = self.describe(client)
            if isinstance(description, int) or is_own == (
                description is not None and description[1] not in (IN_FILE, BY_DEFAULT)
            ):
                break
            time.sleep(0.05)
        return description

    def undo(self, client: FrameClient) -> None:
        if self.operation is None:
            types = message("AlterConfigsRequest")
            resource = types.AlterConfigsResource(resource_type=self.kind, resource_name=self.name, configs=[])
            client.ask("AlterConfigs", 1, types(resources=[resource]))
        else:
            ConfigCase(self.kind, self.name, self.key, None, DELETE).change(client)


def describe_settings(client: FrameClient, kind: int, name: str, keys: list[str] | None) -> Any:
    """Return DescribeConfigs' settings of a resource by name, or its error code."""
    types = message("DescribeConfigsRequest")
    row = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    body = types(resources=[row], include_synonyms=True, include_documentation=True)
    (result,) = client.ask("DescribeConfigs", 4, body).results
    if result.error_code:
        return result.error_code
    return {
        config.name: (
            config.value,
            config.config_source,
            config.config_type,
            config.read_only,
            config.is_sensitive,
            tuple((other.name, other.value, other.source) for other in config.synonyms),
            bool(config.documentation),
        )
        for config in result.configs
    }


def iterate_settings() -> Iterator[tuple[int, str, str]]:
    """Yield every setting that both brokers list: resource type, resource, name."""
    for key in TOPIC_KEYS:
        yield TOPIC, "orders", key
    for key in sorted(DYNAMIC_KEYS):
        yield BROKER, "", key
    for key in GROUP_SETTINGS:
        yield GROUP, "readers", key


def values_of(key: str, kind: int) -> tuple[str, ...]:
    """Return valid, invalid and empty values of a setting of a ConfigType."""
    if kind == LIST:
        return LIST_VALUES["policy" if key.endswith("policy") else "replicas"]
    values_by_ending = next((values for ending, values in TEXT_VALUES.items() if key.endswith(ending)), NUMBER_VALUES)
    return VALUES.get(kind, values_by_ending)


def iterate_cases(type_of: Any) -> Iterator[ConfigCase]:
    """Yield the cases."""
    for kind, name, key in iterate_settings():
        if OWN_SETTINGS.search(key) or SKIPPED_SETTINGS.search(key):
            continue
        values = values_of(key, type_of(key))
        for value in values:
            yield ConfigCase(kind, name, key, value)
        for value in values[:2]:
            yield ConfigCase(kind, name, key, value, validate_only=True)
            yield ConfigCase(kind, name, key, value, APPEND)
            yield ConfigCase(kind, name, key, value, SUBTRACT)
        yield ConfigCase(kind, name, key, None, SET)
        yield ConfigCase(kind, name, key, None, DELETE)
        if kind == TOPIC:  # with ELR, every AlterConfigs of Kafka's brokers must contain min.insync.replicas
            for value in (*values[:2], values[-2], ""):
                yield ConfigCase(kind, name, key, value, None)
            yield ConfigCase(kind, name, key, None, None)
    for kind, name in ((TOPIC, "orders"), (BROKER, ""), (BROKER, "1"), (GROUP, "readers"), (GROUP, "")):
        for key in ("no.such.setting", "", "node.id", "cleanup.policy"):
            yield ConfigCase(kind, name, key, "1")
            yield ConfigCase(kind, name, key, "1", validate_only=True)
            yield ConfigCase(kind, name, key, None, DELETE)


def collect_answers(client: FrameClient, type_of: Any) -> dict[str, Any]:
    """Return the result of each case: the error code, and the described value."""
    answers_by_case = {}
    for case in iterate_cases(type_of):
        code = case.change(client)
        is_own = not code and case.is_stored
        answers_by_case[str(case)] = (code, case.read_back(client, is_own=is_own) if is_own else case.describe(client))
        if is_own:
            case.undo(client)
            if case.key not in REQUIRED_SETTINGS:
                case.read_back(client, is_own=False)
    return answers_by_case


# Accepted differences: (part of the case, both codes or both values (ours, Kafka's), reason).
ALLOWED: tuple[tuple[str, str, str], ...] = (
    (
        r"segment\.bytes='(23|100|999)'",
        "codes 0, 4[02]",
        "segments may be smaller than in Kafka, because tests roll them",
    ),
    (r"remote\.storage\.enable='true'", "codes 0, 40", "stored and described, although there is no tiered storage"),
    (
        r"^4 .*log\.(flush\.interval|retention)\.ms='-",
        "codes 42, 0",
        "Kafka checks them later, with the topic's range",
    ),
    (
        r"^4 .*(log\.(local\.)?retention\.ms=|assignment\.interval)",
        "codes 0, 42",
        "settings that Kafka compares with other settings",
    ),
    (r"min\.insync\.replicas", ".*", "Kafka sets it for all brokers, with eligible leader replicas (KIP-966)"),
    (
        r"(share|streams)\.heartbeat\.interval\.ms",
        "values .*",
        "the default is 1 s instead of Kafka's 5 s, so that tests do not wait",
    ),
    (
        r"^32 .*(consumer|share)\.assignment\.interval\.ms",
        r"values .*'0', 5\).*'1000', 5\).*",
        "the default is 0 instead of Kafka's 1 s, so that tests do not wait",
    ),
    (
        r"^32 .*streams\.initial\.rebalance\.delay\.ms",
        r"values .*'0', 5\).*'3000', 5\).*",
        "the default is 0 instead of Kafka's 3 s, so that tests do not wait",
    ),
    (
        r"^32 .*acknowledge\.enable='False'",
        "values .*",
        "a group's value is described as it was set; Kafka describes it as 'false'",
    ),
    (r"timestamp\.after\.max\.ms", "values .*", "no limit by default, as before 4.0, for tests with future timestamps"),
)


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Return the differences that are not in ``ALLOWED``."""
    unexplained_differences = []
    for case, (our_code, our_value) in ours.items():
        their_code, their_value = theirs[case]
        if our_code == their_code and our_value == their_value:
            continue
        difference = (
            f"codes {our_code}, {their_code}" if our_code != their_code else f"values {our_value}, {their_value}"
        )
        if not any(re.search(key, case) and re.fullmatch(those, difference) for key, those, _ in ALLOWED):
            unexplained_differences.append(f"{case}: {difference}")
    return unexplained_differences
