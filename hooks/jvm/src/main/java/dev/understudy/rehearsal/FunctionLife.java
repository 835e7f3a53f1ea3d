package dev.understudy.rehearsal;

import java.util.function.BooleanSupplier;

/**
 * What functions of the user's do in the rehearsals of one query that has to end with them.
 *
 * @param jobs that they run
 * @param changes of what they share with the job's own batches
 * @param cancelled whether the rehearsals were
 */
record FunctionLife(RehearsedJobs jobs, SessionChanges changes, BooleanSupplier cancelled) {}
