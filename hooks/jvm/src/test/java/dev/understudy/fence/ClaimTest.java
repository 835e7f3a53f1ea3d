package dev.understudy.fence;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class ClaimTest {
  static Stream<Named<JsonNode>> valid() throws IOException {
    return Vectors.valid("claim.json");
  }

  static Stream<Named<JsonNode>> invalid() throws IOException {
    return Vectors.invalid("claim.json");
  }

  @ParameterizedTest
  @MethodSource("valid")
  void aClaimIsReadAsTheVectorSays(JsonNode vector) {
    assertEquals(Vectors.claim(vector), Claim.parse(Vectors.content(vector)));
  }

  @ParameterizedTest
  @MethodSource("valid")
  void aClaimIsWrittenAsTheVectorSays(JsonNode vector) {
    Claim claim = Vectors.claim(vector);

    assertEquals(claim, Claim.parse(claim.bytes()));
    if (vector.get("written").asBoolean()) {
      assertEquals(vector.get("text").asText(), new String(claim.bytes(), UTF_8));
    }
  }

  @ParameterizedTest
  @MethodSource("invalid")
  void whatIsInvalidIsNoClaim(JsonNode vector) {
    assertNull(Claim.parse(Vectors.content(vector)));
  }
}
