import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs many of Kafka's tools in one JVM: {@code Tools FILE}. A line of the file is a call: its standard input, its class, its
 * arguments, with tabs between them. Prints for each {@code == STATUS} behind its output.
 */
public class Tools {
    static Integer ended; // by the first exit: some tools catch what we throw, and exit once more

    static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    static int call(String main, String[] arguments) throws Exception {
        ended = null;
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (ended == null) {
                error.getCause().printStackTrace(System.out);
                ended = 1;
            }
        }
        return ended == null ? 0 : ended;
    }

    public static void main(String[] given) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            if (ended == null) ended = status;
            throw new Ended();
        });
        Exit.setHaltProcedure((status, message) -> {
            if (ended == null) ended = status;
            throw new Ended();
        });
        Exit.setShutdownHookAdder((name, hook) -> {});
        PrintStream out = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true));
        System.setErr(new PrintStream(said, true));
        for (String line : Files.readAllLines(Path.of(given[0]))) {
            List<String> words = Arrays.asList(line.split("\t", -1));
            System.setIn(new ByteArrayInputStream(words.get(0).replace("\\n", "\n").getBytes(StandardCharsets.UTF_8)));
            int status = call(words.get(1), words.subList(2, words.size()).toArray(new String[0]));
            System.out.flush();
            out.print(said.toString(StandardCharsets.UTF_8));
            out.println("\n== " + status);
            out.flush();
            said.reset();
        }
        Runtime.getRuntime().halt(0); // whatever a tool has left running
    }
}
