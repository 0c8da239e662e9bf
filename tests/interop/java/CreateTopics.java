import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/** Creates topics, one replica each: bootstrap servers, then NAME:PARTITIONS. */
public final class CreateTopics {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", arguments[0]))) {
            var topics = Arrays.stream(arguments).skip(1).map(text -> text.split(":"))
                .map(words -> new NewTopic(words[0], Integer.parseInt(words[1]), (short) 1)).toList();
            admin.createTopics(topics).all().get();
        }
    }
}
