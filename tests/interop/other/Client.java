import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Kafka's own client, asked as tests/interop/trials.py says: {@code Client PROTOCOL HOST:PORT VERB ARGUMENTS}. */
public class Client {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";

    static synchronized void say(String word, Object value) {
        System.out.println(word + " " + value.toString().replaceAll("\\.+$", ""));
    }

    static String made(String prefix, int number) {
        return prefix + "-" + number + ".".repeat(200);
    }

    static Properties settings(String bootstrap, String... more) {
        Properties made = new Properties();
        made.put("bootstrap.servers", bootstrap);
        made.put("key.serializer", STRINGS + "Serializer");
        made.put("value.serializer", STRINGS + "Serializer");
        made.put("key.deserializer", STRINGS + "Deserializer");
        made.put("value.deserializer", STRINGS + "Deserializer");
        for (int at = 0; at < more.length; at += 2) made.put(more[at], more[at + 1]);
        return made;
    }

    static void write(String bootstrap, String topic, String prefix, int count, String codec, int pause) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(bootstrap, "compression.type", codec))) {
            for (int number = 0; number < count; number++) {
                String value = made(prefix, number);
                producer.send(new ProducerRecord<>(topic, value), (told, error) -> say(error == null ? "acked" : "failed", value));
                Thread.sleep(pause);
            }
        }
    }

    static void read(String protocol, String bootstrap, String topic, String group) {
        AtomicBoolean ended = new AtomicBoolean();
        Thread waiting = new Thread(() -> {
            try {
                while (System.in.read() >= 0) continue;
            } catch (java.io.IOException closed) {
                // as at its end
            }
            ended.set(true);
        });
        waiting.setDaemon(true);
        waiting.start();
        Properties settings = settings(bootstrap, "group.id", group, "auto.offset.reset", "earliest");
        if (protocol.equals("consumer")) settings.put("group.protocol", protocol);
        else settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (!ended.get())
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) say("read", one.value());
        }
    }

    static void transact(String bootstrap, String topic) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(bootstrap, "transactional.id", topic))) {
            producer.initTransactions();
            for (String prefix : List.of("kept", "gone", "kept-too")) {
                producer.beginTransaction();
                for (int number = 0; number < 5; number++) producer.send(new ProducerRecord<>(topic, made(prefix, number)));
                producer.flush();
                if (prefix.equals("gone")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
    }

    static void admin(String bootstrap, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            say("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            admin.deleteTopics(List.of(topic)).all().get();
            say("there", admin.listTopics().names().get().contains(topic));
        }
    }

    public static void main(String[] given) throws Exception {
        String bootstrap = given[1];
        switch (given[2]) {
            case "write" -> write(bootstrap, given[3], given[4], Integer.parseInt(given[5]), given[6], Integer.parseInt(given[7]));
            case "read" -> read(given[0], bootstrap, given[3], given[4]);
            case "transact" -> transact(bootstrap, given[3]);
            case "admin" -> admin(bootstrap, given[3]);
            default -> throw new IllegalArgumentException(given[2]);
        }
    }
}
