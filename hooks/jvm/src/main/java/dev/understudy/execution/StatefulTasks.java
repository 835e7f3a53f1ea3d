package dev.understudy.execution;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.V2TableWriteExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A few tasks for all partitions of a stage that keeps state, where executors run in the driver.
 *
 * <p>A checkpoint fixes the number of a query's partitions for ever, 200 by default, and Spark runs
 * a task for each of them in every batch: reads the task, and writes a file for it. Here a task
 * goes through several partitions, one after the other; each partition's state is loaded, changed
 * and committed as before.
 */
final class StatefulTasks extends Rule<SparkPlan> {
  /** More tasks than processors, so that one with much to do is not waited for by the others. */
  private static final int PER_PROCESSOR = 4;

  private final SparkContext context;

  StatefulTasks(SparkContext context) {
    this.context = context;
  }

  @Override
  public SparkPlan apply(SparkPlan plan) {
    // Elsewhere the scheduler keeps a partition where its state is loaded.
    if (!context.isLocal() || !plan.exists(node -> node instanceof StateStoreWriter)) {
      return plan;
    }
    return ends(plan) ? below(plan) : stage(plan);
  }

  /** The plan with its first node as the last of a stage. */
  private SparkPlan stage(SparkPlan last) {
    SparkPlan plan = below(last);
    int tasks = PER_PROCESSOR * context.defaultParallelism();
    return partitions(last) > tasks ? new CoalesceExec(tasks, plan) : plan;
  }

  private SparkPlan below(SparkPlan plan) {
    return plan.mapChildren(child -> ends(plan) ? stage(child) : below(child));
  }

  /** Whether a node's child is the last of a stage. */
  private static boolean ends(SparkPlan plan) {
    return plan instanceof Exchange || plan instanceof V2TableWriteExec;
  }

  /** Partitions of state in a stage; 0 if the user has said how many tasks it has. */
  private static int partitions(SparkPlan last) {
    int most = 0;
    List<SparkPlan> nodes = new ArrayList<>(List.of(last));
    while (!nodes.isEmpty()) {
      SparkPlan node = nodes.remove(nodes.size() - 1);
      if (node instanceof CoalesceExec) {
        return 0;
      }
      if (node instanceof StateStoreWriter writer) {
        most = Math.max(most, writer.getStateInfo().numPartitions());
      }
      if (!ends(node)) {
        nodes.addAll(CollectionConverters.asJava(node.children()));
      }
    }
    return most;
  }
}
