import java.util.HexFormat;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends one record for each key and lets Kafka's default partitioner choose: bootstrap servers, topic, then keys in
 * hexadecimal. Prints "KEY PARTITION OFFSET", a tab between.
 */
public final class SendKeys {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        var plain = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, plain, plain)) {
            for (int at = 2; at < arguments.length; at++) {
                byte[] key = HexFormat.of().parseHex(arguments[at]);
                var sent = producer.send(new ProducerRecord<>(arguments[1], key, key)).get();
                System.out.println(arguments[at] + "\t" + sent.partition() + "\t" + sent.offset());
            }
        }
    }
}
