"""Changes of a header that no caller can notice, each as before and after: nothing may gate."""

from __future__ import annotations

HARMLESS: dict[str, tuple[str, str]] = {
    "enum_value_appended": ("enum e { A, B, E_COUNT };", "enum e { A, B, C, E_COUNT };"),
    "function_added": ("void f(void);", "void f(void); void g(int);"),
    "parameter_renamed": ("void f(int a, int b);", "void f(int first, int second);"),
    "parameter_named_like_its_neighbour": ("void f(int a, int b);", "void f(int x, int a);"),
    "parameter_named_at_last": ("void f(int, int);", "void f(int rows, int columns);"),
    "opaque_type_renamed_inside": (
        "struct s;\ntypedef struct s *handle;\nvoid f(handle h);",
        "struct t;\ntypedef struct t *handle;\nvoid f(handle h);",
    ),
    "opaque_type_became_void": ("struct s;\nvoid f(struct s *h);", "void f(void *h);"),
    "declarations_reordered": (
        "struct a { int x; }; struct b { int y; };",
        "/* reordered */\nstruct b { int y; };\nstruct a { int x; };",
    ),
    "macro_is_a_shorthand": (
        "int f(int a);",
        "int wide(void *w, int a);\nint f(int a);\n#define f(a) wide((void *)0, a)",
    ),
    "label_on_both_sides": (
        'void f(int *a) __asm__("f_v2");',
        'void f(int *a) __asm__("f_v2"); /* still */',
    ),
    "enum_renamed": (
        "enum a { ONE, TWO };\nstruct s { enum a kind; };",
        "enum b { ONE, TWO };\nstruct s { enum b kind; };",
    ),
    "convention_spelled_out": ("void f(int a);", "void __attribute__((sysv_abi)) f(int a);"),
    "qualifiers_added": (
        "void f(char *text, int n);",
        "void f(const char *restrict text, const int n);",
    ),
    "constant_added": ("#define A 1", "#define A 1\n#define B 2"),
    "constant_spelled_otherwise": ("#define A 16", "#define A (1 << 4)"),
    "typedef_introduced": (
        "struct s { int32_t at; };\nvoid f(int32_t *at);",
        "typedef int32_t pos;\nstruct s { pos at; };\nvoid f(pos *at);",
    ),
    "same_type_spelled_otherwise": (
        "struct s { int a; unsigned b; long c; };",
        "struct s { int32_t a; uint32_t b; int64_t c; };",
    ),
    "record_added": ("struct a { int x; };", "struct a { int x; }; struct b { int y; };"),
    "reserved_field_got_a_name": (
        "struct s { int a; uint32_t reserved; };",
        "struct s { int a; uint32_t flags; };",
    ),
    "half_precision_spelled_as_its_bits": (
        "struct s { _Float16 d; int8_t q[32]; };",
        "typedef uint16_t half;\nstruct s { half d; int8_t q[32]; };",
    ),
    "counter_became_atomic": (
        "struct s { int n; };",
        "#include <stdatomic.h>\nstruct s { atomic_int n; };",
    ),
    "bitfields_in_one_filler": (
        "struct s { uint32_t _bitfield_1; int a; };",
        "struct s { uint32_t kind : 3; uint32_t rest : 29; int a; };",
    ),
    "reserved_space_used": (
        "struct s { int a; uint32_t reserved[4]; };",
        "struct s { int a; uint32_t flags; uint32_t reserved[3]; };",
    ),
    "union_gained_a_small_member": (
        "union u { double d; int i; };",
        "union u { double d; int i; float f; };",
    ),
    "array_parameter_spelled_as_pointer": ("void f(int a[3]);", "void f(int *a);"),
    "enum_parameter_became_int": (
        "enum e { A, B };\nvoid f(enum e e);",
        "enum e { A, B };\nvoid f(int e);",
    ),
    "members_wrapped_in_an_unnamed_struct": (
        "struct s { int a; int b; };",
        "struct s { struct { int a; int b; }; };",
    ),
    "attributes_and_linkage_added": (
        "void f(int *p);",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n'
        '__attribute__((visibility("default"), nonnull)) void f(int *p);\n'
        "#ifdef __cplusplus\n}\n#endif",
    ),
    "struct_gained_a_typedef": (
        "struct s { int a; };\nvoid f(struct s *s);",
        "typedef struct s { int a; } s_t;\nvoid f(s_t *s);",
    ),
    "pointer_became_typed": (
        "struct s { int a; };\nvoid f(void *p);",
        "struct s { int a; };\nvoid f(struct s *p);",
    ),
    "enum_gained_a_sign_that_no_value_needs": (
        "enum e { A, B };\nstruct s { enum e e; };",
        "enum e { A, B };\nstruct s { int e; };",
    ),
}
