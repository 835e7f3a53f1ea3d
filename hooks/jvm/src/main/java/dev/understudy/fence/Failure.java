package dev.understudy.fence;

import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import javax.net.ssl.SSLException;

/** What a failed request to an object store tells about whether it was done. */
enum Failure {
  /** Certainly not done: the server said that it is too busy, or no connection was made. */
  NOT_DONE,
  /**
   * Over, and perhaps done: the server answered that something went wrong inside. A look tells, for
   * nothing is under way.
   */
  OVER,
  /**
   * No answer came in time, or a proxy's, and what is behind that may be at work still: it may have
   * been done, or may be yet.
   */
  UNANSWERED,
  /**
   * The connection broke before an answer, as where a store closes one that was idle: it may have
   * been done.
   */
  BROKEN,
  /** Anything else, as an answer that says no. */
  UNKNOWN;

  /** The pure part of every decision to try again. */
  static Failure of(Throwable failure) {
    boolean late = false;
    boolean broke = false;
    for (Throwable each = failure;
        each != null;
        each = each.getCause() == each ? null : each.getCause()) {
      if (each instanceof ConnectException
          || each instanceof NoRouteToHostException
          || each instanceof UnknownHostException) {
        return NOT_DONE; // a connection that was made and broke is a plain SocketException
      }
      // S3A's exception for a call that took too long is one of these
      late |= each instanceof SocketTimeoutException;
      broke |= broke(each);
    }
    int status = answered(failure);
    return late ? UNANSWERED : broke && status == 0 ? BROKEN : of(status);
  }

  private static boolean broke(Throwable failure) {
    return failure instanceof SocketException
        || failure instanceof EOFException
        || failure instanceof SSLException
        || failure
            .getClass()
            .getSimpleName()
            .equals("NoHttpResponseException"); // of the SDK's client
  }

  /** The HTTP status that the server answered with; 0 if no answer is known. */
  static int answered(Throwable failure) {
    int status = 0;
    for (Throwable each = failure;
        each != null && status == 0;
        each = each.getCause() == each ? null : each.getCause()) {
      status = status(each);
    }
    return status;
  }

  static Failure of(int status) {
    return switch (status) {
      // 409: another conditional write of this very object was being done; S3 asks to send the
      // request again
      case 409, 429, 503 -> NOT_DONE;
      case 500 -> OVER;
      case 502, 504 -> UNANSWERED;
      default -> UNKNOWN;
    };
  }

  /**
   * The HTTP status that an exception of the AWS SDK carries; by name, for the SDK is not on every
   * class path.
   */
  private static int status(Throwable failure) {
    if (failure instanceof IOException
        || !failure.getClass().getName().startsWith("software.amazon.awssdk.")) {
      return 0;
    }
    try {
      return (int) failure.getClass().getMethod("statusCode").invoke(failure);
    } catch (ReflectiveOperationException | ClassCastException e) {
      return 0;
    }
  }
}
