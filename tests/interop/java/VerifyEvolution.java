import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;

/** Prints a line for each message spec of a folder that Kafka's verifier does not take as a successor of another's. */
public class VerifyEvolution {
    public static void main(String[] folders) throws Exception {
        Class<?> tool = Class.forName("org.apache.kafka.message.checker.MetadataSchemaCheckerTool");
        Method run = Arrays.stream(tool.getDeclaredMethods()).filter(one -> one.getName().equals("run")).findFirst().get();
        run.setAccessible(true);
        File[] files = new File(folders[1]).listFiles((folder, name) -> name.endsWith(".json"));
        Arrays.sort(files);
        for (File file : files) {
            String[] question = {"verify-evolution", "--path", file.getPath(), "--parent_path",
                new File(folders[0], file.getName()).getPath()};
            try {
                run.invoke(null, question, new PrintStream(new ByteArrayOutputStream()));
            } catch (InvocationTargetException error) {
                System.out.println(file.getName() + ": " + error.getCause());
            }
        }
    }
}
