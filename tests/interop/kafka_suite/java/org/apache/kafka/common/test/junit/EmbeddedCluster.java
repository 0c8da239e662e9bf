package org.apache.kafka.common.test.junit;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;

/** A cluster of a test: an embedded broker with the nodes, racks, settings and security that the test declares. */
final class EmbeddedCluster implements ClusterInstance {
    private static final AtomicInteger NEXT_ID = new AtomicInteger();
    private static final int CONTROLLER_ID = 3000;
    private static final long PATIENCE_MS = 30_000;

    private final ClusterConfig config;
    private final int id = NEXT_ID.incrementAndGet();
    private final Set<Integer> stoppedNodes = new HashSet<>();
    private String bootstrapServers = "";
    private String clusterId = Uuid.randomUuid().toString();
    private boolean isStarted;
    private boolean isStopped;

    EmbeddedCluster(ClusterConfig config) {
        this.config = config;
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        for (int node : brokerIds()) {
            brokers.put(node, BrokerView.of(this, node));
        }
        return brokers;
    }

    @Override
    public Map<Integer, KafkaBroker> aliveBrokers() {
        Map<Integer, KafkaBroker> brokers = brokers();
        stoppedNodes.forEach(brokers::remove);
        return brokers;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of(CONTROLLER_ID, BrokerView.controller(this));
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of(CONTROLLER_ID);
    }

    @Override
    public Set<Integer> brokerIds() {
        Set<Integer> nodes = new TreeSet<>();
        for (int node = 0; node < config.numBrokers(); node++) {
            nodes.add(node);
        }
        return nodes;
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public String bootstrapServers() {
        return bootstrapServers;
    }

    @Override
    public String bootstrapControllers() {
        throw BrokerView.refusal("bootstrapControllers()");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        List<Integer> ports = new ArrayList<>();
        for (String address : bootstrapServers.split(",")) {
            ports.add(Integer.parseInt(address.substring(address.lastIndexOf(':') + 1)));
        }
        return ports;
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        throw BrokerView.refusal("controllerBoundPorts()");
    }

    @Override
    public String clusterId() {
        return clusterId;
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String protocols = settings().getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer");
        return protocols.contains("consumer")
            ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void start() {
        if (isStarted) {
            return;
        }
        isStarted = true;
        Map<String, Object> command = new LinkedHashMap<>();
        command.put("command", "start");
        command.put("id", id);
        command.put("nodes", config.numBrokers());
        command.put("settings", settings());
        command.put("node_settings", nodeSettings());
        command.put("protocol", config.brokerSecurityProtocol().name);
        command.put("listener", config.brokerListenerName().value());
        command.put("metadata_version", config.metadataVersion().featureLevel());
        Map<String, Short> features = new HashMap<>();
        config.features().forEach((feature, level) -> features.put(feature.featureName(), level));
        command.put("features", features);
        command.put("users", Map.of(
            JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
            JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD));
        JsonNode result = BrokerProcess.run(command);
        bootstrapServers = result.get("bootstrap").asText();
        clusterId = result.get("cluster_id").asText();
    }

    /** Return the settings of the cluster: those that Kafka's test kit sets, then the test's. */
    Map<String, String> settings() {
        Map<String, String> settings = new TreeMap<>();
        settings.put("node.id", "0");
        settings.put("offsets.topic.replication.factor", "1");
        settings.put("transaction.state.log.replication.factor", "1");
        settings.put("transaction.state.log.min.isr", "1");
        settings.put("share.coordinator.state.topic.replication.factor", "1");
        settings.put("share.coordinator.state.topic.min.isr", "1");
        settings.put("group.initial.rebalance.delay.ms", "0");
        settings.put("num.partitions", "1");
        if (config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            settings.put("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        }
        settings.putAll(config.serverProperties());
        return settings;
    }

    /** Return the settings that the test gives single nodes, by node. */
    Map<String, Map<String, String>> nodeSettings() {
        Map<String, Map<String, String>> settings = new TreeMap<>();
        config.perServerOverrideProperties().forEach((node, values) -> settings.put(String.valueOf(node), values));
        return settings;
    }

    @Override
    public boolean started() {
        return isStarted;
    }

    @Override
    public void stop() {
        if (isStarted && !isStopped) {
            isStopped = true;
            BrokerProcess.run(Map.of("command", "stop", "id", id));
        }
    }

    @Override
    public boolean stopped() {
        return isStopped;
    }

    @Override
    public void shutdownBroker(int node) {
        stoppedNodes.add(node);
        BrokerProcess.run(Map.of("command", "stop_node", "id", id, "node", node));
    }

    @Override
    public void startBroker(int node) {
        stoppedNodes.remove(node);
        BrokerProcess.run(Map.of("command", "start_node", "id", id, "node", node));
    }

    @Override
    public void waitForReadyBrokers() { }

    @Override
    public void ensureConsistentMetadata() { }

    @Override
    public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) { }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        waitUntil("topic " + topic + " has " + partitions + " partitions", () -> {
            TopicDescription description = describe(topic);
            return description != null && description.partitions().size() == partitions;
        });
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        waitUntil("topic " + topic + " is deleted", () -> describe(topic) == null);
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) { }

    @Override
    public List<Authorizer> authorizers() {
        throw BrokerView.refusal("authorizers()");
    }

    /** Return what Admin says about a topic; null if it does not exist. */
    TopicDescription describe(String topic) throws Exception {
        try (Admin admin = admin()) {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof org.apache.kafka.common.errors.UnknownTopicOrPartitionException) {
                return null;
            }
            throw error;
        }
    }

    /** Return the ids of the topics, by name. */
    Map<String, Uuid> topicIds() throws Exception {
        Map<String, Uuid> ids = new HashMap<>();
        try (Admin admin = admin()) {
            for (TopicListing topic : admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get()) {
                ids.put(topic.name(), topic.topicId());
            }
        }
        return ids;
    }

    private static void waitUntil(String what, Callable<Boolean> condition) throws InterruptedException {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (InterruptedException error) {
                throw error;
            } catch (Exception error) {
                throw new IllegalStateException(what, error);
            }
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("not true after " + PATIENCE_MS + " ms: " + what);
            }
            Thread.sleep(50);
        }
    }
}
