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
 * <p>Spark warns at every start of a query: that adaptive execution is off, and, once per shuffle partition, that state is not in memory
 * yet ("this is normal for the first batch"). On a standby that rehearses every minute nobody would see anything else. Errors stay.
 *
 * <p>Not guaranteed: that the warnings are kept out. With another logging library, or after the configuration was loaded again, they are
 * back, and harmless.
 */
final class Hush extends AbstractFilter {
    private static final Hush FILTER = new Hush();
    private static final Set<String> RUNS = ConcurrentHashMap.newKeySet();
    private static boolean installed;

    private Hush() {
        super(Filter.Result.DENY, Filter.Result.NEUTRAL);
    }

    static synchronized void install() {
        if (installed) {
            return;
        }
        installed = true;
        try {
            if (LogManager.getContext(false) instanceof LoggerContext context) {
                // On each logger, not on the configuration as a whole: there a filter is asked before every call that logs nothing, too.
                context.getConfiguration().getLoggers().values().forEach(logger -> logger.addFilter(FILTER));
                context.updateLoggers();
            }
        } catch (LinkageError e) {
            return; // Spark's log4j is not there: the user chose to hear everything
        }
    }

    /** From here on warnings that name this run are the rehearsal's. */
    static void begin(String run) {
        RUNS.add(run);
    }

    static void end(String run) {
        RUNS.remove(run);
    }

    @Override
    public Filter.Result filter(LogEvent event) {
        return event.getLevel() == Level.WARN && ours(event) ? onMatch : onMismatch;
    }

    private static boolean ours(LogEvent event) {
        if (event.getThreadName().contains(Rehearsal.NAME)) {
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
