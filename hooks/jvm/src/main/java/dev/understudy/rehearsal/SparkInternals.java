package dev.understudy.rehearsal;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.stream.IntStream;
import scala.Product;

/**
 * The few places where Spark offers no public way in, or where signatures differ between its lines.
 *
 * <p>Everything here fails with a sentence that names the class and the member, because a new Spark
 * line is the likely cause.
 */
final class SparkInternals {
  private SparkInternals() {}

  /**
   * The value of a private field, also where Scala has mangled its name ({@code pkg$Class$$name}).
   */
  static Object get(Object owner, String name) {
    try {
      return field(owner.getClass(), name).get(owner);
    } catch (IllegalAccessException e) {
      throw unsupported(owner.getClass(), name, e);
    }
  }

  static void set(Object owner, String name, Object value) {
    try {
      field(owner.getClass(), name).set(owner, value);
    } catch (IllegalAccessException e) {
      throw unsupported(owner.getClass(), name, e);
    }
  }

  /** Gives every variable of an object, whichever its class has, to another one of that class. */
  static <T> void copyVariables(T from, T to) {
    for (Field field : from.getClass().getDeclaredFields()) {
      int kind = field.getModifiers();
      if (Modifier.isStatic(kind) || Modifier.isFinal(kind)) {
        continue;
      }
      field.setAccessible(true);
      try {
        field.set(to, field.get(from));
      } catch (IllegalAccessException e) {
        throw unsupported(from.getClass(), field.getName(), e);
      }
    }
  }

  /**
   * A copy of a case class with some of its fields replaced; the others keep their values, however
   * many there are.
   */
  static <T extends Product> T copy(T original, Map<String, ?> changes) {
    @SuppressWarnings("unchecked")
    Class<? extends T> same = (Class<? extends T>) original.getClass();
    return copy(original, same, changes);
  }

  /** As {@link #copy(Product, Map)}, of a subclass with a constructor of the same parameters. */
  static <T extends Product, S extends T> S copy(
      T original, Class<S> type, Map<String, ?> changes) {
    Object[] values = new Object[original.productArity()];
    int found = 0;
    for (int i = 0; i < values.length; i++) {
      String name = original.productElementName(i);
      if (changes.containsKey(name)) {
        found++;
        values[i] = changes.get(name);
      } else {
        values[i] = original.productElement(i);
      }
    }
    if (found != changes.size()) {
      throw unsupported(original.getClass(), "copy(" + changes.keySet() + ")", null);
    }
    for (Constructor<?> constructor : type.getConstructors()) {
      if (takes(constructor, values)) {
        try {
          return type.cast(constructor.newInstance(values));
        } catch (ReflectiveOperationException e) {
          throw unsupported(type, "constructor", e);
        }
      }
    }
    throw unsupported(type, "constructor of " + values.length + " values", null);
  }

  private static boolean takes(Constructor<?> constructor, Object[] values) {
    Class<?>[] types = constructor.getParameterTypes();
    return types.length == values.length
        && IntStream.range(0, values.length)
            .allMatch(
                each ->
                    values[each] == null
                        || types[each].isPrimitive()
                        || types[each].isInstance(values[each]));
  }

  /**
   * Calls a method with as many parameters, also where Scala has mangled its name. One that is
   * overloaded beyond that cannot be called.
   */
  static Object call(Object owner, String name, Object... values) {
    for (Class<?> at = owner.getClass(); at != null; at = at.getSuperclass()) {
      for (Method method : at.getDeclaredMethods()) {
        if (is(name, method.getName()) && method.getParameterCount() == values.length) {
          return call(owner, method, values);
        }
      }
    }
    throw unsupported(owner.getClass(), name + "()", null);
  }

  private static Object call(Object owner, Method method, Object... values) {
    try {
      method.setAccessible(true);
      return method.invoke(owner, values);
    } catch (IllegalAccessException e) {
      throw unsupported(owner.getClass(), method.getName(), e);
    } catch (InvocationTargetException e) {
      throw e.getCause() instanceof RuntimeException cause
          ? cause
          : new IllegalStateException(e.getCause());
    }
  }

  /** Whether Scala has made this name of a member's. */
  private static boolean is(String name, String made) {
    return made.equals(name) || made.endsWith("$$" + name);
  }

  /** Whether this Spark line has such a field. */
  static boolean has(Object owner, String name) {
    return has(owner.getClass(), name);
  }

  /** Whether the class has such a field in this Spark line. */
  static boolean has(Class<?> owner, String name) {
    return find(owner, name) != null;
  }

  private static Field field(Class<?> owner, String name) {
    Field field = find(owner, name);
    if (field == null) {
      throw unsupported(owner, name, null);
    }
    field.setAccessible(true);
    return field;
  }

  private static Field find(Class<?> owner, String name) {
    for (Class<?> at = owner; at != null; at = at.getSuperclass()) {
      for (Field field : at.getDeclaredFields()) {
        if (is(name, field.getName())) {
          return field;
        }
      }
    }
    return null;
  }

  private static IllegalStateException unsupported(Class<?> owner, String member, Throwable cause) {
    return new IllegalStateException(
        "rehearsal cannot use "
            + owner.getName()
            + "."
            + member
            + "; this Spark line may not be supported",
        cause);
  }
}
