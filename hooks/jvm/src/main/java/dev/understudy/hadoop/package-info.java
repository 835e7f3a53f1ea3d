/**
 * Parts of Hadoop that cost every task more than they need to, in forms that cost less.
 *
 * <p>Entry points: {@link dev.understudy.hadoop.LocalDisk}, local files without a process for each,
 * and {@link dev.understudy.hadoop.PropertySources}. Nothing here knows of fences or rehearsals.
 */
package dev.understudy.hadoop;
