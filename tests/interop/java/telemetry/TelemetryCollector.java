import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/** A broker's plugin for client telemetry (KIP-714) that writes each point of each push as a line of a file. */
public class TelemetryCollector implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {

    private Path file;

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of((String) configs.get("test.telemetry.file"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        StringBuilder out = new StringBuilder();
        String push = context.clientId() + "\t" + payload.clientInstanceId() + "\t" + payload.isTerminating();
        try {
            ByteBuffer data = payload.data();
            byte[] bytes = new byte[data.remaining()];
            data.duplicate().get(bytes);
            for (ResourceMetrics resource : MetricsData.parseFrom(bytes).getResourceMetricsList()) {
                String client = push + "\t" + labels(resource.getResource().getAttributesList());
                for (ScopeMetrics scope : resource.getScopeMetricsList()) {
                    for (Metric metric : scope.getMetricsList()) {
                        append(out, client, metric);
                    }
                }
            }
            Files.writeString(file, out, StandardCharsets.UTF_8, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }

    private static void append(StringBuilder out, String client, Metric metric) {
        String kind = metric.getDataCase().toString();
        List<NumberDataPoint> points = metric.getGauge().getDataPointsList();
        if (metric.hasSum()) {
            kind += " " + metric.getSum().getAggregationTemporality() + " " + metric.getSum().getIsMonotonic();
            points = metric.getSum().getDataPointsList();
        }
        for (NumberDataPoint point : points) {
            out.append(client).append('\t').append(metric.getName()).append('\t').append(kind).append('\t')
                .append(labels(point.getAttributesList())).append('\t').append(point.getAsDouble()).append('\t')
                .append(point.getTimeUnixNano() - point.getStartTimeUnixNano()).append('\n');
        }
    }

    private static String labels(List<KeyValue> attributes) {
        Map<String, String> result = new TreeMap<>();
        attributes.forEach(entry -> result.put(entry.getKey(), entry.getValue().getStringValue()));
        return result.toString();
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }
}
