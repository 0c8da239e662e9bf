import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints each error code: number, name, whether its exception is retriable, and whether it makes metadata stale. */
public class ErrorCodes {
    public static void main(String[] args) {
        for (Errors error : Errors.values()) {
            Object exception = error.exception();
            System.out.println(String.join(" ", String.valueOf(error.code()), error.name(),
                String.valueOf(exception instanceof RetriableException),
                String.valueOf(exception instanceof InvalidMetadataException)));
        }
    }
}
