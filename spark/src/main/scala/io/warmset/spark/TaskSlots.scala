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
  def of(conf: SparkConf, cpus: Int): Int = {
    // Spark 4.3 takes parts of a core per task.
    def number(key: String): Option[Double] =
      conf.getOption(key).flatMap(v => Try(v.trim.toDouble).toOption).filter(_ > 0)
    val cores = conf.get("spark.master", "") match {
      case "local" => 1
      case Local("*") => cpus
      case Local(threads) => Try(threads.toInt).getOrElse(cpus)
      // Spark's default there; elsewhere an executor has all of its machine.
      case master if master == "yarn" || master.startsWith("k8s://") => number("spark.executor.cores").fold(1)(_.toInt)
      case _ => number("spark.executor.cores").fold(cpus)(_.toInt)
    }
    math.max(1, (cores / number("spark.task.cpus").getOrElse(1.0)).toInt)
  }
}
