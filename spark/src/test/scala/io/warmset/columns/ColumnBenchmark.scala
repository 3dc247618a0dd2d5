package io.warmset.columns

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData
import org.apache.spark.sql.execution.SparkVectors
import org.apache.spark.sql.execution.columnar.SparkColumns
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnVector
import org.apache.spark.unsafe.Platform

/**
 * Not a test: prints nanoseconds per value of reading, nanoseconds per row of encoding, and bytes per row, against Spark.
 * Run: mvn -o test-compile, then java -cp ... io.warmset.columns.ColumnBenchmark [section ...]
 */
object ColumnBenchmark {
  private val Rows = 10000
  private val Batches = 20

  def main(args: Array[String]): Unit = {
    val sections = Seq("lineitem" -> (() => lineitem()), "doubles" -> (() => doubles()), "columns" -> (() => columns()),
      "vectors" -> (() => vectors()), "reads" -> (() => reads()))
    for ((name, run) <- sections if args.isEmpty || args.contains(name)) run()
  }

  /** What finding the form of doubles costs: cents, and doubles without any form. */
  private def doubles(): Unit = {
    val schema = new StructType().add("cents", DoubleType)
    val encoder = new BatchEncoder(Array[DataType](DoubleType))
    val block = Platform.allocateMemory(1L << 20)
    for ((name, value) <- Seq[(String, Int => Double)]("cents" -> (i => mix(i, 10000000) / 100.0), "plain" -> (i => math.sqrt(i)),
        "dictionary" -> (i => mix(i, 11) / 100.0))) {
      val rows = ColumnTesting.unsafe(schema, Vector.tabulate(Rows)(i => InternalRow(value(i))))
      def warm(): Unit = {
        rows.foreach(encoder.append)
        writeAll(encoder, block)
      }
      (1 to 100).foreach(_ => warm())
      println(f"encode ns per double, $name: ${best(101)(warm()) / Rows}%.1f")
    }
    encoder.close()
    Platform.freeMemory(block)
  }

  /** Columnar input: Spark's own vectors with lineitem in them. */
  private def columns(): Unit = {
    val schema = Lineitem.schema
    val batches = Array.tabulate(Batches)(i => SparkVectors(schema, Lineitem.rows(Rows, i).toSeq).map(v => v: ColumnVector))
    val encoder = new BatchEncoder(schema.fields.map(_.dataType))
    val block = Platform.allocateMemory(64L << 20)
    def run(): Unit = batches.foreach { vectors =>
      encoder.append(vectors, 0, Rows)
      writeAll(encoder, block)
    }
    (1 to 3).foreach(_ => run())
    println(f"encode ns/row of lineitem from Spark's vectors: ${best(11)(run()) / Rows / Batches}%.0f")
    encoder.close()
    Platform.freeMemory(block)
  }

  private def writeAll(encoder: BatchEncoder, block: Long): BatchMeta = {
    val meta = encoder.finish()
    var at = block
    (0 until meta.numColumns).foreach { c =>
      encoder.writeTo(c, at)
      at += meta.bytes(c)
    }
    encoder.stats()
    encoder.reset()
    meta
  }

  /** Dense vectors of 50 doubles in the SQL type of Spark ML's: what a feature column is. */
  private def vectors(): Unit = {
    val size = 50
    val vector = new StructType().add("type", ByteType, nullable = false).add("size", IntegerType)
      .add("indices", ArrayType(IntegerType, containsNull = false)).add("values", ArrayType(DoubleType, containsNull = false))
    val schema = new StructType().add("features", vector)
    val rnd = new scala.util.Random(1)
    val rows = ColumnTesting.unsafe(schema, Vector.fill(Rows)(InternalRow(InternalRow(1.toByte, null, null,
      UnsafeArrayData.fromPrimitiveArray(Array.fill(size)(rnd.nextDouble()))))))
    val encoder = new BatchEncoder(Array[DataType](vector))
    val block = Platform.allocateMemory(64L << 20)
    var meta: BatchMeta = null
    def warm(): Unit = {
      rows.foreach(encoder.append)
      meta = writeAll(encoder, block)
    }
    def spark(): Unit = SparkColumns.build(schema, rows.iterator, Rows, compressed = false)
    (1 to 10).foreach { _ => warm(); spark() }
    println(f"encode ns per vector of $size: warmset ${best(31)(warm()) / Rows}%.0f, Spark uncompressed ${best(31)(spark()) / Rows}%.0f, " +
      f"${meta.bytes.toDouble / Rows}%.1f bytes")
    val v = WarmVector.create(vector)
    v.bind(meta, 0, block)
    var sum = 0.0
    def read(): Unit = {
      var i = 0
      while (i < Rows) {
        sum += v.getStruct(i).getArray(3).toDoubleArray()(7)
        i += 1
      }
    }
    (1 to 30).foreach(_ => read())
    println(f"read ns per vector of $size as a fresh array: ${best(31)(read()) / Rows}%.0f")
    if (sum == 42) println()
    encoder.close()
    Platform.freeMemory(block)
  }

  private def best(times: Int)(body: => Unit): Double = {
    val nanos = (1 to times).map { _ =>
      val start = System.nanoTime()
      body
      System.nanoTime() - start
    }
    nanos.sorted.apply(times / 4).toDouble
  }

  private def lineitem(): Unit = {
    val schema = Lineitem.schema
    val types = schema.fields.map(_.dataType)
    val batches = Array.tabulate(Batches)(i => Lineitem.rows(Rows, i))
    val encoder = new BatchEncoder(types)
    val block = Platform.allocateMemory(64L << 20)
    var bytes = 0L
    def warm(stats: Boolean): Unit = {
      bytes = 0
      batches.foreach { rows =>
        rows.foreach(encoder.append)
        val meta = encoder.finish()
        var at = block
        (0 until meta.numColumns).foreach { c =>
          encoder.writeTo(c, at)
          at += meta.bytes(c)
        }
        if (stats) encoder.stats()
        bytes += meta.bytes + meta.heapBytes
        encoder.reset()
      }
    }
    def spark(compressed: Boolean): Long =
      batches.map(rows => SparkColumns.build(schema, rows.iterator, Rows, compressed)._1).sum
    val n = Rows.toDouble * Batches
    (1 to 3).foreach { _ => warm(true); spark(true); spark(false) }
    println(f"encode ns/row: warmset ${best(11)(warm(true)) / n}%.0f (without statistics ${best(11)(warm(false)) / n}%.0f), " +
      f"Spark uncompressed ${best(11)(spark(false)) / n}%.0f, compressed ${best(11)(spark(true)) / n}%.0f")
    println(f"bytes/row: warmset ${bytes / n}%.1f, Spark compressed ${spark(true) / n}%.1f, uncompressed ${spark(false) / n}%.1f, " +
      f"ratio to compressed ${bytes.toDouble / spark(true)}%.3f")
    val meta = { batches.head.foreach(encoder.append); encoder.finish() }
    schema.fields.indices.foreach(c => println(f"  ${schema(c).name}%-16s ${meta.bytes(c).toDouble / Rows}%.2f"))
    encoder.close()
  }

  /** One loop body per vector class and type, as generated code has. */
  private def reads(): Unit = {
    for (span <- Seq(1L, 200L, 60000L, 10000000L, 4000000000L, Long.MaxValue))
      compare(s"long span $span", LongType, (v, i) => v.putLong(i, mix(i, span)))(ReadLoops.longs(_, _), ReadLoops.sparkLongs(_, _))
    for (span <- Seq(1L, 200L, 60000L, 10000000L, Int.MaxValue.toLong))
      compare(s"int span $span", IntegerType, (v, i) => v.putInt(i, mix(i, span).toInt))(ReadLoops.ints(_, _), ReadLoops.sparkInts(_, _))
    for ((name, double) <- Seq[(String, Int => Double)]("plain" -> (i => math.sqrt(i)), "cents" -> (i => mix(i, 10000000) / 100.0),
        "dictionary" -> (i => mix(i, 11) / 100.0)))
      compare(s"double $name", DoubleType, (v, i) => v.putDouble(i, double(i)))(ReadLoops.doubles(_, _), ReadLoops.sparkDoubles(_, _))
    compare("boolean", BooleanType, (v, i) => v.putBoolean(i, mix(i, 2) == 0))(ReadLoops.booleans(_, _), ReadLoops.sparkBooleans(_, _))
    compare("string plain", StringType, (v, i) => v.putByteArray(i, s"a comment of row ${mix(i, 1L << 40)}".getBytes))(
      ReadLoops.strings(_, _), ReadLoops.sparkStrings(_, _))
    compare("string dictionary", StringType, (v, i) => v.putByteArray(i, s"mode ${mix(i, 7)}".getBytes))(
      ReadLoops.strings(_, _), ReadLoops.sparkStrings(_, _))
    compare("decimal(15,2)", DecimalType(15, 2), (v, i) => v.putLong(i, mix(i, 100000)))(
      ReadLoops.decimals(_, _), ReadLoops.sparkDecimals(_, _))
  }

  private def mix(i: Int, span: Long): Long = ((i * 0x9E3779B97F4A7C15L) >>> 1) % span

  private def compare(name: String, dataType: DataType, fill: (WritableColumnVector, Int) => Unit)(
      warm: (ColumnVector, Int) => Long, spark: (ColumnVector, Int) => Long): Unit = {
    val onHeap = new OnHeapColumnVector(Rows, dataType)
    (0 until Rows).foreach(fill(onHeap, _))
    val encoder = new BatchEncoder(Array(dataType))
    encoder.append(Array[ColumnVector](onHeap), 0, Rows)
    val meta = encoder.finish()
    val block = Platform.allocateMemory(meta.bytes + 64)
    encoder.writeTo(0, (block + 63) & ~63L)
    val vector = WarmVector.create(dataType)
    val turns = 200
    var sink = 0L
    def run(body: => Long): Double = {
      (1 to 30).foreach(_ => (1 to turns).foreach(_ => sink += body))
      best(21)((1 to turns).foreach(_ => sink += body)) / Rows / turns
    }
    val w = run { vector.bind(meta, 0, (block + 63) & ~63L); warm(vector, Rows) }
    val s = run(spark(onHeap, Rows))
    println(f"read $name%-28s warmset $w%.2f ns, OnHeapColumnVector $s%.2f ns, ratio ${w / s}%.2f, " +
      f"${meta.bytes.toDouble / Rows}%.2f bytes/row")
    if (sink == 42) println()
    encoder.close()
    Platform.freeMemory(block)
  }
}
