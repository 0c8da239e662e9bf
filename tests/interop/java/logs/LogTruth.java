import java.io.File;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/**
 * Asks Kafka's own log classes to load a partition's directory, and to clean it. Arguments: a file of questions, a file
 * for the answers. A question is a line of key=value, separated by tabs; what begins with "topic:" is topic configuration.
 * The answer is one line: "ok" and numbers, or "failed" and the exception.
 */
public final class LogTruth {
    static final class Question {
        final Map<String, String> values = new HashMap<>();
        final Properties topic = new Properties();

        Question(String line) {
            for (String word : line.split("\t")) {
                int at = word.indexOf('=');
                String key = word.substring(0, at), value = word.substring(at + 1);
                if (key.startsWith("topic:")) topic.put(key.substring(6), value);
                else values.put(key, value);
            }
        }

        long number(String key, long without) {
            return values.containsKey(key) ? Long.parseLong(values.get(key)) : without;
        }

        File directory() {
            return new File(values.get("directory"));
        }

        boolean isClean() {
            return number("clean", 1) == 1;
        }
    }

    /** What differs from release to release. */
    interface Judge {
        /** Load the log, close it; return its start and end. */
        long[] load(Question question) throws Exception;

        /** Load the log after a clean stop, run one round of cleaning, close it; return from, to, and the new checkpoint. */
        long[] clean(Question question) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Judge judge = (Judge) Class.forName("KafkaJudge").getDeclaredConstructor().newInstance();
        try (PrintWriter answers = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[1])))) {
            for (String line : Files.readAllLines(Path.of(arguments[0]))) {
                Question question = new Question(line);
                try {
                    boolean load = question.values.get("op").equals("load");
                    answers.print("ok");
                    for (long number : load ? judge.load(question) : judge.clean(question)) answers.print(" " + number);
                    answers.println();
                } catch (Throwable problem) {
                    answers.println(" failed " + String.valueOf(problem).replace('\n', ' '));
                    problem.printStackTrace();
                }
            }
        }
        System.exit(0);
    }
}
