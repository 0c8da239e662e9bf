import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What Java's share consumer does in the scenarios of test_share_consumer.py: {@code ShareProbe BOOTSTRAP}, a line each. */
public class ShareProbe {
    static String bootstrap;

    static KafkaShareConsumer<String, String> consumer(String topic, String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", topic);
        settings.put("share.acknowledgement.mode", "explicit");
        for (int index = 0; index < pairs.length; index += 2) settings.put(pairs[index], pairs[index + 1]);
        var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    /** Poll until records are returned, or the time is over. */
    static List<ConsumerRecord<String, String>> poll(KafkaShareConsumer<String, String> from, int seconds) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (records.isEmpty() && System.nanoTime() < end) from.poll(Duration.ofMillis(300)).forEach(records::add);
        return records;
    }

    static String text(List<ConsumerRecord<String, String>> records) {
        TreeSet<String> texts = new TreeSet<>();
        for (var record : records) texts.add(record.value() + "x" + record.deliveryCount().orElse((short) 0));
        return String.join(" ", texts);
    }

    static String commit(KafkaShareConsumer<String, String> from) {
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> result : from.commitSync().entrySet())
            if (result.getValue().isPresent()) return Errors.forException((ApiException) result.getValue().get()).name();
        return "NONE";
    }

    static void say(String name, Object value) {
        System.out.println("result\t" + name + "\t" + value);
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (var from = consumer("types-java")) {
            var records = poll(from, 60);
            say("types first", text(records));
            AcknowledgeType[] types = {AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT};
            for (var record : records) from.acknowledge(record, types[Integer.parseInt(record.value()) % 3]);
            say("types commit", commit(from));
            records = poll(from, 60);
            say("types again", text(records));
            for (var record : records) from.acknowledge(record);
            say("types commit again", commit(from));
            say("types rest", text(poll(from, 2)));
        }
        try (var from = consumer("limit-java", "max.poll.records", "3", "share.acquire.mode", "record_limit")) {
            List<Integer> counts = new ArrayList<>();
            for (int left = 10; left > 0; left -= counts.get(counts.size() - 1)) {
                var records = poll(from, 60);
                counts.add(records.size());
                for (var record : records) from.acknowledge(record);
                commit(from);
            }
            say("record_limit", counts);
        }
        try (var from = consumer("batch-java", "max.poll.records", "3")) {
            var records = poll(from, 60);
            say("batch_optimized", records.size());
            for (var record : records) from.acknowledge(record);
            commit(from);
        }
        try (var from = consumer("expiry-java")) {
            var records = poll(from, 60);
            say("lock", from.acquisitionLockTimeoutMs().get());
            Thread.sleep(4_000);
            for (var record : records) from.acknowledge(record);
            say("expiry commit", commit(from));
            records = poll(from, 60);
            say("expiry again", text(records));
            for (var record : records) from.acknowledge(record);
            say("expiry commit again", commit(from));
        }
        try (var from = consumer("count-java")) {
            TreeSet<String> texts = new TreeSet<>();
            for (var records = poll(from, 60); !records.isEmpty(); records = poll(from, 3)) {
                texts.addAll(List.of(text(records).split(" ")));
                for (var record : records) from.acknowledge(record, AcknowledgeType.RELEASE);
                commit(from);
            }
            say("deliveries", String.join(" ", texts));
        }
        try (var from = consumer("renew-java"); var other = consumer("renew-java")) {
            var records = poll(from, 60);
            for (int round = 0; round < 4; round++) {
                for (var record : records) from.acknowledge(record, AcknowledgeType.RENEW);
                say("renewal " + round, commit(from));
                say("other " + round, text(poll(other, 1)));
                records = poll(from, 10);
            }
            for (var record : records) from.acknowledge(record);
            say("renew commit", commit(from));
            say("renew rest", text(poll(other, 4)));
        }
    }
}
