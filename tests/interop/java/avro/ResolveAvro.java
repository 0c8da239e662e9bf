import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericEnumSymbol;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/**
 * Reads lines {"writer": schema, "reader": schema, "values": [hex, ...]} and prints for each an array with what Avro's
 * generic reader makes of each value: {"v": datum} or {"error": message}. Data are tagged with their Java type; logical
 * types are not applied.
 */
public class ResolveAvro {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode pair = JSON.readTree(line);
            ArrayNode results = JSON.createArrayNode();
            Schema writer = null;
            Schema reader = null;
            String failure = null;
            try {
                writer = new Schema.Parser().parse(pair.get("writer").toString());
                reader = new Schema.Parser().parse(pair.get("reader").toString());
            } catch (RuntimeException error) {
                failure = "schema: " + error;
            }
            for (JsonNode value : pair.get("values")) {
                ObjectNode result = results.addObject();
                if (failure != null) {
                    result.put("error", failure);
                    continue;
                }
                try {
                    byte[] data = HexFormat.of().parseHex(value.asText());
                    BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
                    Object datum = new GenericDatumReader<Object>(writer, reader).read(null, decoder);
                    if (!decoder.isEnd()) {
                        throw new IllegalStateException("bytes are left");
                    }
                    result.set("v", tagged(datum));
                } catch (Exception error) {
                    result.put("error", error.toString());
                }
            }
            out.println(JSON.writeValueAsString(results));
        }
        out.flush();
    }

    private static JsonNode tagged(Object datum) {
        ArrayNode result = JSON.createArrayNode();
        if (datum == null) {
            return result.add("null");
        } else if (datum instanceof Integer number) {
            return result.add("int").add(number.toString());
        } else if (datum instanceof Long number) {
            return result.add("long").add(number.toString());
        } else if (datum instanceof Float number) {
            return result.add("float").add(Integer.toHexString(Float.floatToRawIntBits(number)));
        } else if (datum instanceof Double number) {
            return result.add("double").add(Long.toHexString(Double.doubleToRawLongBits(number)));
        } else if (datum instanceof Boolean flag) {
            return result.add("boolean").add(flag);
        } else if (datum instanceof CharSequence text) {
            return result.add("string").add(text.toString());
        } else if (datum instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return result.add("bytes").add(HexFormat.of().formatHex(bytes));
        } else if (datum instanceof GenericFixed fixed) {
            return result.add("fixed").add(HexFormat.of().formatHex(fixed.bytes())).add(fixed.getSchema().getFullName());
        } else if (datum instanceof GenericEnumSymbol<?> symbol) {
            return result.add("enum").add(symbol.toString());
        } else if (datum instanceof IndexedRecord fields) {
            ObjectNode values = JSON.createObjectNode();
            for (Schema.Field field : fields.getSchema().getFields()) {
                values.set(field.name(), tagged(fields.get(field.pos())));
            }
            return result.add("record").add(values).add(fields.getSchema().getFullName());
        } else if (datum instanceof Collection<?> items) {
            ArrayNode values = JSON.createArrayNode();
            items.forEach(item -> values.add(tagged(item)));
            return result.add("array").add(values);
        } else if (datum instanceof Map<?, ?> entries) {
            ObjectNode values = JSON.createObjectNode();
            entries.forEach((key, value) -> values.set(key.toString(), tagged(value)));
            return result.add("map").add(values);
        }
        throw new IllegalStateException(datum.getClass().toString());
    }
}
