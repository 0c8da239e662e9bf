import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** A task that is never run. */
class Never implements ScheduledFuture<Object> {
    public long getDelay(TimeUnit unit) {
        return Long.MAX_VALUE;
    }

    public int compareTo(Delayed other) {
        return 0;
    }

    public boolean cancel(boolean interrupt) {
        return true;
    }

    public boolean isCancelled() {
        return true;
    }

    public boolean isDone() {
        return false;
    }

    public Object get() {
        return null;
    }

    public Object get(long timeout, TimeUnit unit) {
        return null;
    }
}
