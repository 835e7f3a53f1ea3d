/**
 * Hadoop's local file system without the processes that it starts for what is one system call.
 *
 * <p>Entry point: {@link dev.understudy.local.LocalDisk}. It knows nothing of fences or rehearsals.
 */
package dev.understudy.local;
