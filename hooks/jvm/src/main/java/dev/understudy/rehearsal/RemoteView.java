package dev.understudy.rehearsal;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.understudy.fence.CachingCheckpointFileSystem;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * What an executor needs to know of an overlay that lives in its driver's JVM: it travels in the
 * path, because a path is all that Spark hands on. Hadoop caches file systems by scheme, so a
 * setting would be read once and never again.
 *
 * @param root of the real checkpoint, empty for a throw-away one
 * @param scratch the round's own directory, which driver and executors share
 */
record RemoteView(String root, long batch, Map<String, Long> lastEntries, String scratch) {
  private static final ObjectMapper JSON = new ObjectMapper();

  static RemoteView of(ReplayableBatch past, Path scratch) {
    return past == null
        ? new RemoteView("", 0, Map.of(), scratch.toString())
        : new RemoteView(
            past.root().toString(), past.batch(), past.lastEntries(), scratch.toString());
  }

  /** Letters, digits, {@code -} and {@code _} only: one part of a path. */
  String encode() {
    ObjectNode node =
        JSON.createObjectNode().put("root", root).put("batch", batch).put("scratch", scratch);
    ObjectNode entries = node.putObject("entries");
    lastEntries.forEach(entries::put);
    return Base64.getUrlEncoder()
        .withoutPadding()
        .encodeToString(node.toString().getBytes(StandardCharsets.UTF_8));
  }

  static RemoteView decode(String text) throws IOException {
    JsonNode node = JSON.readTree(Base64.getUrlDecoder().decode(text));
    Map<String, Long> entries = new LinkedHashMap<>();
    node.path("entries")
        .properties()
        .forEach(entry -> entries.put(entry.getKey(), entry.getValue().asLong()));
    return new RemoteView(
        node.path("root").asText(),
        node.path("batch").asLong(),
        entries,
        node.path("scratch").asText());
  }

  ReplayableBatch past(Configuration conf) throws IOException {
    if (root.isEmpty()) {
      return null;
    }
    Path path = new Path(root);
    return new ReplayableBatch(
        CachingCheckpointFileSystem.of(path, conf), path, batch, batch, 0, List.of(), lastEntries);
  }
}
