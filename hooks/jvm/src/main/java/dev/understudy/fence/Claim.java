package dev.understudy.fence;

import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Who may write below a root: the content of its claim document. {@code
 * understudy/protocol/claim.py} describes it.
 */
record Claim(long token, String holder, String cluster, String job, String lock) {
  static final String DIRECTORY = "_understudy";
  static final ObjectMapper JSON = new ObjectMapper();

  private static final int VERSION = 1;

  /** What two readers may understand differently is no claim: a key twice, more than one value. */
  private static final ObjectMapper STRICT =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .build();

  byte[] bytes() {
    ObjectNode node = JSON.createObjectNode();
    node.put("version", VERSION).put("token", token).put("holder", holder);
    node.put("cluster", cluster).put("job", job).put("lock", lock);
    return (node + "\n").getBytes(StandardCharsets.UTF_8);
  }

  /**
   * Returns null for anything that is not a complete claim of this version. The caller never takes
   * that for "no claim".
   */
  static Claim parse(byte[] bytes) {
    JsonNode node;
    try {
      // decoded here, because a decoder reports what is no UTF-8, and Jackson overlooks some of it
      node =
          STRICT.readTree(
              StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
    } catch (IOException e) {
      return null;
    }
    JsonNode version = node.path("version");
    JsonNode token = node.path("token");
    if (!version.isIntegralNumber()
        || version.asLong() != VERSION
        || !token.isIntegralNumber()
        || !token.canConvertToLong()
        || token.asLong() < 0) {
      return null;
    }
    for (String field : new String[] {"holder", "cluster", "job", "lock"}) {
      if (!node.path(field).isTextual() || node.path(field).asText().isEmpty()) {
        return null;
      }
    }
    return new Claim(
        token.asLong(),
        node.get("holder").asText(),
        node.get("cluster").asText(),
        node.get("job").asText(),
        node.get("lock").asText());
  }
}
