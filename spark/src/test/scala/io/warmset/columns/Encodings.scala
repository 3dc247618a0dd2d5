package io.warmset.columns

/** How columns of a batch are encoded, in words. */
object Encodings {
  /** Of each column: the kind of its values, their width in bytes (0 where all are one) and which are null. */
  def of(meta: BatchMeta): Seq[String] = (0 until meta.numColumns).map { column =>
    val header = meta.words()(meta.start(column))
    def byte(at: Int) = (header >>> at & 0xff).toInt
    val (width, code, flags, nulls) = (byte(8), byte(16), byte(24), header >>> 32)
    val isDictionary = (flags & Layout.FLAG_DICTIONARY) != 0
    val values = byte(0) match {
      case Layout.BOOLEAN => s"boolean of $width"
      case Layout.INT => s"int of $width"
      case Layout.LONG => s"long of $width"
      case Layout.FLOAT => s"float of $width"
      case Layout.DOUBLE if isDictionary => "double in a dictionary"
      case Layout.DOUBLE if (flags & Layout.FLAG_SCALED) != 0 => s"double scaled, of $width"
      case Layout.DOUBLE => s"double of $width"
      case Layout.DECIMAL => s"decimal of $width"
      case Layout.BYTES if isDictionary => s"bytes in a dictionary, codes of $code"
      case Layout.BYTES => "bytes"
      case kind => s"kind $kind"
    }
    s"$values, ${if (nulls == 0) "no" else if (nulls == meta.numRows) "all" else "some"} nulls"
  }
}
