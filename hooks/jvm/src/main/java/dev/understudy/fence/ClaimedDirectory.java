package dev.understudy.fence;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/** A checkpoint or sink directory: its claim, and which batch of it is in flight. */
final class ClaimedDirectory {
  final String key;
  final BatchInFlight inFlight = new BatchInFlight(this::pendingBatch);
  final CommittedBatches committed = new CommittedBatches();

  /** Null where the file system has no compare-and-set: such a root has the gate only. */
  private final ClaimStore store;

  private final boolean remote;
  private final boolean output;
  private final FileSystem files;
  private volatile ClaimStore.Standing ours;
  private volatile ClaimStore.Standing prepared;
  private volatile long admitted = -1;
  private volatile long drainedBy = BatchInFlight.NONE;

  private ClaimedDirectory(
      String key, ClaimStore store, boolean remote, FileSystem files, boolean output) {
    this.key = key;
    this.store = store;
    this.remote = remote;
    this.files = files;
    this.output = output;
  }

  /** A checkpoint, or the directory of a streaming file sink: claimed as a whole. */
  static ClaimedDirectory of(
      String key, FileSystem files, Configuration conf, ObjectStoreClients clients)
      throws IOException {
    ClaimStore store = store(key, files, conf, clients, Claim.DIRECTORY);
    return new ClaimedDirectory(key, store, !LocalFiles.isLocal(files), files, false);
  }

  /** The directory that batches of a job write to: see {@link OutputClaims}. */
  static ClaimedDirectory ofOutput(
      String key,
      FileSystem files,
      Configuration conf,
      ObjectStoreClients clients,
      Identity identity)
      throws IOException {
    boolean local = LocalFiles.isLocal(files);
    String directory = OutputClaims.directory(identity.cluster(), identity.job());
    ClaimStore whole = store(key, files, conf, clients, Claim.DIRECTORY);
    ClaimStore ours = store(key, files, conf, clients, directory);
    if (whole == null) {
      return new ClaimedDirectory(key, null, true, files, true);
    }
    org.apache.hadoop.fs.Path log = new org.apache.hadoop.fs.Path(key, "_spark_metadata");
    ClaimStore store = new OutputClaims(whole, ours, local, identity, () -> files.exists(log));
    return new ClaimedDirectory(key, store, !local, files, true);
  }

  /**
   * A directory of this process alone. Its writes wait for the gate, and are not recorded: no other
   * process reads them.
   */
  static ClaimedDirectory unclaimed(String key, FileSystem files) {
    return new ClaimedDirectory(key, null, false, files, false);
  }

  /** Null where no compare-and-set is possible. */
  private static ClaimStore store(
      String key,
      FileSystem files,
      Configuration conf,
      ObjectStoreClients clients,
      String directory)
      throws IOException {
    if (LocalFiles.isLocal(files)) {
      return new LocalClaims(Path.of(key), directory);
    }
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(key);
    return ObjectStore.isConditional(files, path)
        ? new ObjectClaims(clients.conditions(), clients.writer(path, conf), path, directory)
        : null;
  }

  /** Whether batch writers have it as output: without a log of batches, claimed for one job. */
  boolean output() {
    return output;
  }

  boolean claimable() {
    return store != null;
  }

  /** Whether a look at the claim is a request over the network. */
  boolean remote() {
    return remote;
  }

  /** Whether its claim deletes what another JVM has in {@link Staging}. */
  boolean stages() {
    return claimable() && !remote;
  }

  /** From now on a hold of batches lets this one begin: it drains the query. */
  void drainWith(long batch) {
    drainedBy = batch;
  }

  boolean drainedBy(long batch) {
    return batch == drainedBy;
  }

  void admitted(long token) {
    admitted = token;
  }

  /** The token of the last write that was let through, for the log. */
  long admittedToken() {
    return admitted;
  }

  /** The token of our claim, or -1. */
  long token() {
    ClaimStore.Standing seen = ours;
    return seen == null ? -1 : seen.claim().token();
  }

  /** Claims for {@code mine}. Always reads what stands: a repeated call must not trust memory. */
  synchronized Claims.Outcome claim(
      Claim mine, FormerLocks former, long recorded, BooleanSupplier gateOpen) throws IOException {
    store.requireConditions();
    // what was found before our first claim says nothing about what stands after it
    ClaimStore.Standing guess = ours == null ? prepared : null;
    Claims.Outcome outcome = Claims.claim(store, guess, mine, former, recorded, gateOpen);
    if (outcome.verdict().ours()) {
      if (!remote) {
        // before any write of ours; again after a claim that failed here
        Staging.deleteOthers(Path.of(key));
      }
      won(outcome, mine);
    }
    return outcome;
  }

  private void won(Claims.Outcome outcome, Claim mine) {
    boolean claimed = outcome.verdict() == Claims.Verdict.CLAIMED;
    // a repeat of what was never seen to land: its answer was lost, and with it what stood before
    boolean unseen = ours == null || ours.claim().token() != mine.token();
    ours = outcome.standing();
    if (claimed && !outcome.followed() && remote) {
      CachingCheckpointFileSystem.forgetBelow(key); // a script has removed it, perhaps
    }
    if ((claimed || unseen) && !output) {
      inFlight.unknown();
    }
  }

  /**
   * Opens what a claim will need: clients, connections, their code. Changes nothing that another
   * process reads.
   */
  void prepare() throws IOException {
    if (store != null) {
      prepared = store.prepare();
    }
  }

  /** Whether this token still is the claim. If not, another {@link #claim} says why. */
  boolean stands(long token) throws IOException {
    ClaimStore.Standing seen = ours;
    return seen != null && seen.claim().token() == token && store.stands(seen);
  }

  /** For a closed gate: what another process's claim says against us, or null. Reads only. */
  Claims.Verdict objection(Claim mine, FormerLocks former) throws IOException {
    if (store == null || ours == null || store.stands(ours)) {
      return null;
    }
    Claims.Verdict verdict = Claims.judge(store.read(), mine, former);
    return verdict.refused() ? verdict : null;
  }

  /** A batch whose offsets are logged and whose commit is not: the predecessor's, to run again. */
  private long pendingBatch() throws IOException {
    long offsets = highest(CommittedBatches.OFFSETS);
    boolean pending = offsets != BatchInFlight.NONE && offsets > highest(CommittedBatches.COMMITS);
    return pending ? offsets : BatchInFlight.NONE;
  }

  private long highest(String log) throws IOException {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(key, log);
    try {
      return BatchInFlight.highest(
          LocalFiles.isLocal(files)
              ? LocalFiles.list(files, path, each -> true)
              : files.listStatus(path));
    } catch (FileNotFoundException e) {
      return BatchInFlight.NONE;
    }
  }
}
