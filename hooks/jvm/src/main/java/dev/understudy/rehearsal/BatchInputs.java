package dev.understudy.rehearsal;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files that the script has read in batch. Spark lists a table's files once, when the frame is
 * made, and never again: a script that waits as a standby for hours would go on with that list,
 * where a cold start would make a new one.
 *
 * <p>Files that the script also streams come and go while a standby waits, and what was read of
 * them is mostly their schema. So they do not count as changed, unless a query that the script has
 * started joins that very table.
 *
 * <p>Not covered: tables of other kinds (JDBC, Iceberg, Delta, those of a metastore), new
 * directories that a glob would find, what Python read by itself, and a table that is also streamed
 * and used in {@code foreachBatch} only, whose function is no part of a plan.
 */
public final class BatchInputs {
  /** A table of more files than this is not listed again. */
  private static final int MAX_FILES = 10_000;

  private final Set<InMemoryFileIndex> indexes = new LinkedHashSet<>();
  private final Set<InMemoryFileIndex> used = new HashSet<>();
  private final Set<StreamedFiles> streamed = new HashSet<>();

  /** Remembers the files that the frame reads in batch, and the places that it streams from. */
  public synchronized void add(Dataset<?> frame) {
    collect(frame.queryExecution().analyzed(), indexes, conf(frame));
  }

  /** Remembers the tables of a query that the script has started. */
  public synchronized void use(DataStreamWriter<?> writer) {
    Dataset<?> frame = (Dataset<?>) SparkInternals.get(writer, "ds");
    collect(frame.queryExecution().analyzed(), used, conf(frame));
  }

  private static Configuration conf(Dataset<?> frame) {
    return frame.sparkSession().sessionState().newHadoopConf();
  }

  private void collect(LogicalPlan plan, Set<InMemoryFileIndex> found, Configuration conf) {
    if (plan instanceof LogicalRelation relation
        && relation.relation() instanceof HadoopFsRelation files
        && files.location() instanceof InMemoryFileIndex index
        && index.leafFiles().size() <= MAX_FILES) {
      found.add(index);
    }
    if (plan instanceof StreamingRelation leaf) {
      collect(leaf.dataSource(), conf);
    }
    CollectionConverters.asJava(plan.children()).forEach(child -> collect(child, found, conf));
    CollectionConverters.asJava(plan.subqueries()).forEach(query -> collect(query, found, conf));
  }

  private void collect(DataSource source, Configuration conf) {
    Option<String> path =
        source
            .options()
            .find(option -> option._1().equalsIgnoreCase("path"))
            .map(option -> option._2());
    if (path.isDefined()) {
      try {
        streamed.addAll(StreamedFiles.of(new Path(path.get()), conf));
      } catch (IOException | IllegalArgumentException e) {
        return; // Spark says what is wrong with it when the query starts
      }
    }
  }

  /**
   * Returns the first table whose files differ from those that the script saw, or an empty string.
   * Raises what the file system raises.
   */
  public synchronized String changed() {
    for (InMemoryFileIndex index : indexes) {
      boolean joined = used.contains(index);
      List<Path> roots = CollectionConverters.asJava(index.rootPaths());
      if (!joined && roots.stream().allMatch(this::isStreamed)) {
        continue; // need not be listed again
      }
      Set<Path> differing = differing(versions(index), versions(now(index)));
      if (!joined) {
        differing.removeIf(this::isStreamed);
      }
      if (!differing.isEmpty()) {
        return roots.get(0).toString();
      }
    }
    return "";
  }

  private boolean isStreamed(Path file) {
    return streamed.stream().anyMatch(files -> files.contain(file));
  }

  /** The same index, made again without Spark's cache of listings. */
  @SuppressWarnings("unchecked")
  private static InMemoryFileIndex now(InMemoryFileIndex index) {
    return new InMemoryFileIndex(
        (SparkSession) SparkInternals.get(index, "sparkSession"),
        index.rootPaths(),
        (scala.collection.immutable.Map<String, String>) SparkInternals.get(index, "parameters"),
        Option.empty(),
        NoopCache$.MODULE$,
        Option.empty(),
        Option.empty());
  }

  private static Map<Path, String> versions(InMemoryFileIndex index) {
    Map<Path, String> versions = new HashMap<>();
    for (Map.Entry<Path, FileStatus> file :
        CollectionConverters.asJava(index.leafFiles()).entrySet()) {
      versions.put(
          file.getKey(), file.getValue().getLen() + " " + file.getValue().getModificationTime());
    }
    return versions;
  }

  /** Files that only one of the two has, and those that differ. */
  private static Set<Path> differing(Map<Path, String> then, Map<Path, String> now) {
    Set<Path> differing = new HashSet<>(then.keySet());
    differing.addAll(now.keySet());
    differing.removeIf(file -> then.containsKey(file) && then.get(file).equals(now.get(file)));
    return differing;
  }
}
