import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Kafka Streams counts by key, exactly once, until standard input ends: {@code Counts HOST:PORT FROM TO STATE}. */
public class Counts {
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "application.id", given[1] + "-counts",
            "bootstrap.servers", given[0],
            "state.dir", given[3],
            "processing.guarantee", "exactly_once_v2",
            "commit.interval.ms", "100",
            "statestore.cache.max.bytes", "0", // every count goes out
            "default.key.serde", Serdes.StringSerde.class.getName(),
            "default.value.serde", Serdes.StringSerde.class.getName(),
            "consumer.auto.offset.reset", "earliest",
            "consumer.session.timeout.ms", "6000"));
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(given[1]).groupByKey().count().toStream().mapValues(String::valueOf).to(given[2]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        while (System.in.read() >= 0) continue;
        streams.close();
    }
}
