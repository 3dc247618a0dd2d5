package io.warmset.spark

import scala.util.Try

import org.apache.spark.{SparkConf, SparkEnv}

/**
 * How many tasks run at a time in one process. It reads public settings only: the methods by which
 * Spark counts them move between versions.
 */
private[spark] object TaskSlots {
  private val Local = """local\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\]""".r

  def ofThisProcess: Int = {
    val cpus = Runtime.getRuntime.availableProcessors
    Option(SparkEnv.get).fold(cpus)(env => of(env.conf, cpus))
  }

  /** At least 1. `cpus` stands in where the settings name no number of cores. */
  def of(conf: SparkConf, cpus: Int): Int =
    math.max(1, (cores(conf, cpus).getOrElse(cpus) / number(conf, "spark.task.cpus").getOrElse(1.0)).toInt)

  /** How many cores the tasks of one process share, if the settings say so; of a machine that has `cpus`, in local mode. */
  def cores(conf: SparkConf, cpus: Int): Option[Int] = {
    val asked = number(conf, "spark.executor.cores").map(_.toInt)
    conf.get("spark.master", "") match {
      case "local" => Some(1)
      case Local("*") => Some(cpus)
      case Local(threads) => Some(Try(threads.toInt).getOrElse(cpus))
      // Spark's default there; elsewhere an executor has all of its machine.
      case master if master == "yarn" || master.startsWith("k8s://") => asked.orElse(Some(1))
      case _ => asked
    }
  }

  /** Spark 4.3 takes parts of a core per task. */
  private def number(conf: SparkConf, key: String): Option[Double] =
    conf.getOption(key).flatMap(v => Try(v.trim.toDouble).toOption).filter(_ > 0)
}
