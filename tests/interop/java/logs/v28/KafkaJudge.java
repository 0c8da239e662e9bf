import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import kafka.log.Cleaner;
import kafka.log.Log;
import kafka.log.LogCleanerManager$;
import kafka.log.LogConfig;
import kafka.log.LogToClean;
import kafka.log.OffsetsToClean;
import kafka.log.SkimpyOffsetMap;
import kafka.server.BrokerTopicStats;
import kafka.server.LogDirFailureChannel;
import kafka.utils.Scheduler;
import kafka.utils.Throttler;
import scala.Function0;
import scala.Option;
import scala.runtime.BoxedUnit;

/** Kafka 2.8. */
public final class KafkaJudge implements LogTruth.Judge {
    /** Runs what is due within a time at once, and nothing else ever. */
    private record Patient(long dueMs) implements Scheduler {
        public void startup() {
        }

        public void shutdown() {
        }

        public boolean isStarted() {
            return true;
        }

        public ScheduledFuture<?> schedule(String name, Function0<BoxedUnit> task, long delay, long period, TimeUnit unit) {
            if (period < 0 && delay <= dueMs) task.apply();
            return new Never();
        }
    }

    private static Log open(LogTruth.Question asked) {
        int expiration = (int) asked.number("producer.id.expiration.ms", 86_400_000);
        LogConfig config = LogConfig.apply(asked.topic, LogConfig.apply$default$2());
        return Log.apply(asked.directory(), config, asked.number("log_start", 0), asked.number("recovery_point", 0), new Patient(asked.number("wait", 0)),
            new BrokerTopicStats(), new FixedTime(asked.number("now", 0)), expiration, 600_000, new LogDirFailureChannel(1),
            asked.isClean(), true);
    }

    public long[] load(LogTruth.Question asked) {
        Log log = open(asked);
        long[] answer = {log.logStartOffset(), log.logEndOffset()};
        int epoch = (int) asked.number("leader_epoch", -1);
        if (epoch >= 0) log.maybeAssignEpochStartOffset(epoch, log.logEndOffset());
        log.flush();
        log.close();
        return answer;
    }

    public long[] clean(LogTruth.Question asked) throws Exception {
        Log log = open(asked);
        try {
            log.updateHighWatermark(asked.number("high_watermark", log.logEndOffset()));
            Option<Object> dirty = asked.values.containsKey("dirty") ? Option.apply((Object) asked.number("dirty", 0)) : Option.empty();
            OffsetsToClean found = LogCleanerManager$.MODULE$.cleanableOffsets(log, dirty, asked.number("now", 0));
            long from = found.firstDirtyOffset(), to = found.firstUncleanableDirtyOffset();
            LogToClean chosen = new LogToClean(log.topicPartition(), log, from, to, false);
            if (chosen.cleanableBytes() == 0) return new long[] {from, chosen.firstUncleanableOffset(), -1};
            FixedTime time = new FixedTime(asked.number("now", 0));
            int buffer = (int) asked.number("io_buffer", 524_288);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20, "MD5"), buffer, Math.max(buffer, 16 << 20), 0.9,
                new Throttler(1e12, 300, true, "x", "y", time), time, partition -> BoxedUnit.UNIT);
            return new long[] {from, chosen.firstUncleanableOffset(), (Long) cleaner.clean(chosen)._1()};
        } finally {
            log.close();
        }
    }
}
