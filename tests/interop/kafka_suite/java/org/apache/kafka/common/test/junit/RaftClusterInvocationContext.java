package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/**
 * Runs each test that Kafka annotates with {@code @ClusterTest} against kafkaframes' embedded broker.
 *
 * <p>Kafka's test extension creates the class of this name. This one is first on the class path.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String testName;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String testName, ClusterConfig config, boolean isCombined) {
        this.testName = testName;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return testName + " [" + index + "] " + String.join(", ", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        EmbeddedCluster cluster = new EmbeddedCluster(config);
        ClusterInstanceParameterResolver resolver = new ClusterInstanceParameterResolver(cluster);
        if (isCombined) {
            ExecutionCondition skip = context -> ConditionEvaluationResult.disabled(
                "The embedded broker has no separate controllers: the other type is the same test.");
            return List.of(skip, resolver);
        }
        BeforeEachCallback start = context -> {
            if (config.isAutoStart()) {
                cluster.start();
            }
        };
        AfterEachCallback stop = context -> cluster.stop();
        return List.of(start, stop, resolver);
    }
}
