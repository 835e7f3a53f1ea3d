package dev.understudy.fence;

/** Who this driver is: what it writes into its claims. */
record Identity(String holder, String cluster, String job, String lock) {
  Claim claim(long token) {
    return new Claim(token, holder, cluster, job, lock);
  }
}
