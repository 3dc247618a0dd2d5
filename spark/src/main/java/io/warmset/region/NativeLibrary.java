package io.warmset.region;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * Loads the native library once per class loader: from {@code java.library.path} if it is there,
 * else from the jar through a private file in a directory the caller names.
 *
 * <p>Invariant: after {@link #load} has returned, every native method of {@link NativeStore} can be
 * called; if it threw, none can, and a later call with another directory may still succeed. The
 * extracted file is gone when {@code load} returns. It does not open a store.
 */
public final class NativeLibrary {
  private static final String NAME = "warmset_jni";
  private static boolean loaded;

  private NativeLibrary() {}

  /**
   * Makes the native methods available.
   *
   * @param directory where the library may be unpacked; must be writable and not mounted noexec
   * @throws IOException when this platform has no library or it cannot be unpacked or mapped; the
   *     message names the platform or the directory
   */
  public static synchronized void load(File directory) throws IOException {
    if (loaded) {
      return;
    }
    try {
      System.loadLibrary(NAME);
    } catch (UnsatisfiedLinkError notOnPath) {
      loadFromJar(directory);
    }
    loaded = true;
  }

  /** Whether every native method can be called. */
  public static synchronized boolean isLoaded() {
    return loaded;
  }

  /** Where this platform's library lies in the jar, or null if Warmset has none for it. */
  static String resourcePath(String osName, String osArch) {
    if (!osName.toLowerCase(Locale.ROOT).startsWith("linux")) {
      return null;
    }
    switch (osArch.toLowerCase(Locale.ROOT)) {
      case "amd64":
      case "x86_64":
        return "/native/linux/x86_64/lib" + NAME + ".so";
      case "aarch64":
      case "arm64":
        return "/native/linux/aarch64/lib" + NAME + ".so";
      default:
        return null;
    }
  }

  private static void loadFromJar(File directory) throws IOException {
    String platform = System.getProperty("os.name") + "/" + System.getProperty("os.arch");
    String resource = resourcePath(System.getProperty("os.name"), System.getProperty("os.arch"));
    if (resource == null) {
      throw new IOException(
          "Warmset has no native library for " + platform + "; it runs on Linux x86_64 and aarch64");
    }
    try (InputStream library = NativeLibrary.class.getResourceAsStream(resource)) {
      if (library == null) {
        throw new IOException(
            "this Warmset jar holds no " + resource + " (platform " + platform
                + "); use a jar built for it, or put lib" + NAME + ".so on java.library.path");
      }
      mapUnpacked(library, directory);
    }
  }

  private static void mapUnpacked(InputStream library, File directory) throws IOException {
    Path file;
    try {
      // createTempFile gives mode 0600; mapping it executable needs no x bit.
      file = Files.createTempFile(directory.toPath(), "lib" + NAME + "-", ".so");
    } catch (IOException cause) {
      throw new IOException(
          "cannot unpack the native library into " + directory
              + ": is it there and writable? (spark.warmset.dir, spark.local.dir)", cause);
    }
    try {
      Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
      System.load(file.toString());
    } catch (UnsatisfiedLinkError cause) {
      throw new IOException(
          "the native library unpacked into " + directory + " cannot be loaded ("
              + cause.getMessage() + "); if that file system is mounted noexec, set"
              + " spark.warmset.dir or spark.local.dir to another one", cause);
    } finally {
      Files.deleteIfExists(file);
    }
  }
}
