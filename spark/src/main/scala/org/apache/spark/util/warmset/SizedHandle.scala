package org.apache.spark.util.warmset

import org.apache.spark.util.KnownSizeEstimation

/** A value that tells Spark its heap size itself. Here because the trait is Spark's own. */
abstract class SizedHandle extends KnownSizeEstimation
