package io.warmset.spark

import java.io.{ByteArrayInputStream, DataInputStream}
import java.lang.invoke.{MethodHandles, MethodType}
import java.nio.file.{Files, FileSystems, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

/**
 * Whether every class, method and field that the plugin's classes name is there, in the Spark that
 * runs. Asked of builds that nobody has tested the plugin with. A class file names all that it uses
 * (JVM specification, chapter 4); what is looked up by reflection is not among it.
 */
private[spark] object Linkage {
  /** What is missing, sorted, by the part of the plugin that needs it; `common` is what both do, or the rest of it. */
  final case class Missing(frames: Seq[String] = Nil, rdds: Seq[String] = Nil, common: Seq[String] = Nil)

  // The classes of one part only, by the beginnings of their names.
  private val OfFrames = Seq("io/warmset/columns/", "io/warmset/spark/cachedframes/", "io/warmset/spark/WarmsetSerializer",
    "io/warmset/spark/WarmsetExtensions", "io/warmset/spark/ReadCacheAsColumns", "io/warmset/spark/RowReader",
    "io/warmset/spark/CachedColumnsExec", "org/apache/spark/sql/")
  /** The base of cached batches, which the memory store of RDDs knows, too. */
  private val OfBoth = "org/apache/spark/sql/execution/columnar/warmset/SizedCachedBatch"
  private val OfRdds = Seq("io/warmset/rdd/", "io/warmset/spark/rddblocks/", "io/warmset/spark/BlockOwnership",
    "org/apache/spark/storage/", "org/apache/spark/util/io/")

  // Tags of constants.
  private val Text = 1
  private val Words = Set(3, 4)
  private val DoubleWords = Set(5, 6)
  private val ClassName = 7
  private val Members = Set(9, 10, 11)
  private val MethodHandle = 15
  // A name with a descriptor, and two kinds of dynamic ones.
  private val OtherPairs = Set(12, 17, 18)

  /** Used only where Spark has what they name: the plugin looks for it first. */
  private val Optional = Set(
    "io/warmset/columns/SpatialValues",
    "io/warmset/columns/WarmSpatialVector",
    "org.apache.spark.storage.memory.MemoryStore.putIteratorAsBytes")

  /** What is missing of what the plugin's own classes name. */
  def missing(): Missing =
    missing(Path.of(getClass.getProtectionDomain.getCodeSource.getLocation.toURI), getClass.getClassLoader)

  /** The same for the classes in a jar or a directory. */
  def missing(place: Path, loader: ClassLoader): Missing =
    if (Files.isDirectory(place)) missingBelow(place, loader)
    else Using.resource(FileSystems.newFileSystem(place))(jar => missingBelow(jar.getPath("/"), loader))

  private def missingBelow(root: Path, loader: ClassLoader): Missing = {
    def of(part: String => Boolean) = {
      val linkage = new Linkage(loader)
      linkage.checkBelow(root, part)
      linkage.found.toSeq
    }
    def isFrames(name: String) = name != OfBoth && OfFrames.exists(name.startsWith)
    def isRdds(name: String) = OfRdds.exists(name.startsWith)
    Missing(of(isFrames), of(isRdds), of(name => !isFrames(name) && !isRdds(name)))
  }

  private def hasField(owner: Class[_], name: String): Boolean =
    owner.getDeclaredFields.exists(_.getName == name) || parents(owner).exists(hasField(_, name))

  /** Looked up as the JVM links it: a class's list of methods cannot be had where one names a class that is not there. */
  private def hasMethod(owner: Class[_], name: String, wanted: MethodType): Boolean = {
    val lookup = MethodHandles.privateLookupIn(owner, MethodHandles.lookup())
    Try(lookup.findVirtual(owner, name, wanted)).orElse(Try(lookup.findStatic(owner, name, wanted))).isSuccess
  }

  private def parents(of: Class[_]): Iterator[Class[_]] =
    Option[Class[_]](of.getSuperclass).iterator ++ of.getInterfaces
}

private final class Linkage(loader: ClassLoader) {
  import Linkage._

  val found: mutable.SortedSet[String] = mutable.TreeSet.empty[String]

  /** @param wanted tells by their names which classes are looked at */
  def checkBelow(root: Path, wanted: String => Boolean): Unit =
    for (directory <- Seq("io/warmset", "org/apache/spark") if Files.isDirectory(root.resolve(directory))) {
      Using.resource(Files.walk(root.resolve(directory))) { files =>
        for (file <- files.iterator.asScala if file.toString.endsWith(".class")) {
          val name = root.relativize(file).toString.stripSuffix(".class")
          if (wanted(name) && !name.startsWith("io/warmset/shaded/") && !Optional(name)) check(Files.readAllBytes(file))
        }
      }
    }

  private def check(bytes: Array[Byte]): Unit = {
    val in = new DataInputStream(new ByteArrayInputStream(bytes))
    in.skipBytes(8)
    val count = in.readUnsignedShort()
    val tags = new Array[Int](count)
    val texts = new Array[String](count)
    val refers = Array.ofDim[Int](count, 2)
    var i = 1
    while (i < count) {
      tags(i) = in.readUnsignedByte()
      val at = i
      i += 1
      tags(at) match {
        case Text => texts(at) = in.readUTF()
        case tag if DoubleWords(tag) => in.skipBytes(8); i += 1
        case tag if Words(tag) => in.skipBytes(4)
        case MethodHandle => in.skipBytes(3)
        case tag if Members(tag) || OtherPairs(tag) =>
          refers(at) = Array(in.readUnsignedShort(), in.readUnsignedShort())
        case _ => refers(at)(0) = in.readUnsignedShort()
      }
    }
    tags.indices.foreach { at =>
      if (tags(at) == ClassName) {
        resolve(texts(refers(at)(0)))
      } else if (Members(tags(at))) {
        val Array(owner, member) = refers(at)
        val Array(name, descriptor) = refers(member).map(texts)
        resolve(texts(refers(owner)(0))).foreach(checkMember(_, name, descriptor))
      }
    }
  }

  /** The class; none if it is missing, which is noted, or an array, or the JDK's own. */
  private def resolve(internal: String): Option[Class[_]] = {
    val name = internal.replaceFirst("^\\[+L?", "").stripSuffix(";")
    if (!name.contains('/') || Seq("java/", "javax/", "jdk/", "sun/").exists(name.startsWith) || Optional(name)) {
      None
    } else {
      try Some(Class.forName(name.replace('/', '.'), false, loader)).filter(found => name == internal && !found.getModule.isNamed)
      catch {
        case _: ClassNotFoundException | _: LinkageError =>
          found += name.replace('/', '.')
          None
      }
    }
  }

  private def checkMember(owner: Class[_], name: String, descriptor: String): Unit = {
    val there =
      try {
        if (!descriptor.startsWith("(")) {
          hasField(owner, name)
        } else {
          val wanted = MethodType.fromMethodDescriptorString(descriptor, loader)
          if (name == "<init>") {
            owner.getDeclaredConstructors.exists(_.getParameterTypes.sameElements(wanted.parameterArray))
          } else {
            hasMethod(owner, name, wanted)
          }
        }
      } catch {
        case _: TypeNotPresentException | _: LinkageError => false
      }
    val full = s"${owner.getName}.$name"
    if (!there && !Optional(full)) found += full + descriptor
  }
}
