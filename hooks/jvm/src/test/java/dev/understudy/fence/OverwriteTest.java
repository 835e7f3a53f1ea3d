package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(30)
class OverwriteTest {
  private static final long TOKEN = GatePage.token(5, 1);
  private static final Identity IDENTITY = new Identity("me", "cluster", "job", "file");

  @TempDir Path directory;

  private final Configuration conf = new Configuration();
  private Path out;
  private FileSystem files;
  private SinkTicket ticket;

  @BeforeEach
  void attach() throws IOException {
    out = directory.resolve("out");
    files = FileSystem.getLocal(conf);
    GatePage gate = new GatePage(directory);
    gate.write(Gate.State.OPEN, TOKEN);
    String log = directory.resolve("fence.jsonl").toString();
    FenceSession session =
        FenceSession.open(new FenceSession.Settings(gate.path().toString(), IDENTITY, log, 1_000));
    ClaimedDirectory root = session.outputOf(files, path(), conf);
    session.admit(root, "setupJob", out.toString(), true);
    ticket = new SinkTicket(session, root, out.toString());
  }

  private org.apache.hadoop.fs.Path path() {
    return new org.apache.hadoop.fs.Path(out.toString());
  }

  private void written(String partition, String name) throws IOException {
    Files.createDirectories(out.resolve(partition));
    Files.writeString(out.resolve(partition).resolve(name), "rows");
  }

  private void seize() throws IOException {
    Claim theirs = new Claim(GatePage.token(6, 1), "successor", "cluster", "job", "file");
    ClaimedDirectory.ofOutput(
            out.toString(), files, conf, new ObjectStoreClients(1_000, true), IDENTITY)
        .claim(theirs, FormerLocks.NONE, Claims.UNRECORDED, () -> true);
  }

  private List<String> visible() throws IOException {
    try (Stream<Path> all = Files.walk(out)) {
      return all.filter(Files::isRegularFile)
          .map(each -> out.relativize(each).toString())
          .filter(name -> !name.startsWith(Claim.DIRECTORY))
          .sorted()
          .toList();
    }
  }

  @Test
  void whatIsOverwrittenIsDeletedAndTheClaimStays() throws IOException {
    written("k=1", "old");
    written("k=2", "old");

    assertTrue(Overwrite.delete(ticket, files, path(), each -> files.delete(each, true)));

    assertEquals(List.of(), visible());
    assertTrue(ticket.root().stands(TOKEN));
  }

  @Test
  void whatASuccessorHasWrittenBetweenTwoDeletionsStays() throws IOException {
    written("k=1", "old");
    written("k=2", "old");
    List<org.apache.hadoop.fs.Path> deleted = new ArrayList<>();

    assertThrows(
        LeadershipLostException.class,
        () ->
            Overwrite.delete(
                ticket,
                files,
                path(),
                each -> {
                  deleted.add(each);
                  seize();
                  LocalFiles.delete(out.resolve("k=1"));
                  LocalFiles.delete(out.resolve("k=2"));
                  written("k=1", "new");
                  written("k=2", "new");
                  return files.delete(each, true);
                }));

    assertEquals(1, deleted.size());
    assertEquals(List.of("k=1/new", "k=2/new"), visible());
  }

  @Test
  void whatIsOutsideOfTheClaimedDirectoryIsDeletedWhereItIs() throws IOException {
    Path elsewhere = directory.resolve("elsewhere");
    Files.createDirectories(elsewhere);
    List<org.apache.hadoop.fs.Path> deleted = new ArrayList<>();

    Overwrite.delete(
        ticket,
        files,
        new org.apache.hadoop.fs.Path(elsewhere.toString()),
        each -> {
          deleted.add(each);
          return files.delete(each, true);
        });

    assertEquals(List.of(elsewhere.toString()), deleted.stream().map(Object::toString).toList());
    assertFalse(Files.exists(elsewhere));
  }
}
