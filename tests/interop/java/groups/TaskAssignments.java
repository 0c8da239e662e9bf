import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/**
 * Assigns the tasks of streams groups, a group a line: standbys, subtopologies (id:partitions:stateful), members
 * (id:process:tasks that it has), tasks as role/subtopology/partition. Prints members with their tasks.
 */
public class TaskAssignments {
    record Subtopology(int partitions, boolean isStateful) { }

    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(assigned(line.split("\t", -1)));
    }

    static String assigned(String[] words) {
        Map<String, Subtopology> subtopologies = new HashMap<>();
        for (String one : parts(words[1], ",")) {
            String[] row = one.split(":");
            subtopologies.put(row[0], new Subtopology(Integer.parseInt(row[1]), row[2].equals("1")));
        }
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (String one : parts(words[2], ";")) {
            String[] row = one.split(":", -1);
            Map<String, Map<String, Set<Integer>>> tasks = new HashMap<>();
            for (String task : parts(row[2], ",")) {
                String[] id = task.split("/");
                tasks.computeIfAbsent(id[0], role -> new HashMap<>())
                    .computeIfAbsent(id[1], subtopology -> new TreeSet<>()).add(Integer.parseInt(id[2]));
            }
            members.put(row[0], new AssignmentMemberSpec(Optional.empty(), Optional.empty(),
                tasks.getOrDefault("active", Map.of()), tasks.getOrDefault("standby", Map.of()), Map.of(), row[1],
                Map.of("rack", row[0]), Map.of(), Map.of()));
        }
        var topology = new TopologyDescriber() {
            public List<String> subtopologies() { return new ArrayList<>(subtopologies.keySet()); }
            public int maxNumInputPartitions(String id) { return subtopologies.get(id).partitions(); }
            public boolean isStateful(String id) { return subtopologies.get(id).isStateful(); }
        };
        var group = new GroupSpecImpl(members, Map.of("num.standby.replicas", words[0]));
        List<String> told = new ArrayList<>();
        new StickyTaskAssignor().assign(group, topology).members().forEach((id, one) -> told.add(told(id, one)));
        return String.join(";", new TreeSet<>(told));
    }

    static String told(String id, MemberAssignment assignment) {
        Set<String> tasks = new TreeSet<>();
        assignment.activeTasks().forEach((name, all) -> all.forEach(index -> tasks.add("active/" + name + "/" + index)));
        assignment.standbyTasks().forEach((name, all) -> all.forEach(index -> tasks.add("standby/" + name + "/" + index)));
        return id + ":" + String.join(",", tasks);
    }

    static String[] parts(String text, String separator) {
        return text.isEmpty() ? new String[0] : text.split(separator);
    }
}
