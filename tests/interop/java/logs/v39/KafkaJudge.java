import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import kafka.log.Cleaner;
import kafka.log.LogCleanerManager$;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.runtime.BoxedUnit;

/** Kafka 3.9. */
public final class KafkaJudge implements LogTruth.Judge {
    /** Runs what is due within a time at once, and nothing else ever. */
    private record Patient(long dueMs) implements Scheduler {
        public void startup() {
        }

        public void shutdown() {
        }

        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            if (period < 0 && delay <= dueMs) task.run();
            return new Never();
        }

        public void resizeThreadPool(int size) {
        }
    }

    private static UnifiedLog open(LogTruth.Question asked) {
        int expiration = (int) asked.number("producer.id.expiration.ms", 86_400_000);
        return UnifiedLog.apply(asked.directory(), new LogConfig(asked.topic), asked.number("log_start", 0),
            asked.number("recovery_point", 0), new Patient(asked.number("wait", 0)), new BrokerTopicStats(false), new FixedTime(asked.number("now", 0)),
            300_000, new ProducerStateManagerConfig(expiration, false), 600_000, new LogDirFailureChannel(1), asked.isClean(),
            Option.empty(), true, new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
    }

    public long[] load(LogTruth.Question asked) {
        UnifiedLog log = open(asked);
        long[] answer = {log.logStartOffset(), log.logEndOffset()};
        int epoch = (int) asked.number("leader_epoch", -1);
        if (epoch >= 0) log.maybeAssignEpochStartOffset(epoch, log.logEndOffset());
        log.flush(true);
        log.close();
        return answer;
    }

    public long[] clean(LogTruth.Question asked) throws Exception {
        UnifiedLog log = open(asked);
        try {
            log.updateHighWatermark(asked.number("high_watermark", log.logEndOffset()));
            Option<Object> dirty = asked.values.containsKey("dirty") ? Option.apply((Object) asked.number("dirty", 0)) : Option.empty();
            OffsetsToClean found = LogCleanerManager$.MODULE$.cleanableOffsets(log, dirty, asked.number("now", 0));
            long from = found.firstDirtyOffset(), to = found.firstUncleanableDirtyOffset();
            LogToClean chosen = new LogToClean(log.topicPartition(), log, from, to, false);
            if (chosen.cleanableBytes() == 0) return new long[] {from, chosen.firstUncleanableOffset(), -1};
            FixedTime time = new FixedTime(asked.number("now", 0));
            int buffer = (int) asked.number("io_buffer", 524_288);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), buffer, Math.max(buffer, 16 << 20), 0.9,
                new Throttler(1e12, 300, "x", "y", time), time, partition -> BoxedUnit.UNIT);
            return new long[] {from, chosen.firstUncleanableOffset(), (Long) cleaner.clean(chosen)._1()};
        } finally {
            log.close();
        }
    }
}
