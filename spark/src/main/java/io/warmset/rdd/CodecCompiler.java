package io.warmset.rdd;

import java.lang.invoke.MethodHandles;

import org.codehaus.commons.compiler.CompileException;
import org.codehaus.janino.SimpleCompiler;

/**
 * Makes a codec of a generated source, with the compiler that Spark's own generated code uses.
 *
 * <p>Invariant: the class is hidden, of this package and of no class loader's table: it goes when
 * its codec does, and sees the package's inside.
 */
final class CodecCompiler {
  private CodecCompiler() {}

  static ClassCodec compile(Class<?> type, ClassShape shape) throws ClassShape.Unfit {
    String name = "CodecOf_" + type.getSimpleName().replaceAll("[^A-Za-z0-9]", "_");
    CodecSource.Generated generated = CodecSource.of(type, shape, name);
    try {
      SimpleCompiler compiler = new SimpleCompiler();
      compiler.setParentClassLoader(CodecCompiler.class.getClassLoader());
      compiler.cook(generated.source);
      byte[] bytecode = compiler.getBytecodes().get("io.warmset.rdd." + name);
      return (ClassCodec) MethodHandles.lookup()
          .defineHiddenClassWithClassData(bytecode, generated.links, true)
          .lookupClass().getDeclaredConstructor().newInstance();
    } catch (CompileException | ReflectiveOperationException | LinkageError | RuntimeException e) {
      throw new ClassShape.Unfit("no codec can be compiled for " + type.getName() + ": " + e);
    }
  }
}
