import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;

/** A clock that stands still. */
class FixedTime implements Time {
    private final long now;

    FixedTime(long now) {
        this.now = now;
    }

    public long milliseconds() {
        return now;
    }

    public long nanoseconds() {
        return TimeUnit.MILLISECONDS.toNanos(now);
    }

    public long hiResClockMs() {
        return now;
    }

    public void sleep(long ms) {
    }

    public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
        throw new UnsupportedOperationException();
    }

    public Timer timer(long ms) {
        throw new UnsupportedOperationException();
    }
}
