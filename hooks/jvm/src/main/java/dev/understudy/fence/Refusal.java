package dev.understudy.fence;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** Why no driver can work here, neither this one nor the next. The driver's Python asks for it. */
record Refusal(String kind, String where, String what) {
  /**
   * Returns the refusal that this outcome of a claim means for every driver of the job; or null.
   */
  static Refusal of(String root, Claims.Outcome outcome) {
    if (!outcome.verdict().foreign()) {
      return null;
    }
    Claim there = outcome.standing().claim();
    String owner =
        "job " + there.job() + " of cluster " + there.cluster() + " (lock: " + there.lock() + ")";
    return new Refusal("foreign", root, "it is claimed by " + owner);
  }

  static Refusal behind(String root, String log, long highest, long committed) {
    String last = highest == BatchInFlight.NONE ? "has no entry" : "ends with batch " + highest;
    return new Refusal(
        "behind", root, log + " " + last + ", and this job has committed batch " + committed);
  }

  static Refusal of(UnfitStoreException e) {
    return new Refusal("unfit", e.bucket(), e.getMessage());
  }

  String json() {
    ObjectNode json = Claim.JSON.createObjectNode();
    json.put("kind", kind).put("where", where).put("what", what);
    return json.toString();
  }

  /** A verdict's reason in the words of an exception that a script sees. */
  static String words(String reason) {
    return switch (reason) {
      case "other-job", "other-cluster", "other-lock" ->
          reason
              + ": it is claimed as a whole, as a checkpoint or by a streaming file sink, and not"
              + " by this job. Jobs may share a directory only if each appends in batches";
      default -> reason;
    };
  }
}
