#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the checker: a small clean tree has no problem, and each violation that is planted in it
is reported by the rule it is meant for, at its file and line, and by no other rule."""
import pathlib
import sys
import tempfile

import tidy

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HASH_LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"

CLEAN = {
    "CMakeLists.txt": HASH_LICENCE,
    "README.md": "See [the layer](alloc/README.md), `./tools/test --fast` and\n"
                 "`tests/{one,two}.c`; `build/tests/x` is not ours.\n",
    "alloc/README.md": "The seam is `alloc/gpu/*.c`, not `alloc->pool/x.c`.\n",
    "alloc/gpu/call.c": LICENCE + "int call(void)\n{\n    return cuInit(0) + "
    "tnri_loader_open();\n}\n",
    "alloc/base/host_memory.c": LICENCE + "void f(void)\n{\n    free(malloc(1));\n}\n",
    "alloc/base/assert.c": LICENCE + "void g(void)\n{\n    abort();\n}\n",
    "alloc/base/conf/environment.c": LICENCE + "void h(void)\n{\n    getenv(\"A\");\n}\n",
    "alloc/memory/space/map.c": LICENCE +
        "/* free() and cuMemMap() are only spoken of here. */\n"
        "const char *text = \"malloc(1) abort() getenv(\\\"X\\\") // cuInit(0)\";\n"
        "int i(struct d *d)\n{\n    my_free(d);\n    return d->cuMemMap(1) + table.cuInit(0);\n}\n",
    "lifetime/order/use.c": LICENCE + "#include <tenure/alloc.h>\n",
    "lifetime/form.c": LICENCE + """
/* ---- JSON, and sizeof x of a bool ---- */
void k(void)
{
    if (a) {
        b = sizeof(*b);
    } else if (b(c,
                 d)) {
        c = 1;
        d = 2;
    }
    for (;;) {
        /* Says why. */
        a++;
    }
    while (a) {
        if (b)
            c();
    }
    do {
        a++;
    } while (a < 2);
    switch (a) {
    default:
        b();
    }
    int list[] = {
        1,
    };
}
""",
    "tools/test": "#!/usr/bin/env bash\n" + HASH_LICENCE + "exit 0\n",
    "tests/one.c": LICENCE,
    "tests/two.c": LICENCE + "void j(void)\n{\n    free(malloc(1));\n}\n",
    ".editorconfig": HASH_LICENCE + "root = true\n",
}

LONG_FUNCTION = "int k(void)\n{\n" + "    step();\n" * 69 + "}\n"


def alloc_call(statement):
    return LICENCE + "void k(void)\n{\n    " + statement + "\n}\n"


# (rule, file, line, content)
PLANTS = [
    ("line_length", "alloc/long.c", 2, LICENCE + "/* " + "x" * 97 + " */\n"),
    ("white_space", "alloc/tab.c", 2, LICENCE + "\tint a;\n"),
    ("white_space", "alloc/trailing.c", 2, LICENCE + "int a; \n"),
    ("white_space", "alloc/no_newline.c", 1, LICENCE + "int a;"),
    ("licence_line", "alloc/no_licence.c", 1, "int a;\n"),
    ("licence_line", "tools/no_licence", 1, "#!/bin/sh\nexit 0\n"),
    ("licence_line", "tests/concept/memory_resource", 1, "struct a;\n"),
    ("licence_line", "tools/page.html", 1, "<!doctype html>\n<html>\n"),
    ("licence_line", "tests/CMakeLists.txt", 1, "add_test()\n"),
    ("unfinished", "alloc/later.c", 2, LICENCE + "/* TO" "DO: later */\n"),
    ("unfinished", "docs/later.md", 1, "FIX" "ME\n"),
    ("plain_words", "docs/page.md", 2, "# Page\nThe wheel is made anew.\n"),
    ("plain_words", "docs/who.md", 1, "- **Who is short, waits.** It asks.\n"),
    ("plain_words", "docs/benchmarks/page.md", 1, "It is no multiple.\n"),
    ("plain_words", "tools/words.c", 2, LICENCE + "static const char text[] = \"Nobody.\";\n"),
    ("plain_words", "alloc/words.c", 2, LICENCE + "static const char text[] = \"it is no b\";\n"),
    ("plain_words", "docs/lines.md", 2, "# Page\nA reader is told\nof it.\n"),
    ("plain_words", "alloc/README.md", 1, "Somebody frees it.\n"),
    ("plain_words", "alloc/include/tenure/words.h", 2, LICENCE + "/* Starts anew. */\n"),
    ("plain_words", "docs/examples/words.c", 3, LICENCE + "/*\n * Freed in vain. */\n"),
    ("plain_words", "tools/words", 3, "#!/bin/bash\n" + HASH_LICENCE + "# All is\n# well.\n"),
    ("plain_words", "tools/report/src/words.ts", 2, LICENCE + "const a = `Nobody`;\n"),
    ("plain_words", "tools/python/words.py", 2, HASH_LICENCE + "TEXT = \"whoever asks\"\n"),
    ("function_length", "alloc/function.c", 2, LICENCE + LONG_FUNCTION),
    ("function_length", "tests/function.py", 2,
     HASH_LICENCE + "def k():\n" + "    step()\n" * 70),
    ("file_length", "alloc/file.c", 1, LICENCE + "int a;\n" * 800),
    ("sizeof_form", "tools/size.c", 4, alloc_call("a = malloc(sizeof *a);")),
    ("sizeof_form", "tests/size.c", 4, alloc_call("a = b(sizeof a[0]);")),
    ("flag_type", "tests/flag.c", 2, LICENCE + "bool is_there;\n"),
    ("flag_type", "tests/flag.h", 2, LICENCE + "#include <stdbool.h>\n"),
    ("section_title", "tools/title.c", 2, LICENCE + "/* ---- Making and ending ---- */\n"),
    ("lone_braces", "tests/if.c", 4, alloc_call("if (a) {\n        b();\n    }")),
    ("lone_braces", "tests/for.c", 5,
     alloc_call("for (a = b(c);\n         a < d;) {\n        e(f,\n          g);\n    }")),
    ("lone_braces", "tests/else.c", 4,
     alloc_call("if (a) {\n        b();\n    } else if (c &&\n               d) {\n        e();\n"
                "    } else {\n        f();\n    }")),
    ("lone_braces", "tests/inner.c", 5,
     alloc_call("if (a) {\n        while (b) {\n            c();\n        }\n        d();\n    }")),
    ("heap_calls", "alloc/heap.c", 4, alloc_call("void *p = malloc(1);")),
    ("heap_calls", "lifetime/heap.c", 4, alloc_call("free(p);")),
    ("environment_calls", "alloc/environment.c", 4, alloc_call("getenv(\"HOME\");")),
    ("output_calls", "alloc/output.c", 4, alloc_call("fprintf(stderr, \"no\");")),
    ("output_calls", "alloc/quit.c", 4, alloc_call("if (bad) exit(1);")),
    ("unsafe_calls", "alloc/unsafe.c", 4, alloc_call("strcpy(a, b);")),
    ("driver_calls", "alloc/memory/space/direct.c", 4, alloc_call("cuMemMap(a, b, 0, c, 0);")),
    ("driver_calls", "alloc/gpu/direct.c", 4, alloc_call("void *library = dlopen(path, 1);")),
    ("driver_calls", "lifetime/loads.c", 4, alloc_call("(void)tnri_loader_open(path, 0);")),
    ("driver_calls", "lifetime/direct.c", 4, alloc_call("return cuEventRecord(e, s);")),
    ("include_direction", "alloc/up.c", 2, LICENCE + "#include <tenure/lifetime.h>\n"),
    ("include_direction", "alloc/dear.c", 2, LICENCE + "#include <emmintrin.h>\n"),
    ("include_direction", "alloc/dots.c", 2, LICENCE + "#include \"../lifetime/use.h\"\n"),
    ("top_level", "notes.txt", 1, "not here\n"),
    ("missing_paths", "docs/design.md", 1, "It is in `alloc/gpu/gone.c`.\n"),
    ("missing_paths", "docs/braces.md", 1, "Both `tests/{one,three}.c`.\n"),
    ("missing_paths", "docs/link.md", 2, "Words.\nSee [that](gone.md).\n"),
    ("scripts", "tools/broken.sh", 1, HASH_LICENCE + "if true; then\n"),
    ("scripts", "tools/not_executable", 1, "#!/bin/sh\n" + HASH_LICENCE + "exit 0\n"),
    ("scripts", "tools/broken.py", 2, HASH_LICENCE + "def :\n"),
]


def write(root, name, content):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    if content.startswith("#!") and "not_executable" not in name:
        path.chmod(0o755)


def check_with(plant):
    """The problems of the clean tree with one file added."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, content in CLEAN.items():
            write(root, name, content)
        if plant:
            write(root, plant[1], plant[3])
        return tidy.check(root)[1]


def main():
    mistakes = [f"the clean tree is not clean: {problem}" for problem in check_with(None)]
    for plant in PLANTS:
        rule, name, line, _ = plant
        found = [(problem[0], problem[1], problem[2]) for problem in check_with(plant)]
        if found != [(rule, name, line)]:
            mistakes.append(f"planted {rule} at {name}:{line}, found {found}")
    for rule in set(tidy.RULES) - {plant[0] for plant in PLANTS}:
        mistakes.append(f"no violation of {rule} is planted")
    for mistake in mistakes:
        print(mistake)
    print(f"{len(PLANTS)} violations planted, {len(mistakes)} mistakes of the checker")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
