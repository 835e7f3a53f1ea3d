package dev.understudy.rehearsal;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a query takes from its session when it starts: the SQL configuration and the current
 * database, as they were when the script called {@code start()}. One call each from Python, which
 * pays for every question.
 */
public final class SessionSettings {
  private final Map<String, String> sql;
  private final String catalog;
  private final String database;

  private SessionSettings(Map<String, String> sql, String catalog, String database) {
    this.sql = sql;
    this.catalog = catalog;
    this.database = database;
  }

  public static SessionSettings of(SparkSession session) {
    return new SessionSettings(
        sql(session), session.catalog().currentCatalog(), session.catalog().currentDatabase());
  }

  public Map<String, String> sql() {
    return sql;
  }

  public String catalog() {
    return catalog;
  }

  public String database() {
    return database;
  }

  /** Whether a query that starts in the session now takes these. */
  public boolean inForce(SparkSession session) {
    return sql.equals(sql(session))
        && catalog.equals(session.catalog().currentCatalog())
        && database.equals(session.catalog().currentDatabase());
  }

  /**
   * Gives the session these settings, all or none of them.
   *
   * @return what {@link #replaced} takes to give it back its own; null where it has these already
   */
  public SessionSettings put(SparkSession session) throws AnalysisException {
    if (inForce(session)) {
      return null;
    }
    SessionSettings before = of(session);
    try {
      change(session, before, this);
    } catch (AnalysisException | RuntimeException e) { // a database that is gone
      change(session, of(session), before);
      throw e;
    }
    return before;
  }

  /** Gives the session back what these have replaced, and leaves what has changed since. */
  public void replaced(SparkSession session, SessionSettings before) throws AnalysisException {
    change(session, this, before);
  }

  /** Changes what differs between the two, where the session still has {@code from}. */
  private static void change(SparkSession session, SessionSettings from, SessionSettings to)
      throws AnalysisException {
    SQLConf conf = session.sessionState().conf();
    Map<String, String> now = sql(session);
    Set<String> keys = new HashSet<>(from.sql.keySet());
    keys.addAll(to.sql.keySet());
    for (String key : keys) {
      String had = from.sql.get(key);
      String wanted = to.sql.get(key);
      if (!Objects.equals(had, wanted) && Objects.equals(had, now.get(key))) {
        set(conf, key, wanted);
      }
    }
    var catalogs = session.catalog();
    boolean moves =
        !(from.catalog.equals(to.catalog) && from.database.equals(to.database))
            && from.catalog.equals(catalogs.currentCatalog())
            && from.database.equals(catalogs.currentDatabase());
    if (moves) {
      catalogs.setCurrentCatalog(to.catalog);
      if (!to.database.isEmpty()) { // other catalogs may have none
        catalogs.setCurrentDatabase(to.database);
      }
    }
  }

  /** Whether or not Spark knows the key; one that is static cannot have changed. Null unsets it. */
  static void set(SQLConf conf, String key, String value) {
    if (SQLConf.isStaticConfigKey(key)) {
      return;
    }
    if (value == null) {
      conf.unsetConf(key);
    } else {
      conf.setConfString(key, value);
    }
  }

  private static Map<String, String> sql(SparkSession session) {
    return new HashMap<>(CollectionConverters.asJava(session.sessionState().conf().getAllConfs()));
  }
}
