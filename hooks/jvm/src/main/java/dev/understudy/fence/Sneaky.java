package dev.understudy.fence;

/** Scala's traits declare no checked exceptions, and Spark's callers expect the bare IOException. */
final class Sneaky {
    private Sneaky() {}

    static RuntimeException rethrow(Throwable cause) {
        return Sneaky.<RuntimeException>cast(cause);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> RuntimeException cast(Throwable cause) throws E {
        throw (E) cause;
    }
}
