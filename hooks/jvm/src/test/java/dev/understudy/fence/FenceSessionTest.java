package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(30)
class FenceSessionTest {
  private static final long TOKEN = GatePage.token(5, 1);

  @TempDir Path directory;

  private final Configuration conf = new Configuration();
  private GatePage gate;
  private FenceSession session;
  private ClaimedDirectory root;

  @BeforeEach
  void attach() throws IOException {
    gate = new GatePage(directory);
    Identity identity = new Identity("me", "cluster", "job", "file");
    String log = directory.resolve("fence.jsonl").toString();
    session =
        FenceSession.open(new FenceSession.Settings(gate.path().toString(), identity, log, 1_000));
    root =
        session.rootOf(
            FileSystem.getLocal(conf),
            new org.apache.hadoop.fs.Path(checkpoint().toString(), "offsets/0"),
            conf,
            false);
  }

  private Path checkpoint() {
    return directory.resolve("checkpoint");
  }

  private void admit() throws IOException {
    session.admit(root, "publish", checkpoint() + "/offsets/0", true);
  }

  private CompletableFuture<Void> admitting() {
    return CompletableFuture.runAsync(
        () ->
            Sneaky.run(
                () -> {
                  admit();
                }));
  }

  private static void waits(CompletableFuture<?> pending) throws Exception {
    Thread.sleep(100);
    assertFalse(pending.isDone());
  }

  private static LeadershipLostException lost(CompletableFuture<?> ended) {
    ExecutionException raised =
        assertThrows(ExecutionException.class, () -> ended.get(10, TimeUnit.SECONDS));
    return assertInstanceOf(LeadershipLostException.class, raised.getCause());
  }

  private void claimAs(long token, String holder) throws IOException {
    Claim theirs = new Claim(token, holder, "cluster", "job", "file");
    Claims.claim(new LocalClaims(checkpoint()), null, theirs, () -> true);
  }

  private String log() throws IOException {
    return Files.readString(directory.resolve("fence.jsonl"));
  }

  @Test
  void anOpenGateAdmitsAndClaimsFirst() throws IOException {
    gate.write(Gate.State.OPEN, TOKEN);

    admit();

    assertEquals(TOKEN, new LocalClaims(checkpoint()).read().claim().token());
    assertEquals(TOKEN, root.admittedToken());
  }

  @Test
  void aStandbyWaitsAndWritesOnceItLeads() throws Exception {
    CompletableFuture<Void> pending = admitting();
    waits(pending);
    assertFalse(Files.exists(checkpoint()));

    gate.write(Gate.State.OPEN, TOKEN);

    pending.get(10, TimeUnit.SECONDS);
    assertTrue(root.stands(TOKEN));
  }

  @Test
  void aClosedGateIsWaitedForUntilItReopens() throws Exception {
    gate.write(Gate.State.OPEN, TOKEN);
    admit();
    gate.write(Gate.State.CLOSED, TOKEN);

    CompletableFuture<Void> pending = admitting();
    waits(pending);
    gate.write(Gate.State.OPEN, TOKEN);

    assertDoesNotThrow(() -> pending.get(10, TimeUnit.SECONDS));
  }

  @Test
  void anOpenGatePastItsDeadlineIsClosed() throws Exception {
    gate.write(Gate.State.OPEN, TOKEN, 1, GatePage.NEVER);

    CompletableFuture<Void> pending = admitting();
    waits(pending);

    gate.write(Gate.State.REVOKED, TOKEN);
    assertTrue(lost(pending).getMessage().contains("refused: revoked (token 5.1, holder me)"));
  }

  @Test
  void aRevokedGateRefusesAndTheLogSaysSo() throws IOException {
    gate.write(Gate.State.REVOKED, TOKEN);

    assertThrows(LeadershipLostException.class, this::admit);

    assertTrue(log().contains("\"outcome\":\"refused\",\"reason\":\"revoked\""));
    assertFalse(Files.exists(checkpoint()));
  }

  @Test
  void aParkedDriverIsRefusedAtTheParkDeadline() throws IOException {
    gate.write(Gate.State.CLOSED, TOKEN, GatePage.NEVER, 1);

    LeadershipLostException raised = assertThrows(LeadershipLostException.class, this::admit);

    assertTrue(raised.getMessage().contains("park-deadline"));
  }

  @Test
  void aHigherClaimRefusesThoughTheGateIsOpen() throws IOException {
    gate.write(Gate.State.OPEN, TOKEN);
    admit();
    claimAs(GatePage.token(6, 1), "successor");

    LeadershipLostException raised = assertThrows(LeadershipLostException.class, this::admit);

    assertTrue(raised.getMessage().contains("higher-claim"));
    assertEquals(GatePage.token(6, 1), new LocalClaims(checkpoint()).read().claim().token());
  }

  @Test
  void aGateThatClosesWhileTheClaimIsReadAdmitsNothing() throws Exception {
    // reading a named pipe waits until another process writes to it, as a frozen disk would
    Path claim = checkpoint().resolve(Claim.DIRECTORY).resolve("claim@1");
    Files.createDirectories(claim.getParent());
    assertEquals(0, new ProcessBuilder("mkfifo", claim.toString()).start().waitFor());
    gate.write(Gate.State.OPEN, TOKEN);
    CompletableFuture<Void> pending = admitting();
    waits(pending);

    gate.write(Gate.State.CLOSED, TOKEN);
    Files.write(claim, new Claim(TOKEN, "me", "cluster", "job", "file").bytes());
    waits(pending);

    gate.write(Gate.State.REVOKED, TOKEN);
    assertTrue(lost(pending).getMessage().contains("revoked"));
    assertEquals(-1, root.admittedToken());
  }

  @Test
  void aHigherClaimEndsTheWaitAtAClosedGate() throws Exception {
    gate.write(Gate.State.OPEN, TOKEN);
    admit();
    gate.write(Gate.State.CLOSED, TOKEN);
    CompletableFuture<Void> pending = admitting();
    waits(pending);

    claimAs(GatePage.token(6, 1), "successor");

    assertTrue(lost(pending).getMessage().contains("higher-claim"));
  }

  @Test
  void aNewTokenInThePageIsClaimedBeforeTheNextWrite() throws IOException {
    gate.write(Gate.State.OPEN, TOKEN);
    admit();

    gate.write(Gate.State.OPEN, GatePage.token(5, 2));
    admit();

    assertEquals(GatePage.token(5, 2), new LocalClaims(checkpoint()).read().claim().token());
  }

  @Test
  void anotherJobsClaimIsARefusalForEveryDriver() throws IOException {
    gate.write(Gate.State.OPEN, TOKEN);
    Claim theirs = new Claim(1, "x", "cluster", "other", "file");
    Claims.claim(new LocalClaims(checkpoint()), null, theirs, () -> true);
    assertEquals("", session.refusal());

    Claims.Outcome outcome =
        session.claim(checkpoint().toString(), conf, Claims.UNRECORDED, BatchInFlight.NONE);

    assertEquals(Claims.Verdict.OTHER_JOB, outcome.verdict());
    assertTrue(session.refusal().contains("\"kind\":\"foreign\""));
    assertTrue(session.refusal().contains("job other of cluster cluster (lock: file)"));
  }

  private boolean quiet(long timeoutMillis) throws InterruptedException {
    session.hold();
    return session.awaitQuiet(timeoutMillis);
  }

  @Test
  void aHeldBatchDoesNotBeginBeforeItIsReleased() throws Exception {
    gate.write(Gate.State.OPEN, TOKEN);
    session.claim(checkpoint().toString(), conf, Claims.UNRECORDED, BatchInFlight.NONE);
    assertTrue(quiet(1_000));

    CompletableFuture<Void> pending =
        CompletableFuture.runAsync(
            () -> Sneaky.run(() -> session.admitBatch(root, 3, checkpoint() + "/offsets/3", true)));
    waits(pending);
    session.resume();
    pending.get(10, TimeUnit.SECONDS);

    assertEquals(3, root.inFlight.get());
  }

  @Test
  void ofBatchesThatAreHeldTheOneThatDrainsBegins() throws Exception {
    gate.write(Gate.State.OPEN, TOKEN);
    String path = checkpoint().toString();
    session.claim(path, conf, Claims.UNRECORDED, BatchInFlight.NONE);
    assertThrows(IllegalStateException.class, () -> session.drainWith(path, conf, 3));
    assertTrue(quiet(1_000));
    session.drainWith(path, conf, 3);

    session.admitBatch(root, 3, path + "/offsets/3", true);
    assertEquals(3, root.inFlight.get());
    session.batchEnded(root, 3);
    CompletableFuture<Void> next =
        CompletableFuture.runAsync(
            () -> Sneaky.run(() -> session.admitBatch(root, 4, path + "/offsets/4", true)));
    waits(next);
    session.resume();
    next.get(10, TimeUnit.SECONDS);
  }

  @Test
  void aBatchInFlightIsWaitedForUpToTheTimeOut() throws Exception {
    gate.write(Gate.State.OPEN, TOKEN);
    String path = checkpoint().toString();
    session.claim(path, conf, Claims.UNRECORDED, BatchInFlight.NONE);
    root =
        session.rootOf(
            FileSystem.getLocal(conf),
            new org.apache.hadoop.fs.Path(path, "offsets/3"),
            conf,
            false);
    session.admitBatch(root, 3, path + "/offsets/3", true);
    assertFalse(quiet(50));

    session.batchEnded(root, 3);

    assertTrue(quiet(1_000));
  }

  @Test
  void twoSessionsOfOneJvmShareNothing() throws IOException {
    gate.write(Gate.State.OPEN, TOKEN);
    admit();
    Path elsewhere = Files.createDirectory(directory.resolve("elsewhere"));
    GatePage theirs = new GatePage(elsewhere).write(Gate.State.OPEN, GatePage.token(6, 1));
    FenceSession other =
        FenceSession.open(
            new FenceSession.Settings(
                theirs.path().toString(),
                new Identity("other", "cluster", "job", "file"),
                elsewhere.resolve("fence.jsonl").toString(),
                1_000));

    other.claim(checkpoint().toString(), conf, Claims.UNRECORDED, BatchInFlight.NONE);

    assertThrows(LeadershipLostException.class, this::admit);
  }

  private CompletableFuture<Void> secondBatchOfATakeover(StartPace pace) throws Exception {
    gate.write(Gate.State.OPEN, TOKEN);
    assertTrue(pace.mayGoOn(root.key));
    session.admitBatch(root, 0, checkpoint() + "/offsets/0", true);
    session.committed(root, 0);
    CompletableFuture<Void> second =
        CompletableFuture.runAsync(
            () -> Sneaky.run(() -> session.admitBatch(root, 1, checkpoint() + "/offsets/1", true)));
    waits(second);
    return second;
  }

  @Test
  void aSecondBatchWaitsForTheFirstOnesOfATakeover() throws Exception {
    StartPace pace = session.startPace(1_000);
    CompletableFuture<Void> second = secondBatchOfATakeover(pace);

    pace.end();

    second.get(10, TimeUnit.SECONDS);
    assertEquals(1, root.inFlight.get());
  }

  @Test
  void aRevokedGateEndsTheWaitOfASecondBatch() throws Exception {
    CompletableFuture<Void> second = secondBatchOfATakeover(session.startPace(1_000));

    gate.write(Gate.State.REVOKED, TOKEN);

    lost(second);
  }

  @Test
  void theBatchThatDrainsAQueryWaitsForNoOthers() throws Exception {
    CompletableFuture<Void> second = secondBatchOfATakeover(session.startPace(1_000));

    root.drainWith(1);

    second.get(5, TimeUnit.SECONDS);
  }

  @Test
  void queriesBeginAtOnceWhereABatchWaitsForThem() throws Exception {
    StartPace pace = session.startPace(1_000);
    while (pace.turn()) {}

    session.letAllBegin();

    assertTrue(pace.turn());
  }

  @Test
  void aTakeoverOfOneQueryNeedsNoPace() {
    assertNull(session.startPace(1));
  }
}
