import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/** What an unmodified Java client of Kafka 4 does with a broker: {@code ClientProbe BOOTSTRAP}, a line for each check. */
public class ClientProbe {
    static String bootstrap;
    static Admin admin;
    static int failed = 0;

    interface Check {
        void run() throws Exception;
    }

    static void check(String name, Check body) {
        long began = System.nanoTime();
        try {
            body.run();
            System.out.printf("ok %s (%d ms)%n", name, (System.nanoTime() - began) / 1_000_000);
        } catch (Throwable problem) {
            failed++;
            Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
            System.out.printf("FAIL %s: %s%n", name, cause);
            if (System.getenv("TRACE") != null) cause.printStackTrace(System.out);
        }
    }

    static void want(boolean holds, Object said) {
        if (!holds) throw new AssertionError(String.valueOf(said));
    }

    static <T> void same(T found, T expected) {
        want(found == null ? expected == null : found.equals(expected), found + " instead of " + expected);
    }

    /** Look again for a while: a cluster's metadata takes its time. */
    static void eventually(Check body) throws Exception {
        long end = System.nanoTime() + 10_000_000_000L;
        while (true) {
            try {
                body.run();
                return;
            } catch (AssertionError | NullPointerException | ExecutionException problem) {
                if (System.nanoTime() > end) throw problem;
                Thread.sleep(100);
            }
        }
    }

    static void refused(Class<? extends Throwable> kind, Callable<?> work) throws Exception {
        try {
            Object found = work.call();
            throw new AssertionError("not refused: " + found);
        } catch (ExecutionException problem) {
            if (!kind.isInstance(problem.getCause())) throw problem;
        } catch (Exception problem) {
            if (!kind.isInstance(problem)) throw problem;
        }
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    static Properties properties(Object... pairs) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        made.put("default.api.timeout.ms", "20000");
        made.put("request.timeout.ms", "15000");
        for (int index = 0; index < pairs.length; index += 2) made.put(pairs[index], String.valueOf(pairs[index + 1]));
        return made;
    }

    static KafkaProducer<String, String> producer(Object... pairs) {
        Properties made = properties(pairs);
        made.putIfAbsent("max.block.ms", "20000");
        made.putIfAbsent("delivery.timeout.ms", "20000");
        return new KafkaProducer<>(made, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(Object... pairs) {
        Properties made = properties(pairs);
        made.putIfAbsent("auto.offset.reset", "earliest");
        made.putIfAbsent("enable.auto.commit", "false");
        return new KafkaConsumer<>(made, new StringDeserializer(), new StringDeserializer());
    }

    static void topic(String name, int partitions) throws Exception {
        get(admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all());
        for (int left = 100; ; left--) { // a real broker hears of a topic a moment after its controller
            try {
                get(admin.describeTopics(List.of(name)).allTopicNames());
                return;
            } catch (ExecutionException error) {
                if (left == 0 || !(error.getCause() instanceof UnknownTopicOrPartitionException)) throw error;
                Thread.sleep(100);
            }
        }
    }

    static void fill(String topic, int count) {
        try (KafkaProducer<String, String> to = producer()) {
            for (int number = 0; number < count; number++) to.send(new ProducerRecord<>(topic, "k" + number, "v" + number));
        }
    }

    static List<ConsumerRecord<String, String>> read(Consumer<String, String> from, int count, int seconds) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (found.size() < count && System.nanoTime() < end)
            for (ConsumerRecord<String, String> one : from.poll(Duration.ofMillis(200))) found.add(one);
        return found;
    }

    static List<ConsumerRecord<String, String>> readAll(String topic, String isolation, int count) {
        try (KafkaConsumer<String, String> from = consumer("isolation.level", isolation)) {
            List<TopicPartition> all = new ArrayList<>();
            for (PartitionInfo one : from.partitionsFor(topic)) all.add(new TopicPartition(topic, one.partition()));
            from.assign(all);
            from.seekToBeginning(all);
            return read(from, count, 10);
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(properties());
        topics();
        producing();
        consuming();
        transactions();
        groups();
        configs();
        rest();
        shareGroups();
        shareRules();
        admin.close(Duration.ofSeconds(5));
        System.out.println(failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    static void topics() {
        check("createTopics with configs", () -> {
            CreateTopicsResult made = admin.createTopics(List.of(
                new NewTopic("made", 3, (short) 1).configs(Map.of("retention.ms", "1000000000"))));
            get(made.all());
            same(get(made.numPartitions("made")), 3);
            same(get(made.replicationFactor("made")), 1);
            want(!get(made.topicId("made")).equals(Uuid.ZERO_UUID), "zero id");
            same(get(made.config("made")).get("retention.ms").value(), "1000000000");
        });
        check("createTopics twice", () -> refused(TopicExistsException.class, () -> get(admin.createTopics(List.of(new NewTopic("made", 1, (short) 1))).all())));
        check("createTopics validateOnly", () -> {
            get(admin.createTopics(List.of(new NewTopic("only", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all());
            want(!get(admin.listTopics().names()).contains("only"), "was made");
        });
        check("createTopics wrong name", () -> refused(InvalidTopicException.class, () -> get(admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all())));
        check("createTopics too many replicas", () -> refused(InvalidReplicationFactorException.class, () -> get(admin.createTopics(List.of(new NewTopic("replicated", 1, (short) 3))).all())));
        check("createTopics wrong config", () -> refused(InvalidConfigurationException.class, () -> get(admin.createTopics(List.of(new NewTopic("wrong", 1, (short) 1).configs(Map.of("no.such", "1")))).all())));
        check("createTopics wrong value", () -> refused(InvalidConfigurationException.class, () -> get(admin.createTopics(List.of(new NewTopic("wrong", 1, (short) 1).configs(Map.of("retention.ms", "x")))).all())));
        check("createTopics wrong value range", () -> refused(InvalidConfigurationException.class, () -> get(admin.createTopics(List.of(new NewTopic("wrong", 1, (short) 1).configs(Map.of("cleanup.policy", "nothing")))).all())));
        check("createTopics assignment", () -> {
            int node = get(admin.describeCluster().nodes()).iterator().next().id();
            get(admin.createTopics(List.of(new NewTopic("assigned", Map.of(0, List.of(node), 1, List.of(node))))).all());
            same(get(admin.describeTopics(List.of("assigned")).allTopicNames()).get("assigned").partitions().size(), 2);
        });
        check("createTopics defaults", () -> {
            get(admin.createTopics(List.of(new NewTopic("defaults", Optional.empty(), Optional.empty()))).all());
        });
        check("describeTopics by name", () -> {
            TopicDescription found = get(admin.describeTopics(List.of("made")).allTopicNames()).get("made");
            same(found.partitions().size(), 3);
            same(found.isInternal(), false);
            want(found.partitions().get(0).leader() != null, "no leader");
        });
        check("describeTopics by id", () -> {
            Uuid id = get(admin.describeTopics(List.of("made")).allTopicNames()).get("made").topicId();
            same(get(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds()).get(id).name(), "made");
        });
        check("describeTopics unknown", () -> refused(UnknownTopicOrPartitionException.class, () -> get(admin.describeTopics(List.of("none")).allTopicNames())));
        check("describeTopics with authorized operations", () -> {
            TopicDescription found = get(admin.describeTopics(List.of("made"), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames()).get("made");
            want(found.authorizedOperations() != null && found.authorizedOperations().contains(AclOperation.READ), found.authorizedOperations());
        });
        check("createPartitions", () -> {
            get(admin.createPartitions(Map.of("made", NewPartitions.increaseTo(4))).all());
            same(get(admin.describeTopics(List.of("made")).allTopicNames()).get("made").partitions().size(), 4);
        });
        check("createPartitions fewer", () -> refused(InvalidPartitionsException.class, () -> get(admin.createPartitions(Map.of("made", NewPartitions.increaseTo(2))).all())));
        check("deleteTopics by name", () -> {
            topic("gone", 1);
            get(admin.deleteTopics(List.of("gone")).all());
            want(!get(admin.listTopics().names()).contains("gone"), "still there");
        });
        check("deleteTopics by id", () -> {
            topic("gone2", 1);
            Uuid id = get(admin.describeTopics(List.of("gone2")).allTopicNames()).get("gone2").topicId();
            get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        });
        check("deleteTopics unknown", () -> refused(UnknownTopicOrPartitionException.class, () -> get(admin.deleteTopics(List.of("none")).all())));
        check("listTopics internal", () -> {
            want(get(admin.listTopics(new ListTopicsOptions().listInternal(true)).listings()).stream().anyMatch(one -> one.name().equals("made")), "not there");
        });
    }

    static void producing() throws Exception {
        topic("data", 1);
        check("producer idempotent", () -> {
            try (KafkaProducer<String, String> to = producer("acks", "all")) {
                RecordMetadata first = to.send(new ProducerRecord<>("data", "a", "b")).get();
                same(first.offset(), 0L);
                same(to.send(new ProducerRecord<>("data", 0, 1000L, "a", "c")).get().timestamp(), 1000L);
            }
        });
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd"))
            check("producer " + codec, () -> {
                try (KafkaProducer<String, String> to = producer("compression.type", codec, "linger.ms", 20)) {
                    List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
                    for (int number = 0; number < 100; number++) sent.add(to.send(new ProducerRecord<>("data", "k", "v".repeat(100))));
                    for (java.util.concurrent.Future<RecordMetadata> one : sent) one.get();
                }
            });
        check("producer acks 0", () -> {
            try (KafkaProducer<String, String> to = producer("acks", "0", "enable.idempotence", "false")) {
                same(to.send(new ProducerRecord<>("data", "a", "b")).get().offset(), -1L);
            }
        });
        check("producer acks 1", () -> {
            try (KafkaProducer<String, String> to = producer("acks", "1", "enable.idempotence", "false")) {
                want(to.send(new ProducerRecord<>("data", "a", "b")).get().offset() > 0, "offset");
            }
        });
        check("producer headers", () -> {
            topic("headers", 1);
            try (KafkaProducer<String, String> to = producer()) {
                ProducerRecord<String, String> one = new ProducerRecord<>("headers", "a", null);
                one.headers().add("h", new byte[] {1}).add("h", null);
                to.send(one).get();
            }
            ConsumerRecord<String, String> found = readAll("headers", "read_uncommitted", 1).get(0);
            same(found.headers().toArray().length, 2);
            same(found.value(), null);
        });
        check("producer too large", () -> refused(RecordTooLargeException.class, () -> {
            try (KafkaProducer<String, String> to = producer("max.request.size", 5_000_000, "buffer.memory", 10_000_000)) {
                return to.send(new ProducerRecord<>("data", "a", "x".repeat(2_000_000))).get();
            }
        }));
        check("producer compacted topic needs keys", () -> {
            get(admin.createTopics(List.of(new NewTopic("compacted", 1, (short) 1).configs(Map.of("cleanup.policy", "compact")))).all());
            refused(InvalidRecordException.class, () -> {
                try (KafkaProducer<String, String> to = producer()) {
                    return to.send(new ProducerRecord<>("compacted", null, "x")).get();
                }
            });
        });
        check("producer makes a topic", () -> {
            try (KafkaProducer<String, String> to = producer()) {
                same(to.send(new ProducerRecord<>("made-by-producer", "a", "b")).get().offset(), 0L);
            }
        });
        check("producer log append time", () -> {
            get(admin.createTopics(List.of(new NewTopic("stamped", 1, (short) 1).configs(Map.of("message.timestamp.type", "LogAppendTime")))).all());
            try (KafkaProducer<String, String> to = producer()) {
                want(to.send(new ProducerRecord<>("stamped", 0, 5L, "a", "b")).get().timestamp() > 1_000_000, "time");
            }
            same(readAll("stamped", "read_uncommitted", 1).get(0).timestampType(), org.apache.kafka.common.record.TimestampType.LOG_APPEND_TIME);
        });
    }

    static void consuming() throws Exception {
        topic("many", 2);
        fill("many", 1000);
        for (String protocol : List.of("classic", "consumer")) {
            String name = "consumer of " + protocol + " protocol ";
            String own = "many-" + protocol;
            topic(own, 2);
            fill(own, 1000);
            check(name + "subscribes, commits, goes on", () -> {
                try (KafkaConsumer<String, String> from = consumer("group.id", "g-" + protocol, "group.protocol", protocol)) {
                    from.subscribe(List.of(own));
                    same(read(from, 1000, 20).size(), 1000);
                    from.commitSync();
                    same(from.groupMetadata().groupId(), "g-" + protocol);
                }
                fill(own, 10);
                try (KafkaConsumer<String, String> from = consumer("group.id", "g-" + protocol, "group.protocol", protocol)) {
                    from.subscribe(List.of(own));
                    same(read(from, 10, 20).size(), 10);
                    from.commitAsync();
                }
            });
            check(name + "shares partitions", () -> {
                try (KafkaConsumer<String, String> one = consumer("group.id", "two-" + protocol, "group.protocol", protocol);
                     KafkaConsumer<String, String> other = consumer("group.id", "two-" + protocol, "group.protocol", protocol)) {
                    one.subscribe(List.of("many"));
                    other.subscribe(List.of("many"));
                    long end = System.nanoTime() + 40_000_000_000L;
                    while (System.nanoTime() < end && !(one.assignment().size() == 1 && other.assignment().size() == 1)) {
                        one.poll(Duration.ofMillis(100));
                        other.poll(Duration.ofMillis(100));
                    }
                    same(one.assignment().size(), 1);
                    same(other.assignment().size(), 1);
                }
            });
            check(name + "subscribes to a pattern", () -> {
                try (KafkaConsumer<String, String> from = consumer("group.id", "p-" + protocol, "group.protocol", protocol, "metadata.max.age.ms", 1000)) {
                    if (protocol.equals("classic")) from.subscribe(Pattern.compile("man.*"));
                    else from.subscribe(new SubscriptionPattern("man.*"));
                    want(read(from, 1000, 20).size() >= 1000, "records");
                }
            });
            check(name + "static member", () -> {
                for (int turn = 0; turn < 2; turn++)
                    try (KafkaConsumer<String, String> from = consumer("group.id", "s-" + protocol, "group.protocol", protocol, "group.instance.id", "i")) {
                        from.subscribe(List.of("many"));
                        want(read(from, 100, 20).size() >= 100, "records");
                    }
            });
        }
        check("consumer look-ups", () -> {
            try (KafkaConsumer<String, String> from = consumer()) {
                TopicPartition partition = new TopicPartition("data", 0);
                want(from.endOffsets(List.of(partition)).get(partition) > 400, "end");
                same(from.beginningOffsets(List.of(partition)).get(partition), 0L);
                same(from.offsetsForTimes(Map.of(partition, 0L)).get(partition).offset(), 0L);
                same(from.offsetsForTimes(Map.of(partition, 1L << 50)).get(partition), null);
                want(from.listTopics().containsKey("data"), "topics");
                from.assign(List.of(partition));
                from.seekToEnd(List.of(partition));
                want(from.position(partition) > 400, "position");
                want(from.currentLag(partition).orElse(0) == 0, "lag");
            }
        });
        check("consumer without reset", () -> refused(NoOffsetForPartitionException.class, () -> {
            try (KafkaConsumer<String, String> from = consumer("group.id", "none", "auto.offset.reset", "none")) {
                from.assign(List.of(new TopicPartition("data", 0)));
                return from.poll(Duration.ofSeconds(5));
            }
        }));
        check("consumer out of range", () -> refused(OffsetOutOfRangeException.class, () -> {
            try (KafkaConsumer<String, String> from = consumer("auto.offset.reset", "none")) {
                TopicPartition partition = new TopicPartition("data", 0);
                from.assign(List.of(partition));
                from.seek(partition, 1_000_000);
                return from.poll(Duration.ofSeconds(5));
            }
        }));
        check("consumer metadata of commits", () -> {
            TopicPartition partition = new TopicPartition("data", 0);
            try (KafkaConsumer<String, String> from = consumer("group.id", "meta")) {
                from.assign(List.of(partition));
                from.commitSync(Map.of(partition, new OffsetAndMetadata(5, Optional.of(0), "remember")));
                OffsetAndMetadata found = from.committed(Set.of(partition)).get(partition);
                same(found.metadata(), "remember");
                same(found.offset(), 5L);
                same(found.leaderEpoch(), Optional.of(0));
            }
        });
        check("consumer small fetches", () -> {
            try (KafkaConsumer<String, String> from = consumer("max.partition.fetch.bytes", 500, "fetch.max.bytes", 600, "max.poll.records", 7)) {
                from.assign(List.of(new TopicPartition("data", 0)));
                want(read(from, 300, 20).size() >= 300, "records");
            }
        });
        check("consumer by duration", () -> {
            try (KafkaConsumer<String, String> from = consumer("group.id", "dur", "auto.offset.reset", "by_duration:PT1H")) {
                from.subscribe(List.of("many"));
                want(read(from, 100, 20).size() >= 100, "records");
            }
        });
    }

    static void transactions() throws Exception {
        topic("paid", 2);
        check("transaction commits and aborts", () -> {
            try (KafkaProducer<String, String> to = producer("transactional.id", "t1")) {
                to.initTransactions();
                for (int turn = 0; turn < 4; turn++) {
                    to.beginTransaction();
                    for (int number = 0; number < 5; number++) to.send(new ProducerRecord<>("paid", "k" + number, "turn" + turn));
                    if (turn % 2 == 0) to.commitTransaction();
                    else {
                        to.flush();
                        to.abortTransaction();
                    }
                }
            }
            same(readAll("paid", "read_committed", 11).size(), 10);
            same(readAll("paid", "read_uncommitted", 21).size(), 20);
        });
        check("transaction with offsets", () -> {
            TopicPartition partition = new TopicPartition("data", 0);
            try (KafkaConsumer<String, String> from = consumer("group.id", "eos");
                 KafkaProducer<String, String> to = producer("transactional.id", "t2")) {
                to.initTransactions();
                from.subscribe(List.of("data"));
                want(!read(from, 1, 20).isEmpty(), "nothing read");
                to.beginTransaction();
                to.send(new ProducerRecord<>("paid", "x", "y"));
                to.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7, "m")), from.groupMetadata());
                to.commitTransaction();
                same(from.committed(Set.of(partition)).get(partition).offset(), 7L);
            }
        });
        check("transaction of a fenced producer", () -> {
            KafkaProducer<String, String> old = producer("transactional.id", "t3");
            old.initTransactions();
            old.beginTransaction();
            old.send(new ProducerRecord<>("paid", "x", "old")).get();
            try (KafkaProducer<String, String> young = producer("transactional.id", "t3")) {
                young.initTransactions();
                refused(KafkaException.class, () -> {
                    old.send(new ProducerRecord<>("paid", "x", "old")).get();
                    old.commitTransaction();
                    return null;
                });
                young.beginTransaction();
                young.send(new ProducerRecord<>("paid", "x", "young")).get();
                young.commitTransaction();
            } finally {
                old.close(Duration.ZERO);
            }
            want(readAll("paid", "read_committed", 30).stream().noneMatch(one -> "old".equals(one.value())), "aborted data read");
        });
        check("listTransactions, describeTransactions, describeProducers", () -> {
            try (KafkaProducer<String, String> to = producer("transactional.id", "t4")) {
                to.initTransactions();
                to.beginTransaction();
                to.send(new ProducerRecord<>("paid", 0, "x", "y")).get();
                Collection<TransactionListing> all = get(admin.listTransactions().all());
                TransactionListing ours = all.stream().filter(one -> one.transactionalId().equals("t4")).findFirst().get();
                same(ours.state(), TransactionState.ONGOING);
                same(get(admin.listTransactions(new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))).all()).size(), 1);
                same(get(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("t[12]")).all()).size(), 2);
                TransactionDescription told = get(admin.describeTransactions(List.of("t4")).description("t4"));
                same(told.topicPartitions(), Set.of(new TopicPartition("paid", 0)));
                same(told.producerId(), ours.producerId());
                TopicPartition partition = new TopicPartition("paid", 0);
                List<ProducerState> producers = get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers();
                want(producers.stream().anyMatch(one -> one.producerId() == ours.producerId() && one.currentTransactionStartOffset().isPresent()), producers);
                to.abortTransaction();
            }
        });
        check("fenceProducers", () -> {
            try (KafkaProducer<String, String> to = producer("transactional.id", "t5")) {
                to.initTransactions();
                to.beginTransaction();
                to.send(new ProducerRecord<>("paid", 0, "x", "y")).get();
                get(admin.fenceProducers(List.of("t5")).all());
                refused(KafkaException.class, () -> {
                    to.commitTransaction();
                    return null;
                });
            }
        });
        check("forceTerminateTransaction", () -> {
            try (KafkaProducer<String, String> to = producer("transactional.id", "t6")) {
                to.initTransactions();
                to.beginTransaction();
                to.send(new ProducerRecord<>("paid", 0, "x", "y")).get();
                get(admin.forceTerminateTransaction("t6").result());
            }
        });
        check("abortTransaction (a hanging one)", () -> {
            try (KafkaProducer<String, String> to = producer("transactional.id", "t7")) {
                to.initTransactions();
                to.beginTransaction();
                to.send(new ProducerRecord<>("paid", 0, "x", "y")).get();
                TopicPartition partition = new TopicPartition("paid", 0);
                ProducerState one = get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers().stream()
                    .filter(state -> state.currentTransactionStartOffset().isPresent()).findFirst().get();
                get(admin.abortTransaction(new AbortTransactionSpec(partition, one.producerId(), (short) one.producerEpoch(), one.coordinatorEpoch().orElse(0))).all());
            }
        });
    }

    static void groups() throws Exception {
        try (KafkaConsumer<String, String> classic = consumer("group.id", "live-classic");
             KafkaConsumer<String, String> modern = consumer("group.id", "live-consumer", "group.protocol", "consumer")) {
            classic.subscribe(List.of("many"));
            modern.subscribe(List.of("many"));
            read(classic, 10, 20);
            read(modern, 10, 20);
            classic.commitSync();
            modern.commitSync();
            check("listGroups", () -> {
                Map<String, GroupListing> found = new HashMap<>();
                for (GroupListing one : get(admin.listGroups().all())) found.put(one.groupId(), one);
                same(found.get("live-classic").type(), Optional.of(GroupType.CLASSIC));
                same(found.get("live-consumer").type(), Optional.of(GroupType.CONSUMER));
                same(found.get("live-consumer").groupState(), Optional.of(GroupState.STABLE));
                want(get(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all()).stream().noneMatch(one -> one.groupId().equals("live-classic")), "type");
                want(get(admin.listGroups(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY))).all()).stream().noneMatch(one -> one.groupId().equals("live-classic")), "state");
            });
            check("listConsumerGroups", () -> want(get(admin.listConsumerGroups().all()).stream().anyMatch(one -> one.groupId().equals("live-classic")), "not there"));
            check("describeConsumerGroups", () -> {
                Map<String, ConsumerGroupDescription> found = get(admin.describeConsumerGroups(List.of("live-classic", "live-consumer"), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all());
                for (ConsumerGroupDescription one : found.values()) {
                    same(one.members().size(), 1);
                    same(one.groupState(), GroupState.STABLE);
                    same(one.members().iterator().next().assignment().topicPartitions().size(), 2);
                    want(one.authorizedOperations() != null, "operations");
                }
                same(found.get("live-consumer").partitionAssignor(), "uniform");
                same(found.get("live-classic").partitionAssignor(), "range");
            });
            check("describeClassicGroups", () -> same(get(admin.describeClassicGroups(List.of("live-classic")).all()).get("live-classic").members().size(), 1));
            check("describeConsumerGroups unknown", () -> refused(GroupIdNotFoundException.class, () -> get(admin.describeConsumerGroups(List.of("no-such-group")).all())));
            check("listConsumerGroupOffsets", () -> {
                want(get(admin.listConsumerGroupOffsets("live-classic").partitionsToOffsetAndMetadata()).size() == 2, "offsets");
                Map<String, Map<TopicPartition, OffsetAndMetadata>> all = get(admin.listConsumerGroupOffsets(Map.of("live-classic", new ListConsumerGroupOffsetsSpec(), "live-consumer", new ListConsumerGroupOffsetsSpec())).all());
                same(all.get("live-consumer").size(), 2);
            });
            check("alterConsumerGroupOffsets of a live group", () -> refused(ApiException.class, () -> get(admin.alterConsumerGroupOffsets("live-classic", Map.of(new TopicPartition("many", 0), new OffsetAndMetadata(1))).all())));
            check("deleteConsumerGroups of a live group", () -> refused(GroupNotEmptyException.class, () -> get(admin.deleteConsumerGroups(List.of("live-consumer")).all())));
            check("deleteConsumerGroupOffsets of a subscribed topic", () -> refused(GroupSubscribedToTopicException.class, () -> get(admin.deleteConsumerGroupOffsets("live-classic", Set.of(new TopicPartition("many", 0))).all())));
            check("removeMembersFromConsumerGroup", () -> {
                try (KafkaConsumer<String, String> fixed = consumer("group.id", "removing", "group.instance.id", "fixed")) {
                    fixed.subscribe(List.of("many"));
                    read(fixed, 1, 20);
                    get(admin.removeMembersFromConsumerGroup("removing", new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("fixed")))).all());
                    same(get(admin.describeConsumerGroups(List.of("removing")).all()).get("removing").members().size(), 0);
                }
            });
        }
        check("alterConsumerGroupOffsets", () -> {
            TopicPartition partition = new TopicPartition("many", 0);
            get(admin.alterConsumerGroupOffsets("live-classic", Map.of(partition, new OffsetAndMetadata(3))).all());
            same(get(admin.listConsumerGroupOffsets("live-classic").partitionsToOffsetAndMetadata()).get(partition).offset(), 3L);
        });
        check("deleteConsumerGroupOffsets", () -> {
            TopicPartition partition = new TopicPartition("many", 0);
            get(admin.deleteConsumerGroupOffsets("live-classic", Set.of(partition)).all());
            want(get(admin.listConsumerGroupOffsets("live-classic").partitionsToOffsetAndMetadata()).get(partition) == null, "still there");
        });
        check("deleteConsumerGroups", () -> {
            get(admin.deleteConsumerGroups(List.of("live-classic", "live-consumer")).all());
            want(get(admin.listGroups().all()).stream().noneMatch(one -> one.groupId().equals("live-classic")), "still there");
        });
        check("deleteConsumerGroups unknown", () -> refused(GroupIdNotFoundException.class, () -> get(admin.deleteConsumerGroups(List.of("no-such-group")).all())));
    }

    static void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "data");
        String node = String.valueOf(get(admin.describeCluster().nodes()).iterator().next().id());
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node);
        ConfigResource everyBroker = new ConfigResource(ConfigResource.Type.BROKER, "");
        check("describeConfigs of a topic", () -> {
            Config found = get(admin.describeConfigs(List.of(topic), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all()).get(topic);
            ConfigEntry one = found.get("retention.bytes");
            same(one.type(), ConfigEntry.ConfigType.LONG);
            same(one.source(), ConfigEntry.ConfigSource.DEFAULT_CONFIG);
            same(found.get("segment.bytes").type(), ConfigEntry.ConfigType.INT);
            same(found.get("cleanup.policy").type(), ConfigEntry.ConfigType.LIST);
            same(found.get("min.cleanable.dirty.ratio").type(), ConfigEntry.ConfigType.DOUBLE);
            same(found.get("preallocate").type(), ConfigEntry.ConfigType.BOOLEAN);
            want(one.documentation() != null && !one.documentation().isEmpty(), "no documentation");
            want(!found.get("segment.bytes").synonyms().isEmpty(), "no synonyms");
        });
        check("describeConfigs of a broker", () -> {
            Config found = get(admin.describeConfigs(List.of(broker)).all()).get(broker);
            for (String name : List.of("advertised.listeners", "listeners", "log.dirs", "node.id", "num.partitions", "log.retention.ms", "message.max.bytes", "default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor", "auto.create.topics.enable", "group.coordinator.rebalance.protocols", "group.consumer.assignors"))
                want(found.get(name) != null, name);
            same(found.get("log.cleaner.min.cleanable.ratio").type(), ConfigEntry.ConfigType.DOUBLE);
            same(found.get("node.id").isReadOnly(), true);
        });
        check("incrementalAlterConfigs", () -> {
            get(admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "1000000001"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all());
            Config found = get(admin.describeConfigs(List.of(topic)).all()).get(topic);
            same(found.get("retention.ms").value(), "1000000001");
            same(found.get("retention.ms").source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
            same(found.get("cleanup.policy").value(), "delete,compact");
            get(admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SUBTRACT)))).all());
            same(get(admin.describeConfigs(List.of(topic)).all()).get(topic).get("retention.ms").value(), "604800000");
        });
        check("incrementalAlterConfigs wrong value", () -> refused(InvalidConfigurationException.class, () -> get(admin.incrementalAlterConfigs(Map.of(topic, List.of(new AlterConfigOp(new ConfigEntry("segment.bytes", "-5"), AlterConfigOp.OpType.SET)))).all())));
        check("incrementalAlterConfigs of brokers", () -> {
            for (ConfigResource one : List.of(broker, everyBroker)) {
                get(admin.incrementalAlterConfigs(Map.of(one, List.of(new AlterConfigOp(new ConfigEntry("log.cleaner.threads", "2"), AlterConfigOp.OpType.SET)))).all());
                eventually(() -> same(get(admin.describeConfigs(List.of(one)).all()).get(one).get("log.cleaner.threads").value(), "2"));
                get(admin.incrementalAlterConfigs(Map.of(one, List.of(new AlterConfigOp(new ConfigEntry("log.cleaner.threads", null), AlterConfigOp.OpType.DELETE)))).all());
            }
        });
        check("incrementalAlterConfigs read-only", () -> refused(InvalidRequestException.class, () -> get(admin.incrementalAlterConfigs(Map.of(broker, List.of(new AlterConfigOp(new ConfigEntry("node.id", "2"), AlterConfigOp.OpType.SET)))).all())));
        check("configs of groups", () -> {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "g");
            get(admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(new ConfigEntry("consumer.session.timeout.ms", "50000"), AlterConfigOp.OpType.SET)))).all());
            eventually(() -> {
                ConfigEntry found = get(admin.describeConfigs(List.of(group)).all()).get(group).get("consumer.session.timeout.ms");
                same(found.value(), "50000");
                same(found.source(), ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG);
            });
        });
        check("configs of client metrics", () -> {
            ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "m");
            get(admin.incrementalAlterConfigs(Map.of(metrics, List.of(new AlterConfigOp(new ConfigEntry("interval.ms", "60000"), AlterConfigOp.OpType.SET)))).all());
            eventually(() -> same(get(admin.describeConfigs(List.of(metrics)).all()).get(metrics).get("interval.ms").value(), "60000"));
            want(get(admin.listConfigResources(Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all()).contains(metrics), "not listed");
        });
        check("configs of loggers", () -> {
            ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, node);
            want(!get(admin.describeConfigs(List.of(logger)).all()).get(logger).entries().isEmpty(), "none");
        });
        check("client quotas", () -> {
            ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
            get(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 5000.0))))).all());
            eventually(() -> same(get(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).get(entity).get("producer_byte_rate"), 5000.0));
        });
        check("user scram credentials", () -> {
            get(admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all());
            eventually(() -> same(get(admin.describeUserScramCredentials(List.of("alice")).all()).get("alice").credentialInfos().size(), 1));
            refused(ResourceNotFoundException.class, () -> get(admin.describeUserScramCredentials(List.of("nobody")).description("nobody")));
        });
    }

    static void rest() {
        check("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            want(get(found.nodes()).size() >= 1 && get(found.controller()) != null && !get(found.clusterId()).isEmpty(), "cluster");
            want(get(found.authorizedOperations()) != null, "operations");
        });
        check("describeFeatures", () -> want(get(admin.describeFeatures().featureMetadata()).finalizedFeatures().containsKey("transaction.version"), "features"));
        check("describeMetadataQuorum", () -> want(get(admin.describeMetadataQuorum().quorumInfo()).leaderId() > 0, "leader"));
        check("describeLogDirs", () -> {
            int node = get(admin.describeCluster().nodes()).iterator().next().id();
            Map<String, LogDirDescription> found = get(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node);
            want(found.values().iterator().next().replicaInfos().get(new TopicPartition("data", 0)).size() > 0, "size");
            TopicPartitionReplica replica = new TopicPartitionReplica("data", 0, node);
            want(get(admin.describeReplicaLogDirs(List.of(replica)).all()).get(replica).getCurrentReplicaLogDir() != null, "replica");
        });
        check("listOffsets", () -> {
            TopicPartition partition = new TopicPartition("data", 0);
            for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered()))
                get(admin.listOffsets(Map.of(partition, spec)).all());
            want(get(admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all()).get(partition).offset() > 400, "end");
            want(get(admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).all()).get(partition).timestamp() > 0, "time");
            same(get(admin.listOffsets(Map.of(partition, OffsetSpec.latestTiered())).all()).get(partition).offset(), -1L);
        });
        check("deleteRecords", () -> {
            TopicPartition partition = new TopicPartition("data", 0);
            same(get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(partition)).lowWatermark(), 10L);
            same(get(admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all()).get(partition).offset(), 10L);
            refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, () -> get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(1L << 40))).all()));
        });
        check("electLeaders", () -> refused(ElectionNotNeededException.class, () -> {
            Map<TopicPartition, Optional<Throwable>> found = get(admin.electLeaders(ElectionType.PREFERRED, Set.of(new TopicPartition("data", 0))).partitions());
            throw new ExecutionException(found.get(new TopicPartition("data", 0)).get());
        }));
        check("partition reassignments", () -> {
            same(get(admin.listPartitionReassignments().reassignments()).size(), 0);
            int node = get(admin.describeCluster().nodes()).iterator().next().id();
            get(admin.alterPartitionReassignments(Map.of(new TopicPartition("data", 0), Optional.of(new NewPartitionReassignment(List.of(node))))).all());
            refused(NoReassignmentInProgressException.class, () -> get(admin.alterPartitionReassignments(Map.of(new TopicPartition("data", 0), Optional.empty())).all()));
        });
        check("acls", () -> {
            AclBinding one = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "data", PatternType.LITERAL), new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
            if (System.getenv("AUTHORIZER") == null) {
                refused(SecurityDisabledException.class, () -> get(admin.createAcls(List.of(one)).all()));
                return;
            }
            get(admin.createAcls(List.of(one)).all());
            same(get(admin.describeAcls(AclBindingFilter.ANY).values()).size(), 1);
            same(get(admin.deleteAcls(List.of(one.toFilter())).all()).size(), 1);
        });
        check("updateFeatures", () -> get(admin.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all()));
        check("clientInstanceId", () -> {
            try (KafkaProducer<String, String> to = producer("enable.metrics.push", true)) {
                to.clientInstanceId(Duration.ofSeconds(10));
            }
        });
        check("metrics", () -> want(!admin.metrics().isEmpty(), "none"));
    }

    static void shareGroups() throws Exception {
        topic("shared", 2);
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "share");
        check("share group reads and acknowledges", () -> {
            get(admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all());
            fill("shared", 100);
            Set<String> seen = new TreeSet<>();
            int[] rejected = {0};
            try (KafkaShareConsumer<String, String> from = new KafkaShareConsumer<>(properties("group.id", "share", "share.acknowledgement.mode", "explicit"), new StringDeserializer(), new StringDeserializer())) {
                from.subscribe(List.of("shared"));
                long end = System.nanoTime() + 30_000_000_000L;
                while (seen.size() < 100 && System.nanoTime() < end) {
                    for (ConsumerRecord<String, String> one : from.poll(Duration.ofMillis(500))) {
                        boolean again = one.deliveryCount().orElse((short) 1) > 1;
                        AcknowledgeType what = one.key().equals("k7") && !again ? AcknowledgeType.RELEASE : one.key().equals("k8") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
                        if (what == AcknowledgeType.RELEASE) rejected[0]++;
                        else seen.add(one.key());
                        from.acknowledge(one, what);
                    }
                    for (Optional<KafkaException> problem : from.commitSync().values()) if (problem.isPresent()) throw problem.get();
                }
                same(seen.size(), 100);
                same(rejected[0], 1);
                same(get(admin.describeShareGroups(List.of("share")).all()).get("share").members().size(), 1);
                want(get(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.SHARE))).all()).stream().anyMatch(one -> one.groupId().equals("share")), "not listed");
            }
        });
        check("share group offsets", () -> {
            Map<String, Map<TopicPartition, SharePartitionOffsetInfo>> found = get(admin.listShareGroupOffsets(Map.of("share", new ListShareGroupOffsetsSpec())).all());
            same(found.get("share").size(), 2);
            get(admin.alterShareGroupOffsets("share", Map.of(new TopicPartition("shared", 0), 0L)).all());
            get(admin.deleteShareGroupOffsets("share", Set.of("shared")).all());
            get(admin.deleteShareGroups(List.of("share")).all());
        });
    }

    static KafkaShareConsumer<String, String> sharing(String group, Object... pairs) {
        Properties made = properties("group.id", group, "share.acknowledgement.mode", "explicit");
        for (int index = 0; index < pairs.length; index += 2) made.put(pairs[index], String.valueOf(pairs[index + 1]));
        return new KafkaShareConsumer<>(made, new StringDeserializer(), new StringDeserializer());
    }

    static void shareSetting(String group, String name, String value) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)))).all());
    }

    /** Poll until so many records came or time is over; each with how often it was delivered, all answered the same. */
    static List<String> shared(KafkaShareConsumer<String, String> from, int count, int seconds, AcknowledgeType what) {
        List<String> found = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (found.size() < count && System.nanoTime() < end) {
            for (ConsumerRecord<String, String> one : from.poll(Duration.ofMillis(300))) {
                found.add(one.key() + " " + one.deliveryCount().orElse((short) 0));
                if (what != null) from.acknowledge(one, what);
            }
            if (what != null) from.commitSync();
        }
        return found;
    }

    static void shareRules() throws Exception {
        topic("shared-one", 1);
        check("share group is made by its offsets", () -> {
            get(admin.alterShareGroupOffsets("share-made", Map.of(new TopicPartition("shared-one", 0), 3L)).all());
            var offsets = get(admin.listShareGroupOffsets(Map.of("share-made", new ListShareGroupOffsetsSpec())).all()).get("share-made");
            same(offsets.get(new TopicPartition("shared-one", 0)).startOffset(), 3L);
            want(get(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.SHARE))).all()).stream().anyMatch(one -> one.groupId().equals("share-made")), "not listed");
        });
        check("share group gives whole batches", () -> {
            shareSetting("share-batch", "share.auto.offset.reset", "earliest");
            try (KafkaProducer<String, String> to = producer("linger.ms", "500")) {
                for (int number = 0; number < 60; number++) to.send(new ProducerRecord<>("shared-one", 0, "k" + number, "v"));
            }
            try (var from = sharing("share-batch", "max.poll.records", "10")) {
                from.subscribe(List.of("shared-one"));
                int first = 0;
                for (int left = 60; left > 0 && first == 0; left--) {
                    var records = from.poll(Duration.ofMillis(500));
                    first = records.count();
                    for (ConsumerRecord<String, String> one : records) from.acknowledge(one);
                }
                same(first, 60);
            }
        });
        topic("shared-tx", 1);
        check("share group reads committed records", () -> {
            shareSetting("share-tx", "share.auto.offset.reset", "earliest");
            shareSetting("share-tx", "share.isolation.level", "read_committed");
            try (var to = producer("transactional.id", "share-tx"); var from = sharing("share-tx")) {
                to.initTransactions();
                for (String outcome : List.of("aborted", "committed", "open")) {
                    to.beginTransaction();
                    for (int number = 0; number < 3; number++) to.send(new ProducerRecord<>("shared-tx", outcome + number, "v"));
                    to.flush();
                    if (outcome.equals("aborted")) to.abortTransaction();
                    if (outcome.equals("committed")) to.commitTransaction();
                }
                from.subscribe(List.of("shared-tx"));
                same(shared(from, 3, 30, AcknowledgeType.ACCEPT), List.of("committed0 1", "committed1 1", "committed2 1"));
                same(shared(from, 1, 2, AcknowledgeType.ACCEPT), List.of());
                to.commitTransaction();
                same(shared(from, 3, 30, AcknowledgeType.ACCEPT), List.of("open0 1", "open1 1", "open2 1"));
            }
        });
        topic("shared-often", 1);
        fill("shared-often", 2);
        check("share group counts deliveries, up to its limit", () -> {
            shareSetting("share-often", "share.auto.offset.reset", "earliest");
            shareSetting("share-often", "share.delivery.count.limit", "3");
            try (var from = sharing("share-often")) {
                from.subscribe(List.of("shared-often"));
                List<String> found = shared(from, 6, 30, AcknowledgeType.RELEASE);
                found.sort(null);
                same(found, List.of("k0 1", "k0 2", "k0 3", "k1 1", "k1 2", "k1 3"));
                same(shared(from, 1, 2, AcknowledgeType.RELEASE), List.of());
            }
        });
        topic("shared-locked", 1);
        fill("shared-locked", 1);
        check("share locks run out", () -> {
            shareSetting("share-locked", "share.auto.offset.reset", "earliest");
            shareSetting("share-locked", "share.record.lock.duration.ms", "15000");
            try (var one = sharing("share-locked"); var other = sharing("share-locked")) {
                one.subscribe(List.of("shared-locked"));
                same(shared(one, 1, 30, null), List.of("k0 1"));
                long began = System.nanoTime();
                other.subscribe(List.of("shared-locked"));
                same(shared(other, 1, 60, AcknowledgeType.ACCEPT), List.of("k0 2"));
                long took = (System.nanoTime() - began) / 1_000_000;
                want(took > 12_000, took + " ms");
            }
        });
    }
}
