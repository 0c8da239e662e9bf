import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** Prints what one release's kafka-clients says of each API: key, accepted and advertised range, deprecated, listeners. */
public class ApiRanges {
    public static void main(String[] args) throws Exception {
        Class<?> keys = Class.forName("org.apache.kafka.common.protocol.ApiKeys");
        for (Object key : keys.getEnumConstants()) {
            int[] accepted = has(keys, "oldestVersion") ? ranges(keys, key) : fromTables(id(key));
            if (accepted == null || accepted[0] > accepted[1]) continue;
            List<String> listeners = listeners(keys, key);
            int[] advertised = advertised(keys, key, accepted, listeners);
            System.out.println(id(key) + " " + key + " " + accepted[0] + "-" + accepted[1] + " " + advertised[0] + "-" + advertised[1]
                + " " + deprecated(keys, key, accepted) + " " + String.join(",", listeners));
        }
    }

    private static int id(Object key) throws Exception {
        return ((Number) key.getClass().getField("id").get(key)).intValue();
    }

    private static boolean has(Class<?> type, String name, Class<?>... parameters) {
        try { type.getMethod(name, parameters); return true; } catch (NoSuchMethodException none) { return false; }
    }

    /** From 0.11 on; a version that is not stable yet is not accepted unless a broker is told so. */
    private static int[] ranges(Class<?> keys, Object key) throws Exception {
        if (has(keys, "hasValidVersion") && !(boolean) keys.getMethod("hasValidVersion").invoke(key)) return null;
        int low = ((Number) keys.getMethod("oldestVersion").invoke(key)).intValue();
        Number high = has(keys, "latestVersion", boolean.class)
            ? (Number) keys.getMethod("latestVersion", boolean.class).invoke(key, false)
            : (Number) keys.getMethod("latestVersion").invoke(key);
        return new int[] {low, high.intValue()};
    }

    /** Up to 0.10: tables of schemas, null where a version is not parsed. */
    private static int[] fromTables(int id) throws Exception {
        Object requests = Class.forName("org.apache.kafka.common.protocol.Protocol").getField("REQUESTS").get(null);
        Object schemas = Array.get(requests, id);
        if (schemas == null || Array.getLength(schemas) == 0) return null;
        int low = 0;
        while (Array.get(schemas, low) == null) low++;
        return new int[] {low, Array.getLength(schemas) - 1};
    }

    private static List<String> listeners(Class<?> keys, Object key) throws Exception {
        List<String> found = new ArrayList<>();
        for (Method method : keys.getMethods())
            if (method.getName().equals("inScope"))
                for (Object listener : method.getParameterTypes()[0].getEnumConstants())
                    if ((boolean) method.invoke(key, listener)) found.add(listener.toString());
        return found.isEmpty() ? List.of("ZK_BROKER") : found;
    }

    /** What an ApiVersions response says where the release makes it say something else than it accepts. */
    private static int[] advertised(Class<?> keys, Object key, int[] accepted, List<String> listeners) throws Exception {
        List<Method> methods = new ArrayList<>(List.of(keys.getMethods()));
        methods.removeIf(method -> !method.getName().startsWith("toApiVersion"));
        methods.sort(Comparator.comparing(Method::getParameterCount).reversed());  // toApiVersionForApiResponse first
        for (Method method : methods) {
            Class<?>[] parameters = method.getParameterTypes();
            Object[] values = new Object[parameters.length];
            for (int i = 0; i < parameters.length; i++)
                values[i] = parameters[i] == boolean.class ? Boolean.FALSE : listener(parameters[i], listeners.get(0));
            Object made = ((Optional<?>) method.invoke(key, values)).orElse(null);
            if (made != null) return new int[] {number(made, "minVersion"), number(made, "maxVersion")};
        }
        return accepted;
    }

    private static Object listener(Class<?> type, String name) {
        for (Object one : type.getEnumConstants()) if (one.toString().equals(name)) return one;
        return null;
    }

    private static int number(Object made, String name) throws Exception {
        return ((Number) made.getClass().getMethod(name).invoke(made)).intValue();
    }

    private static String deprecated(Class<?> keys, Object key, int[] accepted) throws Exception {
        if (!has(keys, "isVersionDeprecated", short.class)) return "-";
        List<String> found = new ArrayList<>();
        for (int version = accepted[0]; version <= accepted[1]; version++)
            if ((boolean) keys.getMethod("isVersionDeprecated", short.class).invoke(key, (short) version)) found.add("" + version);
        return found.isEmpty() ? "-" : String.join(",", found);
    }
}
