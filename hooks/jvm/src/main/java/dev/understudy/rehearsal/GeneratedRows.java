package dev.understudy.rehearsal;

import java.io.Serializable;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Stands in for a streaming source that must not be read: made-up rows of its schema, around the
 * query's watermark.
 *
 * <p>It takes any offset the real source has logged, so that the leader's batch can be run again
 * with rows that are not the leader's. Values repeat (few distinct ones per column), because
 * grouping and joining code is what is to be warmed.
 */
final class GeneratedRows implements SupportsRead {
  static final int PARTITIONS = 2;
  private final StructType schema;
  private final int rows;
  private final long aroundMicros;

  /**
   * @param rows per partition and batch
   * @param watermarkMillis event times lie in the minute after it; 0 for none, then they lie in the
   *     last minute
   */
  GeneratedRows(StructType schema, int rows, long watermarkMillis) {
    this.schema = schema;
    this.rows = rows;
    this.aroundMicros =
        1000L * (watermarkMillis > 0 ? watermarkMillis : System.currentTimeMillis() - 60_000);
  }

  @Override
  public String name() {
    return "rehearsal";
  }

  // columns() would need what is internal to Spark, and differs between its lines
  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.MICRO_BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Scan scan =
        new Scan() {
          @Override
          public StructType readSchema() {
            return schema;
          }

          @Override
          public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
            return new Stream(schema, rows, aroundMicros);
          }
        };
    return () -> scan;
  }

  private static final class Logged extends Offset {
    private final String json;

    Logged(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }

  private record Stream(StructType schema, int rows, long aroundMicros, AtomicLong asked)
      implements MicroBatchStream {
    Stream(StructType schema, int rows, long aroundMicros) {
      this(schema, rows, aroundMicros, new AtomicLong());
    }

    @Override
    public Offset initialOffset() {
      return new Logged("{\"generated\":0}");
    }

    @Override
    public Offset latestOffset() {
      return new Logged("{\"generated\":" + asked.incrementAndGet() + "}");
    }

    @Override
    public Offset deserializeOffset(String json) {
      return new Logged(json);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      InputPartition[] parts = new InputPartition[PARTITIONS];
      for (int i = 0; i < parts.length; i++) {
        parts[i] = new Part(schema, rows, aroundMicros, i);
      }
      return parts;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return part -> new Reader((Part) part);
    }

    @Override
    public void commit(Offset end) {
      // nothing is behind it
    }

    @Override
    public void stop() {
      // nothing is open
    }
  }

  private record Part(StructType schema, int rows, long aroundMicros, int seed)
      implements InputPartition, Serializable {}

  private static final class Reader implements PartitionReader<InternalRow> {
    private final Part part;
    private final Random random;
    private int read;

    Reader(Part part) {
      this.part = part;
      this.random = new Random(part.seed());
    }

    @Override
    public boolean next() {
      return read++ < part.rows();
    }

    @Override
    public InternalRow get() {
      return row(part.schema());
    }

    @Override
    public void close() {
      // nothing is open
    }

    /** {@code Literal.default}, whose name is a keyword here. */
    private static Object defaultOf(DataType type) {
      try {
        return ((Literal) Literal.class.getMethod("default", DataType.class).invoke(null, type))
            .value();
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(
            "no made-up value for a column of type " + type.simpleString(), e);
      }
    }

    private InternalRow row(StructType type) {
      Object[] values = new Object[type.length()];
      for (int i = 0; i < values.length; i++) {
        values[i] = value(type.apply(i).dataType());
      }
      return new GenericInternalRow(values);
    }

    private Object value(DataType type) {
      int small = random.nextInt(50);
      if (type instanceof StringType) {
        return UTF8String.fromString("v" + small);
      } else if (type instanceof IntegerType) {
        return small;
      } else if (type instanceof LongType) {
        return (long) small;
      } else if (type instanceof DoubleType) {
        return random.nextDouble() * 100;
      } else if (type instanceof FloatType) {
        return random.nextFloat() * 100;
      } else if (type instanceof ShortType) {
        return (short) small;
      } else if (type instanceof ByteType) {
        return (byte) small;
      } else if (type instanceof BooleanType) {
        return random.nextBoolean();
      } else if (type instanceof TimestampType || type instanceof TimestampNTZType) {
        return part.aroundMicros() + random.nextInt(60_000_000);
      } else if (type instanceof DateType) {
        return (int) Math.floorDiv(part.aroundMicros(), 86_400_000_000L);
      } else if (type instanceof DecimalType decimal) {
        return Decimal.apply(small % 10, decimal.precision(), decimal.scale());
      } else if (type instanceof BinaryType) {
        return new byte[] {(byte) small};
      } else if (type instanceof StructType struct) {
        return row(struct);
      } else if (type instanceof ArrayType array) {
        return new GenericArrayData(new Object[] {value(array.elementType())});
      } else if (type instanceof MapType map) {
        return new ArrayBasedMapData(
            new GenericArrayData(new Object[] {value(map.keyType())}),
            new GenericArrayData(new Object[] {value(map.valueType())}));
      } else if (type instanceof UserDefinedType<?> user) {
        return value(user.sqlType());
      }
      return defaultOf(type);
    }
  }
}
