"""Mirrors in every language beside small headers, each with exactly what must be found.

`MIRRORS` maps a name to (kind, the mirror's text, the header's text, the exported symbols or
None, the findings as "severity RULE subject").
"""

from __future__ import annotations

CT = "import ctypes as C\nlib = C.CDLL('libthing.so')\n"
NP = "import numpy as np\n"

MIRRORS: dict[str, tuple[str, str, str, tuple[str, ...] | None, list[str]]] = {
    "ctypes_right": (
        "ctypes",
        CT
        + "class s(C.Structure): _fields_ = [('a', C.c_int), ('b', C.c_double)]\n"
        + "lib.f.argtypes, lib.f.restype = [C.POINTER(s)], C.c_int\n",
        "struct s { int a; double b; };\nint f(struct s *s);",
        None,
        [],
    ),
    "ctypes_without_argument_types": (
        "ctypes",
        CT + "lib.f.restype = C.c_int\n",
        "int f(void *p);",
        None,
        ["info FN_UNTYPED f"],
    ),
    "ctypes_without_a_result_type": (
        "ctypes",
        CT + "lib.f.argtypes = []\n",
        "void *f(void);",
        None,
        ["memory-unsafe FN_RET_TYPE f"],
    ),
    "ctypes_cuts_a_pointer": (
        "ctypes",
        CT + "lib.f.argtypes, lib.f.restype = [C.c_int], C.c_int\n",
        "char *f(void *p);",
        None,
        ["memory-unsafe FN_ARG_TYPE f p", "memory-unsafe FN_RET_TYPE f"],
    ),
    "ctypes_symbol_is_gone": (
        "ctypes",
        CT
        + "lib.f.argtypes, lib.f.restype = [], None\n"
        + "lib.g.argtypes, lib.g.restype = [], None\n",
        "void f(void);",
        ("f",),
        ["latent FN_NOT_EXPORTED g"],
    ),
    "ctypes_symbol_is_declared_but_not_exported": (
        "ctypes",
        CT + "lib.f.argtypes, lib.f.restype = [], None\n",
        "void f(void);",
        ("other",),
        ["latent FN_NOT_EXPORTED f"],
    ),
    "ctypes_symbol_is_exported_but_not_declared": (
        "ctypes",
        CT + "lib.f.argtypes, lib.f.restype = [], None\n",
        "void other(void);",
        ("f", "other"),
        ["info FN_UNDECLARED f", "info FN_UNBOUND other"],
    ),
    "ctypes_record_is_not_mirrored": (
        "ctypes",
        CT + "lib.f.argtypes, lib.f.restype = [C.c_void_p], None\n",
        "struct s { int a; };\nvoid f(struct s *s);",
        None,
        ["info FN_ARG_TYPE f s", "info RECORD_UNMIRRORED f s"],
    ),
    "ctypes_inner_record_is_not_mirrored": (
        "ctypes",
        CT
        + "class s(C.Structure): _fields_ = [('in', C.c_char * 8), ('next', C.c_void_p)]\n"
        + "lib.f.argtypes, lib.f.restype = [C.POINTER(s)], None\n",
        "struct far { int a; };\nstruct s { double in; struct far *next; };\nvoid f(struct s *s);",
        None,
        [
            "info FIELD_TYPE s next",
            "info RECORD_UNMIRRORED f far",
            "silent-wrong FIELD_TYPE s in",
        ],
    ),
    "ctypes_record_by_value_is_not_mirrored": (
        "ctypes",
        CT + "lib.f.argtypes, lib.f.restype = [C.c_int64], None\n",
        "struct s { int64_t a; };\nvoid f(struct s s);",
        None,
        ["memory-unsafe FN_ARG_TYPE f s", "memory-unsafe RECORD_UNMIRRORED f s"],
    ),
    "ctypes_record_has_another_name": (
        "ctypes",
        CT
        + "class Options(C.Structure): _fields_ = [('b', C.c_int), ('a', C.c_int)]\n"
        + "lib.f.argtypes, lib.f.restype = [C.POINTER(Options)], None\n",
        "struct options { int a; int b; };\nvoid f(struct options *options);",
        None,
        ["silent-wrong FIELD_OFFSET options a", "silent-wrong FIELD_OFFSET options b"],
    ),
    "ctypes_record_is_unknown": (
        "ctypes",
        CT + "class s(C.Structure): _fields_ = [('a', C.c_int)]\nclass own(s): pass\n",
        "struct s { int a; };",
        None,
        ["info RECORD_UNKNOWN own"],
    ),
    "ctypes_flexible_array": (
        "ctypes",
        CT + "class s(C.Structure): _fields_ = [('n', C.c_int), ('data', C.c_char * 0)]\n",
        "struct s { int n; char data[]; };",
        None,
        [],
    ),
    "ctypes_field_is_a_keyword": (
        "ctypes",
        CT + "class s(C.Structure): _fields_ = [('from_', C.c_int)]\n",
        "struct s { int from; };",
        None,
        [],
    ),
    "ctypes_names_an_unnamed_union": (
        "ctypes",
        CT
        + "class u(C.Union): _fields_ = [('i', C.c_int), ('d', C.c_double)]\n"
        + "class s(C.Structure): _fields_ = [('tag', C.c_int), ('value', u)]\n",
        "struct s { int tag; union { int i; double d; }; };",
        None,
        [],
    ),
    "ctypes_pointer_to_numpy": (
        "ctypes",
        CT
        + "import numpy as np\nfrom numpy.ctypeslib import ndpointer\n"
        + "lib.f.argtypes, lib.f.restype = [ndpointer(np.float64)], None\n",
        "void f(float *x);",
        None,
        ["memory-unsafe FN_ARG_TYPE f x"],
    ),
    "ctypes_stub_names_the_arguments": (
        "ctypes",
        CT
        + "import functools\n"
        + "def bind(name, argtypes, restype):\n"
        + "    def wrap(stub):\n"
        + "        function = getattr(lib, name)\n"
        + "        function.argtypes, function.restype = argtypes, restype\n"
        + "        functools.wraps(stub)(function)\n"
        + "        return function\n"
        + "    return wrap\n"
        + "@bind('f', [C.c_int, C.c_int], None)\n"
        + "def f(rows, columns): ...\n",
        "void f(int columns, int rows);",
        None,
        ["silent-wrong FN_ARG_ORDER f"],
    ),
    "ctypes_enum_of_constants": (
        "ctypes",
        CT + "KIND_A = 0\nKIND_B = 2\nKIND_OWN = 9\n",
        "enum kind { KIND_A, KIND_B };",
        None,
        ["silent-wrong ENUM_VALUE kind KIND_B"],
    ),
    "ctypes_unsigned_field_for_a_negative_enum": (
        "ctypes",
        CT + "class s(C.Structure): _fields_ = [('kind', C.c_uint)]\n",
        "enum kind { NONE = -1, SOME };\nstruct s { enum kind kind; };",
        None,
        ["silent-wrong FIELD_TYPE s kind"],
    ),
    "ctypes_signed_field_for_an_enum": (
        "ctypes",
        CT + "class s(C.Structure): _fields_ = [('kind', C.c_int)]\n",
        "enum kind { SOME };\nstruct s { enum kind kind; };",
        None,
        [],
    ),
    "ctypes_enum_class_with_short_labels": (
        "ctypes",
        CT
        + "import enum\n"
        + "class SplitMode(enum.IntEnum): NONE = 0; LAYER = 1; OLD = 7\n"
        + "class Pooling(enum.IntEnum): NONE = 0; MEAN = 1\n",
        "enum split_mode { SPLIT_MODE_NONE, SPLIT_MODE_ROW, SPLIT_MODE_LAYER };\n"
        "enum pooling { POOLING_NONE, POOLING_MEAN };",
        None,
        [
            "info ENUM_NEW split_mode SPLIT_MODE_ROW",
            "latent ENUM_VALUE SplitMode OLD",
            "silent-wrong ENUM_VALUE split_mode SPLIT_MODE_LAYER",
        ],
    ),
    "ctypes_spells_names_its_own_way": (
        "ctypes",
        CT + "class TokenData(C.Structure): _fields_ = [('nTokens', C.c_int), ('p', C.c_float)]\n",
        "struct token_data { int n_tokens; int kind; float p; };",
        None,
        [
            "memory-unsafe RECORD_SIZE token_data",
            "silent-wrong FIELD_MISSING token_data kind",
            "silent-wrong FIELD_OFFSET token_data p",
        ],
    ),
    "ctypes_knows_the_typedef": (
        "ctypes",
        CT + "class frame(C.Structure): _fields_ = [('w', C.c_int)]\n"
        "lib.f.argtypes, lib.f.restype = [frame], None\n",
        "typedef struct _frame { int w; int h; } frame;\nvoid f(frame frame);",
        None,
        [
            "memory-unsafe BY_VALUE_ABI frame f",
            "memory-unsafe RECORD_SIZE frame",
            "silent-wrong FIELD_MISSING frame h",
        ],
    ),
    "ctypes_runs_the_library_on_import": (
        "ctypes",
        CT
        + "class s(C.Structure): _fields_ = [('a', C.c_int)]\n"
        + "debug = C.c_int.in_dll(lib, 'debug')\n"
        + "table = (C.c_int * 4).in_dll(lib, 'table')\n"
        + "lib.f.argtypes, lib.f.restype = [], C.c_char_p\n"
        + "version = lib.f().decode()\n"
        + "lib.g.argtypes, lib.g.restype = [], C.POINTER(s)\n"
        + "first = lib.g().contents.a\n"
        + "address = C.cast(lib.g, C.c_void_p)\n",
        "struct s { int a; };\nextern int debug, table[4];\n"
        "const char *f(void);\nstruct s *g(void);",
        None,
        [],
    ),
    "ctypes_fills_padding_bits": (
        "ctypes",
        CT
        + "class s(C.Structure): _fields_ = [('a', C.c_uint32, 3), ('_r', C.c_uint32, 5),"
        + " ('b', C.c_uint32, 8)]\n",
        "struct s { uint32_t a : 3; uint32_t : 5; uint32_t b : 8; };",
        None,
        ["info FIELD_EXTRA s _r"],
    ),
    "cffi_leaves_an_integer_to_the_compiler": (
        "cffi",
        "typedef int... size; int f(int a);",
        "typedef long size; int f(int a);",
        None,
        [],
    ),
    "cffi_right": (
        "cffi",
        "typedef struct { int a; double b; } s; enum kind { KIND_A }; int f(s *p, enum kind k);",
        "typedef struct { int a; double b; } s; enum kind { KIND_A };\nint f(s *p, enum kind k);",
        None,
        [],
    ),
    "cffi_callback_drifted": (
        "cffi",
        "typedef int (*call)(int); void f(call c);",
        "typedef int (*call)(void *user, int code);\nvoid f(call c);",
        None,
        ["memory-unsafe CALLBACK f c", "memory-unsafe TYPEDEF call"],
    ),
    "cffi_constant_drifted": (
        "cffi",
        "#define LIMIT 3\nvoid f(void);",
        "#define LIMIT 4\nvoid f(void);",
        None,
        ["silent-wrong CONSTANT LIMIT"],
    ),
    "cffi_binds_a_symbol_behind_a_macro": (
        "cffi",
        "void f(int *p);",
        "#define f f_v2\nvoid f(int *p);",
        ("f", "f_v2"),
        ["memory-unsafe MACRO_REDIRECT f"],
    ),
    "numpy_right": (
        "numpy",
        NP + "s = np.dtype([('a', 'i4'), ('b', 'f8'), ('c', 'f4', (3,))], align=True)\n",
        "struct s { int a; double b; float c[3]; };",
        None,
        [],
    ),
    "numpy_pointer_as_integer": (
        "numpy",
        NP + "s = np.dtype([('p', 'u8')], align=True)\n",
        "struct s { void *p; };",
        None,
        ["info FIELD_TYPE s p"],
    ),
    "numpy_packed_by_default": (
        "numpy",
        NP + "s = np.dtype([('a', 'u1'), ('b', 'f8')])\n",
        "struct s { uint8_t a; double b; };",
        None,
        ["memory-unsafe RECORD_SIZE s", "silent-wrong FIELD_OFFSET s b"],
    ),
    "numpy_same_size_shifted": (
        "numpy",
        NP + "s = np.dtype([('old', 'f4'), ('a', 'f4'), ('b', 'f4')], align=True)\n",
        "struct s { float a; float b; float fresh; };",
        None,
        [
            "silent-wrong FIELD_EXTRA s old",
            "silent-wrong FIELD_MISSING s fresh",
            "silent-wrong FIELD_OFFSET s a",
            "silent-wrong FIELD_OFFSET s b",
        ],
    ),
    "numpy_dtype_in_the_name": (
        "numpy",
        NP + "TOKEN_DTYPE = np.dtype([('id', 'i4'), ('p', 'f4')], align=True)\n",
        "struct token { float p; int id; };",
        None,
        ["silent-wrong FIELD_OFFSET token id", "silent-wrong FIELD_OFFSET token p"],
    ),
    "numpy_dtype_without_a_name": (
        "numpy",
        NP + "dt = np.dtype([('id', 'i4'), ('p', 'f4')], align=True)\n",
        "struct other { int q; };\nstruct token { float p; int id; };",
        None,
        ["silent-wrong FIELD_OFFSET token id", "silent-wrong FIELD_OFFSET token p"],
    ),
    "numpy_nested": (
        "numpy",
        NP
        + "inner = np.dtype([('x', 'f4'), ('y', 'f4')])\n"
        + "s = np.dtype([('at', inner, (2,)), ('n', 'i4')], align=True)\n",
        "struct inner { float y; float x; };\nstruct s { struct inner at[2]; int n; };",
        None,
        [
            "silent-wrong FIELD_OFFSET inner x",
            "silent-wrong FIELD_OFFSET inner y",
        ],
    ),
}
