package io.warmset.region;

import java.io.IOException;

/** Cached bytes have to go to disk and there is no space for them; what is sealed already stays readable. */
public final class NoSpaceException extends IOException {
  private static final long serialVersionUID = 1L;

  public NoSpaceException(String message) {
    super(message);
  }
}
