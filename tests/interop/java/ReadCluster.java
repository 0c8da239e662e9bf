import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Everything that a live cluster tells of itself, as lines of words with tabs between: "cluster ID",
 * "topic NAME ID PARTITIONS", "config TOPIC NAME VALUE", "ends TOPIC PARTITION BEGIN END",
 * "record TOPIC PARTITION OFFSET TIMESTAMP TYPE KEY VALUE HEADERS" (bytes in hexadecimal, "-" for null),
 * "group GROUP TOPIC PARTITION OFFSET". The arguments: bootstrap servers, isolation level, and how many records to
 * append to each partition of the users' topics after that.
 */
public final class ReadCluster {
    private static final int QUIET_POLLS = 75; // of 200 ms

    public static void main(String[] arguments) throws Exception {
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        StringBuilder out = new StringBuilder();
        List<TopicPartition> partitions = new ArrayList<>();
        try (Admin admin = Admin.create(common)) {
            line(out, "cluster", admin.describeCluster().clusterId().get());
            describe(admin, out, partitions);
            groups(admin, out);
        }
        common.put("isolation.level", arguments[1]);
        consume(common, partitions, out);
        append(common, partitions, Integer.parseInt(arguments[2]));
        System.out.print(out);
    }

    private static void describe(Admin admin, StringBuilder out, List<TopicPartition> partitions) throws Exception {
        var names = new TreeSet<>(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get());
        for (var topic : new TreeMap<>(admin.describeTopics(names).allTopicNames().get()).values()) {
            line(out, "topic", topic.name(), topic.topicId(), topic.partitions().size());
            for (var partition : topic.partitions()) {
                partitions.add(new TopicPartition(topic.name(), partition.partition()));
            }
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic.name());
            for (var entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                if (entry.source().name().equals("DYNAMIC_TOPIC_CONFIG")) {
                    line(out, "config", topic.name(), entry.name(), entry.value());
                }
            }
        }
    }

    private static void groups(Admin admin, StringBuilder out) throws Exception {
        for (var group : admin.listConsumerGroups().all().get()) {
            Map<TopicPartition, OffsetAndMetadata> offsets =
                admin.listConsumerGroupOffsets(group.groupId()).partitionsToOffsetAndMetadata().get();
            for (var entry : offsets.entrySet()) {
                var partition = entry.getKey();
                line(out, "group", group.groupId(), partition.topic(), partition.partition(), entry.getValue().offset());
            }
        }
    }

    private static void consume(Properties common, List<TopicPartition> partitions, StringBuilder out) {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "50");
        boolean isCommitted = "read_committed".equals(common.get("isolation.level"));
        var plain = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, plain, plain)) {
            Map<TopicPartition, Long> begins = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            for (TopicPartition partition : partitions) {
                line(out, "ends", partition.topic(), partition.partition(), begins.get(partition), ends.get(partition));
            }
            consumer.assign(partitions);
            begins.forEach(consumer::seek);
            var left = new ArrayList<>(partitions);
            long deadline = System.currentTimeMillis() + 280_000;
            long positions = -1;
            int quietPolls = 0;
            // A last stable offset after a gap of offsets is never reached: no batch ends there.
            while (!left.isEmpty() && quietPolls < QUIET_POLLS) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("stuck in " + left);
                }
                for (var record : consumer.poll(java.time.Duration.ofMillis(200))) {
                    if (record.offset() < ends.get(new TopicPartition(record.topic(), record.partition()))) {
                        record(out, record);
                    }
                }
                var done = left.stream().filter(one -> consumer.position(one) >= ends.get(one)).toList();
                left.removeAll(done);
                consumer.pause(done);
                long sum = left.stream().mapToLong(consumer::position).sum();
                quietPolls = sum == positions && isCommitted ? quietPolls + 1 : 0;
                positions = sum;
            }
        }
    }

    private static void record(StringBuilder out, ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(header.key()).append('=').append(hex(header.value())).append(';');
        }
        line(out, "record", record.topic(), record.partition(), record.offset(), record.timestamp(),
            record.timestampType(), hex(record.key()), hex(record.value()), headers);
    }

    private static void append(Properties common, List<TopicPartition> partitions, int count) throws Exception {
        Properties settings = new Properties();
        settings.putAll(common);
        settings.remove("isolation.level");
        var plain = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, plain, plain)) {
            for (TopicPartition partition : partitions) {
                for (int number = 0; number < count && !partition.topic().startsWith("__"); number++) {
                    byte[] bytes = ("appended-" + number).getBytes();
                    producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), bytes, bytes)).get();
                }
            }
        }
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : java.util.HexFormat.of().formatHex(bytes);
    }

    private static void line(StringBuilder out, Object... words) {
        for (int number = 0; number < words.length; number++) {
            out.append(number == 0 ? "" : "\t").append(words[number]);
        }
        out.append('\n');
    }
}
