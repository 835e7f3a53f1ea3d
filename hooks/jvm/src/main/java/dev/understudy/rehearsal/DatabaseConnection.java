package dev.understudy.rehearsal;

import java.sql.SQLException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.jdbc.JdbcDialects;

/**
 * A connection as Spark's JDBC writer would open it, so that a takeover does not load and compile
 * the driver's protocol, its encryption and its login.
 */
final class DatabaseConnection {
  /**
   * A host is named. Anything else may be a file, which would be locked for the leader, or made.
   */
  private static final Pattern SERVER = Pattern.compile("[:@]//[^/]");

  private static final Set<String> TRIED = ConcurrentHashMap.newKeySet();

  private DatabaseConnection() {}

  /**
   * Loads the driver; opens one connection to a server, and closes it, once in this process, so
   * that a wrong password is not sent again and again. Runs no statement. Best effort: what fails
   * here, the real write will tell.
   */
  static void tryOut(JDBCOptions options) {
    options.driverClass(); // loads and registers it
    String url = options.url();
    if (!SERVER.matcher(url).find() || !TRIED.add(url)) {
      return;
    }
    try {
      JdbcDialects.get(url).createConnectionFactory(options).apply(-1).close();
    } catch (SQLException | RuntimeException e) {
      // as above
    }
  }
}
