package io.warmset.region;

import java.io.IOException;

/** There is no space for cached bytes on disk, or to show those that are there; what is sealed stays whole. */
public final class NoSpaceException extends IOException {
  private static final long serialVersionUID = 1L;

  public NoSpaceException(String message) {
    super(message);
  }
}
