"""Group configs (KIP-848, KIP-932, KIP-1071) and their effect on heartbeats, session timeouts and assignments."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.broker.direct import DirectBroker

from kafkaframes.broker.settings.settings import KAFKA_DEFAULTS, BrokerSettings
from kafkaframes.broker.state.config_changes import check_group_configs
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import message

NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
KINDS = ("consumer", "share", "streams")


@pytest.fixture
def broker():
    broker = DirectBroker(None)
    broker.state.create_topic("orders", 2)
    return broker


def beat(broker: DirectBroker, kind: str, member: str = "m", epoch: int = 0) -> Any:
    fields: dict[str, Any] = {"group_id": kind, "member_id": member, "member_epoch": epoch}
    if kind == "streams":
        types = message("StreamsGroupHeartbeatRequest")
        part = types.Subtopology(subtopology_id="0", source_topics=["orders"])
        fields |= {"rebalance_timeout_ms": 5_000, "process_id": member, "client_tags": []} if epoch == 0 else {}
        fields |= {"topology": types.Topology(epoch=0, subtopologies=[part])} if epoch == 0 else {"topology": None}
        fields |= NO_TASKS if epoch == 0 else dict.fromkeys(NO_TASKS)
    elif epoch == 0:
        fields |= {"subscribed_topic_names": ["orders"]}
        fields |= {"rebalance_timeout_ms": 5_000, "topic_partitions": []} if kind == "consumer" else {}
    return broker.send(f"{kind.capitalize()}GroupHeartbeat", 0 if kind == "streams" else 1, **fields)


def change(broker: DirectBroker, group: str, **settings: str) -> int:
    types = message("IncrementalAlterConfigsRequest")
    rows = [
        types.AlterableConfig(name=f"{group}.{name.replace('_', '.')}", config_operation=0, value=value)
        for name, value in settings.items()
    ]
    resource = types.AlterConfigsResource(resource_type=32, resource_name=group, configs=rows)
    return broker.send("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False).responses[0].error_code


@pytest.mark.parametrize("kind", KINDS)
def test_heartbeat_answers_have_the_groups_heartbeat_interval(broker, kind):
    beat(broker, kind)
    assert change(broker, kind, heartbeat_interval_ms="7000") == 0
    assert beat(broker, kind, "n").heartbeat_interval_ms == 7_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_member_is_removed_after_the_groups_session_timeout(broker, kind):
    assert change(broker, kind, session_timeout_ms="60000") == 0
    beat(broker, kind)
    broker.clock.advance(59)
    assert list(broker.state.groups.groups[kind].members) == ["m"]
    broker.clock.advance(2)
    assert list(broker.state.groups.groups[kind].members) == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_assignment_is_not_recomputed_within_the_groups_interval(broker, kind):
    assert change(broker, kind, assignment_interval_ms="3000") == 0
    epoch = beat(broker, kind).member_epoch
    broker.clock.advance(2)
    heartbeat = beat(broker, kind, "n")
    assert (heartbeat.error_code, heartbeat.member_epoch) == (0, epoch)
    broker.clock.advance(1)
    assert beat(broker, kind, "n", epoch).member_epoch > epoch


def test_assignment_intervals_have_kafkas_defaults_on_request():
    assert {f"group.{kind}.assignment.interval.ms": "1000" for kind in ("consumer", "share")}.items() <= (
        KAFKA_DEFAULTS.items()
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["heartbeat_interval_ms", "session_timeout_ms", "assignment_interval_ms"])
def test_settings_beyond_the_brokers_bounds_are_refused(broker, kind, name):
    assert change(broker, kind, **{name: "90000"}) != 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("session.timeout.ms", "1", "must be greater than or equal to group.{kind}.min.session.timeout.ms"),
        ("session.timeout.ms", "999999", "must be less than or equal to group.{kind}.max.session.timeout.ms"),
        (
            "heartbeat.interval.ms",
            "60000",
            "{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms",
        ),
    ],
)
def test_invalid_group_configs_are_rejected_with_kafkas_message(kind, setting, value, reason):
    settings = BrokerSettings({f"group.{kind}.max.heartbeat.interval.ms": "99999"})
    with pytest.raises(OptionError, match=re.escape(reason.format(kind=kind))):
        check_group_configs(settings, {f"{kind}.{setting}": value})
    check_group_configs(settings, {f"{kind}.heartbeat.interval.ms": "7000"})
