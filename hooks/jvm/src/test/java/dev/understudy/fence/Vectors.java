package dev.understudy.fence;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Named;

/** The examples of every format that Python and the JVM share: {@code tests/vectors}. */
final class Vectors {
  private static final Path DIRECTORY = Path.of(System.getProperty("understudy.vectors"));

  private Vectors() {}

  static Stream<Named<JsonNode>> all(String file) throws IOException {
    JsonNode vectors = new ObjectMapper().readTree(DIRECTORY.resolve(file).toFile());
    return StreamSupport.stream(vectors.spliterator(), false)
        .map(each -> Named.of(each.path("name").asText(), each));
  }

  static Stream<Named<JsonNode>> valid(String file) throws IOException {
    return all(file).filter(each -> each.getPayload().path("valid").asBoolean());
  }

  static Stream<Named<JsonNode>> invalid(String file) throws IOException {
    return all(file).filter(each -> !each.getPayload().path("valid").asBoolean());
  }

  /** The content of the file: a whole page, unless the vector says how long it is. */
  static byte[] page(JsonNode vector) {
    byte[] page = new byte[vector.path("size").asInt(SharedPage.BYTES)];
    byte[] beginning = HexFormat.of().parseHex(vector.path("hex").asText());
    System.arraycopy(beginning, 0, page, 0, beginning.length);
    return page;
  }

  static boolean isShort(JsonNode vector) {
    return vector.has("size");
  }

  static byte[] content(JsonNode vector) {
    return vector.has("hex")
        ? HexFormat.of().parseHex(vector.get("hex").asText())
        : vector.get("text").asText().getBytes(StandardCharsets.UTF_8);
  }

  static Claim claim(JsonNode vector) {
    return new Claim(
        vector.get("token").asLong(),
        vector.get("holder").asText(),
        vector.get("cluster").asText(),
        vector.get("job").asText(),
        vector.get("lock").asText());
  }

  static Path written(Path path, byte[] content) throws IOException {
    Files.createDirectories(path.getParent());
    return Files.write(path, content);
  }
}
