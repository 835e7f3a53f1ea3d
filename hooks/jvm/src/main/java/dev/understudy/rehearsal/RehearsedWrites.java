package dev.understudy.rehearsal;

import dev.understudy.fence.IoAction;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.analysis.LocalTempView$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.PlanLater;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.WriteFiles;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.apache.spark.sql.execution.datasources.jdbc.JdbcRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a {@code foreachBatch} function of the user's writes in a rehearsal: to scratch, or nowhere.
 *
 * <p>Spark plans every command before it runs it, whichever API it came from. A planner strategy
 * looks at each one: in the batch's own session at all of them, in other sessions at those of a
 * thread between {@link #enter} and {@link #leave}. Rows that are to be written to files go to
 * scratch in the same format; a Delta merge goes into a shallow clone of its table; other rows are
 * computed and dropped. A command that is none of these, and changes more than its session, does
 * not run.
 *
 * <p>Not seen: what is no command of Spark's. RDDs, {@code foreachPartition}, and Delta's methods
 * that plan nothing are kept from running by Python's side; a JDBC connection that the function
 * opens by itself is as invisible as a file that Python writes.
 */
public final class RehearsedWrites {
  /** Commands that change their session alone, or look. */
  private static final Set<String> OF_THE_SESSION =
      Set.of(
          "SetCommand",
          "ResetCommand",
          "SetCatalogAndNamespace",
          "SetNamespaceCommand",
          "SetCatalogCommand",
          "DropTempViewCommand",
          "CreateTempViewUsing",
          "CacheTableCommand",
          "UncacheTableCommand",
          "RefreshTableCommand",
          "ExplainCommand");

  private record Frame(
      RehearsedWrites writes, boolean passes, boolean changes, RehearsedCache cached) {}

  /** By thread, because Py4J enters here: whose commands it runs, and whether they may run. */
  private static final ThreadLocal<Deque<Frame>> FRAMES = ThreadLocal.withInitial(ArrayDeque::new);

  private final SparkSession session;
  private final Path scratch;
  private final DeltaScratch delta;
  private final FunctionLife life;
  private final RehearsedCache cached;
  private volatile String refused = "";
  private volatile boolean ended;
  private final AtomicInteger targets = new AtomicInteger();

  /**
   * @param session the batch's, which is this round's alone
   * @param scratch of this round
   */
  RehearsedWrites(SparkSession session, Path scratch, DeltaScratch delta, FunctionLife life) {
    this.session = session;
    this.scratch = scratch;
    this.delta = delta;
    this.life = life;
    this.cached = new RehearsedCache(session.sharedState().cacheManager());
    add(new Strategy(this), session);
  }

  /**
   * From now on, until {@link #leave}, this thread's commands in {@code owner} are this function's.
   *
   * @param passes they run as they are: a {@link #change}
   * @throws IllegalStateException once the rehearsal was cancelled, or a command was refused
   */
  public void enter(SparkSession owner, boolean passes) {
    if (passes) {
      change();
    } else {
      requireRunning();
      push(false, false);
    }
    add(new Strategy(null), owner);
  }

  /**
   * From now on, until {@link #leave}, this thread changes no more than a session and the cache. A
   * takeover waits for it.
   *
   * @throws IllegalStateException once the rehearsal was cancelled, or a command was refused
   */
  public void change() {
    life.changes().begin();
    try {
      requireRunning(); // after it has begun: what cancels looks the other way round
    } catch (IllegalStateException e) {
      life.changes().end();
      throw e;
    }
    push(true, true);
  }

  private void requireRunning() {
    if (over()) {
      throw new IllegalStateException("the rehearsal of this function has ended");
    }
  }

  private void push(boolean passes, boolean changes) {
    FRAMES.get().push(new Frame(this, passes, changes, cached.part()));
  }

  public void leave() {
    Frame left = FRAMES.get().pop();
    try {
      if (over()) { // what was being cached while the rehearsal ended
        left.cached().drop();
      }
    } finally {
      if (left.changes()) {
        life.changes().end();
      }
    }
  }

  /**
   * Between {@link #enter} and {@link #leave}: this thread is about to cache {@code rows}. They are
   * let go when the function's rehearsal ends, unless they are cached already.
   */
  public void caches(Dataset<?> rows) {
    FRAMES.get().element().cached().add(rows);
  }

  /**
   * From now on, until {@link #part}, this thread's jobs are this function's, and are cancelled
   * with its rehearsal.
   *
   * @throws IllegalStateException if that was cancelled
   */
  public void join() {
    life.jobs().enter();
    if (cancelled()) { // looked at after it is entered: what cancels looks the other way round
      life.jobs().leave();
      throw new IllegalStateException("the rehearsal of this function was cancelled");
    }
  }

  public void part() {
    life.jobs().leave();
  }

  /** Whether no more of the function is rehearsed: it has returned, or was cancelled or refused. */
  public boolean over() {
    return ended || life.cancelled().getAsBoolean() || !refused.isEmpty();
  }

  /** Whether the rehearsal was cancelled. */
  public boolean cancelled() {
    return life.cancelled().getAsBoolean();
  }

  /** The function has returned. Threads that it has left behind write nothing from now on. */
  void end() {
    ended = true;
    cached.drop();
  }

  /** The rehearsal was cancelled: no batch of the job's may find what the function has cached. */
  void cancel() {
    cached.drop();
  }

  /** Runs commands of the rehearsal's own in the session of the batch. */
  void unredirected(IoAction action) throws IOException {
    push(true, false);
    try {
      action.run();
    } finally {
      leave();
    }
  }

  /** The command that did not run; empty without one. */
  public String refused() {
    return refused;
  }

  private static synchronized void add(Strategy strategy, SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    Seq<SparkStrategy> known = methods.extraStrategies();
    if (strategy.owner != null
        || !CollectionConverters.asJava(known).stream().anyMatch(Strategy.class::isInstance)) {
      methods.extraStrategies_$eq(CollectionConverters.asScala(joined(strategy, known)).toSeq());
    }
  }

  private static List<SparkStrategy> joined(Strategy first, Seq<SparkStrategy> others) {
    List<SparkStrategy> all = new ArrayList<>(CollectionConverters.asJava(others));
    all.add(0, first);
    return all;
  }

  private static final class Strategy extends SparkStrategy {
    /** Whose commands they are in any thread; null where the thread tells. */
    private final RehearsedWrites owner;

    Strategy(RehearsedWrites owner) {
      this.owner = owner;
    }

    @Override
    public Seq<SparkPlan> apply(LogicalPlan plan) {
      Frame frame = FRAMES.get().peek();
      RehearsedWrites writes = frame == null ? owner : frame.writes();
      if (frame != null && frame.passes()) {
        frame.cached().add(plan);
      }
      if (!(plan instanceof Command) || writes == null || (frame != null && frame.passes())) {
        return CollectionConverters.asScala(List.<SparkPlan>of()).toSeq();
      }
      List<SparkPlan> instead = writes.instead(plan);
      return CollectionConverters.asScala(instead).toSeq();
    }
  }

  /**
   * Runs what a command is replaced by, in the rehearsal's session: Delta's commits, too, write
   * through the fence in the script's, and would wait at the gate.
   *
   * @return what Spark then runs in the command's place, which does nothing; empty if the command
   *     itself is to run
   */
  private List<SparkPlan> instead(LogicalPlan command) {
    String name = command.getClass().getSimpleName();
    if (over()) {
      throw refuse(name, null);
    }
    if (ofTheSession(command, name)) {
      return List.of();
    }
    LogicalPlan rows = rows(command);
    if (rows == null && !DeltaClone.merges(command)) {
      throw refuse(name, null);
    }
    try {
      unredirected(
          () -> {
            if (rows == null) {
              Path clone = delta.noted(target("clone"));
              Dataset.ofRows(session, DeltaClone.redirect(command, session, clone));
            } else {
              write(command, analyzed(name, rows));
            }
          });
    } catch (IOException | IllegalStateException e) {
      throw refuse(name, e);
    }
    return List.of(new PlanLater(LocalRelation$.MODULE$.apply(command.output())));
  }

  private Dataset<Row> analyzed(String name, LogicalPlan rows) {
    try {
      return Dataset.ofRows(session, rows);
    } catch (Exception e) { // Spark's own, checked ones among them, which Scala does not declare
      throw refuse(name, e);
    }
  }

  private static boolean ofTheSession(LogicalPlan command, String name) {
    return OF_THE_SESSION.contains(name)
        || name.startsWith("Show")
        || name.startsWith("Describe")
        || (command instanceof CreateViewCommand view && view.viewType() == LocalTempView$.MODULE$);
  }

  private IllegalStateException refuse(String name, Exception cause) {
    refused = name;
    return new IllegalStateException(
        "a rehearsal does not run " + name + ": what it changes cannot be redirected", cause);
  }

  /** The rows that a command writes; null if it does something else. */
  private static LogicalPlan rows(LogicalPlan command) {
    Product fields = (Product) command;
    for (int i = 0; i < fields.productArity(); i++) {
      if (fields.productElementName(i).equals("query")
          && fields.productElement(i) instanceof LogicalPlan query) {
        return query instanceof WriteFiles files ? files.child() : query;
      }
    }
    return null;
  }

  private Path target(String kind) {
    return new Path(scratch, kind + "-" + targets.getAndIncrement());
  }

  private void write(LogicalPlan command, Dataset<Row> rows) throws IOException {
    if (command instanceof InsertIntoHadoopFsRelationCommand files
        && files.fileFormat() instanceof DataSourceRegister format) {
      String[] names =
          CollectionConverters.asJava(files.outputColumnNames()).toArray(String[]::new);
      String[] partitioning =
          CollectionConverters.asJava(files.partitionColumns()).stream()
              .map(Attribute::name)
              .toArray(String[]::new);
      Map<String, String> options = new HashMap<>(CollectionConverters.asJava(files.options()));
      options.keySet().removeIf("path"::equalsIgnoreCase);
      rows.toDF(names)
          .write()
          .format(format.shortName())
          .options(options)
          .partitionBy(partitioning)
          .save(target("sink").toString());
      return;
    }
    Path table = DeltaClone.writes(command) ? delta.table(rows.schema(), List.of()) : null;
    if (table != null) {
      rows.write().format("delta").mode(SaveMode.Append).save(table.toString());
      return;
    }
    if (command instanceof SaveIntoDataSourceCommand save
        && save.dataSource() instanceof JdbcRelationProvider) {
      DatabaseConnection.tryOut(new JDBCOptions(save.options()));
    }
    rows.write().format("noop").mode(SaveMode.Overwrite).save();
  }
}
