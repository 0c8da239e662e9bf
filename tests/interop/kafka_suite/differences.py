"""The reasons of failures of Kafka's test suite on the embedded broker. A failure without a reason is a bug."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.interop.kafka_suite.suite import FAILED, INSIDE_KAFKA, TestResult


class KnownDifference(NamedTuple):
    """A reason for failures.

    Attributes:
        suites, tests: patterns of class names without packages, and of test names.
        reason: the reason, as a sentence for the page.
        is_inside: whether the test accesses Kafka's internals, or runs a plug-in in Kafka's process.
    """

    suites: str
    tests: str
    reason: str
    is_inside: bool = False


_APIS = "the broker does not advertise APIs for communication between brokers and controllers"
_CONTROLLER = "the test needs a controller, which the embedded broker does not have"
_HASH_ORDER = "the test expects the order of Kafka's hash tables"
_INSIDE = "the test reads files, metrics or objects of Kafka's process"
_ISR = "all nodes share one log: a follower never falls behind, and no replica is lost"
_LOG_DIRS = "all nodes share one log directory; replicas are not moved between directories, and not throttled"
_LOGGERS = "loggers have the names of Python modules, not of Kafka's classes"
_NODE_SETTINGS = "all nodes share the same start settings"
_OFFSETS_TOPIC = "__consumer_offsets is created on demand; Kafka returns NOT_COORDINATOR until it exists"
_PLUGIN = "the test runs a class of its own (a plug-in) in the broker's process"
_REMOTE = "tiered storage is not supported: remote.* settings are not validated, and some are unknown"
_RUNNING = "settings of listeners and keystores cannot be changed while the broker runs"
_TIMEOUT = "the test stops nodes repeatedly, and times out after a minute here"
_REMOVED = "settings that Kafka 4 removed are still described, because the broker supports older formats"
_INTERNAL = "internal topic settings are accepted, but not described"
_CREATION = "the test expects that a new topic does not exist for a moment, as in Kafka; here it exists immediately"
_ONE_REPLICA = "internal topics have one replica: clients cannot read partitions whose node is stopped"
_UNREGISTER = "stopped nodes stay registered: UnregisterBroker is not implemented"
_UNSTABLE = "the test needs an unreleased metadata.version (4.4-IV0) or unstable API versions"

DIFFERENCES = (
    KnownDifference("RemoteTopicCrud.*", ".*", _REMOTE),
    KnownDifference("ApiVersionsRequestTest|SaslApiVersionsRequestTest", ".*", _APIS),
    KnownDifference("BrokerApiVersionsCommandTest", ".*", _APIS),
    KnownDifference("MetadataVersionIntegrationTest", "testDefaultIsLatestVersion.*", _UNSTABLE),
    KnownDifference("FeatureCommandTest", ".*", _UNSTABLE),
    KnownDifference("BrokerMetricNamesTest|MetricsDuring.*|SocketServerMemoryPoolTest", ".*", _INSIDE, is_inside=True),
    KnownDifference("MonitorablePlugins.*|CustomQuota.*|EndToEndClusterId.*", ".*", _PLUGIN, is_inside=True),
    KnownDifference("CreateTopicsRequestWithPolicy.*|AdminClientWithPolicies.*", ".*", _PLUGIN, is_inside=True),
    KnownDifference("ConsumerIntegrationTest", "testRackAwareAssignment.*", _PLUGIN, is_inside=True),
    KnownDifference("ShareConsumerRackAwareTest", ".*", _PLUGIN, is_inside=True),
    KnownDifference("ClientTelemetryTest", ".*", _PLUGIN, is_inside=True),
    KnownDifference("ConsumerGroupDescribeRequestTest|ListGroupsRequestTest", ".*", _HASH_ORDER),
    KnownDifference("DescribeQuorumRequestTest|MetadataQuorum.*", ".*", _CONTROLLER),
    KnownDifference(
        "BrokerRegistration.*|AllocateProducerIds.*|BootstrapControllers.*", ".*", _CONTROLLER, is_inside=True
    ),
    KnownDifference("GroupAuthorizerIntegrationTest", ".*", _INSIDE, is_inside=True),
    KnownDifference("OffsetFetchRequestTest", "testGroupErrors.*", _OFFSETS_TOPIC),
    KnownDifference("StreamsGroupHeartbeatRequestTest", ".*OffsetTopicNotExist.*", _OFFSETS_TOPIC),
    KnownDifference("AutoTopicCreationTest", ".*", _NODE_SETTINGS),
    KnownDifference("EligibleLeaderReplicas.*|UncleanLeaderElection.*|LogManager.*", ".*", _ISR),
    KnownDifference("TopicCommandTest", "testDescribe.*", _ISR),
    KnownDifference("CordonedLogDirs.*|LogDirsCommandTest|ReassignPartitionsCommandTest", ".*", _LOG_DIRS),
    KnownDifference("ConfigCommandIntegrationTest", "testBrokerLogger.*", _LOGGERS),
    KnownDifference("ConfigCommandIntegrationTest", ".*NotAffectedByInvalidConfig.*", _INSIDE, is_inside=True),
    KnownDifference("ConfigCommandIntegrationTest", ".*WithListenerNameInKRaft.*|testDynamicBroker.*", _RUNNING),
    KnownDifference("ClusterToolTest", "testUnregister.*", _UNREGISTER),
    KnownDifference("GetOffsetShellTest", "testGetOffsetsBy(EarliestLocal|EarliestTiered|LatestTiered)Spec.*", _REMOTE),
    KnownDifference("ShareConsumerTest", "testRenewAcknowledgement.*", _INSIDE, is_inside=True),
    KnownDifference("ShareConsumerTest", "testShareConsumerAfterCoordinatorMovement.*", _ONE_REPLICA),
    KnownDifference("ProducerFailureHandlingTest", "testCannotSendToInternalTopic.*", _CREATION),
    KnownDifference("ConsumerBounceTest", ".*", _TIMEOUT),
    KnownDifference("StaticBrokerConfigTest", ".*", _REMOVED),
    KnownDifference("TopicCommandTest", "testCreateWithInternalConfig.*", _INTERNAL),
    KnownDifference("ClientRebootstrapTest", ".*", _ISR),
    KnownDifference("GroupCoordinatorIntegrationTest", ".*CompressionCodec.*", _INSIDE, is_inside=True),
)


def find_difference(result: TestResult) -> KnownDifference | None:
    """Return the known difference that explains a failure, or None."""
    suite = result.suite.rpartition(".")[2]
    return next(
        (
            difference
            for difference in DIFFERENCES
            if re.fullmatch(difference.suites, suite) and re.fullmatch(difference.tests, result.test)
        ),
        None,
    )


def classify(results: Iterable[TestResult]) -> list[TestResult]:
    """Return results; failures of tests that access Kafka's internals get the status ``looks inside Kafka``."""
    classified_results = []
    for result in results:
        difference = find_difference(result) if result.status == FAILED else None
        is_inside = difference is not None and difference.is_inside
        classified_results.append(
            TestResult(result.suite, result.test, INSIDE_KAFKA if is_inside else result.status, result.message)
        )
    return classified_results
