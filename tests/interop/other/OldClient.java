import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A Java client of any release since 0.10 writes ten records and reads them back: {@code OldClient BOOTSTRAP TOPIC}. */
public class OldClient {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("group.id", topic + "-group");
        settings.put("auto.offset.reset", "earliest");
        settings.put("compression.type", "gzip");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        for (int number = 0; number < 10; number++) producer.send(new ProducerRecord<>(topic, "k", "value-" + number)).get();
        producer.close();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(Collections.singletonList(topic));
        List<String> found = new ArrayList<>();
        long end = System.currentTimeMillis() + 30_000;
        while (found.size() < 10 && System.currentTimeMillis() < end)
            for (ConsumerRecord<String, String> one : consumer.poll(200)) found.add('"' + one.value() + '"');
        consumer.commitSync();
        consumer.close();
        Collections.sort(found);
        System.out.println(found);
    }
}
