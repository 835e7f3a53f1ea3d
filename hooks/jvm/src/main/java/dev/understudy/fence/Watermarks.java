package dev.understudy.fence;

import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import scala.jdk.javaapi.CollectionConverters;

/** Which streaming queries have a watermark, and so keep rows back that only its end lets out. */
public final class Watermarks {
  private Watermarks() {}

  /** Whether the query that runs has one, as its plan says. */
  public static boolean of(StreamingQueryWrapper query) {
    StreamExecution execution = query.streamingQuery();
    return stands(execution.analyzedPlan());
  }

  private static boolean stands(LogicalPlan plan) {
    return plan instanceof EventTimeWatermark
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(Watermarks::stands);
  }
}
