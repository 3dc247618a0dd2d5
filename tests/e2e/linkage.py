"""What the plugin's classes refer to, looked up in a Spark distribution as the JVM would when it links them.

A class file names every class, method and field that it uses (JVM specification, chapter 4). Found are references to
what is not there, methods that a concrete class of ours inherits as abstract, and final methods that one overrides.
What is looked up by reflection is not among them, nor are the JDK's own classes: they are taken to be there.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PRIVATE, STATIC, FINAL, INTERFACE, ABSTRACT = 0x2, 0x8, 0x10, 0x200, 0x400
# Bytes of a constant after its tag; the first one, UTF-8, says its length itself.
_UTF8, _INTEGER, _LONG, _DOUBLE, _CLASS, _MEMBERS, _NAME_AND_TYPE = 1, 3, 5, 6, 7, (9, 10, 11), 12
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_JDK = ("java/", "javax/", "jdk/", "sun/", "com/sun/")


@dataclass
class ClassFile:
    """Names, not code. Members are (name, descriptor); `uses` are (class, member), or (class, None)."""

    name: str
    flags: int
    parents: list[str]
    members: dict[tuple[str, str], int] = field(default_factory=dict)
    uses: set[tuple[str, tuple[str, str] | None]] = field(default_factory=set)


def parse(data: bytes) -> ClassFile:
    """The names in a class file."""
    position = 8

    def take(form: str) -> tuple[int, ...]:
        nonlocal position
        values = struct.unpack_from(form, data, position)
        position += struct.calcsize(form)
        return values

    constants: dict[int, tuple[int, bytes]] = {}
    index, (count,) = 1, take(">H")
    while index < count:
        (tag,) = take(">B")
        size = take(">H")[0] if tag == _UTF8 else _SIZES[tag]
        constants[index] = tag, data[position : position + size]
        position += size
        index += 2 if tag in (_LONG, _DOUBLE) else 1

    def pair(at: int) -> tuple[int, int]:
        return struct.unpack(">HH", constants[at][1])

    @cache
    def text(at: int) -> str:
        tag, value = constants[at]
        return value.decode(errors="replace") if tag == _UTF8 else text(*struct.unpack(">H", value))

    flags, this, parent, interfaces = take(">HHHH")
    found = ClassFile(text(this), flags, [text(at) for at in (parent, *take(f">{interfaces}H")) if at])
    for _ in ("fields", "methods"):
        for _ in range(take(">H")[0]):
            access, name, descriptor, attributes = take(">HHHH")
            found.members[text(name), text(descriptor)] = access
            for _ in range(attributes):
                _, length = take(">HI")
                position += length
    for at, (tag, _) in constants.items():
        if tag == _CLASS:
            found.uses.add((_element(text(at)), None))
        elif tag in _MEMBERS:
            owner, member = pair(at)
            name, descriptor = pair(member)
            found.uses.add((_element(text(owner)), (text(name), text(descriptor))))
    return found


def _element(name: str) -> str:
    """The class that an array's name ends in; a class's own name otherwise."""
    return name.lstrip("[").removeprefix("L").removesuffix(";") if name.startswith("[") else name


class ClassPath:
    """Classes by name, parsed when they are asked for; earlier jars hide later ones."""

    def __init__(self, jars: Iterable[Path]) -> None:
        self._jars = [zipfile.ZipFile(jar) for jar in jars]
        self._where = {
            name.removesuffix(".class"): jar
            for jar in reversed(self._jars)
            for name in jar.namelist()
            if name.endswith(".class")
        }
        self._parsed: dict[str, ClassFile | None] = {}

    def names(self, jar: int) -> list[str]:
        """All classes of one of the jars, without the copies for newer Javas."""
        return [
            name.removesuffix(".class")
            for name in self._jars[jar].namelist()
            if name.endswith(".class") and not name.startswith("META-INF/")
        ]

    def get(self, name: str) -> ClassFile | None:
        """The class, if it is on the path."""
        if name not in self._parsed:
            jar = self._where.get(name)
            self._parsed[name] = parse(jar.read(f"{name}.class")) if jar else None
        return self._parsed[name]

    def ancestry(self, name: str) -> Iterator[tuple[str, ClassFile | None]]:
        """The class and everything it extends or implements, classes before interfaces' interfaces."""
        seen, queue = {name}, [name]
        while queue:
            current = queue.pop(0)
            found = self.get(current)
            yield current, found
            new = [parent for parent in (found.parents if found else []) if parent not in seen]
            seen.update(new)
            queue = new[:1] + queue + new[1:]


def problems(plugin: Path, spark: Iterable[Path], packages: tuple[str, ...]) -> list[str]:
    """What of our classes (those of `packages` in the plugin's jar) does not link with Spark's jars."""
    path = ClassPath([plugin, *spark])
    ours = [name for name in path.names(0) if name.startswith(packages)]
    found: set[str] = set()
    for name in ours:
        this = path.get(name)
        found.update(f"{name}: {missing}" for use in this.uses if (missing := _missing(path, *use)))
        found.update(f"{name}: {broken}" for broken in _broken(path, this))
    return sorted(found)


def _is_jdk(name: str) -> bool:
    return name.startswith(_JDK) or "/" not in name


def _missing(path: ClassPath, owner: str, member: tuple[str, str] | None) -> str | None:
    """What there is not, of a class or of a member of it; a member may be inherited from the JDK."""
    if _is_jdk(owner):
        return None
    if path.get(owner) is None:
        return f"no class {owner}"
    if member is None or member[0] == "<clinit>":
        return None
    for name, ancestor in path.ancestry(owner):
        if ancestor is None and name != "java/lang/Object":
            return None if _is_jdk(name) else f"no class {name}, from which {owner} descends"
        if member in (ancestor.members if ancestor else _OBJECT):
            return None
        if member[0] == "<init>":
            break
    return f"no {owner}.{member[0]}{member[1]}"


def _broken(path: ClassPath, this: ClassFile) -> Iterator[str]:
    """Abstract methods that nobody implements, and final ones that this class overrides."""
    line = list(path.ancestry(this.name))
    implemented = {
        member
        for _, ancestor in line
        if ancestor
        for member, access in ancestor.members.items()
        if not access & ABSTRACT
    }
    for name, ancestor in line[1:]:
        for member, access in ancestor.members.items() if ancestor else ():
            text = f"{name}.{member[0]}{member[1]}"
            if access & ABSTRACT and not this.flags & ABSTRACT and member not in implemented | _OBJECT:
                yield f"does not implement {text}"
            own = this.members.get(member)
            if access & FINAL and not access & (PRIVATE | STATIC) and "(" in member[1] and own is not None:
                yield f"overrides the final {text}"


_OBJECT = {
    ("equals", "(Ljava/lang/Object;)Z"),
    ("hashCode", "()I"),
    ("toString", "()Ljava/lang/String;"),
    ("getClass", "()Ljava/lang/Class;"),
    ("clone", "()Ljava/lang/Object;"),
    ("notify", "()V"),
    ("notifyAll", "()V"),
    ("wait", "()V"),
    ("wait", "(J)V"),
    ("wait", "(JI)V"),
    ("finalize", "()V"),
}
