package org.apache.kafka.clients.producer.internals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.LogContext;

/**
 * Runs Kafka's own partitioners on the lines of a file, and prints a line for each:
 * "key HEX COUNT": the partition of a key; "turns COUNT AVAILABLE CALLS": the partitions that RoundRobinPartitioner
 * chooses; "queues LENGTHS" (not all the same): how often BuiltInPartitioner chooses each partition, over all random numbers once.
 */
public final class ProbePartitioners {
    private static int random;

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            System.out.println(switch (words[0]) {
                case "key" -> "" + BuiltInPartitioner.partitionForKey(
                        HexFormat.of().parseHex(words[1]), Integer.parseInt(words[2]));
                case "turns" -> turns(Integer.parseInt(words[1]), numbers(words[2]), Integer.parseInt(words[3]));
                default -> queues(numbers(words[1]));
            });
        }
    }

    private static List<Integer> numbers(String text) {
        List<Integer> result = new ArrayList<>();
        for (String number : text.split(",")) {
            if (!number.equals("-")) {
                result.add(Integer.parseInt(number));
            }
        }
        return result;
    }

    private static Cluster cluster(int count, List<Integer> available) {
        Node node = new Node(1, "localhost", 1);
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            Node leader = available.contains(index) ? node : null;
            partitions.add(new PartitionInfo("t", index, leader, new Node[] {node}, new Node[] {node}));
        }
        return new Cluster("c", List.of(node), partitions, Set.of(), Set.of());
    }

    private static String turns(int count, List<Integer> available, int calls) {
        RoundRobinPartitioner partitioner = new RoundRobinPartitioner();
        Cluster cluster = cluster(count, available);
        List<String> result = new ArrayList<>();
        for (int call = 0; call < calls; call++) {
            result.add("" + partitioner.partition("t", null, null, null, null, cluster));
        }
        return String.join(",", result);
    }

    private static String queues(List<Integer> lengths) {
        int[] sizes = lengths.stream().mapToInt(Integer::intValue).toArray();
        int[] ids = new int[sizes.length];
        for (int index = 0; index < ids.length; index++) {
            ids[index] = index;
        }
        List<Integer> all = new ArrayList<>();
        for (int id : ids) {
            all.add(id);
        }
        Cluster cluster = cluster(ids.length, all);
        BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", 1) {
            @Override
            int randomPartition() {
                return random;
            }
        };
        partitioner.updatePartitionLoadStats(sizes, ids, ids.length);
        int end = partitioner.loadStatsRangeEnd();
        int[] counts = new int[ids.length];
        for (random = 0; random < end; random++) {
            BuiltInPartitioner.StickyPartitionInfo current = partitioner.peekCurrentPartitionInfo(cluster);
            partitioner.updatePartitionInfo(current, 10, cluster);
            counts[partitioner.peekCurrentPartitionInfo(cluster).partition()]++;
        }
        List<String> result = new ArrayList<>();
        for (int number : counts) {
            result.add("" + number);
        }
        return String.join(",", result);
    }
}
