import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;

/** For each line of a file (a pattern in Base64): "ERROR reason", or which names of another file it matches, 0 or 1 each. */
public class Patterns {
    public static void main(String[] args) throws Exception {
        List<String> names = Files.readAllLines(Path.of(args[1]));
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String text = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            try {
                Pattern pattern = Pattern.compile(text);
                for (String name : names) out.append(pattern.matcher(name).matches() ? '1' : '0');
            } catch (RuntimeException error) { // JDK 17 fails on some \\b{g}
                out.append("ERROR ").append(String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
            } catch (StackOverflowError error) {
                out.append("OVERFLOW");
            }
            out.append('\n');
        }
        System.out.print(out);
    }
}
