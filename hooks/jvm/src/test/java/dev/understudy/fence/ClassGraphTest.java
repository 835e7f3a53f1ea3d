package dev.understudy.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;

/** The classes of this module depend on each other in one direction, as jdeps sees it. */
class ClassGraphTest {
  private static final Pattern ROW =
      Pattern.compile(
          "^\\s+(dev\\.understudy\\.[\\w.$]+)\\s+-> (dev\\.understudy\\.[\\w.$]+)\\s.*");

  @Test
  void noClassDependsOnItselfThroughAnother() throws Exception {
    Map<String, Set<String>> graph = graph();
    assertTrue(
        graph.get("dev.understudy.fence.Fence").contains("dev.understudy.fence.FenceSession"));

    Set<String> inCycles = new TreeSet<>();
    for (String each : graph.keySet()) {
      if (reached(graph, each).contains(each)) {
        inCycles.add(each);
      }
    }

    assertEquals(Set.of(), inCycles);
  }

  private static Set<String> reached(Map<String, Set<String>> graph, String from) {
    Set<String> reached = new TreeSet<>();
    Deque<String> open = new ArrayDeque<>(graph.get(from));
    while (!open.isEmpty()) {
      String each = open.pop();
      if (reached.add(each)) {
        open.addAll(graph.getOrDefault(each, Set.of()));
      }
    }
    return reached;
  }

  /** Nested classes count as their outermost one. */
  private static Map<String, Set<String>> graph() throws Exception {
    Path classes = Path.of(Fence.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    StringWriter out = new StringWriter();
    ToolProvider jdeps = ToolProvider.findFirst("jdeps").orElseThrow();
    int status =
        jdeps.run(
            new PrintWriter(out),
            new PrintWriter(out),
            "-verbose:class",
            "-filter:none",
            "--ignore-missing-deps",
            classes.toString());
    assertEquals(0, status, out.toString());
    Map<String, Set<String>> graph = new TreeMap<>();
    out.toString()
        .lines()
        .map(ROW::matcher)
        .filter(Matcher::matches)
        .forEach(row -> add(graph, outermost(row.group(1)), outermost(row.group(2))));
    return graph;
  }

  private static void add(Map<String, Set<String>> graph, String from, String to) {
    if (!from.equals(to)) {
      graph.computeIfAbsent(from, name -> new TreeSet<>()).add(to);
    }
  }

  private static String outermost(String name) {
    int nested = name.indexOf('$');
    return nested < 0 ? name : name.substring(0, nested);
  }
}
