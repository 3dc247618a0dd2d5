package org.apache.spark.deploy.warmset

import java.io.File
import java.nio.file.Files

import org.apache.spark.SparkConf
import org.apache.spark.deploy.master.Master
import org.apache.spark.deploy.worker.Worker

/**
 * A standalone cluster of two workers with one core each, on loopback addresses of their own: Spark
 * starts no second copy of a task on the host of the first, and `local-cluster` has one host only.
 */
object TwoHosts {
  /** Runs `body` with the master's address; afterwards master and workers have ended. */
  def run[T](sparkHome: File, workerMiB: Int)(body: String => T): T = {
    System.setProperty("spark.test.home", sparkHome.getPath)
    val conf = new SparkConf(false)
    val (master, _, _) = Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)
    val url = s"spark://127.0.0.1:${master.address.port}"
    val directory = Files.createTempDirectory("warmset-workers").toString
    val workers = (1 to 2).map { number =>
      Worker.startRpcEnvAndEndpoint(s"127.0.0.$number", 0, 0, 1, workerMiB, Array(url), directory,
        Some(number), conf, None)
    }
    try body(url)
    finally {
      val all = workers :+ master
      all.foreach(_.shutdown())
      all.foreach(_.awaitTermination())
    }
  }
}
