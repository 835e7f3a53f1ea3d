package dev.understudy.hadoop;

import java.lang.reflect.Field;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

/**
 * Where each property of a configuration came from. Spark sends a configuration with every task
 * that writes files; Hadoop writes the sources of its more than a thousand properties with it, each
 * compressed by itself, and the task inflates them one by one, before it does anything else. They
 * are there to be read by people.
 */
public final class PropertySources {
  private PropertySources() {}

  /**
   * Forgets them in a configuration and all copies that are made of it, except those of properties
   * that are set later. Where Hadoop keeps them otherwise, nothing happens.
   */
  public static void forget(Configuration settings) {
    try {
      // adds its defaults to all configurations when it is loaded, which would load them again
      Class.forName("org.apache.hadoop.mapred.JobConf");
      settings.size(); // reads the files
      Field sources = Configuration.class.getDeclaredField("updatingResource");
      sources.setAccessible(true);
      if (sources.get(settings) instanceof Map<?, ?> known) {
        known.clear();
      }
    } catch (ReflectiveOperationException e) {
      // slower, and no less right
    }
  }
}
