package dev.understudy.fence;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Who may write below a root: the content of its claim document. */
record Claim(long token, String holder, String cluster, String job, String lock) {
    static final String DIRECTORY = "_understudy";
    static final ObjectMapper JSON = new ObjectMapper();

    private static final int VERSION = 1;

    byte[] bytes() {
        ObjectNode node = JSON.createObjectNode();
        node.put("version", VERSION).put("token", token).put("holder", holder);
        node.put("cluster", cluster).put("job", job).put("lock", lock);
        return (node + "\n").getBytes(StandardCharsets.UTF_8);
    }

    /** Null for anything that is not a complete claim of this version: never taken for "no claim". */
    static Claim parse(byte[] bytes) {
        JsonNode node;
        try {
            node = JSON.readTree(bytes);
        } catch (IOException e) {
            return null;
        }
        if (node == null || node.path("version").asInt() != VERSION || !node.path("token").canConvertToLong()) {
            return null;
        }
        for (String field : new String[] {"holder", "cluster", "job", "lock"}) {
            if (!node.path(field).isTextual()) {
                return null;
            }
        }
        return new Claim(
                node.get("token").asLong(),
                node.get("holder").asText(),
                node.get("cluster").asText(),
                node.get("job").asText(),
                node.get("lock").asText());
    }
}
