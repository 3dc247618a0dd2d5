package io.warmset.region;

/** Takes a region away behind the back of its owners, as a broken disk would. */
public final class RegionAccess {
  private RegionAccess() {}

  public static void destroy(Store store, long region) {
    store.release(region);
  }
}
