package dev.understudy.rehearsal;

import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsInPandasWithState;
import org.apache.spark.sql.catalyst.plans.logical.FlatMapGroupsWithState;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import scala.jdk.javaapi.CollectionConverters;

/** Which streaming queries keep state between batches, and so have stores that a takeover opens. */
public final class StatefulPlans {
  private StatefulPlans() {}

  /** Whether the query of this writer does, as far as its analyzed plan tells. */
  public static boolean of(DataStreamWriter<?> writer) {
    return kept(((Dataset<?>) SparkInternals.get(writer, "ds")).queryExecution().analyzed());
  }

  private static boolean kept(LogicalPlan plan) {
    if (!plan.isStreaming()) {
      return false;
    }
    return keeps(plan)
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(StatefulPlans::kept);
  }

  private static boolean keeps(LogicalPlan plan) {
    if (plan instanceof Join join) {
      return join.left().isStreaming() && join.right().isStreaming();
    }
    return plan instanceof Aggregate
        || plan instanceof Distinct
        || plan instanceof Deduplicate
        || plan instanceof DeduplicateWithinWatermark
        || plan instanceof GlobalLimit
        || plan instanceof FlatMapGroupsWithState
        || plan instanceof FlatMapGroupsInPandasWithState
        || plan instanceof TransformWithState
        || plan instanceof TransformWithStateInPySpark;
  }
}
