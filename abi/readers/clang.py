"""A header, parsed by libclang for any target, with headers of our own for the C library's."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfire.abi import target as targets
from hotfire.errors import InputError

STUBS = tuple(Path(__file__).parent / "include" / name for name in ("compiler", "libc"))
UNIT = "hotfire_unit.c"
VALUE = "hotfire_value_"
TEXT = "hotfire_text_"

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]*((?:\\\n|[^\n])*)", re.M)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")
# Words that an expression with a value cannot hold; they would only confuse the parser.
_NO_VALUE = re.compile(
    r"[{};#]|\b(?:__attribute__|__declspec|_Pragma|__pragma|extern|static|inline|__inline"
    r"|typedef|struct|union|enum|do|while|for|if|return|void|const|__asm__|defined)\b"
)


# What is longer or deeper is generated code, and would overrun the parser's own stack.
_LONGEST, _DEEPEST = 10_000, 100


@dataclass(frozen=True)
class Unit:
    """A parsed header: the translation unit, and the macros that were looked at.

    Args:
        root: the cursor of the translation unit.
        headers: the files that were named, resolved.
        triple: of the target as the compiler names it.
        pointer_size: bytes.
        defines: those in force, `NAME` or `NAME=VALUE`, sorted.
        language: c or c++.
        from_host: whether this machine's headers of the C library were needed.
    """

    root: Any
    headers: tuple[Path, ...]
    triple: str
    pointer_size: int
    defines: tuple[str, ...]
    language: str
    from_host: bool


def parse(
    headers: Sequence[Path],
    *,
    target: str = "",
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    language: str = "c",
) -> Unit:
    """Parses headers together as one translation unit.

    Args:
        headers: files, included in this order.
        target: a triple or a short name; "" for this machine.
        include: folders that are searched for included files.
        defines: `NAME` or `NAME=VALUE`.
        language: c or c++.

    Raises:
        InputError: if a file is missing, the target is unknown, or the text does not parse.
    """
    for header in headers:
        if not header.is_file():
            raise InputError(f"expected a header, found no file {header}")
        if set(str(header.resolve())) & set('"\n'):
            raise InputError(f"C cannot include a path with a quote or a line break: {header}")
    for folder in include:
        if not folder.is_dir():
            raise InputError(f"expected a folder of headers for -I, found no folder {folder}")
    paths = tuple(header.resolve() for header in headers)
    values, renames = _macros(paths)
    source = _source(paths, values, renames, "auto" if language == "c++" else "__auto_type")
    common = _arguments(target, defines, language)
    own = [f"-I{folder}" for folder in dict.fromkeys([*include, *(p.parent for p in paths)])]
    # Our own headers of the C library come first, so that -I/usr/include does not bring this
    # machine's into a parse for another.
    unit = _unit(source, [*common, *_flags("-I", STUBS), *own])
    errors = _errors(unit)
    from_host = False
    if errors and target_is_host(target):
        # What needs more of the C library than ours declare finds it on this machine.
        again = _unit(source, [*common, *own, *_flags("-isystem", _host_folders(language))])
        unit, errors, from_host = again, _errors(again), True
    if errors:
        shown = "\n  ".join(errors[:10])
        raise InputError(
            f"{headers[0]} does not parse; pass its folders with -I and its macros with -D:"
            f"\n  {shown}"
        )
    triple, width = _target_of(unit)
    return Unit(unit.cursor, paths, triple, width, tuple(sorted(defines)), language, from_host)


def target_is_host(target: str) -> bool:
    """Whether a target is this machine; "" means it."""
    return not target or targets.normal(target) == targets.host()


def _unit(source: str, arguments: Sequence[str]) -> Any:
    from clang import cindex

    try:
        return cindex.Index.create().parse(UNIT, args=arguments, unsaved_files=[(UNIT, source)])
    except cindex.TranslationUnitLoadError as error:
        raise InputError(f"libclang cannot parse with {' '.join(arguments)}") from error


def _flags(flag: str, folders: Iterable[Path]) -> list[str]:
    return [f"{flag}{folder}" for folder in folders]


def _host_folders(language: str) -> list[Path]:
    """Where a compiler of this machine looks, with our headers in the place of its own."""
    system = Path("/usr/include")
    triple = targets.triple(targets.host())
    found = [STUBS[0], Path("/usr/local/include"), system / triple, system]
    if language == "c++":
        versions = sorted(system.glob("c++/*"), key=lambda path: (len(path.name), path.name))
        found = [*versions[-1:], *(system / triple / "c++" / v.name for v in versions[-1:]), *found]
    return found


def _arguments(target: str, defines: Sequence[str], language: str) -> list[str]:
    standard = "c++17" if language == "c++" else "gnu11"
    return [
        "-x",
        language,
        f"-std={standard}",
        "-nostdinc",
        "-ferror-limit=0",
        "-w",
        f"--target={targets.triple(target or targets.host())}",
        *(f"-D{define}" for define in defines),
    ]


def _macros(paths: Iterable[Path]) -> tuple[dict[str, bool], dict[str, str]]:
    """Macros that may have a value, and whether it is text; and renames with their parameters."""
    values: dict[str, bool] = {}
    renames: dict[str, str] = {}
    for path in paths:
        text = path.read_text(errors="replace")
        for name, parameters, body in _DEFINE.findall(text):
            body = _COMMENT.sub(" ", body).replace("\\\n", " ").strip()
            if not body or (parameters and "(" not in body):
                continue
            if len(body) > _LONGEST or body.count("(") > _DEEPEST:
                continue
            if parameters or _IDENTIFIER.match(body):
                renames[name] = parameters
            elif not _NO_VALUE.search(body) and body.count("(") == body.count(")"):
                values[name] = '"' in body
    return values, renames


def _source(
    paths: Iterable[Path], values: dict[str, bool], renames: dict[str, str], any_type: str
) -> str:
    """C text that includes the headers and lets the compiler itself evaluate each macro."""
    lines = [f'#include "{path}"' for path in paths]
    lines += ["#define HOTFIRE_TEXT_(x) #x", "#define HOTFIRE_TEXT(x) HOTFIRE_TEXT_(x)"]
    for name, is_text in values.items():
        kind, array = ("char", "[]") if is_text else (any_type, "")
        value = f"static const {kind} {VALUE}{name}{array} = ({name});"
        lines += [f"#ifdef {name}", value, "#endif"]
    for name, parameters in renames.items():
        lines += [
            f"#ifdef {name}",
            f"static const {any_type} {VALUE}{name} = ({name});",
            f"static const char {TEXT}{name}[] = HOTFIRE_TEXT({name}{parameters});",
            "#endif",
        ]
    return "\n".join(lines) + "\n"


def _errors(unit: Any) -> list[str]:
    """Errors in headers are the user's to see; those in our own text are macros without a value."""
    found = [each for each in unit.diagnostics if each.severity >= 3]
    theirs = [str(each) for each in found if str(each.location.file) != UNIT]
    return theirs + [
        str(each) for each in found if each.severity >= 4 and str(each.location.file) == UNIT
    ]


class _String(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("private_flags", ctypes.c_uint)]


def _target_of(unit: Any) -> tuple[str, int]:
    """The triple and the width of a pointer in bytes that libclang settled on."""
    from clang.cindex import conf

    library = conf.lib
    library.clang_getTranslationUnitTargetInfo.restype = ctypes.c_void_p
    info = ctypes.c_void_p(library.clang_getTranslationUnitTargetInfo(unit))
    library.clang_TargetInfo_getTriple.restype = _String
    library.clang_TargetInfo_getTriple.argtypes = [ctypes.c_void_p]
    library.clang_TargetInfo_getPointerWidth.argtypes = [ctypes.c_void_p]
    text = library.clang_TargetInfo_getTriple(info)
    triple = ctypes.string_at(text.data).decode()
    width = library.clang_TargetInfo_getPointerWidth(info)
    library.clang_TargetInfo_dispose(info)
    if width <= 0:
        raise InputError(f"libclang does not know the target {triple}")
    return triple, width // 8


_CONVENTIONS = {
    2: "stdcall",
    3: "fastcall",
    4: "thiscall",
    6: "aapcs",
    7: "aapcs_vfp",
    8: "regcall",
    10: "win64",
    11: "sysv",
    12: "vectorcall",
}


def convention(function_type: Any) -> str:
    """How a function is called, "" for the target's usual way."""
    from clang.cindex import conf

    return _CONVENTIONS.get(conf.lib.clang_getFunctionTypeCallingConv(function_type), "")


def value_type(atomic: Any) -> Any:
    """What an `_Atomic` type holds."""
    from clang.cindex import Type, conf

    library = conf.lib
    library.clang_Type_getValueType.argtypes = [Type]
    library.clang_Type_getValueType.restype = Type
    found = library.clang_Type_getValueType(atomic)
    found._tu = atomic._tu
    return found


def plain_c(spelling: str) -> str:
    """A type's spelling if any compiler of C reads it, else ""."""
    own = ("(unnamed", "(anonymous", "__attribute__", "__va_list", "_Null", "_Nonnull")
    return "" if any(word in spelling for word in own) else spelling


def linked_name(cursor: Any, name: str) -> str:
    """The symbol that calls of a C function reach, without what the target puts around names."""
    linked = str(cursor.mangled_name)
    usual = linked.lstrip("_@").partition("@")[0] == name.lstrip("_")
    return name if not linked or usual else linked


def evaluate(cursor: Any) -> int | float | str | None:
    """The value of a variable's initialiser, None if the compiler finds none."""
    from clang.cindex import conf

    library = conf.lib
    library.clang_Cursor_Evaluate.restype = ctypes.c_void_p
    result = library.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    handle = ctypes.c_void_p(result)
    library.clang_EvalResult_getAsLongLong.restype = ctypes.c_longlong
    library.clang_EvalResult_getAsUnsigned.restype = ctypes.c_ulonglong
    library.clang_EvalResult_getAsDouble.restype = ctypes.c_double
    library.clang_EvalResult_getAsStr.restype = ctypes.c_char_p
    try:
        kind = library.clang_EvalResult_getKind(handle)
        if kind == 1 and library.clang_EvalResult_isUnsignedInt(handle):
            return int(library.clang_EvalResult_getAsUnsigned(handle))
        if kind == 1:
            return int(library.clang_EvalResult_getAsLongLong(handle))
        if kind == 2:
            return float(library.clang_EvalResult_getAsDouble(handle))
        if kind == 4:
            return bytes(library.clang_EvalResult_getAsStr(handle)).decode(errors="replace")
        return None
    finally:
        library.clang_EvalResult_dispose(handle)


def simple_kinds(kinds: Any) -> dict[Any, str]:
    """What libclang's kinds of scalar and pointer types are in our words."""
    signed = (kinds.SCHAR, kinds.SHORT, kinds.INT, kinds.LONG, kinds.LONGLONG, kinds.INT128)
    unsigned = [kinds.UCHAR, kinds.USHORT, kinds.UINT, kinds.ULONG, kinds.ULONGLONG]
    unsigned += [kinds.UINT128, kinds.WCHAR, kinds.CHAR16, kinds.CHAR32]
    floats = [kinds.FLOAT, kinds.DOUBLE, kinds.LONGDOUBLE, kinds.HALF, kinds.FLOAT128]
    table = dict.fromkeys(signed, "int") | dict.fromkeys(unsigned, "uint")
    table |= dict.fromkeys(floats, "float")
    table |= {kinds.CHAR_S: "char", kinds.CHAR_U: "char", kinds.BOOL: "bool", kinds.VOID: "void"}
    table |= dict.fromkeys((kinds.POINTER, kinds.LVALUEREFERENCE, kinds.BLOCKPOINTER), "pointer")
    return table
