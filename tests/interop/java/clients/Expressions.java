import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** Reads lines of an expression and names, in hexadecimal; prints which of the names match as a whole, or "refused". */
public class Expressions {
    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            StringBuilder answer = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(text(words[0]));
                for (int number = 1; number < words.length; number++) {
                    answer.append(pattern.matcher(text(words[number])).matches() ? '1' : '0');
                }
            } catch (PatternSyntaxException refused) {
                answer = new StringBuilder("refused");
            } catch (RuntimeException | StackOverflowError error) {
                answer = new StringBuilder(error.getClass().getSimpleName());
            }
            System.out.println(answer);
        }
    }
}
