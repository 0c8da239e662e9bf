import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

/**
 * Calls methods of Kafka's Admin as tests/client/admin_calls.py calls those of kafkaframes. Each line of the input is a
 * method's name in Python and its arguments; the line of the output is "= name ok FACTS" or "= name error CODE".
 */
public class AdminCalls {
    static final TopicPartition PARTITION = new TopicPartition("orders", 0);
    static final TopicPartition MOVING = new TopicPartition("moving", 0);

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int i = 0; i < arguments.length; i += 2) properties.put(arguments[i], arguments[i + 1]);
        try (Admin admin = Admin.create(properties);
             BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                String result;
                try {
                    result = "ok " + call(admin, words);
                } catch (Throwable thrown) {
                    Throwable cause = thrown;
                    while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null)
                        cause = cause.getCause();
                    result = "error " + Errors.forException(cause).name() + " " + cause.getMessage();
                }
                System.out.println("= " + words[0] + " " + result.replace('\n', ' '));
                System.out.flush();
            }
        }
    }

    static String sorted(Collection<?> values) {
        return values.stream().map(String::valueOf).sorted().collect(Collectors.joining(","));
    }

    static AclBindingFilter alice() {
        return new AclBindingFilter(ResourcePatternFilter.ANY,
            new AccessControlEntryFilter("User:alice", null, AclOperation.ANY, AclPermissionType.ANY));
    }

    static ClientQuotaEntity user(String name) {
        return new ClientQuotaEntity(Map.of("user", name));
    }

    static String call(Admin admin, String[] words) throws Exception {
        switch (words[0]) {
            case "describe_cluster": return String.valueOf(admin.describeCluster().nodes().get().size());
            case "list_topics": return sorted(admin.listTopics().names().get());
            case "describe_topics": {
                TopicDescription topic = admin.describeTopics(List.of("orders")).allTopicNames().get().get("orders");
                return topic.partitions().size() + ":" + topic.partitions().get(0).leader().id();
            }
            case "create_topics":
                admin.createTopics(List.of(new NewTopic("new", 1, (short) 1))).all().get();
                return "";
            case "delete_topics": admin.deleteTopics(List.of("old")).all().get(); return "";
            case "create_partitions":
                admin.createPartitions(Map.of("growing", NewPartitions.increaseTo(2))).all().get();
                return "";
            case "delete_records":
                return String.valueOf(admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(0)))
                    .lowWatermarks().get(PARTITION).get().lowWatermark());
            case "list_offsets":
                return String.valueOf(admin.listOffsets(Map.of(PARTITION, OffsetSpec.earliest())).partitionResult(PARTITION).get().offset());
            case "describe_configs": {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, "orders");
                Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
                return config.entries().stream().map(entry -> entry.name() + "=" + entry.value() + ":" + entry.isDefault())
                    .sorted().collect(Collectors.joining(","));
            }
            case "alter_configs": {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, "orders");
                AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "70000"), AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
                return "";
            }
            case "list_groups":
                return admin.listGroups().all().get().stream()
                    .map(group -> group.groupId() + ":" + group.type().get().toString().toLowerCase() + ":" + group.groupState().get())
                    .sorted().collect(Collectors.joining(","));
            case "describe_group": return admin.describeConsumerGroups(List.of("billing")).all().get().get("billing").groupState().toString();
            case "delete_groups": admin.deleteConsumerGroups(List.of("gone")).all().get(); return "";
            case "group_offsets":
                return admin.listConsumerGroupOffsets("billing").partitionsToOffsetAndMetadata().get().entrySet().stream()
                    .map(entry -> entry.getKey() + "=" + entry.getValue().offset()).sorted().collect(Collectors.joining(","));
            case "alter_group_offsets":
                admin.alterConsumerGroupOffsets("billing", Map.of(PARTITION, new OffsetAndMetadata(0))).all().get();
                return "";
            case "delete_group_offsets":
                admin.deleteConsumerGroupOffsets("billing", Set.of(PARTITION)).all().get();
                return "";
            case "create_delegation_token": return admin.createDelegationToken().delegationToken().get().tokenInfo().ownerAsString();
            case "renew_delegation_token":
                admin.renewDelegationToken(Base64.getDecoder().decode(words[1])).expiryTimestamp().get();
                return "";
            case "expire_delegation_token":
                admin.expireDelegationToken(Base64.getDecoder().decode(words[1])).expiryTimestamp().get();
                return "";
            case "describe_delegation_token":
                return sorted(admin.describeDelegationToken().delegationTokens().get().stream().map(token -> token.tokenInfo().tokenId()).toList());
            case "describe_acls":
                return admin.describeAcls(alice()).values().get().stream()
                    .map(rule -> rule.pattern().name() + ":" + rule.entry().principal() + ":" + rule.entry().operation().toString().toLowerCase())
                    .sorted().collect(Collectors.joining(","));
            case "create_acls": {
                AclBinding rule = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
                    new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
                admin.createAcls(List.of(rule)).all().get();
                return "";
            }
            case "delete_acls": admin.deleteAcls(List.of(alice())).all().get(); return "";
            case "authorized_operations":
                return admin.describeConsumerGroups(List.of("billing"), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true))
                    .all().get().get("billing").authorizedOperations().stream().map(one -> one.toString().toLowerCase())
                    .sorted().collect(Collectors.joining(","));
            case "describe_user_scram_credentials":
                return admin.describeUserScramCredentials(List.of("alice")).all().get().get("alice").credentialInfos().stream()
                    .map(info -> info.mechanism().mechanismName() + ":" + info.iterations()).sorted().collect(Collectors.joining(","));
            case "alter_user_scram_credentials":
                admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice",
                    new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "a secret"))).all().get();
                return "";
            case "describe_client_quotas":
                return new TreeMap<>(admin.describeClientQuotas(ClientQuotaFilter.contains(
                    List.of(ClientQuotaFilterComponent.ofEntity("user", "alice")))).entities().get().get(user("alice"))).toString();
            case "alter_client_quotas":
                admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user("alice"),
                    List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 2.0))))).all().get();
                return "";
            case "elect_leaders": {
                Optional<Throwable> error = admin.electLeaders(ElectionType.PREFERRED, Set.of(MOVING)).partitions().get().get(MOVING);
                if (error.isPresent() && Errors.forException(error.get()) != Errors.ELECTION_NOT_NEEDED)
                    throw new ExecutionException(error.get());
                return String.valueOf(error.isEmpty());
            }
            case "alter_partition_reassignments":
                admin.alterPartitionReassignments(Map.of(MOVING, Optional.of(new NewPartitionReassignment(List.of(Integer.parseInt(words[1])))))).all().get();
                return "";
            case "list_partition_reassignments":
                return String.valueOf(admin.listPartitionReassignments().reassignments().get().size());
            case "describe_log_dirs":
                return String.valueOf(admin.describeLogDirs(List.of(Integer.parseInt(words[1]))).allDescriptions().get()
                    .values().iterator().next().values().iterator().next().replicaInfos().get(PARTITION).size());
            case "describe_replica_log_dirs": {
                TopicPartitionReplica replica = new TopicPartitionReplica("orders", 0, Integer.parseInt(words[1]));
                return admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir();
            }
            case "alter_replica_log_dirs":
                admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica("orders", 0, Integer.parseInt(words[1])), "/missing")).all().get();
                return "";
            case "list_brokers":
                return sorted(admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList());
            case "unregister_broker": admin.unregisterBroker(99).all().get(); return "";
            case "describe_features":
                return new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()).entrySet().stream()
                    .map(entry -> entry.getKey() + ":" + entry.getValue().maxVersionLevel()).collect(Collectors.joining(","));
            case "update_features":
                admin.updateFeatures(Map.of("no.such.feature", new FeatureUpdate((short) 7, FeatureUpdate.UpgradeType.UPGRADE)),
                    new UpdateFeaturesOptions()).all().get();
                return "";
            case "describe_quorum": {
                QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
                return quorum.leaderId() + ":" + sorted(quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).toList());
            }
            case "add_raft_voter":
                admin.addRaftVoter(9, new Uuid(0, 9), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9))).all().get();
                return "";
            case "remove_raft_voter": admin.removeRaftVoter(9, new Uuid(0, 9)).all().get(); return "";
            case "list_config_resources":
                return sorted(admin.listConfigResources(Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions())
                    .all().get().stream().map(ConfigResource::name).toList());
            case "list_transactions":
                return admin.listTransactions().all().get().stream().map(one -> one.transactionalId() + ":" + one.producerId())
                    .filter(one -> one.startsWith("payments")).sorted().collect(Collectors.joining(","));
            case "describe_transactions": {
                TransactionDescription one = admin.describeTransactions(List.of("payments")).description("payments").get();
                return one.state() + ":" + one.producerId() + ":" + one.producerEpoch() + ":" + one.transactionTimeoutMs();
            }
            case "describe_producers":
                return admin.describeProducers(List.of(PARTITION)).partitionResult(PARTITION).get().activeProducers().stream()
                    .map(one -> one.producerId() + ":" + one.producerEpoch() + ":" + one.lastSequence()).sorted().collect(Collectors.joining(","));
            case "abort_transaction":
                admin.abortTransaction(new AbortTransactionSpec(new TopicPartition(words[1], 0), Long.parseLong(words[2]),
                    Short.parseShort(words[3]), -1)).all().get();
                return "";
            case "force_terminate_transaction": admin.forceTerminateTransaction("payments").result().get(); return "";
            case "fence_producers": admin.fenceProducers(List.of("payments")).all().get(); return "";
            case "remove_group_members":
                admin.removeMembersFromConsumerGroup("members",
                    new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("first")))).all().get();
                return "";
            case "describe_share_group": return admin.describeShareGroups(List.of("queue")).all().get().get("queue").groupState().toString();
            case "describe_streams_group":
                return sorted(admin.describeStreamsGroups(List.of("app")).all().get().get("app").members().stream()
                    .map(StreamsGroupMemberDescription::memberId).toList());
            case "share_group_offsets":
                return admin.listShareGroupOffsets(Map.of("queue", new ListShareGroupOffsetsSpec())).all().get().get("queue").entrySet().stream()
                    .map(entry -> entry.getKey() + "=" + entry.getValue().startOffset()).sorted().collect(Collectors.joining(","));
            case "alter_share_group_offsets":
                admin.alterShareGroupOffsets("queue", Map.of(PARTITION, 1L)).all().get();
                return "";
            case "delete_share_group_offsets":
                admin.deleteShareGroupOffsets("queue", Set.of("orders")).all().get();
                return "";
            default: throw new IllegalArgumentException(words[0]);
        }
    }
}
