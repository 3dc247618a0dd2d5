/**
 * Spark SQL columns in raw memory, readable in place.
 *
 * <p>{@link io.warmset.columns.BatchEncoder} collects one batch of rows or columns and writes every column as one
 * contiguous, relocatable run of bytes; {@link io.warmset.columns.BatchMeta} describes the runs; the {@link
 * io.warmset.columns.WarmVector} classes read them at whatever address they lie. The byte layout is a function of
 * the description alone and is written down in {@link io.warmset.columns.Layout}.
 *
 * <p>Nothing here knows about regions, segments, pins or tasks: whoever binds a vector to an address keeps the
 * bytes there.
 */
package io.warmset.columns;
