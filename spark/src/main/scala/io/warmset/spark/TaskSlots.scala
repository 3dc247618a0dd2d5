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
    def number(key: String): Option[Int] = conf.getOption(key).flatMap(v => Try(v.trim.toInt).toOption)
    val cores = conf.get("spark.master", "") match {
      case "local" => 1
      case Local("*") => cpus
      case Local(threads) => Try(threads.toInt).getOrElse(cpus)
      case _ => number("spark.executor.cores").getOrElse(cpus)
    }
    math.max(1, cores / math.max(1, number("spark.task.cpus").getOrElse(1)))
  }
}
