#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the ctypes form of kvq/runtime.h, runtime/python/kvq_runtime/_abi.py, so that the layout of a struct is told
once. Needs pycparser.

usage: tools/scripts/generate_python_abi.py [--check]
  --check  writes nothing and fails when the file is not what it would be
"""

import argparse
import os
import pathlib
import re
import sys

from pycparser import c_ast, c_parser

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "runtime/include/kvq/runtime.h"
OUTPUT = ROOT / "runtime/python/kvq_runtime/_abi.py"

HEAD = '''# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Written by tools/scripts/generate_python_abi.py from runtime/include/kvq/runtime.h; edit that file instead.
"""Constants, structs and functions of kvq/runtime.h, as ctypes sees them."""

import ctypes
import enum

from ._struct import Struct
'''

# Types of <stddef.h> and <stdint.h>, and what stands for them in ctypes.
SCALARS = {
    "size_t": "ctypes.c_size_t",
    "int32_t": "ctypes.c_int32",
    "int64_t": "ctypes.c_int64",
    "uint8_t": "ctypes.c_uint8",
    "uint32_t": "ctypes.c_uint32",
    "uint64_t": "ctypes.c_uint64",
    "float": "ctypes.c_float",
    "double": "ctypes.c_double",
    "char": "ctypes.c_char",
}


def plain_c(header):
    """The declarations of a header, without comments and preprocessor, for a parser of plain C."""
    code = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    code = re.sub(r'extern\s+"C"\s*\{|\bKVQ_API\b', " ", code)
    code = re.sub(r"^\s*#[^\n]*(?<!\\)$", "", code, flags=re.M)
    # The closing brace of extern "C" is the only one at the start of a line without a name or semicolon behind it.
    code = re.sub(r"^\}\s*$", "", code, flags=re.M)
    known = "".join(f"typedef int {name};" for name in SCALARS if name.endswith("_t"))
    return known + code


def class_name(name):
    """`kvq_reason_code` becomes ReasonCode."""
    return "".join(part.capitalize() for part in name.removeprefix("kvq_").split("_"))


def type_of(node):
    """The ctypes expression of a type."""
    if isinstance(node, c_ast.TypeDecl):
        return type_of(node.type)
    if isinstance(node, c_ast.ArrayDecl):
        return f"{type_of(node.type)} * {node.dim.value}"
    if isinstance(node, c_ast.FuncDecl):
        arguments = [type_of(argument.type) for argument in node.args.params]
        return f"ctypes.CFUNCTYPE({', '.join([type_of(node.type), *arguments])})"
    if isinstance(node, c_ast.PtrDecl):
        return pointer_to(node.type)
    name = node.names[0] if isinstance(node, c_ast.IdentifierType) else node.name
    if name == "void":
        return "None"
    return SCALARS.get(name, name)


def pointer_to(node):
    """A pointer in an argument or a member. Pointers to rows and arrays are addresses: `c_void_p`."""
    if isinstance(node, c_ast.FuncDecl):
        return type_of(node)
    pointee = type_of(node)
    if pointee == "ctypes.c_char":
        return "ctypes.c_char_p"
    if pointee in ("None", "kvq_library") or pointee in SCALARS.values():
        return "ctypes.c_void_p"
    return f"ctypes.POINTER({pointee})"


def result_of(function):
    """What a function returns, and the types of its arguments."""
    parameters = [type_of(parameter.type) for parameter in (function.args.params if function.args else [])]
    return type_of(function.type), [name for name in parameters if name != "None"]


def enum_lines(name, enumerators):
    """A class for a group of numbers; their common prefix is left out of the members' names."""
    prefix = os.path.commonprefix([item.name for item in enumerators])
    prefix = prefix[: prefix.rindex("_") + 1]
    lines = ["", "", f"class {class_name(name)}(enum.IntEnum):"]
    return lines + [f"    {item.name.removeprefix(prefix)} = {item.value.value}" for item in enumerators]


def struct_lines(struct):
    lines = ["", "", f"class {struct.name}(Struct):", "    _fields_ = ["]
    lines += [f'        ("{member.name}", {type_of(member.type)}),' for member in struct.decls]
    return lines + ["    ]"]


def macro_lines(header):
    """Macros that are numbers, KVQ_ left out."""
    found = re.findall(r"^#define KVQ_(\w+) (\d+)u?(?:\s|$)", header, flags=re.M)
    return ["", *(f"{name} = {value}" for name, value in found)]


def generate(header):
    """The text of _abi.py for the text of a header."""
    lines, functions, last_typedef = macro_lines(header), [], None
    for node in c_parser.CParser().parse(plain_c(header)).ext:
        kind = node.type
        if isinstance(node, c_ast.Typedef):
            if node.name in SCALARS:
                continue
            last_typedef = node.name
            struct = kind.type if isinstance(kind, c_ast.TypeDecl) else None
            if isinstance(struct, c_ast.Struct):
                lines += struct_lines(struct) if struct.decls else []
            else:
                lines += ["", "", f"{node.name} = {type_of(kind)}"]
        elif isinstance(kind, c_ast.Enum):
            lines += enum_lines(last_typedef, kind.values.enumerators)
        elif isinstance(kind, c_ast.FuncDecl):
            functions.append((node.name, *result_of(kind)))
    lines += ["", "", "# Name -> type of the result, types of the arguments.", "FUNCTIONS = {"]
    for name, result, arguments in functions:
        lines.append(f'    "{name}": ({result}, [{", ".join(arguments)}]),')
    return HEAD + "\n".join([*lines, "}", ""])


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    text = generate(HEADER.read_text())
    if not parser.parse_args(arguments).check:
        OUTPUT.write_text(text)
    elif not OUTPUT.exists() or OUTPUT.read_text() != text:
        print(f"{OUTPUT.relative_to(ROOT)} is out of date: run tools/scripts/generate_python_abi.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
