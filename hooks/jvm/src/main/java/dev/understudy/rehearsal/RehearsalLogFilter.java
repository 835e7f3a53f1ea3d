package dev.understudy.rehearsal;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.Filter;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.filter.AbstractFilter;

/**
 * Keeps warnings of a normal round out of the user's log.
 *
 * <p>Spark warns at every start of a query: that adaptive execution is off, and, once per shuffle
 * partition, that state is not in memory yet ("this is normal for the first batch"). On a standby
 * that rehearses every minute the log would hold little else. Errors stay, except those of a query
 * that is being cancelled: an interrupted writer reports a failed job.
 *
 * <p>Not guaranteed: that the warnings are kept out. With another logging library, or after the
 * configuration was loaded again, they are back, and harmless.
 */
final class RehearsalLogFilter extends AbstractFilter {
  /** In the names of the threads and queries of rehearsals, which this filter knows by it. */
  static final String NAME = "understudy-rehearsal-";

  private static final RehearsalLogFilter FILTER = new RehearsalLogFilter();
  private static final Set<String> RUNS = ConcurrentHashMap.newKeySet();
  private static final Set<String> CANCELLED = ConcurrentHashMap.newKeySet();
  private static boolean installed;

  private RehearsalLogFilter() {
    super(Filter.Result.DENY, Filter.Result.NEUTRAL);
  }

  static synchronized void install() {
    if (installed) {
      return;
    }
    installed = true;
    try {
      if (LogManager.getContext(false) instanceof LoggerContext context) {
        // On each logger, not on the configuration as a whole: there a filter is asked before every
        // call that logs nothing, too.
        context
            .getConfiguration()
            .getLoggers()
            .values()
            .forEach(logger -> logger.addFilter(FILTER));
        context.updateLoggers();
      }
    } catch (LinkageError e) {
      return; // Spark's log4j is missing: the user chose another logging library
    }
  }

  /** From here on warnings that name this run are the rehearsal's. */
  static void begin(String run) {
    RUNS.add(run);
  }

  static void end(String run) {
    RUNS.remove(run);
  }

  /** From here on errors of threads with this name are caused by the cancel. */
  static void cancelled(String name) {
    CANCELLED.add(name);
  }

  static void settled(String name) {
    CANCELLED.remove(name);
  }

  @Override
  public Filter.Result filter(LogEvent event) {
    Level level = event.getLevel();
    boolean told = event.getLoggerName().startsWith("dev.understudy."); // to the user
    boolean ours = level.equals(Level.WARN) && !told && ours(event);
    boolean noise = ours || (level.equals(Level.ERROR) && isCancelled(event));
    return noise ? onMatch : onMismatch;
  }

  private static boolean isCancelled(LogEvent event) {
    return CANCELLED.stream().anyMatch(event.getThreadName()::contains);
  }

  private static boolean ours(LogEvent event) {
    if (event.getThreadName().contains(NAME)) {
      return true;
    }
    if (RUNS.isEmpty()) {
      return false;
    }
    // State stores name their run in the logger's name, others in the message.
    String text = event.getLoggerName() + event.getMessage().getFormattedMessage();
    return RUNS.stream().anyMatch(text::contains);
  }
}
