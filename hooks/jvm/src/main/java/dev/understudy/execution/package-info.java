/**
 * How Spark executes the plans of a session, where that costs more than it needs to.
 *
 * <p>Entry point: {@link dev.understudy.execution.Extensions}, which Spark finds by itself. Nothing
 * here knows of fences or rehearsals.
 */
package dev.understudy.execution;
