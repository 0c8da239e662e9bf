import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer group that goes on, and begins where it has committed nothing: bootstrap servers, isolation level, group,
 * topics with commas between. Joins the group, reads what it has not read, commits, and prints each record as
 * "TOPIC PARTITION OFFSET KEY VALUE", tabs between.
 */
public final class Continue {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("isolation.level", arguments[1]);
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        var plain = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, plain, plain)) {
            consumer.subscribe(List.of(arguments[3].split(",")));
            long deadline = System.currentTimeMillis() + 120_000;
            do {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(String.join("\t", record.topic(), "" + record.partition(), "" + record.offset(),
                        hex(record.key()), hex(record.value())));
                }
            } while (System.currentTimeMillis() < deadline && !isAtEnd(consumer));
            consumer.commitSync();
        }
    }

    private static boolean isAtEnd(KafkaConsumer<byte[], byte[]> consumer) {
        var assigned = consumer.assignment();
        var ends = consumer.endOffsets(assigned);
        return !assigned.isEmpty() && assigned.stream().allMatch(one -> consumer.position(one) >= ends.get(one));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HexFormat.of().formatHex(bytes);
    }
}
