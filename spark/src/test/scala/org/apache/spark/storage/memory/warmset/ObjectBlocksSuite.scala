package org.apache.spark.storage.memory.warmset

import org.apache.spark.storage.RDDBlockId
import org.scalatest.funsuite.AnyFunSuite

/** What is known of RDDs whose blocks lie in the memory store as objects. */
class ObjectBlocksSuite extends AnyFunSuite {
  test("a driver that does not answer is asked again, but not for each block; one that did is not") {
    val blocks = new ObjectBlocks
    def asked(partitions: Range) = partitions.count { partition =>
      blocks.putObjects(RDDBlockId(7, partition), 100)
      blocks.shouldAsk(7)
    }
    assert(asked(0 to 0) == 1)
    assert(asked(1 to 64) == 8)
    blocks.expect(7, 100.0)
    assert(asked(65 to 100) == 0)
    assert(blocks.expected(7).contains(100.0))
  }

  test("an RDD whose blocks have all gone is forgotten, with what was expected of it") {
    val blocks = new ObjectBlocks
    val block = RDDBlockId(7, 0)
    assert(!blocks.shouldAsk(7))
    assert(blocks.putObjects(block, 100) == 100 && blocks.putObjects(RDDBlockId(7, 1), 300) == 200)
    blocks.expect(7, 2.0)
    blocks.overflow(7)
    blocks.remove(block)
    assert(blocks.overflowed(7))
    blocks.remove(RDDBlockId(7, 1))
    assert(blocks.expected(7).isEmpty && !blocks.overflowed(7) && !blocks.contains(block))
  }
}
