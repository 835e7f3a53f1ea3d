package dev.understudy.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.stream.Stream;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** All that Hadoop's own local file system leaves on the disk, ours leaves, too. */
class LocalDiskTest {
  @TempDir Path home;

  private static Configuration umask(String umask) {
    Configuration settings = new Configuration();
    settings.set("fs.permissions.umask-mode", umask);
    return settings;
  }

  private static <F extends FileSystem> F initialized(F files, Configuration settings)
      throws IOException {
    files.initialize(URI.create("file:///"), settings);
    return files;
  }

  private List<FileSystem> both(Configuration settings) throws IOException {
    return List.of(
        initialized(new LocalFileSystem(), settings), initialized(new LocalDisk(), settings));
  }

  private static org.apache.hadoop.fs.Path hadoop(Path path) {
    return new org.apache.hadoop.fs.Path(path.toUri());
  }

  private static int mode(Path path) throws IOException {
    return (Integer) Files.getAttribute(path, "unix:mode") & 07777;
  }

  private static void write(FileSystem files, Path path, String text) throws IOException {
    try (FSDataOutputStream out = files.create(hadoop(path))) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  /** Names and modes of all that is below {@code directory}. */
  private static List<String> left(Path directory) throws IOException {
    try (Stream<Path> all = Files.walk(directory)) {
      return all.filter(each -> !each.equals(directory))
          .map(
              each -> {
                try {
                  return directory.relativize(each) + " " + Integer.toOctalString(mode(each));
                } catch (IOException e) {
                  throw new AssertionError(e);
                }
              })
          .sorted()
          .toList();
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"022", "077", "000", "027"})
  void filesAndDirectoriesHaveTheSameModes(String umask) throws IOException {
    List<FileSystem> both = both(umask(umask));
    for (int each = 0; each < 2; each++) {
      FileSystem files = both.get(each);
      Path own = Files.createDirectory(home.resolve("of" + each));
      write(files, own.resolve("a/b/file"), "text");
      files.mkdirs(hadoop(own.resolve("c/d")), new FsPermission((short) 0750));
      files.mkdirs(hadoop(own.resolve("shared")), new FsPermission((short) 01777));
      files.setPermission(hadoop(own.resolve("shared")), new FsPermission((short) 01777));
      files.setPermission(hadoop(own.resolve("a/b/file")), new FsPermission((short) 0604));
    }

    List<String> stock = left(home.resolve("of0"));

    assertEquals(stock, left(home.resolve("of1")));
    assertTrue(stock.contains("shared 1777") && stock.contains("a/b/file 604"), stock.toString());
  }

  @Test
  void aDirectoryKeepsTheGroupThatItsFilesInherit() throws IOException {
    List<FileSystem> both = both(umask("022"));
    for (int each = 0; each < 2; each++) {
      Path own = Files.createDirectory(home.resolve("of" + each));
      Files.setAttribute(own, "unix:mode", 02775);
      both.get(each).setPermission(hadoop(own), new FsPermission((short) 0750));
    }

    assertEquals(02750, mode(home.resolve("of0")));
    assertEquals(02750, mode(home.resolve("of1")));
  }

  @Test
  void aMissingFileHasNoPermissions() throws IOException {
    for (FileSystem files : both(new Configuration())) {
      assertThrows(
          IOException.class,
          () -> files.setPermission(hadoop(home.resolve("none")), new FsPermission((short) 0600)));
    }
  }

  @Test
  void linksAreToldFromFiles() throws IOException {
    Path file = Files.writeString(home.resolve("file"), "text");
    Path link = Files.createSymbolicLink(home.resolve("link"), file);
    for (FileSystem files : both(new Configuration())) {
      FileSystem raw = ((LocalFileSystem) files).getRaw();
      FileStatus ofFile = raw.getFileLinkStatus(hadoop(file));
      FileStatus ofLink = raw.getFileLinkStatus(new org.apache.hadoop.fs.Path(link.toString()));

      assertFalse(ofFile.isSymlink());
      assertEquals(4, ofFile.getLen());
      assertTrue(ofLink.isSymlink());
      assertThrows(
          FileNotFoundException.class, () -> raw.getFileLinkStatus(hadoop(home.resolve("none"))));
    }
  }

  @Test
  void aFileContextWritesAndRenamesTheSame() throws Exception {
    for (String kind : List.of("org.apache.hadoop.fs.local.LocalFs", named())) {
      Configuration settings = umask("027");
      settings.set("fs.AbstractFileSystem.file.impl", kind);
      FileContext files = FileContext.getFileContext(URI.create("file:///"), settings);
      Path own = Files.createDirectory(home.resolve(kind));
      var temporary = hadoop(own.resolve("temporary"));
      try (FSDataOutputStream out = files.create(temporary, EnumSet.of(CreateFlag.CREATE))) {
        out.write(1);
      }
      files.rename(temporary, hadoop(own.resolve("file")), Rename.NONE);
      assertThrows(
          IOException.class,
          () -> files.rename(temporary, hadoop(own.resolve("other")), Rename.NONE));
    }

    assertEquals(
        left(home.resolve("org.apache.hadoop.fs.local.LocalFs")), left(home.resolve(named())));
    assertEquals(List.of(".file.crc 640", "file 640"), left(home.resolve(named())));
  }

  private static String named() {
    return LocalDiskContext.class.getName();
  }

  /** Processes that this JVM starts while files are made, through both of Hadoop's interfaces. */
  private long processes(FileSystem files, String ofContexts, Path own) throws Exception {
    Configuration settings = new Configuration();
    settings.set("fs.AbstractFileSystem.file.impl", ofContexts);
    FileContext context = FileContext.getFileContext(URI.create("file:///"), settings);
    try (Recording recording = new Recording()) {
      recording.enable("jdk.ProcessStart");
      recording.start();
      write(files, own.resolve("a/file"), "text");
      files.mkdirs(hadoop(own.resolve("b")), new FsPermission((short) 0700));
      context.rename(hadoop(own.resolve("a/file")), hadoop(own.resolve("a/renamed")), Rename.NONE);
      recording.stop();
      Path events = own.resolve("events.jfr");
      recording.dump(events);
      return RecordingFile.readAllEvents(events).size();
    }
  }

  @Test
  void noProcessIsStarted() throws Exception {
    List<FileSystem> both = both(new Configuration());
    Path stock = Files.createDirectory(home.resolve("stock"));
    Path ours = Files.createDirectory(home.resolve("ours"));

    assertTrue(processes(both.get(0), "org.apache.hadoop.fs.local.LocalFs", stock) > 4);
    assertEquals(0, processes(both.get(1), named(), ours));
  }

  @Test
  void besideHiveNothingIsRenamedOverAFile() throws IOException {
    FileSystem alone = initialized(new LocalDisk(), new Configuration());
    FileSystem beside = initialized(new LocalDisk.BesideHive(), new Configuration());
    Path source = home.resolve("source");
    Path target = home.resolve("target");
    write(alone, source, "new");
    write(alone, target, "old");

    assertFalse(beside.rename(hadoop(source), hadoop(target)));
    assertEquals("old", Files.readString(target));
    assertTrue(beside.rename(hadoop(source), hadoop(home.resolve("free"))));
    assertTrue(alone.rename(hadoop(home.resolve("free")), hadoop(target)));
    assertEquals("new", Files.readString(target));
  }

  @Test
  void theNextOneToAskGetsOurs() throws IOException {
    FileSystem.closeAll(); // another test may have had ours made
    FileSystem before = FileSystem.get(URI.create("file:///"), new Configuration());
    SparkConf context = new SparkConf(false);

    LocalDisk.configure(context);

    assertEquals(LocalDisk.class.getName(), context.get("spark.hadoop.fs.file.impl"));
    assertEquals(named(), context.get("spark.hadoop.fs.AbstractFileSystem.file.impl"));
    FileSystem after = FileSystem.get(URI.create("file:///"), new Configuration());
    assertNotSame(before, after);
    assertSame(LocalDisk.class, after.getClass());
    write(before, home.resolve("file"), "still usable");
    LocalDisk.configure(new SparkConf(false));
    assertSame(after, FileSystem.get(URI.create("file:///"), new Configuration()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"org.apache.hadoop.fs.LocalFileSystem", "org.example.Files"})
  void aFileSystemThatTheUserHasNamedStays(String theirs) throws IOException {
    SparkConf context = new SparkConf(false).set("spark.hadoop.fs.file.impl", theirs);

    LocalDisk.configure(context);

    assertEquals(theirs, context.get("spark.hadoop.fs.file.impl"));
    assertFalse(context.contains("spark.hadoop.fs.AbstractFileSystem.file.impl"));
  }

  @Test
  void oneOfContextsThatTheUserHasNamedStays() throws IOException {
    String setting = "spark.hadoop.fs.AbstractFileSystem.file.impl";
    SparkConf context = new SparkConf(false).set(setting, "org.example.Files");

    LocalDisk.configure(context);

    assertEquals("org.example.Files", context.get(setting));
  }
}
