import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer and a consumer that push their metrics: PushingClients SERVERS TOPIC GROUP. */
public class PushingClients {

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("client.id", "java");
        properties.put("client.rack", "r1");
        properties.put("transactional.id", "java-id");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(arguments[1], "1")).get();
            producer.commitTransaction();
            producer.clientInstanceId(Duration.ofSeconds(60));
            Thread.sleep(3000);
        }
        properties.remove("transactional.id");
        properties.put("group.id", arguments[2]);
        properties.put("group.instance.id", "i1");
        properties.put("auto.offset.reset", "earliest");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[1]));
            long end = System.nanoTime() + 60_000_000_000L;
            while (consumer.poll(Duration.ofMillis(200)).isEmpty() && System.nanoTime() < end) {
            }
            consumer.commitSync();
            consumer.clientInstanceId(Duration.ofSeconds(60));
            for (int number = 0; number < 15; number++) {
                consumer.poll(Duration.ofMillis(200));
            }
        }
    }
}
