package dev.understudy.rehearsal;

import java.util.Collections;
import java.util.Map;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.PartialFunction$;
import scala.Product;

/**
 * The script's Python functions without the accumulator that their workers report to: what a
 * rehearsal's tasks add to the script's accumulators goes nowhere.
 */
final class UncountedFunctions {
  private UncountedFunctions() {}

  static LogicalPlan in(LogicalPlan plan) {
    return plan.transformAllExpressions(
        PartialFunction$.MODULE$.fromFunction(UncountedFunctions::uncounted));
  }

  private static Expression uncounted(Expression expression) {
    return expression instanceof PythonFuncExpression found
            && found.func() instanceof Product function
        ? SparkInternals.copy(expression, Map.of("func", without(function)))
        : expression;
  }

  private static PythonFunction without(Product function) {
    return (PythonFunction)
        SparkInternals.copy(function, Collections.singletonMap("accumulator", null));
  }
}
