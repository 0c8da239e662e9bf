package org.apache.kafka.common.test.junit;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;

import org.apache.kafka.raft.LogOffsetMetadata;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

/**
 * Objects of a Kafka server as far as a client can know them: settings, ports and metadata.
 *
 * <p>Every other method throws an exception with {@link #MARK}: the test looks inside Kafka.
 */
final class BrokerView {
    static final String MARK = "INSIDE KAFKA: ";

    private static final long METADATA_OFFSET = 0;

    private BrokerView() { }

    static KafkaBroker of(EmbeddedCluster cluster, int node) {
        KafkaConfig config = config(cluster, node);
        int port = cluster.bootstrapServers().isEmpty() ? 0 : cluster.brokerBoundPorts().get(node);
        return Mockito.mock(BrokerServer.class, call -> switch (call.getMethod().getName()) {
            case "config" -> config;
            case "boundPort" -> port;
            case "clusterId" -> cluster.clusterId();
            case "socketServer" -> socketServer(port);
            case "groupCoordinator" -> groupCoordinator();
            case "metadataCache" -> metadataCache(cluster);
            case "sharedServer" -> sharedServer();
            case "toString" -> "node " + node;
            case "hashCode" -> node;
            default -> throw refusal(call);
        });
    }

    /** The controller of a cluster. The nodes share their metadata, so that a test never waits for a node's. */
    static ControllerServer controller(EmbeddedCluster cluster) {
        Controller controller = Mockito.mock(Controller.class, call -> {
            if (call.getMethod().getName().equals("findAllTopicIds")) {
                return CompletableFuture.completedFuture(cluster.topicIds());
            }
            throw refusal(call);
        });
        KafkaRaftManager<?> raftManager = Mockito.mock(KafkaRaftManager.class, Mockito.RETURNS_DEEP_STUBS);
        Mockito.when(raftManager.raftLog().endOffset()).thenReturn(new LogOffsetMetadata(METADATA_OFFSET + 1));
        return Mockito.mock(ControllerServer.class, call -> switch (call.getMethod().getName()) {
            case "controller" -> controller;
            case "raftManager" -> raftManager;
            case "toString" -> "controller";
            case "hashCode" -> 0;
            default -> throw refusal(call);
        });
    }

    private static SharedServer sharedServer() {
        MetadataLoader loader = Mockito.mock(MetadataLoader.class, call -> {
            if (call.getMethod().getName().equals("lastAppliedOffset")) {
                return METADATA_OFFSET;
            }
            throw refusal(call);
        });
        return Mockito.mock(SharedServer.class, call -> {
            if (call.getMethod().getName().equals("loader")) {
                return loader;
            }
            throw refusal(call);
        });
    }

    static UnsupportedOperationException refusal(String member) {
        return new UnsupportedOperationException(MARK + member);
    }

    private static UnsupportedOperationException refusal(InvocationOnMock call) {
        return refusal(call.getMethod().getDeclaringClass().getSimpleName() + "." + call.getMethod().getName() + "()");
    }

    private static KafkaConfig config(EmbeddedCluster cluster, int node) {
        Map<String, String> settings = cluster.settings();
        settings.putAll(cluster.nodeSettings().getOrDefault(String.valueOf(node), Map.of()));
        settings.put("node.id", String.valueOf(node));
        settings.put("process.roles", "broker");
        settings.put("controller.quorum.voters", "3000@localhost:1");
        settings.put("controller.listener.names", "CONTROLLER");
        String listener = cluster.clientListener().value();
        settings.put("listeners", listener + "://localhost:0");
        String protocol = cluster.config().brokerSecurityProtocol().name;
        settings.put("listener.security.protocol.map", listener + ":" + protocol + ",CONTROLLER:PLAINTEXT");
        settings.put("inter.broker.listener.name", listener);
        return new KafkaConfig(settings);
    }

    private static SocketServer socketServer(int port) {
        return Mockito.mock(SocketServer.class, call -> {
            if (call.getMethod().getName().equals("boundPort")) {
                return port;
            }
            throw refusal(call);
        });
    }

    /** The settings with which Kafka creates {@code __consumer_offsets}. */
    private static GroupCoordinator groupCoordinator() {
        return Mockito.mock(GroupCoordinator.class, call -> {
            if (!call.getMethod().getName().equals("groupMetadataTopicConfigs")) {
                throw refusal(call);
            }
            Properties settings = new Properties();
            settings.put("cleanup.policy", "compact");
            settings.put("compression.type", "producer");
            settings.put("segment.bytes", "104857600");
            return settings;
        });
    }

    private static KRaftMetadataCache metadataCache(EmbeddedCluster cluster) {
        return Mockito.mock(KRaftMetadataCache.class, call -> {
            Object argument = call.getArguments().length == 0 ? null : call.getArgument(0);
            return switch (call.getMethod().getName()) {
                case "getAliveBrokerNodes" -> new ArrayList<>(aliveNodes(cluster));
                case "hasAliveBroker" -> aliveNodes(cluster).stream().anyMatch(node -> argument.equals(node.id()));
                case "numPartitions" -> Optional.ofNullable(cluster.describe((String) argument))
                    .map(description -> description.partitions().size());
                case "contains" -> contains(cluster, argument);
                case "getLeaderAndIsr" -> leaderAndIsr(cluster, (String) argument, call.getArgument(1));
                default -> throw refusal(call);
            };
        });
    }

    private static List<Node> aliveNodes(EmbeddedCluster cluster) throws Exception {
        try (Admin admin = cluster.admin()) {
            return new ArrayList<>(admin.describeCluster().nodes().get());
        }
    }

    private static boolean contains(EmbeddedCluster cluster, Object argument) throws Exception {
        if (argument instanceof TopicPartition partition) {
            TopicDescription description = cluster.describe(partition.topic());
            return description != null && partition.partition() < description.partitions().size();
        }
        return cluster.describe((String) argument) != null;
    }

    private static Optional<LeaderAndIsr> leaderAndIsr(EmbeddedCluster cluster, String topic, int number)
            throws Exception {
        TopicDescription description = cluster.describe(topic);
        if (description == null || number >= description.partitions().size()) {
            return Optional.empty();
        }
        TopicPartitionInfo partition = description.partitions().get(number);
        if (partition.leader() == null) {
            return Optional.empty();
        }
        List<Integer> isr = partition.isr().stream().map(Node::id).toList();
        return Optional.of(new LeaderAndIsr(partition.leader().id(), isr));
    }
}
