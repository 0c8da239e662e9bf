import java.io.DataInputStream;
import java.io.EOFException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * How fast does Kafka's LogValidator take batches? Arguments: SECONDS MAGIC SOURCE TARGET FILE, the file being batches
 * with a four-byte size before each. Answers "IN_PLACE NEXT BYTES NANOSECONDS": how many batches were taken in place,
 * the offset after the last, the size of the result, and the CPU time of the best of several rounds.
 */
public final class AppendSpeed {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        byte magic = Byte.parseByte(arguments[1]);
        CompressionType source = CompressionType.forName(arguments[2]);
        Compression target = Compression.of(CompressionType.forName(arguments[3])).build();
        List<byte[]> batches = read(Path.of(arguments[4]));
        BufferSupplier buffers = BufferSupplier.create();
        long best = Long.MAX_VALUE;
        long inPlace = 0;
        long bytes = 0;
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(0);
        while (System.nanoTime() < end) {
            inPlace = 0;
            bytes = 0;
            offset = PrimitiveRef.ofLong(0);
            long start = THREADS.getCurrentThreadCpuTime();
            for (byte[] batch : batches) {
                MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(batch.clone()));
                for (MutableRecordBatch one : records.batches()) {
                    one.ensureValid();
                }
                LogValidator validator = new LogValidator(records, new TopicPartition("topic", 0), Time.SYSTEM, source,
                    target, false, magic, TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 5,
                    AppendOrigin.CLIENT, MetadataVersion.latestTesting());
                MemoryRecords result = validator.validateMessagesAndAssignOffsets(offset, new NoMetrics(), buffers).validatedRecords;
                inPlace += result == records ? 1 : 0;
                bytes += result.sizeInBytes();
            }
            best = Math.min(best, THREADS.getCurrentThreadCpuTime() - start);
        }
        System.out.println(inPlace + " " + offset.value + " " + bytes + " " + best);
    }

    private static List<byte[]> read(Path path) throws Exception {
        List<byte[]> batches = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(Files.newInputStream(path))) {
            while (true) {
                batches.add(in.readNBytes(in.readInt()));
            }
        } catch (EOFException end) {
            return batches;
        }
    }

    private static final class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }
}
