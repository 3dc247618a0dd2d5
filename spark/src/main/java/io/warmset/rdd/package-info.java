/**
 * The elements of cached RDDs as bytes in native memory, and back.
 *
 * <p>{@link io.warmset.rdd.ElementCoder} encodes the elements of one partition, of any classes: a
 * class that Java would serialise field by field gets a generated codec that copies its fields to
 * and from raw memory; the rest is handed to {@link io.warmset.rdd.ElementFallbacks}. The bytes
 * mean something only to the coder that wrote them, in the process that wrote them: offsets of
 * fields and numbers of classes are this JVM's.
 *
 * <p>Nothing here knows about blocks, regions or tasks.
 */
package io.warmset.rdd;
