package dev.understudy.rehearsal;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.GlobExpander;
import org.apache.hadoop.fs.GlobPattern;
import org.apache.hadoop.fs.Path;

/**
 * Where a file source of a stream reads: a directory, or a glob of directories or files. Two of one
 * place are equal.
 */
record StreamedFiles(String scheme, String authority, List<String> names) {
  /** More than one for a glob with alternatives that are several levels deep. */
  static List<StreamedFiles> of(Path place, Configuration conf) throws IOException {
    Path qualified = place.getFileSystem(conf).makeQualified(place);
    List<StreamedFiles> found = new ArrayList<>();
    for (String path : GlobExpander.expand(qualified.toUri().getPath())) {
      found.add(
          new StreamedFiles(
              qualified.toUri().getScheme(), qualified.toUri().getAuthority(), names(path)));
    }
    return found;
  }

  /** Whether the stream reads this file, or everything in this directory. */
  boolean contain(Path qualified) {
    List<String> there = names(qualified.toUri().getPath());
    if (there.size() < names.size()
        || !Objects.equals(scheme, qualified.toUri().getScheme())
        || !Objects.equals(authority, qualified.toUri().getAuthority())) {
      return false;
    }
    for (int i = 0; i < names.size(); i++) {
      if (!names.get(i).equals(there.get(i))
          && !new GlobPattern(names.get(i)).matches(there.get(i))) {
        return false;
      }
    }
    return true;
  }

  private static List<String> names(String path) {
    return Arrays.stream(path.split("/")).filter(name -> !name.isEmpty()).toList();
  }
}
