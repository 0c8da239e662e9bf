import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Names principals by rules, as Kafka does: a line has a principal and rules, with tabs between. */
public class ShortNames {
    // A line of the answer is "=name", or "!" where there is none, or "#" where the rules are refused.
    static String name(String[] words) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules("NEW", words.length == 1 ? null
                : List.of(words).subList(1, words.length));
        } catch (RuntimeException refused) {
            return "#";
        }
        try {
            return "=" + namer.shortName(KerberosName.parse(words[0]));
        } catch (Exception nobody) {
            return "!";
        }
    }

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(name(line.split("\t", -1)));
        }
        out.flush();
    }
}
