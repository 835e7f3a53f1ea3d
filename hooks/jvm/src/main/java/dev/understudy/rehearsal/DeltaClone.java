package dev.understudy.rehearsal;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Delta merge of the user's, turned into one that changes a shallow clone of its table.
 *
 * <p>The clone reads the table's files and has a log of its own, in scratch; what the merge writes
 * lies beside that log. The user's table is read, and neither its log nor its directory changes.
 */
final class DeltaClone {
  private static final String DELTA = "org.apache.spark.sql.delta.";

  private DeltaClone() {}

  static boolean merges(LogicalPlan command) {
    return command.getClass().getName().equals(DELTA + "commands.MergeIntoCommand");
  }

  /** Whether a command writes rows to a Delta table. */
  static boolean writes(LogicalPlan command) {
    Object target =
        command instanceof SaveIntoDataSourceCommand save
            ? save.dataSource()
            : command instanceof V2WriteCommand write ? table(write.table()) : null;
    return target != null && target.getClass().getName().startsWith(DELTA);
  }

  private static Object table(NamedRelation relation) {
    return relation instanceof DataSourceV2Relation v2 ? v2.table() : null;
  }

  /**
   * The merge, with the clone as its target.
   *
   * @param place of the clone; made here
   * @throws IllegalStateException where Delta makes no clone, or is another version
   */
  static LogicalPlan redirect(LogicalPlan merge, SparkSession session, Path place) {
    Path source = (Path) SparkInternals.call(field(merge, "targetFileIndex"), "path");
    try {
      session.sql(
          "CREATE TABLE delta.`%s` SHALLOW CLONE delta.`%s`"
              .formatted(place, source.toString().replace("`", "``")));
    } catch (Exception e) { // Spark's own, checked ones among them, which Scala does not declare
      throw new IllegalStateException("there is no shallow clone of " + source, e);
    }
    LogicalRelation clone = relation(session.read().format("delta").load(place.toString()));
    Map<String, Object> changes = new HashMap<>();
    changes.put("target", onto((LogicalPlan) field(merge, "target"), clone));
    changes.put("targetFileIndex", ((HadoopFsRelation) clone.relation()).location());
    changes.put("catalogTable", Option.empty());
    return (LogicalPlan) SparkInternals.copy((scala.Product) merge, changes);
  }

  private static LogicalRelation relation(org.apache.spark.sql.classic.Dataset<?> data) {
    LogicalPlan plan = data.queryExecution().analyzed();
    while (!(plan instanceof LogicalRelation)) {
      if (plan.children().size() != 1) {
        throw new IllegalStateException("a Delta table is read as " + plan.nodeName());
      }
      plan = plan.children().head();
    }
    return (LogicalRelation) plan;
  }

  /** The target's plan on other files. Attributes keep their ids: the merge refers to them. */
  private static LogicalPlan onto(LogicalPlan plan, LogicalRelation clone) {
    if (plan instanceof LogicalRelation) {
      Map<String, Object> changes = new HashMap<>();
      changes.put("relation", clone.relation());
      changes.put("catalogTable", Option.empty());
      return (LogicalPlan) SparkInternals.copy((scala.Product) plan, changes);
    }
    if (plan.children().isEmpty()) {
      throw new IllegalStateException("the target of a merge is " + plan.nodeName());
    }
    List<LogicalPlan> children =
        CollectionConverters.asJava(plan.children()).stream()
            .map(child -> onto(child, clone))
            .toList();
    return plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  private static Object field(LogicalPlan command, String name) {
    return SparkInternals.get(command, name);
  }
}
