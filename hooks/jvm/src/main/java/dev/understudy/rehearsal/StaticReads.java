package dev.understudy.rehearsal;

import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the script has read from files in batch. Spark lists a table's files once, when the frame is made, and never again: a script that
 * waits as a standby for hours would go on with that list, where a cold start would make a new one.
 *
 * <p>Not covered: tables of other kinds (JDBC, Iceberg, Delta, those of a metastore), new directories that a glob would find, and what
 * Python read by itself.
 */
public final class StaticReads {
    /** A table of more files than this is not listed again and again. */
    private static final int MAX_FILES = 10_000;

    private final Set<InMemoryFileIndex> indexes = new LinkedHashSet<>();

    /** Remember the files that the frame reads in batch, if it reads any. */
    public synchronized void add(Dataset<?> frame) {
        collect(frame.queryExecution().analyzed());
    }

    private void collect(LogicalPlan plan) {
        if (plan instanceof LogicalRelation relation
                && relation.relation() instanceof HadoopFsRelation files
                && files.location() instanceof InMemoryFileIndex index
                && index.leafFiles().size() <= MAX_FILES) {
            indexes.add(index);
        }
        CollectionConverters.asJava(plan.children()).forEach(this::collect);
    }

    /** The first table whose files are not those that the script saw, or an empty string. Raises what the file system raises. */
    public synchronized String changed() {
        for (InMemoryFileIndex index : indexes) {
            if (!versions(index).equals(versions(now(index)))) {
                return index.rootPaths().head().toString();
            }
        }
        return "";
    }

    /** The same index, made anew, past Spark's cache of listings. */
    @SuppressWarnings("unchecked")
    private static InMemoryFileIndex now(InMemoryFileIndex index) {
        return new InMemoryFileIndex(
                (SparkSession) Reflect.get(index, "sparkSession"),
                index.rootPaths(),
                (scala.collection.immutable.Map<String, String>) Reflect.get(index, "parameters"),
                Option.empty(),
                NoopCache$.MODULE$,
                Option.empty(),
                Option.empty());
    }

    private static Map<Path, String> versions(InMemoryFileIndex index) {
        Map<Path, String> versions = new HashMap<>();
        for (Map.Entry<Path, FileStatus> file : CollectionConverters.asJava(index.leafFiles()).entrySet()) {
            versions.put(file.getKey(), file.getValue().getLen() + " " + file.getValue().getModificationTime());
        }
        return versions;
    }
}
