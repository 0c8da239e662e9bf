import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * How fast do Kafka's own classes turn a segment into arrays, CRC checked? For each file: warm up, then the best of
 * several rounds, as "NAME RECORDS CHECKSUM NANOSECONDS" (CPU time of this thread). Offsets and timestamps go into long arrays, keys and values
 * into one byte array each, the number of headers into an int array: what columns hold, without objects that stay.
 */
public final class ReaderSpeed {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final int PORTION = 1 << 16;
    private final long[] offsets = new long[PORTION];
    private final long[] timestamps = new long[PORTION];
    private final int[] headers = new int[PORTION];
    private final byte[] keys = new byte[1 << 24];
    private final byte[] values = new byte[1 << 24];
    private final BufferSupplier buffers = BufferSupplier.create();
    private long checksum;
    private long records;

    public static void main(String[] arguments) throws Exception {
        double seconds = Double.parseDouble(arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            new ReaderSpeed().measure(new File(arguments[i]), seconds);
        }
    }

    private void measure(File file, double seconds) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file.toPath()));
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long best = Long.MAX_VALUE;
        while (System.nanoTime() < end) {
            checksum = 0;
            records = 0;
            long start = THREADS.getCurrentThreadCpuTime();
            read(bytes.duplicate());
            best = Math.min(best, THREADS.getCurrentThreadCpuTime() - start);
        }
        System.out.println(file.getName() + " " + records + " " + checksum + " " + best);
    }

    private void read(ByteBuffer bytes) {
        int row = 0;
        int keyAt = 0;
        int valueAt = 0;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    if (row == PORTION || valueAt + record.valueSize() > values.length || keyAt + record.keySize() > keys.length) {
                        row = 0;
                        keyAt = 0;
                        valueAt = 0;
                    }
                    offsets[row] = record.offset();
                    timestamps[row] = record.timestamp();
                    headers[row] = record.headers().length;
                    keyAt += copy(record.key(), keys, keyAt);
                    valueAt += copy(record.value(), values, valueAt);
                    checksum += offsets[row] + timestamps[row] + headers[row] + record.valueSize();
                    row++;
                    records++;
                }
            }
        }
    }

    private static int copy(ByteBuffer from, byte[] to, int at) {
        if (from == null) {
            return 0;
        }
        int size = from.remaining();
        from.get(to, at, size);
        return size;
    }
}
