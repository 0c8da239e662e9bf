import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends without end until it is killed: bootstrap servers, then TOPIC:PARTITION one after the other, in turn. Prints each
 * record that was acknowledged as "TOPIC PARTITION OFFSET", tabs between; some are in flight at any time.
 */
public final class Flood {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("compression.type", "lz4");
        settings.put("linger.ms", "2");
        settings.put("buffer.memory", "200000");
        var plain = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, plain, plain)) {
            for (int number = 0; true; number++) {
                String[] target = arguments[1 + number % (arguments.length - 1)].split(":");
                byte[] bytes = ("flood-" + number).getBytes();
                producer.send(new ProducerRecord<>(target[0], Integer.valueOf(target[1]), bytes, bytes), (sent, failure) -> {
                    if (failure == null) {
                        System.out.println(sent.topic() + "\t" + sent.partition() + "\t" + sent.offset());
                        System.out.flush();
                    }
                });
            }
        }
    }
}
