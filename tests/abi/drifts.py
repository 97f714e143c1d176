"""Kinds of drift, each as the smallest header before and after; written for this test.

`BREAKING` maps a kind to (before, after, the rules that must gate); a mirror written for the
first breaks on the second. `HARMLESS` maps a kind to (before, after), and nothing may gate.
"""

from __future__ import annotations

from .harmless import HARMLESS

__all__ = ["BREAKING", "HARMLESS"]

BREAKING: dict[str, tuple[str, str, set[str]]] = {
    "field_inserted": (
        "struct s { int a; int b; };",
        "struct s { int a; int x; int b; };",
        {"RECORD_SIZE", "FIELD_MISSING", "FIELD_OFFSET"},
    ),
    "field_removed": (
        "struct s { int a; int x; int b; };",
        "struct s { int a; int b; };",
        {"RECORD_SIZE", "FIELD_EXTRA", "FIELD_OFFSET"},
    ),
    "field_appended": (
        "struct s { int a; };\nvoid fill(struct s *out);",
        "struct s { int a; int b; };\nvoid fill(struct s *out);",
        {"RECORD_SIZE", "FIELD_MISSING"},
    ),
    "field_cut_from_the_end": (
        "struct s { int a; int b; };\nvoid use(struct s *in);",
        "struct s { int a; };\nvoid use(struct s *in);",
        {"RECORD_SIZE", "FIELD_EXTRA"},
    ),
    "field_appended_to_what_only_the_library_allocates": (
        "struct s { int a; };\nconst struct s *get(void);",
        "struct s { int a; int b; };\nconst struct s *get(void);",
        {"RECORD_SIZE", "FIELD_MISSING"},
    ),
    "field_absorbed_by_padding": (
        "struct s { int a; void *p; };",
        "struct s { int a; int x; void *p; };",
        {"FIELD_MISSING"},
    ),
    "fields_of_one_size_swapped": (
        "struct s { int a; float b; };",
        "struct s { float b; int a; };",
        {"FIELD_OFFSET"},
    ),
    "fields_of_two_sizes_swapped": (
        "struct s { char a; int b; };",
        "struct s { int b; char a; };",
        {"FIELD_OFFSET"},
    ),
    "field_widened": (
        "struct s { int a; int b; };",
        "struct s { int64_t a; int b; };",
        {"RECORD_SIZE", "FIELD_OFFSET", "FIELD_WIDTH"},
    ),
    "field_narrowed": (
        "struct s { int64_t a; int b; };",
        "struct s { int a; int b; };",
        {"RECORD_SIZE", "FIELD_OFFSET", "FIELD_WIDTH"},
    ),
    "field_widened_into_padding": (
        "struct s { uint8_t a; int b; };",
        "struct s { uint16_t a; int b; };",
        {"FIELD_WIDTH"},
    ),
    "field_from_integer_to_float": (
        "struct s { int32_t a; };",
        "struct s { float a; };",
        {"FIELD_TYPE"},
    ),
    "field_from_float_to_double": (
        "struct s { float a; };",
        "struct s { double a; };",
        {"FIELD_WIDTH", "RECORD_SIZE"},
    ),
    "field_lost_its_sign": ("struct s { int a; };", "struct s { unsigned a; };", {"FIELD_TYPE"}),
    "field_renamed_in_place": (
        "struct s { int a; };",
        "struct s { int b; };",
        {"FIELD_MISSING", "FIELD_EXTRA"},
    ),
    "field_replaced_by_a_pointer_to_it": (
        "struct s { char a[8]; };",
        "struct s { char *a; };",
        {"FIELD_TYPE", "RECORD_ALIGN"},
    ),
    "field_aligned_further": (
        "struct s { int a; int b; };",
        "struct s { int a; _Alignas(16) int b; };",
        {"RECORD_SIZE", "FIELD_OFFSET"},
    ),
    "pointer_deeper": ("struct s { int *a; };", "struct s { int **a; };", {"FIELD_TYPE"}),
    "pointer_to_wider": (
        "struct s { int32_t *a; };",
        "struct s { int64_t *a; };",
        {"FIELD_TYPE"},
    ),
    "pointer_to_another_class": (
        "struct s { float *a; };",
        "struct s { int32_t *a; };",
        {"FIELD_TYPE"},
    ),
    "pointer_to_another_record": (
        "struct a { int x; }; struct b { float y; };\nstruct s { struct a *p; };",
        "struct a { int x; }; struct b { float y; };\nstruct s { struct b *p; };",
        {"FIELD_TYPE"},
    ),
    "array_longer": (
        "struct s { float a[4]; };",
        "struct s { float a[8]; };",
        {"RECORD_SIZE", "FIELD_WIDTH"},
    ),
    "array_of_wider_elements_in_the_same_bytes": (
        "struct s { int32_t a[4]; };",
        "struct s { int64_t a[2]; };",
        {"FIELD_TYPE", "RECORD_ALIGN"},
    ),
    "array_transposed": (
        "struct s { float a[2][3]; };",
        "struct s { float a[3][2]; };",
        {"FIELD_TYPE"},
    ),
    "array_element_grows_behind_a_pointer": (
        "struct e { int a; };\nstruct s { struct e *all; int n; };",
        "struct e { int a; int b; };\nstruct s { struct e *all; int n; };",
        {"RECORD_SIZE", "RECORD_STRIDE", "FIELD_MISSING"},
    ),
    "flexible_array_of_wider_elements": (
        "struct s { int n; char data[]; };",
        "struct s { int n; int data[]; };",
        {"FIELD_TYPE"},
    ),
    "flexible_array_moved": (
        "struct s { int n; char data[]; };",
        "struct s { int n; int m; char data[]; };",
        {"RECORD_SIZE", "FIELD_MISSING", "FIELD_OFFSET"},
    ),
    "packed": (
        "struct s { char a; int b; };",
        "struct __attribute__((packed)) s { char a; int b; };",
        {"RECORD_SIZE", "FIELD_OFFSET"},
    ),
    "packing_that_only_changes_alignment": (
        "struct s { int a; int b; };",
        "struct __attribute__((packed)) s { int a; int b; };",
        {"RECORD_ALIGN"},
    ),
    "aligned_further": (
        "struct s { int a[4]; };",
        "struct s { int a[4]; } __attribute__((aligned(16)));",
        {"RECORD_ALIGN"},
    ),
    "bitfield_wider": (
        "struct s { unsigned a : 3; unsigned b : 5; };",
        "struct s { unsigned a : 4; unsigned b : 5; };",
        {"BITFIELD"},
    ),
    "bitfields_swapped": (
        "struct s { unsigned a : 4; unsigned b : 4; };",
        "struct s { unsigned b : 4; unsigned a : 4; };",
        {"BITFIELD"},
    ),
    "integer_became_a_bitfield": (
        "struct s { unsigned a; };",
        "struct s { unsigned a : 24; unsigned b : 8; };",
        {"BITFIELD", "FIELD_MISSING"},
    ),
    "struct_became_a_union": (
        "struct s { int a; int b; };",
        "union s { int a; int b; };",
        {"RECORD_KIND", "RECORD_SIZE", "FIELD_OFFSET"},
    ),
    "union_grew": (
        "union u { int a; };\nstruct s { union u u; int b; };",
        "union u { int a; double d; };\nstruct s { union u u; int b; };",
        {"RECORD_SIZE", "FIELD_MISSING", "FIELD_OFFSET"},
    ),
    "field_inserted_in_an_unnamed_struct": (
        "struct s { struct { int a; int b; }; int c; };",
        "struct s { struct { int a; int x; int b; }; int c; };",
        {"RECORD_SIZE", "FIELD_MISSING", "FIELD_OFFSET"},
    ),
    "inner_record_grew": (
        "struct in { int a; };\nstruct s { struct in in; int b; };",
        "struct in { int a; int x; };\nstruct s { struct in in; int b; };",
        {"RECORD_SIZE", "FIELD_MISSING", "FIELD_OFFSET"},
    ),
    "inner_record_shuffled": (
        "struct in { int a; int b; };\nstruct s { struct in in; };",
        "struct in { int b; int a; };\nstruct s { struct in in; };",
        {"FIELD_OFFSET"},
    ),
    "record_became_opaque": (
        "struct s { int a; };\nvoid use(struct s *s);",
        "struct s;\nvoid use(struct s *s);",
        {"RECORD_OPAQUE"},
    ),
    "enum_value_changed": ("enum e { A, B };", "enum e { A, B = 5 };", {"ENUM_VALUE"}),
    "enum_value_inserted": ("enum e { A, B };", "enum e { A, X, B };", {"ENUM_VALUE"}),
    "enum_value_removed": ("enum e { A, B, C };", "enum e { A, B };", {"ENUM_VALUE"}),
    "enum_values_swapped": ("enum e { A, B };", "enum e { B, A };", {"ENUM_VALUE"}),
    "enum_widened": (
        "enum e { A };\nstruct s { enum e e; };",
        "enum e { A, B = 0x100000000 };\nstruct s { enum e e; };",
        {"ENUM_BASE", "FIELD_WIDTH", "RECORD_SIZE"},
    ),
    "enum_value_below_zero": ("enum e { A };", "enum e { A, B = -1 };", {"ENUM_BASE"}),
    "enum_value_above_the_signed_range": (
        "enum e { M = -1, A };",
        "enum e { A, B = 0x80000000 };",
        {"ENUM_BASE", "ENUM_VALUE"},
    ),
    "unnamed_enum_constant_changed": ("enum { LIMIT = 4 };", "enum { LIMIT = 8 };", {"CONSTANT"}),
    "macro_number_changed": ("#define LIMIT 4", "#define LIMIT 8", {"CONSTANT"}),
    "macro_float_changed": ("#define RATIO 0.5f", "#define RATIO 0.25f", {"CONSTANT"}),
    "macro_text_changed": ('#define KIND "a"', '#define KIND "b"', {"CONSTANT"}),
    "macro_removed": ("#define LIMIT 4\n#define KEPT 1", "#define KEPT 1", {"CONSTANT"}),
    "argument_added": ("void f(int a);", "void f(int a, int b);", {"FN_ARGC"}),
    "argument_removed": ("void f(int a, int b);", "void f(int a);", {"FN_ARGC"}),
    "argument_widened": ("void f(int a);", "void f(int64_t a);", {"FN_ARG_TYPE"}),
    "argument_from_integer_to_float": ("void f(int a);", "void f(float a);", {"FN_ARG_TYPE"}),
    "argument_from_float_to_double": ("void f(float a);", "void f(double a);", {"FN_ARG_TYPE"}),
    "argument_from_value_to_pointer": ("void f(int a);", "void f(int *a);", {"FN_ARG_TYPE"}),
    "argument_deeper": ("void f(char *a);", "void f(char **a);", {"FN_ARG_TYPE"}),
    "handle_became_a_pointer_to_one": (
        "struct db;\nvoid f(struct db *out);",
        "struct db;\nvoid f(struct db **out);",
        {"FN_ARG_TYPE"},
    ),
    "constant_moved_by_a_power_of_two": (
        "enum { BIG = 0x100000000 };",
        "enum { BIG = 0x200000000 };",
        {"CONSTANT"},
    ),
    "atomic_widened": (
        "#include <stdatomic.h>\nstruct s { atomic_int n; int m; };",
        "#include <stdatomic.h>\nstruct s { atomic_llong n; int m; };",
        {"FIELD_WIDTH", "FIELD_OFFSET", "RECORD_SIZE"},
    ),
    "arguments_of_one_type_swapped": (
        "void f(int rows, int columns);",
        "void f(int columns, int rows);",
        {"FN_ARG_ORDER"},
    ),
    "arguments_of_two_types_swapped": (
        "void f(int rows, float scale);",
        "void f(float scale, int rows);",
        {"FN_ARG_ORDER", "FN_ARG_TYPE"},
    ),
    "result_widened": ("int f(void);", "int64_t f(void);", {"FN_RET_TYPE"}),
    "result_from_integer_to_float": ("int f(void);", "float f(void);", {"FN_RET_TYPE"}),
    "result_gone": ("int f(void);", "void f(void);", {"FN_RET_TYPE"}),
    "result_grew_out_of_registers": (
        "struct s { int64_t a; int64_t b; };\nstruct s f(void);",
        "struct s { int64_t a; int64_t b; int64_t c; };\nstruct s f(void);",
        {"RECORD_SIZE", "FIELD_MISSING", "BY_VALUE_ABI"},
    ),
    "result_in_other_registers": (
        "struct s { float a; float b; };\nstruct s f(void);",
        "struct s { int a; int b; };\nstruct s f(void);",
        {"FIELD_TYPE", "BY_VALUE_ABI"},
    ),
    "record_by_value_grew": (
        "struct s { int a; };\nvoid f(struct s s);",
        "struct s { int a; int b; };\nvoid f(struct s s);",
        {"RECORD_SIZE", "FIELD_MISSING", "BY_VALUE_ABI"},
    ),
    "function_removed": ("void f(void); void g(void);", "void g(void);", {"FN_NOT_EXPORTED"}),
    "function_renamed_by_a_macro": (
        "void f(int *a);",
        "#define f f_v2\nvoid f(int *a);",
        {"MACRO_REDIRECT"},
    ),
    "function_renamed_by_a_label": (
        "void f(int *a);",
        'void f(int *a) __asm__("f_v2");',
        {"MACRO_REDIRECT"},
    ),
    "function_renamed_by_a_macro_with_parameters": (
        "void f(int *a);",
        "void f_v2(int *a, int more);\n#define f(a) f_v2(a, 0)",
        {"MACRO_REDIRECT", "FN_ARGC"},
    ),
    "function_called_another_way": (
        "void f(int a);",
        "void __attribute__((ms_abi)) f(int a);",
        {"FN_CONVENTION"},
    ),
    "callback_called_another_way": (
        "void f(void (*done)(int));",
        "void f(void (__attribute__((ms_abi)) *done)(int));",
        {"CALLBACK"},
    ),
    "function_became_inline": (
        "int f(int a); void g(void);",
        "static inline int f(int a) { return a; } void g(void);",
        {"FN_NOT_EXPORTED"},
    ),
    "field_of_another_enum": (
        "enum a { A_ONE, A_TWO }; enum b { B_TWO, B_ONE };\nstruct s { enum a kind; };",
        "enum a { A_ONE, A_TWO }; enum b { B_TWO, B_ONE };\nstruct s { enum b kind; };",
        {"FIELD_TYPE"},
    ),
    "argument_of_another_enum": (
        "enum a { A_ONE, A_TWO }; enum b { B_TWO, B_ONE };\nvoid f(enum a kind);",
        "enum a { A_ONE, A_TWO }; enum b { B_TWO, B_ONE };\nvoid f(enum b kind);",
        {"FN_ARG_TYPE"},
    ),
    "function_became_variadic": ("void f(int a);", "void f(int a, ...);", {"FN_VARIADIC"}),
    "callback_takes_another_argument": (
        "void f(void (*done)(void *user));",
        "void f(void (*done)(int code, void *user));",
        {"CALLBACK"},
    ),
    "callback_takes_a_record_that_grew": (
        "struct e { int a; };\nvoid on(void (*call)(struct e e));",
        "struct e { int a; double b[2]; };\nvoid on(void (*call)(struct e e));",
        {"RECORD_SIZE", "FIELD_MISSING", "BY_VALUE_ABI"},
    ),
    "callback_argument_widened": (
        "struct s { void (*done)(int); };",
        "struct s { void (*done)(int64_t); };",
        {"CALLBACK"},
    ),
    "callback_returns_another_class": (
        "typedef int (*score)(void *);\nvoid f(score s);",
        "typedef float (*score)(void *);\nvoid f(score s);",
        {"CALLBACK", "TYPEDEF"},
    ),
    "typedef_widened": (
        "typedef int32_t pos;\nvoid f(pos *all);",
        "typedef int64_t pos;\nvoid f(pos *all);",
        {"TYPEDEF", "FN_ARG_TYPE"},
    ),
    "typedef_of_another_class": ("typedef int real;", "typedef float real;", {"TYPEDEF"}),
}
