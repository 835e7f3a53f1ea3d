package dev.understudy.rehearsal;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/** The state stores that Spark has loaded in this JVM: where a task looks before it loads one. */
final class LoadedStores {
  private LoadedStores() {}

  /** Those of one run of a query. */
  static Map<StateStoreProviderId, StateStoreProvider> of(UUID run) {
    Map<StateStoreProviderId, StateStoreProvider> found = new LinkedHashMap<>();
    var loaded = loaded();
    synchronized (loaded) {
      CollectionConverters.asJava(loaded)
          .forEach(
              (id, provider) -> {
                if (id.queryRunId().equals(run)) {
                  found.put(id, provider);
                }
              });
    }
    return found;
  }

  /**
   * Makes it one of them, as Spark does: its coordinator is told in the same breath, or maintenance
   * would take the store for one that is used elsewhere.
   *
   * @return false where there is one of this id
   */
  static boolean add(StateStoreProviderId id, StateStoreProvider provider) {
    var loaded = loaded();
    synchronized (loaded) {
      if (loaded.contains(id)) {
        return false;
      }
      SparkInternals.call(StateStore$.MODULE$, "reportActiveStoreInstance", id, Nil$.MODULE$);
      loaded.put(id, provider);
      return true;
    }
  }

  static Option<StateStoreProvider> remove(StateStoreProviderId id) {
    var loaded = loaded();
    synchronized (loaded) {
      return loaded.remove(id);
    }
  }

  @SuppressWarnings("unchecked")
  private static HashMap<StateStoreProviderId, StateStoreProvider> loaded() {
    return (HashMap<StateStoreProviderId, StateStoreProvider>)
        SparkInternals.get(StateStore$.MODULE$, "loadedProviders");
  }
}
