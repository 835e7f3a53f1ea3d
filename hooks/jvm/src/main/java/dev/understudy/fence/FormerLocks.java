package dev.understudy.fence;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import java.util.Map;

/**
 * Kinds of lock under which this job was led before it was moved, each with the highest epoch it
 * granted. Nothing grants under them any more, so claims up to that epoch yield to ours. {@code
 * understudy/ha/moved.py} describes it.
 */
record FormerLocks(Map<String, Long> epochs) {
  static final FormerLocks NONE = new FormerLocks(Map.of());

  private static final int ATTEMPT_BITS = 32;

  /** Reads a JSON object of epochs by kind; nothing at all is none. */
  static FormerLocks parse(String json) throws JsonProcessingException {
    return json.isEmpty()
        ? NONE
        : new FormerLocks(
            Map.copyOf(Claim.JSON.readValue(json, new TypeReference<Map<String, Long>>() {})));
  }

  boolean cover(Claim there) {
    Long last = epochs.get(there.lock());
    return last != null && there.token() >>> ATTEMPT_BITS <= last;
  }
}
