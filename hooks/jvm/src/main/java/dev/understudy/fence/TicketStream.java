package dev.understudy.fence;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/** A file of a checkpoint that is published when it is closed, if its ticket still permits. */
abstract class TicketStream extends CancellableFSDataOutputStream {
  final WriteTicket ticket;
  private boolean done;

  TicketStream(WriteTicket ticket, OutputStream out) {
    super(out);
    this.ticket = ticket;
  }

  /** Publishes what was written. */
  abstract void publish() throws IOException;

  /** Deletes what was written; a leftover does no harm. */
  abstract void discard() throws IOException;

  /** Closes the stream that the content was written to. */
  final void closeContent() throws IOException {
    super.close();
  }

  @Override
  public final synchronized void close() throws IOException {
    if (!done) {
      done = true;
      publish();
    }
  }

  @Override
  public final synchronized void cancel() {
    if (done) {
      return;
    }
    done = true;
    ticket.abandoned();
    try {
      discard();
    } catch (IOException e) {
      // a leftover with a name that no reader looks for, or with none
    }
  }
}
