package dev.understudy.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

class PropertySourcesTest {
  private static final String KEPT = "io.file.buffer.size"; // one of Hadoop's defaults

  private static byte[] sent(Configuration settings) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    settings.write(new DataOutputStream(bytes));
    return bytes.toByteArray();
  }

  private static Map<String, String> values(Configuration settings) {
    Map<String, String> found = new HashMap<>();
    settings.forEach(each -> found.put(each.getKey(), each.getValue()));
    return found;
  }

  @Test
  void everyValueStaysAndItsSourceDoesNot() throws IOException {
    Configuration settings = new Configuration();
    settings.set("ours", "1");
    new org.apache.hadoop.mapred.JobConf(); // its defaults come with it
    Map<String, String> before = values(settings);
    int large = sent(settings).length;
    assertNotNull(settings.getPropertySources(KEPT));

    PropertySources.forget(settings);

    assertEquals(before, values(settings));
    assertNull(settings.getPropertySources(KEPT));
    assertTrue(sent(settings).length < large - 20 * before.size());
  }

  @Test
  void copiesHaveNoneEitherButThoseOfWhatIsSetLater() throws IOException {
    Configuration settings = new Configuration();
    PropertySources.forget(settings);

    Configuration copy = new Configuration(settings);
    copy.set("later", "2", "a test");
    Configuration received = new Configuration(false);
    received.readFields(new DataInputStream(new ByteArrayInputStream(sent(copy))));

    assertEquals(values(copy), values(received));
    assertNull(copy.getPropertySources(KEPT));
    assertArrayEquals(new String[] {"a test"}, copy.getPropertySources("later"));
  }
}
