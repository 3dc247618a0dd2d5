package io.warmset.spark

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, BloomFilterAggregate}
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.columnar.warmset.CountedRelation
import org.apache.spark.sql.types.LongType
import org.apache.spark.util.sketch.BloomFilter

/**
 * Adds `PushDownJoins` and `RuntimeFilters` to the rules that Spark's optimiser ends with. Joins of EXISTS and IN are made in
 * its last batches, and an extension's rules come before these; a session's own come behind.
 */
private[spark] final class AddOptimizerRules(session: SparkSession) extends (LogicalPlan => Unit) {
  override def apply(plan: LogicalPlan): Unit = {
    val methods = session.experimental
    val missing = Seq(PushDownJoins, RuntimeFilters).filterNot(methods.extraOptimizations.contains)
    if (missing.nonEmpty) methods.extraOptimizations ++= missing
  }
}

/**
 * Puts filters by join keys above cached scans, exact sets or Bloom filters: of the keys that the other side of a join has at most.
 *
 * Invariant: joins stay and decide. A filter lies only where the join drops rows without a match, and where nothing between
 * scan and join depends on rows that the join drops. What a filter is made of gives all keys of its side, or more of them: it
 * may leave out conditions and joins. A plan that was treated once is not changed again.
 */
object RuntimeFilters extends Rule[LogicalPlan] {
  import PlanEstimates._

  /** Of the distinct keys of a scan: with more of them, too many rows would stay. */
  private val KeysShareMax = 0.3
  /** The same below an aggregate, which native code would compute without the filter. */
  private val KeysShareBelowAggregateMax = 0.05
  /** Rows that may be read for a filter, for each that it takes out: it saves a row's way through a shuffle. */
  private val RowsReadMax = 5
  /** Of the keys that a small side hands on: with fewer of them left, a filter lies beside its own. */
  private val HandedOnMax = 0.3
  /** Scans of fewer rows are not worth a query of their own. Tests have small tables. */
  @volatile private[spark] var rowsMin = 200000
  /** Spark's own limit is the same. */
  private val KeysMax = 4000000L
  private val FiltersMax = 10
  /** Of keys that are taken for others: as `BloomFilter` has it by default. */
  private val FalsePositives = 0.03
  /** Keys that lie so close are kept as a bit for each number: tested in fewer steps than a Bloom filter, and exactly. */
  private val BitsPerKeyMax = 64L
  /** 8 KiB: no reason to be anything but exact. */
  private val BitsAnyway = 1L << 16
  /** 4 MiB, which each task of the subquery has and sends. */
  private val BitsMax = 1L << 25

  /**
   * Rows with other keys do not come out of a join above.
   *
   * @param keys a plan with one column: all keys that the join lets pass, or more
   * @param isApart whether a shuffle lies between that join and the plan, or these are far fewer keys than the join's side
   *   has: else `FilterCacheByJoins` hands the keys on
   * @param shareMax of the distinct keys of a scan, how many these may be at most
   */
  private final case class Restriction(key: Attribute, keys: LogicalPlan, isApart: Boolean, shareMax: Double = KeysShareMax)

  /** How many keys there are, and to how many values of the scan's column. */
  private final case class Candidate(of: Restriction, count: Long, share: Double) {
    /** Rows that are read for a filter of these keys. */
    def cost: Double = of.keys.collectLeaves().flatMap(_.stats.rowCount).sum.toDouble

    /** What it saves less what it costs, where the scan has so many rows. */
    def gain(rows: Double): Double = rows * (1 - share) * RowsReadMax - cost
  }

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (WarmsetConf.JoinFilters.read(conf) && !plan.isStreaming && plan.exists(isLargeScan)) {
      new Pass().reduce(plan, Nil)
    } else {
      plan
    }

  private def isLargeScan(plan: LogicalPlan): Boolean = plan match {
    case relation: CountedRelation => isLarge(relation.computeStats())
    case _ => false
  }

  private def isLarge(known: Statistics): Boolean = known.rowCount.exists(_ >= rowsMin)

  private final class Pass {
    private var filters = 0
    private val counts = mutable.HashMap.empty[LogicalPlan, Option[Long]]

    /** The plan with filters above its scans. */
    def reduce(plan: LogicalPlan, above: Seq[Restriction]): LogicalPlan = plan match {
      case join: Join => reduceJoin(join, above)
      case relation: CountedRelation => filtered(relation, Nil, above).fold[LogicalPlan](relation)(Filter(_, relation))
      case Filter(own, relation: CountedRelation) =>
        filtered(relation, Conjuncts.of(own), above).fold(plan)(more => Filter(And(own, more), relation))
      case other => other.mapChildren { child =>
        val most = if (other.isInstanceOf[Aggregate]) KeysShareBelowAggregateMax else KeysShareMax
        reduce(child, above.flatMap(r => step(other, r.key).map(s => r.copy(key = s._2, shareMax = most.min(r.shareMax)))))
      }
    }

    private def reduceJoin(join: Join, above: Seq[Restriction]): LogicalPlan = {
      val isApart = isShuffled(join)
      def passed(side: LogicalPlan) = above.flatMap { r =>
        step(join, r.key).collect { case (child, a) if child eq side => r.copy(key = a, isApart = r.isApart || isApart) }
      }
      val (left, right) = (passed(join.left), passed(join.right))
      val own = joinKeys(join).map { case (a, b) =>
        val ofRight = if (dropsLeft(join.joinType)) keysOf(join.right, b, right) else None
        val ofLeft = if (dropsRight(join.joinType)) keysOf(join.left, a, left) else None
        // Not each by the other: the one with more keys would hardly take rows out.
        val isRight = ofLeft.isEmpty || ofRight.exists(r => distinct(r).getOrElse(0L) <= ofLeft.flatMap(distinct).getOrElse(0L))
        // A small side hands on all the keys that it has, also those that a join above drops.
        def restrictions(of: Attribute, least: Option[LogicalPlan], side: LogicalPlan, key: Attribute) = {
          lazy val handedOn = keysOf(side, key, Nil).flatMap(distinct)
          least.toSeq.flatMap(_ +: keysBelow(side, key)).map(keys =>
            Restriction(of, keys, isApart || handedOn.exists(_ * HandedOnMax > distinct(keys).getOrElse(0L))))
        }
        (restrictions(a, ofRight.filter(_ => isRight), join.right, b), restrictions(b, ofLeft.filter(_ => !isRight), join.left, a))
      }
      val (l, r) = (reduce(join.left, left ++ own.flatMap(_._1)), reduce(join.right, right ++ own.flatMap(_._2)))
      if ((l eq join.left) && (r eq join.right)) join else join.copy(left = l, right = r)
    }

    /** The filters that are worth it on this scan, of which `own` are the conditions that it has. */
    private def filtered(relation: CountedRelation, own: Seq[Expression], above: Seq[Restriction]): Option[Expression] = {
      val known = relation.computeStats()
      if (!isLarge(known)) None
      else {
        val candidates = for {
          of <- above.groupBy(_.key.exprId).values.toSeq
          values <- known.attributeStats.get(of.head.key).flatMap(_.distinctCount).toSeq
        } yield of.flatMap(r => distinct(r.keys).map(count => Candidate(r, count, math.min(1, count / values.toDouble))))
        // Keys that are handed on anyway.
        val near = candidates.map(_.filterNot(_.of.isApart).map(_.share).minOption.getOrElse(1.0))
        // What they and its conditions leave.
        val rows = byCosts(own.foldLeft[LogicalPlan](relation)((of, c) => Filter(c, of))).rowCount.fold(0.0)(_.toDouble) * near.product
        val apart = candidates.zip(near).flatMap { case (of, share) =>
          of.filter(c => c.of.isApart && c.share < share && c.count <= KeysMax && c.share <= c.of.shareMax).maxByOption(_.gain(rows))
        }
        val (present, absent) = apart.partition(c => own.exists(has(_, c.of.key)))
        val before = (Seq.empty[Candidate], present.foldLeft(rows)(_ * _.share))
        val (taken, _) = absent.sortBy(_.cost).foldLeft(before) { case ((taken, left), next) =>
          if (next.gain(left) >= 0 && filters + taken.length < FiltersMax) (taken :+ next, left * next.share) else (taken, left)
        }
        filters += taken.length
        taken.map(c => mayContain(c.of.keys, c.count, c.of.key)).reduceOption(And)
      }
    }

    /** How many keys there are. */
    private def distinct(keys: LogicalPlan): Option[Long] = counts.getOrElseUpdate(keys, {
      val key = keys.output.head
      for (left <- rows(keys)) yield {
        // Rows that are drawn at random from those that conditions on the key itself leave: Cardenas' formula.
        val values = byCosts(onlyOn(keys, key)).attributeStats.get(key).flatMap(_.distinctCount).fold(left)(_.toDouble.max(1))
        math.max(1L, math.min(left, values * -math.expm1(-left / values)).toLong)
      }
    })
  }

  /** Without what drops rows by other columns than this one. */
  private def onlyOn(plan: LogicalPlan, key: Attribute): LogicalPlan = plan match {
    case Project(list, child) => Project(list, onlyOn(child, key))
    case Filter(condition, child) if !child.isInstanceOf[Aggregate] =>
      val rest = onlyOn(child, key)
      Conjuncts.of(condition).filter(_.references.forall(_ == key)).reduceOption(And).fold(rest)(Filter(_, rest))
    case join @ Join(left, _, LeftSemi, Some(EqualTo(mine, _)), _) =>
      if (mine == key) join.copy(left = onlyOn(left, key)) else onlyOn(left, key)
    case other => other
  }

  /** Neither side can be broadcast: it is too large, or rows of it may come out without a match. */
  private def isShuffled(join: Join): Boolean = {
    val left = dropsLeft(join.joinType) && join.joinType != LeftSemi && (isSmall(join.left) || isBroadcast(join.hint.leftHint))
    val right = dropsRight(join.joinType) && (isSmall(join.right) || isBroadcast(join.hint.rightHint))
    !left && !right
  }

  private def dropsLeft(of: JoinType): Boolean = of match {
    case Inner | LeftSemi | RightOuter => true
    case _ => false
  }

  /** Whether rows of the right side without a match make no difference. */
  private def dropsRight(of: JoinType): Boolean = of match {
    case Inner | LeftSemi | LeftAnti | LeftOuter => true
    case _ => false
  }

  private def joinKeys(join: Join): Seq[(Attribute, Attribute)] =
    join.condition.toSeq.flatMap(Conjuncts.of).flatMap(equated(_, join.left, join.right))
      .filter { case (a, b) => JoinFilter.supports(a.dataType) && a.dataType == b.dataType }

  private def has(condition: Expression, key: Attribute): Boolean = condition.exists {
    case BloomFilterMightContain(_, XxHash64(Seq(a: Attribute), _)) => a.exprId == key.exprId
    case InKeySet(_, a: Attribute, _) => a.exprId == key.exprId
    case _ => false
  }

  /**
   * What gives the keys of a side, or more: the cached scan that the key comes from with its filters, less what joins with
   * small sides, and those `above`, drop.
   */
  private def keysOf(plan: LogicalPlan, key: Attribute, above: Seq[Restriction]): Option[LogicalPlan] = {
    def rows(plan: LogicalPlan, key: Attribute, above: Seq[Restriction]): Option[(LogicalPlan, Attribute)] = plan match {
      case relation: CountedRelation => Some(lessOthers(relation, above) -> key)
      case Filter(condition, aggregate: Aggregate) if comparesResults(condition, aggregate) && isPlain(condition) &&
          step(aggregate, key).isDefined && isScan(aggregate.child) => Some(plan -> key)
      case Filter(condition, child) => rows(child, key, Nil).map { case (found, a) =>
        val kept = Conjuncts.of(condition).filter(c => isPlain(c) && c.references.subsetOf(found.outputSet))
        lessOthers(kept.reduceOption(And).fold(found)(Filter(_, found)), above) -> a
      }
      case join: Join => step(join, key).flatMap { case (own, a) =>
        val other = if (own eq join.left) join.right else join.left
        val isDropping = if (own eq join.left) dropsLeft(join.joinType) else dropsRight(join.joinType)
        val more = if (!isDropping) Nil else joinKeys(join).flatMap { case (l, r) =>
          val (mine, theirs) = if (own eq join.left) (l, r) else (r, l)
          keysOf(other, theirs, above.filter(r => other.outputSet.contains(r.key))).map(Restriction(mine, _, isApart = false))
        }
        rows(own, a, above.filter(r => own.outputSet.contains(r.key)) ++ more)
      }
      case other => step(other, key).flatMap { case (child, a) =>
        rows(child, a, above.flatMap(r => step(other, r.key).map(s => r.copy(key = s._2))))
      }
    }
    rows(plan, key, above).map { case (found, a) => Project(Seq(a), found) }
  }

  /** Other plans that give all keys of a side, or more: of tables with which it is joined by the key. */
  private def keysBelow(plan: LogicalPlan, key: Attribute): Seq[LogicalPlan] = plan match {
    case join: Join => step(join, key).toSeq.flatMap { case (own, a) =>
      val isLeft = own eq join.left
      val (other, isDropping) = if (isLeft) (join.right, dropsLeft(join.joinType)) else (join.left, dropsRight(join.joinType))
      val theirs = joinKeys(join).map(pair => if (isLeft) pair else pair.swap).collect { case (mine, of) if isDropping && mine == a => of }
      theirs.flatMap(of => keysOf(other, of, Nil) ++ keysBelow(other, of)) ++ keysBelow(own, a)
    }
    case other => step(other, key).toSeq.flatMap { case (child, a) => keysBelow(child, a) }
  }

  /** Less the rows that small restrictions drop. */
  private def lessOthers(plan: LogicalPlan, above: Seq[Restriction]): LogicalPlan =
    above.filter(r => plan.outputSet.contains(r.key) && isSmall(r.keys) && isSelective(r.keys)).foldLeft(plan) { (found, r) =>
      val keys = r.keys.output.head
      // The same relation may be on both sides.
      val (fresh, name) = if (found.outputSet.contains(keys)) {
        val alias = Alias(keys, keys.name)()
        (Project(Seq(alias), r.keys), alias.toAttribute)
      } else (r.keys, keys)
      Join(found, fresh, LeftSemi, Some(EqualTo(r.key, name)), JoinHint.NONE)
    }

  private def isScan(plan: LogicalPlan): Boolean = plan match {
    case _: CountedRelation => true
    case Filter(condition, child) => isPlain(condition) && isScan(child)
    case Project(list, child) => list.forall(isPlain) && isScan(child)
    case _ => false
  }

  private def mayContain(keys: LogicalPlan, count: Long, key: Attribute): Expression = {
    def collected(by: AggregateFunction) =
      ScalarSubquery(ColumnPruning(Aggregate(Nil, Seq(Alias(by.toAggregateExpression(), "keys")()), keys)))
    bounds(keys) match {
      case Some((least, greatest)) if isClose(least, greatest, count) =>
        InKeySet(collected(CollectKeys(keys.output.head, least, ((greatest - least) / 64).toInt + 1)), key, least)
      case _ =>
        val hash = new XxHash64(Seq(keys.output.head))
        val bits = BloomFilter.optimalNumOfBits(count, FalsePositives)
        val filter = new BloomFilterAggregate(hash, Literal(count, LongType), Literal(bits, LongType))
        BloomFilterMightContain(collected(filter), new XxHash64(Seq(key)))
    }
  }

  /** Between which numbers the keys lie. */
  private def bounds(keys: LogicalPlan): Option[(Long, Long)] = for {
    (relation, key) <- origin(keys, keys.output.head)
    known <- relation.computeStats().attributeStats.get(key)
    least <- known.min
    greatest <- known.max
  } yield (least.asInstanceOf[Number].longValue, greatest.asInstanceOf[Number].longValue)

  private def isClose(least: Long, greatest: Long, count: Long): Boolean = {
    val range = BigInt(greatest) - least
    range >= 0 && range < BitsMax && range < math.max(BitsPerKeyMax * count, BitsAnyway)
  }
}
