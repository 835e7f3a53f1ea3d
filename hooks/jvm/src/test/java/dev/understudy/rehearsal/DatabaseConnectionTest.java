package dev.understudy.rehearsal;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions;
import org.h2.tools.Server;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import scala.jdk.javaapi.CollectionConverters;

/** With a database that makes itself at its first connection. */
class DatabaseConnectionTest {
  @TempDir Path home;

  private static void tryOut(String url) {
    Map<String, String> options =
        Map.of("url", url, "dbtable", "payments", "driver", "org.h2.Driver");
    DatabaseConnection.tryOut(
        new JDBCOptions(
            scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options))));
  }

  private boolean made() {
    return Files.exists(home.resolve("shop.mv.db"));
  }

  @Test
  void aServerIsConnectedToOnce() throws Exception {
    Server server =
        Server.createTcpServer("-tcpPort", "0", "-ifNotExists", "-baseDir", home.toString());
    server.start();
    try {
      String url = "jdbc:h2:tcp://localhost:" + server.getPort() + "/./shop";
      tryOut(url);
      assertTrue(made());
      Files.delete(home.resolve("shop.mv.db"));
      tryOut(url);
      assertFalse(made());
    } finally {
      server.stop();
    }
  }

  @Test
  void aServerThatDoesNotAnswerIsOfNoConsequence() {
    tryOut("jdbc:h2:tcp://localhost:1/./shop");
  }

  @ParameterizedTest
  @ValueSource(strings = {"jdbc:h2:", "jdbc:h2:file:", "jdbc:h2:file://"})
  void aDatabaseInAFileIsLeftAlone(String kind) {
    tryOut(kind + home.resolve("shop"));
    assertFalse(made());
  }
}
