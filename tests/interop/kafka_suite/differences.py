"""Reasons of the failures of Kafka's suite on the embedded broker. A failure without a reason is a fault."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.interop.kafka_suite.suite import FAILED, INSIDE_KAFKA, Result


class Difference(NamedTuple):
    """A reason for failures.

    Attributes:
        suites, tests: patterns of class names without packages, and of tests.
        reason: sentence for the page.
        is_inside: the test looks inside Kafka, or runs a plug-in in Kafka's process.
    """

    suites: str
    tests: str
    reason: str
    is_inside: bool = False


_APIS = "the broker does not advertise the APIs that only brokers and controllers use among themselves"
_CONTROLLER = "the test talks to a controller, or asks its objects; the embedded broker has none"
_HASH_ORDER = "the test expects the order of Kafka's hash tables"
_INSIDE = "the test reads files, metrics or objects of Kafka's process"
_ISR = "all nodes share one log: a follower never falls behind, and no replica is lost"
_LOG_DIRS = "all nodes share one log directory; replicas are not moved between directories, and not throttled"
_LOGGERS = "loggers have the names of Python modules, not of Kafka's classes"
_NODE_SETTINGS = "nodes share the settings that they are started with"
_OFFSETS_TOPIC = "__consumer_offsets is created when it is needed; Kafka answers NOT_COORDINATOR until it exists"
_PLUGIN = "the test runs a class of its own (a plug-in) in the broker's process"
_REMOTE = "there is no tiered storage: remote.* settings are not validated, and some are unknown"
_RUNNING = "settings of listeners and keystores are not changed while the broker runs"
_TIMEOUT = "the test stops nodes again and again, and gives itself a minute; it does not finish here"
_REMOVED = "settings that Kafka 4 has removed are described, since the broker serves older formats"
_INTERNAL = "internal settings of topics are accepted, and not described"
_CREATION = (
    "the test waits until a topic that it creates does not exist, as on Kafka for a moment; here it exists at once"
)
_ONE_REPLICA = "internal topics have one replica: clients cannot read partitions whose node is stopped"
_UNREGISTER = "stopped nodes stay registered: UnregisterBroker is not answered"
_UNSTABLE = "the test needs an unreleased metadata.version (4.4-IV0) or unstable API versions"

DIFFERENCES = (
    Difference("RemoteTopicCrud.*", ".*", _REMOTE),
    Difference("ApiVersionsRequestTest|SaslApiVersionsRequestTest", ".*", _APIS),
    Difference("BrokerApiVersionsCommandTest", ".*", _APIS),
    Difference("MetadataVersionIntegrationTest", "testDefaultIsLatestVersion.*", _UNSTABLE),
    Difference("FeatureCommandTest", ".*", _UNSTABLE),
    Difference("BrokerMetricNamesTest|MetricsDuring.*|SocketServerMemoryPoolTest", ".*", _INSIDE, is_inside=True),
    Difference("MonitorablePlugins.*|CustomQuota.*|EndToEndClusterId.*", ".*", _PLUGIN, is_inside=True),
    Difference("CreateTopicsRequestWithPolicy.*|AdminClientWithPolicies.*", ".*", _PLUGIN, is_inside=True),
    Difference("ConsumerIntegrationTest", "testRackAwareAssignment.*", _PLUGIN, is_inside=True),
    Difference("ShareConsumerRackAwareTest", ".*", _PLUGIN, is_inside=True),
    Difference("ClientTelemetryTest", ".*", _PLUGIN, is_inside=True),
    Difference("ConsumerGroupDescribeRequestTest|ListGroupsRequestTest", ".*", _HASH_ORDER),
    Difference("DescribeQuorumRequestTest|MetadataQuorum.*", ".*", _CONTROLLER),
    Difference("BrokerRegistration.*|AllocateProducerIds.*|BootstrapControllers.*", ".*", _CONTROLLER, is_inside=True),
    Difference("GroupAuthorizerIntegrationTest", ".*", _INSIDE, is_inside=True),
    Difference("OffsetFetchRequestTest", "testGroupErrors.*", _OFFSETS_TOPIC),
    Difference("StreamsGroupHeartbeatRequestTest", ".*OffsetTopicNotExist.*", _OFFSETS_TOPIC),
    Difference("AutoTopicCreationTest", ".*", _NODE_SETTINGS),
    Difference("EligibleLeaderReplicas.*|UncleanLeaderElection.*|LogManager.*", ".*", _ISR),
    Difference("TopicCommandTest", "testDescribe.*", _ISR),
    Difference("CordonedLogDirs.*|LogDirsCommandTest|ReassignPartitionsCommandTest", ".*", _LOG_DIRS),
    Difference("ConfigCommandIntegrationTest", "testBrokerLogger.*", _LOGGERS),
    Difference("ConfigCommandIntegrationTest", ".*NotAffectedByInvalidConfig.*", _INSIDE, is_inside=True),
    Difference("ConfigCommandIntegrationTest", ".*WithListenerNameInKRaft.*|testDynamicBroker.*", _RUNNING),
    Difference("ClusterToolTest", "testUnregister.*", _UNREGISTER),
    Difference("GetOffsetShellTest", "testGetOffsetsBy(EarliestLocal|EarliestTiered|LatestTiered)Spec.*", _REMOTE),
    Difference("ShareConsumerTest", "testRenewAcknowledgement.*", _INSIDE, is_inside=True),
    Difference("ShareConsumerTest", "testShareConsumerAfterCoordinatorMovement.*", _ONE_REPLICA),
    Difference("ProducerFailureHandlingTest", "testCannotSendToInternalTopic.*", _CREATION),
    Difference("ConsumerBounceTest", ".*", _TIMEOUT),
    Difference("StaticBrokerConfigTest", ".*", _REMOVED),
    Difference("TopicCommandTest", "testCreateWithInternalConfig.*", _INTERNAL),
    Difference("ClientRebootstrapTest", ".*", _ISR),
    Difference("GroupCoordinatorIntegrationTest", ".*CompressionCodec.*", _INSIDE, is_inside=True),
)


def difference_of(result: Result) -> Difference | None:
    """Return the reason of a failure; None if it has none."""
    suite = result.suite.rpartition(".")[2]
    return next(
        (one for one in DIFFERENCES if re.fullmatch(one.suites, suite) and re.fullmatch(one.tests, result.test)), None
    )


def classify(results: Iterable[Result]) -> list[Result]:
    """Return results with the status ``looks inside Kafka`` where a reason says so."""
    classified_results = []
    for result in results:
        difference = difference_of(result) if result.status == FAILED else None
        is_inside = difference is not None and difference.is_inside
        classified_results.append(
            Result(result.suite, result.test, INSIDE_KAFKA if is_inside else result.status, result.message)
        )
    return classified_results
