package dev.understudy.rehearsal;

import dev.understudy.fence.Sneaky;
import java.io.ByteArrayInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileEntry;
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSourceLog;
import scala.Function1;
import scala.Option;
import scala.runtime.BoxedUnit;

/**
 * The log of a file source, which parses only what {@link ParsedLog} does not know. It reads and
 * writes the files that Spark's own reads and writes.
 */
final class RememberedSourceLog extends FileStreamSourceLog {
  private static final int VERSION = FileStreamSourceLog.VERSION();

  private final ParsedLog parsed;

  RememberedSourceLog(SparkSession session, String path, ParsedLog parsed) {
    super(VERSION, session, path);
    this.parsed = parsed;
  }

  @Override
  public FileEntry[] deserialize(InputStream in) {
    try {
      return parsed.entries(
          in.readAllBytes(), text -> super.deserialize(new ByteArrayInputStream(text)));
    } catch (IOException e) {
      throw Sneaky.rethrow(e); // bare: Spark looks for the next compacted file then
    }
  }

  @Override
  public Option<FileEntry[]> filterInBatch(long batch, Function1<FileEntry, Object> wanted) {
    Option<FileEntry[]> found = get(batch);
    return found.isEmpty()
        ? found
        : Option.apply(
            Arrays.stream(found.get())
                .filter(each -> (Boolean) wanted.apply(each))
                .toArray(FileEntry[]::new));
  }

  @Override
  public void foreachInBatch(long batch, Function1<FileEntry, BoxedUnit> action) {
    Option<FileEntry[]> found = get(batch);
    if (found.isEmpty()) {
      throw Sneaky.rethrow(new FileNotFoundException(batchIdToPath(batch) + " does not exist"));
    }
    for (FileEntry each : found.get()) {
      action.apply(each);
    }
  }
}
