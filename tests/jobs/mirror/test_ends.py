"""The topics of a copy: settings that a target rejects are left out and reported."""

import asyncio

import pytest

from kafkaframes.broker import Broker, Security
from kafkaframes.client import AclBinding, Admin, AsyncAdmin
from kafkaframes.errors import BrokerError, ErrorCode, LogDirError, OptionError
from kafkaframes.jobs.mirror.ends import MirroredTopic, open_cluster, prepare_target_topic
from kafkaframes.jobs.mirror.job import mirror_clusters
from kafkaframes.jobs.mirror.settings import MirrorReport, MirrorSettings


async def prepare_topic(configs):
    report, topic = MirrorReport("source", "target"), MirroredTopic("t", "", (0, 1), configs)
    async with Broker() as broker, AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await prepare_target_topic(admin, topic, report, keeps_offsets=False, holds_gaps=False)
        created_topic = (await admin.describe_cluster()).topics["t"]
        entries = await admin.describe_configs("topic", "t")
    return (
        report,
        len(created_topic.partitions),
        {name: one.value for name, one in entries.items() if not one.is_default},
    )


def test_a_topic_is_created_without_the_settings_that_the_target_rejects():
    report, partitions, own = asyncio.run(
        prepare_topic({"retention.ms": "7", "no.such.setting": "x", "cleanup.policy": "compact"})
    )
    assert report.configs_left == {"t": ["no.such.setting"]}
    assert report.created == ["t"]
    assert partitions == 2
    assert own["retention.ms"] == "7"
    assert own["cleanup.policy"] == "compact"
    assert "no.such.setting" not in own


def test_a_topic_keeps_all_settings_that_the_target_accepts():
    report, partitions, own = asyncio.run(prepare_topic({"retention.ms": "7"}))
    assert (report.configs_left, report.created, partitions) == ({}, ["t"], 2)
    assert own["retention.ms"] == "7"


def test_a_failed_write_to_a_target_directory_names_the_free_space(tmp_path):
    """A full disk: the error of the old version of Produce has no reason."""

    async def fail() -> None:
        async with open_cluster(str(tmp_path / "copy"), {}, wait_for_nothing, print, writes=True):
            raise BrokerError("produce to t-0", ErrorCode.KAFKA_STORAGE_ERROR)

    async def wait_for_nothing(_: object) -> None:
        pass

    with pytest.raises(
        LogDirError, match=r"a write failed, and the disk has [\d,]+ free bytes?; run the command again"
    ):
        asyncio.run(fail())


def test_settings_that_the_user_may_not_read_are_reported():
    """redpanda-data/documentation#1709: without DESCRIBE_CONFIGS, the copy of a compacted topic is not compacted."""
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "m",
        "sasl.password": "m",
    }
    security = Security(users={"admin": "a", "m": "m"}, needs_sasl=True, authorizer=True)
    lines: list[str] = []
    with Broker(security=security, config={"super.users": "User:admin"}) as a, Broker() as b:
        a.append("orders", [{"value": b"v"}])
        admin_user = client | {"sasl.username": "admin", "sasl.password": "a"}
        with Admin(a.bootstrap_servers, **admin_user) as admin:
            admin.create_acls([AclBinding("topic", "orders", "User:m", "read")])
        settings = MirrorSettings(source_properties=client, timeout_s=60)
        asyncio.run(mirror_clusters(a.bootstrap_servers, b.bootstrap_servers, settings, print_message=lines.append))
        assert b.topics["orders"].end_offsets == (1,)
    assert lines == [
        "orders: its settings are not copied, because they cannot be read: topic orders: "
        "TOPIC_AUTHORIZATION_FAILED (29): not authorized for the topic",
        "committed offsets are only copied for the groups that the user may describe: 0 now. With DESCRIBE on the "
        "source's cluster, the user sees all groups",
    ]


def test_a_target_that_may_not_be_asked_for_its_settings_is_reported(tmp_path):
    """Without DESCRIBE_CONFIGS on the cluster, it is unknown whether the target keeps offsets."""
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "m",
        "sasl.password": "m",
    }
    security = Security(users={"admin": "a", "m": "m"}, needs_sasl=True, authorizer=True)
    reason = "it is unknown whether the target keeps offsets, because the user has no DESCRIBE_CONFIGS"
    lines: list[str] = []
    with Broker() as a, Broker(security=security, config={"super.users": "User:admin"}) as b:
        a.append("orders", [{"value": b"v"}])
        admin_user = client | {"sasl.username": "admin", "sasl.password": "a"}
        with Admin(b.bootstrap_servers, **admin_user) as admin:
            admin.create_acls([AclBinding("topic", "orders", "User:m", "all")])
        servers = a.bootstrap_servers, b.bootstrap_servers
        for values, remedy in (({}, "set `state_dir`"), ({"offsets": "keep"}, "so `offsets`=keep is not possible")):
            settings = MirrorSettings(target_properties=client, timeout_s=60, **values)
            with pytest.raises(OptionError, match=f"{reason} .*{remedy}"):
                asyncio.run(mirror_clusters(*servers, settings))
        settings = MirrorSettings(
            target_properties=client, timeout_s=60, state_dir=str(tmp_path / "state"), groups=False
        )
        asyncio.run(mirror_clusters(*servers, settings, print_message=lines.append))
        assert b.topics["orders"].end_offsets == (1,)
    assert reason in lines[0]
