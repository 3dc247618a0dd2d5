package io.warmset.columns;

import java.math.BigInteger;

import org.apache.spark.unsafe.Platform;

/** 128-bit two's complement as two longs: what an unscaled decimal of up to 38 digits needs. */
final class Int128 {
  private Int128() {}

  static BigInteger toBigInteger(long high, long low) {
    byte[] bytes = new byte[16];
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET, Long.reverseBytes(high));
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + 8, Long.reverseBytes(low));
    return new BigInteger(bytes);
  }

  static long low(BigInteger value) {
    return value.longValue();
  }

  static long high(BigInteger value) {
    return value.shiftRight(64).longValue();
  }
}
