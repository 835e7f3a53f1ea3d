package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The fence of one driver process: its gate, what it has claimed, which batches run, and its log.
 * All that writes asks {@link #admit} first.
 */
final class FenceSession {
  /** What the supervisor gives to a driver; it holds for the life of the process. */
  record Settings(String gatePath, Identity identity, String logPath, long writeTimeoutMillis) {}

  private final Settings settings;
  private final Gate gate;
  private final FenceLog log;
  private final ObjectStoreClients clients;
  private final ClaimRegistry registry;
  private final Admission admission;
  private final BatchHold hold = new BatchHold();
  private final AtomicReference<StartPace> pace = new AtomicReference<>();

  private FenceSession(Settings settings, Gate gate, FenceLog log) {
    this.settings = settings;
    this.gate = gate;
    this.log = log;
    this.clients = new ObjectStoreClients(settings.writeTimeoutMillis(), true);
    this.registry = new ClaimRegistry(clients);
    this.admission = new Admission(settings.identity(), gate, log);
  }

  /**
   * Maps the gate and opens the log.
   *
   * @throws IOException if the gate, a page next to it, or the log's directory is missing
   */
  static FenceSession open(Settings settings) throws IOException {
    Gate gate = Gate.map(settings.gatePath());
    Counters counters = Counters.map(Counters.of(gate.path()));
    FenceLog log = new FenceLog(settings.logPath(), settings.identity().holder(), counters);
    return new FenceSession(settings, gate, log);
  }

  /** From now on this process ends by itself at the gate's deadlines. */
  void startHalting() {
    new HaltingThread(gate, settings.identity().holder(), log).start();
  }

  Settings settings() {
    return settings;
  }

  ObjectStoreClients clients() {
    return clients;
  }

  // ---- claims

  /** See {@link Fence#claim}. */
  Claims.Outcome claim(String root, Configuration conf, long recorded, long committed)
      throws IOException {
    Path path = new Path(root);
    FileSystem files = path.getFileSystem(conf);
    Retries retries = Retries.ofClaim(settings.writeTimeoutMillis());
    ClaimedDirectory claimed = named(files, path, conf, retries);
    if (!claimed.claimable()) {
      throw new IOException(
          root
              + ": no claim is possible on "
              + files.getScheme()
              + "://, which has neither link(2) nor conditional PUT. Use a local disk or s3a://");
    }
    Claims.Outcome outcome = admission.claim(claimed, recorded, retries);
    if (outcome.verdict().ours()) {
      claimed.committed.mustReach(committed);
      if (claimed.remote() && committed > BatchInFlight.NONE) {
        CachingCheckpointFileSystem.startsSoon(path, conf);
      }
    }
    return outcome;
  }

  /** Where no standby has prepared it, this asks the store for the first time. */
  private ClaimedDirectory named(FileSystem files, Path path, Configuration conf, Retries retries)
      throws IOException {
    while (true) {
      try {
        return registry.named(files, path, conf);
      } catch (IOException e) {
        retries.pause(e);
      }
    }
  }

  void prepare(String root, Configuration conf) throws IOException {
    admission.prepare(named(root, conf));
  }

  void forget(String root, Configuration conf) throws IOException {
    Path path = new Path(root);
    registry.forget(ClaimRegistry.key(path.getFileSystem(conf), path));
  }

  /**
   * The batches of {@code root} count in the activity page from now on; see {@link UngatedSinks}.
   */
  void countBatches(String root, Configuration conf, boolean always) throws IOException {
    named(root, conf).inFlight.ungated(gate.activity(), always);
  }

  private ClaimedDirectory named(String root, Configuration conf) throws IOException {
    Path path = new Path(root);
    return registry.named(path.getFileSystem(conf), path, conf);
  }

  /** Returns JSON of the first reason for which no driver can work here; empty if there is none. */
  String refusal() {
    Refusal refusal = admission.refusal();
    return refusal == null ? "" : refusal.json();
  }

  /** The claimed root above {@code path}, or the one that its place suggests. */
  ClaimedDirectory rootOf(FileSystem files, Path path, Configuration conf, boolean sink)
      throws IOException {
    return registry.above(files, path, conf, sink);
  }

  /** The root of what a batch writes to {@code path}; see {@link ClaimRegistry#output}. */
  ClaimedDirectory outputOf(FileSystem files, Path path, Configuration conf) throws IOException {
    return registry.output(files, path, conf, settings.identity());
  }

  // ---- writes

  /** See {@link Admission#admit}. */
  void admit(ClaimedDirectory root, String op, String path, boolean readClaim) throws IOException {
    admission.admit(root, op, path, readClaim);
  }

  /**
   * As {@link #admit}, for the offsets of a batch: waits while batches are held or others come
   * first, and then marks the batch as in flight.
   */
  void admitBatch(ClaimedDirectory root, long batch, String path, boolean readClaim)
      throws IOException {
    boolean begun = false;
    while (!begun) {
      admit(root, "create", path, readClaim);
      try {
        begun =
            hold.begin(root.drainedBy(batch), othersFirst(root), () -> root.inFlight.began(batch));
      } catch (InterruptedException e) {
        throw Admission.interrupted(path);
      }
    }
  }

  private boolean othersFirst(ClaimedDirectory root) {
    StartPace starts = pace.get();
    return starts != null && !starts.mayGoOn(root.key);
  }

  /** See {@link Fence#startPace}. */
  StartPace startPace(int queries) {
    StartPace starts = new StartPace();
    if (!starts.isNeededFor(queries)) {
      return null;
    }
    pace.set(starts);
    return starts;
  }

  /** See {@link Fence#letAllBegin}. */
  void letAllBegin() {
    StartPace starts = pace.get();
    if (starts != null) {
      starts.letAllBegin();
    }
  }

  void committed(ClaimedDirectory root, long batch) {
    root.committed.landed(batch);
    StartPace starts = pace.get();
    if (starts != null) {
      starts.committed(root.key);
      if (starts.over()) {
        pace.compareAndSet(starts, null);
      }
    }
    batchEnded(root, batch);
  }

  void batchEnded(ClaimedDirectory root, long batch) {
    root.inFlight.ended(batch);
    hold.ended();
  }

  /**
   * Spark has listed a log of a checkpoint.
   *
   * @throws IOException if the log ends before what the job has committed; see {@link
   *     CommittedBatches}
   */
  void listed(FileSystem files, Path log, FileStatus[] entries) throws IOException {
    String name = log.getName();
    if (!name.equals(CommittedBatches.OFFSETS) && !name.equals(CommittedBatches.COMMITS)) {
      return;
    }
    ClaimedDirectory root = registry.known(files, log);
    if (root == null) {
      return;
    }
    long highest = BatchInFlight.highest(entries);
    long missing = root.committed.listed(name, highest);
    if (missing != BatchInFlight.NONE) {
      throw admission.behind(root.key, name, highest, missing);
    }
  }

  void landed(ClaimedDirectory root, String op, String path) {
    record(root, op, path, WriteOutcome.ACCEPTED, "");
  }

  /** Records what became of a write that was admitted. */
  void record(ClaimedDirectory root, String op, String path, WriteOutcome outcome, String reason) {
    if (!root.claimable() && !root.remote()) {
      return; // a temporary checkpoint, which nothing but its own query reads
    }
    long token = root.admittedToken();
    if (outcome == WriteOutcome.ACCEPTED && path.startsWith(root.key + "/state/")) {
      log.count(token, op, path, outcome); // several per batch and partition: too many for lines
    } else {
      log.write(token, op, path, outcome, reason);
    }
  }

  // ---- for the supervisor

  /**
   * From now on the hold of batches lets this one of {@code root} begin: it drains the query.
   *
   * @throws IllegalStateException if batches are not held
   */
  void drainWith(String root, Configuration conf, long batch) throws IOException {
    if (!hold.held()) {
      throw new IllegalStateException(root + ": batches are not held");
    }
    named(root, conf).drainWith(batch);
  }

  void hold() {
    hold.hold();
  }

  boolean awaitQuiet(long timeoutMillis) throws InterruptedException {
    return hold.awaitQuiet(timeoutMillis, registry::anyInFlight);
  }

  void resume() {
    hold.release();
  }

  /** See {@link Fence#state}. */
  void describe(ObjectNode json) throws IOException {
    gate.describe(json.putObject("gate"));
    json.put("holder", settings.identity().holder()).put("activity", gate.activity().running());
    json.put("held", hold.held());
    registry.describe(json.putArray("roots"));
    for (WriteOutcome outcome : WriteOutcome.values()) {
      json.put(outcome.text, log.counted(outcome));
    }
  }
}
