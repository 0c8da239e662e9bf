package org.apache.kafka.common.test.junit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.util.Map;

/** The Python process with the embedded brokers. A command is one line of JSON, and so is its result. */
final class BrokerProcess {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static Process process;
    private static BufferedReader results;
    private static Writer commands;

    private BrokerProcess() { }

    /** Run a command, and return its result. Throws if the broker refuses it. */
    static synchronized JsonNode run(Map<String, ?> command) {
        try {
            if (process == null) {
                start();
            }
            commands.write(JSON.writeValueAsString(command) + "\n");
            commands.flush();
            String line = results.readLine();
            if (line == null) {
                throw new IllegalStateException("the process of the embedded brokers has ended");
            }
            JsonNode result = JSON.readTree(line);
            if (result.has("error")) {
                throw new IllegalStateException("broker: " + result.get("error").asText());
            }
            return result;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void start() throws IOException {
        ProcessBuilder builder = new ProcessBuilder(
            System.getProperty("kafkaframes.python"), "-m", "tests.interop.kafka_suite.broker_process");
        builder.redirectError(new File(System.getProperty("kafkaframes.log")));
        process = builder.start();
        results = process.inputReader();
        commands = process.outputWriter();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
    }
}
