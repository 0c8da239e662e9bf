import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends and reads records until producer and consumer have authenticated anew so often: {@code Sessions FILE TIMES}.
 * Prints how many were sent, how many were read, and how often each has authenticated anew.
 */
public class Sessions {
    static long reauthentications(Map<MetricName, ? extends Metric> metrics) {
        double sum = 0;
        for (var entry : metrics.entrySet()) {
            if (entry.getKey().name().equals("successful-reauthentication-total")
                    && !entry.getKey().tags().containsKey("node-id")) {
                sum += (Double) entry.getValue().metricValue();
            }
        }
        return (long) sum;
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(args[0]), StandardCharsets.UTF_8)) {
            properties.load(reader);
        }
        long times = Long.parseLong(args[1]), end = System.nanoTime() + 60_000_000_000L;
        int sent = 0, read = 0;
        var target = new TopicPartition("sessions", 0);
        var ofBytes = new ByteArrayDeserializer();
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
                var consumer = new KafkaConsumer<>(properties, ofBytes, ofBytes)) {
            producer.send(new ProducerRecord<>("sessions", 0, null, new byte[10])).get();
            sent++;
            consumer.assign(List.of(target));
            consumer.seekToBeginning(List.of(target));
            while (System.nanoTime() < end && (reauthentications(producer.metrics()) < times
                    || reauthentications(consumer.metrics()) < times)) {
                producer.send(new ProducerRecord<>("sessions", 0, null, new byte[10])).get();
                sent++;
                read += consumer.poll(Duration.ofMillis(20)).count();
            }
            while (read < sent && System.nanoTime() < end) {
                read += consumer.poll(Duration.ofMillis(100)).count();
            }
            System.out.printf("%d sent, %d read, %d, %d%n", sent, read,
                reauthentications(producer.metrics()), reauthentications(consumer.metrics()));
        }
    }
}
