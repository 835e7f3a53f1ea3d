/**
 * Savepoints: copies of checkpoints at a boundary, made by the leader's JVM through Hadoop's file
 * systems.
 *
 * <p>Entry point: {@link dev.understudy.savepoint.CheckpointCopy}. It reads checkpoints and writes
 * only where nothing stands.
 */
package dev.understudy.savepoint;
