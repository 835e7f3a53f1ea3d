package dev.understudy.rehearsal;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.Utils;

/**
 * A Delta table for a round to append to, so that a takeover does not meet Delta's code for the
 * first time: a cold append takes ten seconds and more on two cores, most of it spent on planning
 * and compiling what reads the table's log.
 *
 * <p>Each round gets a new table, because Delta writes a batch of a query only once into one table.
 * It is a copy of an empty one: the round appends to a table that exists, as the real query does.
 * Of the user's table the log is read, which Delta keeps in this JVM: see {@link #follow}.
 */
final class DeltaScratch implements AutoCloseable {
  private static final String LOG = "_delta_log";
  private static final String VIEW = "understudy_rehearses";

  private final SparkSession session;
  private final Path empty;
  private final Path table;
  private final boolean early;
  private final boolean reads;
  private final OwnJobs jobs;
  private boolean made;
  private final Queue<Path> tables = new ConcurrentLinkedQueue<>();

  /**
   * @param scratch of the rehearsal, where the empty table is kept
   * @param round a directory in it, of one of its rounds
   * @param early whether this round is one of the first, in which the JIT learns
   * @param reads whether it reads what is the user's
   */
  DeltaScratch(SparkSession session, Path scratch, Path round, boolean early, boolean reads) {
    this.session = session;
    this.empty = new Path(scratch, "delta");
    this.table = new Path(round, "sink");
    this.early = early;
    this.reads = reads;
    this.jobs = new OwnJobs(session.sparkContext());
  }

  /**
   * Returns a table of this schema; null where Delta does not make one, as when the user's has
   * properties that this one lacks, and from the second call on.
   */
  Path table(StructType schema, List<String> partitioning) throws IOException {
    if (made) {
      return null;
    }
    Configuration conf = session.sessionState().newHadoopConf();
    FileSystem files = empty.getFileSystem(conf);
    try {
      if (!files.exists(new Path(empty, LOG))) {
        session
            .createDataFrame(List.of(), schema)
            .write()
            .format("delta")
            .mode(SaveMode.Overwrite)
            .partitionBy(partitioning.toArray(String[]::new))
            .save(empty.toString());
      }
    } catch (Exception e) { // Spark's own, checked ones among them, which Scala does not declare
      return null;
    }
    FileUtil.copy(files, new Path(empty, LOG), files, new Path(table, LOG), false, conf);
    made = true;
    return noted(table);
  }

  /**
   * Has Delta look at the log of the user's table, so that at the grant it reads what is new there.
   * Every write looks again. A table that is not there yet is left alone.
   */
  void follow(String path, Map<String, String> options) {
    if (!reads) {
      return;
    }
    try {
      jobs.run(
          "a rehearsal reads the log of " + path,
          () -> session.read().format("delta").options(options).load(path).schema());
    } catch (Exception e) { // as above
      // the query's start will tell
    }
  }

  /** A takeover has come: what of a log is not read yet can wait. */
  void cancel() {
    jobs.cancel();
  }

  /**
   * Returns the same path, of a table in scratch: Delta is told to forget it at the end of the
   * round.
   */
  Path noted(Path table) {
    tables.add(table);
    return table;
  }

  /**
   * Merges rows into a table twice, so that some match. For functions of {@code foreachBatch} that
   * are not called: with Delta in the session most of them merge. Best effort: a failure here is
   * ignored.
   */
  void merge(Dataset<Row> rows) throws IOException {
    if (!early || made || !session.conf().get("spark.sql.extensions", "").contains("io.delta.")) {
      return;
    }
    Optional<String> key =
        Arrays.stream(rows.schema().fields())
            .filter(field -> field.dataType() instanceof AtomicType)
            .map(StructField::name)
            .findFirst();
    if (key.isEmpty() || table(rows.schema(), List.of()) == null) {
      return;
    }
    String match = "t.`%1$s` = s.`%1$s`".formatted(key.get().replace("`", "``"));
    try {
      rows.dropDuplicates(key.get(), new String[0]).createOrReplaceTempView(VIEW);
      for (int time = 0; time < 2; time++) {
        rows.sparkSession()
            .sql(
                "MERGE INTO delta.`%s` t USING %s s ON %s".formatted(table, VIEW, match)
                    + " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
            .collect();
      }
    } catch (Exception e) {
      // as above; best effort
    } finally {
      rows.sparkSession().catalog().dropTempView(VIEW);
    }
  }

  /** Delta would keep what it knows of the table for an hour. */
  @Override
  public void close() {
    if (tables.isEmpty()) {
      return;
    }
    try {
      Method forget =
          Class.forName(
                  "org.apache.spark.sql.delta.DeltaLog", true, Utils.getContextOrSparkClassLoader())
              .getMethod("invalidateCache", org.apache.spark.sql.SparkSession.class, Path.class);
      for (Path each : tables) {
        forget.invoke(null, session, each);
      }
    } catch (ClassNotFoundException
        | NoSuchMethodException
        | IllegalAccessException
        | InvocationTargetException e) {
      // another version of Delta: its cache forgets by itself
    }
  }
}
