package dev.understudy.execution;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** What each session of an application gets, beside the user's {@code spark.sql.extensions}. */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
    implements SparkSessionExtensionsProvider {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(
        new AbstractFunction1<SparkSession, ColumnarRule>() {
          @Override
          public ColumnarRule apply(SparkSession session) {
            return new LastRule(new StatefulTasks(session.sparkContext()));
          }
        });
    return BoxedUnit.UNIT;
  }

  /** Spark has no other place for a rule that sees a streaming query's physical plan complete. */
  private static final class LastRule extends ColumnarRule {
    private final Rule<SparkPlan> rule;

    private LastRule(Rule<SparkPlan> rule) {
      this.rule = rule;
    }

    @Override
    public Rule<SparkPlan> postColumnarTransitions() {
      return rule;
    }
  }
}
