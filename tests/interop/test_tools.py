"""Kafka's own command-line tools have the same exit status and output with the embedded broker as with Kafka 4.3.1."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop import brokers
from tests.interop.trials import ServedBroker

VERSION = "4.3.1"
SOURCE = Path(__file__).parent / "java" / "tools" / "Tools.java"
_TOOLS = "org.apache.kafka.tools"
TOPICS, CONFIGS, GROUPS = (
    f"{_TOOLS}.TopicCommand",
    "kafka.admin.ConfigCommand",
    f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
)
SERVER = "--bootstrap-server {servers}"
TOOL_CALLS = f"""
{TOPICS} {SERVER} --create --topic orders --partitions 1 --replication-factor 1
{TOPICS} {SERVER} --create --topic grown --partitions 3
{TOPICS} {SERVER} --create --topic compacted --partitions 1 --config cleanup.policy=compact
{TOPICS} {SERVER} --create --topic orders --partitions 3
{TOPICS} {SERVER} --create --if-not-exists --topic orders
{TOPICS} {SERVER} --create --topic no/name
{TOPICS} {SERVER} --create --topic wide --partitions 1 --replication-factor 3
{TOPICS} {SERVER} --create --topic odd --config nonsense=1
{TOPICS} {SERVER} --list
{TOPICS} {SERVER} --list --exclude-internal
{TOPICS} {SERVER} --describe --topic orders
{TOPICS} {SERVER} --describe --topics-with-overrides
{TOPICS} {SERVER} --describe --under-replicated-partitions
{TOPICS} {SERVER} --describe --unavailable-partitions
{TOPICS} {SERVER} --describe --topic nowhere
{TOPICS} {SERVER} --alter --topic grown --partitions 4
{TOPICS} {SERVER} --describe --topic grown
{TOPICS} {SERVER} --alter --topic grown --partitions 2
{TOPICS} {SERVER} --delete --topic nowhere --if-exists
{TOPICS} {SERVER} --delete --topic nowhere
{CONFIGS} {SERVER} --alter --entity-type topics --entity-name orders --add-config retention.ms=60000000
{CONFIGS} {SERVER} --describe --entity-type topics --entity-name orders
{CONFIGS} {SERVER} --alter --entity-type topics --entity-name orders --delete-config retention.ms
{CONFIGS} {SERVER} --alter --entity-type topics --entity-name orders --add-config nonsense=1
{CONFIGS} {SERVER} --alter --entity-type topics --entity-name orders --add-config retention.ms=soon
{CONFIGS} {SERVER} --alter --entity-type brokers --entity-default --add-config log.cleaner.threads=2
{CONFIGS} {SERVER} --describe --entity-type brokers --entity-default
{CONFIGS} {SERVER} --alter --entity-type users --entity-name alice --add-config producer_byte_rate=1048576
{CONFIGS} {SERVER} --describe --entity-type users
{CONFIGS} {SERVER} --alter --entity-type clients --entity-default --add-config consumer_byte_rate=2097152
{CONFIGS} {SERVER} --describe --entity-type clients --entity-default
{CONFIGS} {SERVER} --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-256=[iterations=8192,password=x]
{CONFIGS} {SERVER} --describe --entity-type users --entity-name bob
{CONFIGS} {SERVER} --alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-256
{CONFIGS} {SERVER} --alter --entity-type ips --entity-name 127.0.0.1 --add-config connection_creation_rate=100
{CONFIGS} {SERVER} --describe --entity-type ips
{CONFIGS} {SERVER} --alter --entity-type groups --entity-name readers --add-config consumer.session.timeout.ms=50000
{CONFIGS} {SERVER} --describe --entity-type groups --entity-name readers
{_TOOLS}.ClientMetricsCommand {SERVER} --alter --name seen --interval 1000 --match client_id=x --metrics org.apache
{_TOOLS}.ClientMetricsCommand {SERVER} --describe --name seen
{_TOOLS}.ClientMetricsCommand {SERVER} --list
{_TOOLS}.ClientMetricsCommand {SERVER} --delete --name seen
{_TOOLS}.ConsoleProducer {SERVER} --topic orders --compression-codec zstd
{_TOOLS}.ConsoleProducer {SERVER} --topic compacted --reader-property parse.key=true --reader-property key.separator=,
{_TOOLS}.consumer.ConsoleConsumer {SERVER} --topic orders --from-beginning --max-messages 3 --group readers
{_TOOLS}.consumer.ConsoleConsumer {SERVER} --topic compacted --partition 0 --offset 1 --max-messages 2
{_TOOLS}.ProducerPerformance {SERVER} --topic orders --num-records 2000 --record-size 100 --throughput -1
{_TOOLS}.ConsumerPerformance {SERVER} --topic orders --num-records 2000
{_TOOLS}.VerifiableProducer {SERVER} --topic orders --max-messages 20 --acks -1
{_TOOLS}.VerifiableConsumer {SERVER} --topic orders --max-messages 20 --group-id verifiable --reset-policy earliest
{_TOOLS}.GetOffsetShell {SERVER} --topic compacted
{_TOOLS}.GetOffsetShell {SERVER} --topic compacted --time earliest
{_TOOLS}.GetOffsetShell {SERVER} --topic compacted --time max-timestamp
{_TOOLS}.GetOffsetShell {SERVER} --topic nowhere
{_TOOLS}.DeleteRecordsCommand {SERVER} --offset-json-file {{delete}}
{_TOOLS}.GetOffsetShell {SERVER} --topic orders --partitions 0 --time earliest
{GROUPS} {SERVER} --list
{GROUPS} {SERVER} --list --state
{GROUPS} {SERVER} --describe --group readers
{GROUPS} {SERVER} --describe --group readers --state
{GROUPS} {SERVER} --describe --group readers --members
{GROUPS} {SERVER} --describe --group nobody
{GROUPS} {SERVER} --reset-offsets --group readers --topic orders --to-earliest --dry-run
{GROUPS} {SERVER} --reset-offsets --group readers --topic orders --to-earliest --execute
{GROUPS} {SERVER} --delete-offsets --group readers --topic orders
{GROUPS} {SERVER} --delete --group readers
{GROUPS} {SERVER} --delete --group nobody
{_TOOLS}.GroupsCommand {SERVER} --list
{_TOOLS}.consumer.group.ShareGroupCommand {SERVER} --list
{_TOOLS}.streams.StreamsGroupCommand {SERVER} --list
{_TOOLS}.LogDirsCommand {SERVER} --describe --topic-list compacted
{_TOOLS}.LeaderElectionCommand {SERVER} --election-type preferred --all-topic-partitions
{_TOOLS}.reassign.ReassignPartitionsCommand {SERVER} --generate --topics-to-move-json-file {{move}} --broker-list 1
{_TOOLS}.reassign.ReassignPartitionsCommand {SERVER} --execute --reassignment-json-file {{assign}}
{_TOOLS}.reassign.ReassignPartitionsCommand {SERVER} --verify --reassignment-json-file {{assign}}
{_TOOLS}.reassign.ReassignPartitionsCommand {SERVER} --list
{_TOOLS}.FeatureCommand {SERVER} describe
{_TOOLS}.MetadataQuorumCommand {SERVER} describe --status
{_TOOLS}.ClusterTool cluster-id {SERVER}
{_TOOLS}.ClusterTool list-endpoints {SERVER}
{_TOOLS}.TransactionsCommand {SERVER} list
{_TOOLS}.TransactionsCommand {SERVER} describe-producers --topic compacted --partition 0
{_TOOLS}.TransactionsCommand {SERVER} find-hanging --broker-id 1
{_TOOLS}.BrokerApiVersionsCommand {SERVER}
{TOPICS} {SERVER} --delete --topic orders
{_TOOLS}.AclCommand {SERVER} --add --allow-principal User:alice --operation Read --topic orders
{_TOOLS}.AclCommand {SERVER} --list
{_TOOLS}.AclCommand {SERVER} --remove --force --topic orders
"""
# input of ConsoleProducer by topic
INPUT_BY_TOPIC = {"orders": "one\\ntwo\\nthree\\n", "compacted": "a,1\\nb,2\\na,3\\n"}
VARYING_PATTERNS = [  # texts that differ between runs, or that the embedded broker formulates differently
    (r"(?:localhost|127\.0\.0\.1)(?:/[\d.]+)?[: ]+\d{4,5}\b", "ADDRESS"),
    (r"\b[\w-]{8}-(?:[\w-]{4}-){3}[\w-]{12}\b", "UUID"),
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r"\b1[6-9]\d{11}\b", "TIME"),
    (r"\bperf-consumer-\d+", "perf-consumer"),
    (r"(Error while executing topic command :|Exception:) .*", r"\1"),
    (r"\bmin\.insync\.replicas=1\b,?", ""),  # a default in clusters with eligible leader replicas
    (r'(?<=")/[^"]+(?=")', "PATH"),
    (r'(?m)^\{"timestamp":.*', ""),  # output of the verifiable clients, whose threads still print after their end
    (r"(?m)^\s*(?:at |Tools\$Ended|null$).*", ""),
]
AUTHORIZER = {  # like the embedded broker, which stores ACLs without being configured
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
DIFFERENT_CALLS = {  # calls of which only the exit status is compared, with the reason
    "--topics-with-overrides": "Kafka describes min.insync.replicas as a setting of each topic",
    "--entity-type brokers": "the same cluster-wide default",
    "Performance": "figures",
    "Verifiable": "which lines are printed before the end depends on timing",
    "max-timestamp": "two records may have the same timestamp",
    "FeatureCommand": "there is no metadata log, and therefore no metadata.version, kraft.version and so on",
    "MetadataQuorumCommand": "the embedded broker has neither a controller listener nor a metadata log",
    "BrokerApiVersionsCommand": "all versions since 0 are served",
}


def call_lines(servers: str, folder: Path) -> list[str]:
    """Return the calls for one broker, in the input format of ``Tools``."""
    files = {
        "delete": {"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1},
        "move": {"topics": [{"topic": "compacted"}], "version": 1},
        "assign": {"partitions": [{"topic": "compacted", "partition": 0, "replicas": [1]}], "version": 1},
    }
    paths = {name: folder / f"{name}.json" for name in files}
    for name, text in files.items():
        paths[name].write_text(json.dumps(text))
    calls_text = []
    for line in TOOL_CALLS.strip().splitlines():
        main, *words = line.format(servers=servers, **paths).split()
        topic = words[words.index("--topic") + 1] if main.endswith("ConsoleProducer") else ""
        calls_text.append("\t".join((INPUT_BY_TOPIC.get(topic, ""), main, *words)))
    return calls_text


def normalize_output(text: str) -> list[str]:
    """Return a tool's sorted output lines, without the parts that differ between runs."""
    for pattern, word in VARYING_PATTERNS:
        text = re.sub(pattern, word, text)
    return sorted(re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip())


@pytest.fixture(scope="module")
def run(oracle: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], list[tuple[int, list[str]]]]:
    """A function that runs all calls against a broker. The function returns the status and output of each call."""
    libraries = brokers.kafka_or_skip(oracle, VERSION).module.fetch(VERSION)
    classes = tmp_path_factory.mktemp("classes")
    classpath = f"{classes}:{libraries}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", classes, SOURCE], check=True, timeout=300)

    def calls(servers: str, folder: Path) -> list[tuple[int, list[str]]]:
        folder.mkdir(exist_ok=True)
        (folder / "calls").write_text("\n".join(call_lines(servers, folder)))
        command = ["java", "-Xmx512m", "-Dlog4j2.level=OFF", "-cp", classpath, "Tools", str(folder / "calls")]
        process = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert process.returncode == 0, process.stderr[-3000:]
        parts = re.split(r"^== (\d+)$", process.stdout, flags=re.MULTILINE)
        return [(int(status), normalize_output(text)) for text, status in zip(parts[::2], parts[1::2], strict=False)]

    return calls


def test_tools_print_the_same_as_with_kafka(client_trials, run, oracle, tmp_path):
    client_trials.begin("Kafka's command-line tools", VERSION, "calls compared with Kafka itself")
    served_broker = ServedBroker(tmp_path / "ours")
    try:
        ours = run(served_broker.bootstrap, tmp_path / "calls-ours")
    finally:
        served_broker.close()
    with brokers.KafkaFactory(brokers.real_kafka(oracle), VERSION)(tmp_path / "k", AUTHORIZER) as node:
        theirs = run(node.bootstrap, tmp_path / "calls-theirs")
    calls = TOOL_CALLS.strip().splitlines()
    assert len(ours) == len(theirs) == len(calls)
    assert [call for call, one, other in zip(calls, ours, theirs, strict=True) if one[0] != other[0]] == []
    compared_calls = [number for number, call in enumerate(calls) if not any(word in call for word in DIFFERENT_CALLS)]
    assert {calls[number]: ours[number] for number in compared_calls} == {
        calls[number]: theirs[number] for number in compared_calls
    }
    client_trials.saw(f"{len(calls)}, {len(compared_calls)} print the same lines, the others have the same exit status")
