package dev.understudy.fence;

/**
 * Who this driver is: what it writes into its claims, and which claims of other kinds of lock yield
 * to them.
 */
record Identity(String holder, String cluster, String job, String lock, FormerLocks formerLocks) {
  Identity(String holder, String cluster, String job, String lock) {
    this(holder, cluster, job, lock, FormerLocks.NONE);
  }

  Claim claim(long token) {
    return new Claim(token, holder, cluster, job, lock);
  }
}
