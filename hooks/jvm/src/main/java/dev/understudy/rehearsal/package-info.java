/**
 * The rehearsal: a standby runs the leader's last micro-batch again, from the leader's own
 * checkpoint, and writes to scratch only.
 *
 * <p>Entry point: {@link dev.understudy.rehearsal.Rehearsal}. What it may not do, each enforced in
 * one place:
 *
 * <ul>
 *   <li>write into the checkpoint: {@link dev.understudy.rehearsal.OverlayFileSystem} opens the
 *       real one for reading only;
 *   <li>acknowledge, clean or drain a source: {@link dev.understudy.rehearsal.Sources};
 *   <li>touch a sink or call the user's {@code foreachBatch}: {@link
 *       dev.understudy.rehearsal.Sinks};
 *   <li>be seen by the user's listeners, {@code spark.streams} or metrics: {@link
 *       dev.understudy.rehearsal.RehearsalSession};
 *   <li>leave anything behind: {@link dev.understudy.rehearsal.StateStoreCleanup}.
 * </ul>
 */
package dev.understudy.rehearsal;
