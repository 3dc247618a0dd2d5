package io.warmset.spark

import java.io.{InputStream, OutputStream}

import io.warmset.rdd.ElementCoder
import io.warmset.region.NoSpaceException
import io.warmset.spark.cachedframes.BatchesIntoRegion
import io.warmset.spark.rddblocks.{ElementPacker, ElementReader, SerialInput, SerialPacker,
  StoredBytes}
import org.apache.spark.serializer.SerializationStream
import org.apache.spark.storage.BlockId
import org.apache.spark.storage.memory.warmset.OwnedValues

/**
 * What the swapped memory store asks of us. Cached batches that were read back from bytes (a
 * spilled block, a replica) go into a region on their way in; so do the elements of RDDs, where
 * they are wanted there; and handles that the store owns are marked so.
 *
 * @param everyRdd whether RDDs go to regions at any level that keeps objects in memory
 * @param heapFirst whether those for which Spark's memory has room stay there
 * @param spread who knows how large an RDD will be
 */
private[spark] final class BlockOwnership(
    everyRdd: Boolean,
    heapFirst: Boolean = false,
    spread: Option[RddSpread] = None)
  extends OwnedValues {
  override def putting[T](block: BlockId)(put: => T): T = WritingRdds.within(block)(put)

  override def adopt(values: Iterator[Any], warm: Boolean): Iterator[Any] = {
    val source = values.buffered
    val into = for (first <- source.headOption; holder <- StoreHolder.current) yield first match {
      case batch: WarmBatch if !batch.placed => BatchesIntoRegion.replace(source, holder)
      case element if (everyRdd || warm) && !staysWithSpark(element) =>
        val scope = TaskScope.begin()
        scope.guard(new ElementPacker(source, holder, scope))
      case _ => source
    }
    into.getOrElse(source)
  }

  override def keptAsObjects(first: Any): Boolean =
    heapFirst && everyRdd && !first.isInstanceOf[WarmBatch] && !staysWithSpark(first)

  override def blocksHere(rdd: Int): Option[Double] = spread.flatMap(_.blocksHere(rdd))

  override def guarded(values: Iterator[Any]): Iterator[Any] = TaskScope.begin().guard(values)

  override def isRegionHandle(first: Any): Boolean = first match {
    case handle: RegionHandle => handle.region != null
    case _ => false
  }

  override def packing[T](values: Iterator[Any])(use: Array[Any] => T): Option[T] =
    StoreHolder.current.flatMap { holder =>
      val scope = TaskScope.apart()
      val packer = scope.guard(new ElementPacker(values, holder, scope, roomOrNothing = true))
      // Whoever is told to free Spark's memory holds its lock: others' blocks are not to be waited for.
      WritingRdds.none {
        try Some(use(packer.toArray[Any]))
        catch { case _: NoSpaceException => None }
        finally packer.close()
      }
    }

  private def staysWithSpark(element: Any): Boolean =
    element != null && ElementCoder.staysWithSpark(element.getClass)

  override def adoptBytes(
      values: Iterator[Any],
      open: OutputStream => SerializationStream): Option[Iterator[Any]] =
    StoreHolder.current.filter(_ => everyRdd).map { holder =>
      val scope = TaskScope.begin()
      scope.guard(new SerialPacker(values, open, holder, scope))
    }

  override def packed(first: Any): Boolean = first.isInstanceOf[StoredBytes]

  override def present(values: Iterator[Any]): Iterator[Any] = ElementReader.inTask(values)

  override def stream(values: Iterator[Any]): InputStream = SerialInput.inTask(values)

  override def bytes(values: Iterator[Any]): Long =
    values.map { case piece: StoredBytes => piece.bytes }.sum

  override def commit(value: AutoCloseable, block: BlockId): Unit = value match {
    case handle: RegionHandle =>
      // The memory store takes the block out again: see WarmMemoryStore.
      if (!handle.commitTo(block)) throw TaskScope.ended()
      if (handle.region != null) RegionBlocks.put(handle.region.id, block)
    case _ =>
  }
}
