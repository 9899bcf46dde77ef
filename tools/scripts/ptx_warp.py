# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a function of PTX text as the 32 lanes of one warp, after the PTX ISA, without a GPU.

Enough of the ISA for functions of tile ops: integers, f32, pairs of 16-bit floats, shuffles, votes, movmatrix, the two
shapes of mma.sync that kernels use, branches that lanes leave together or meet behind. A register is a list of 32
numbers, its bits. Memory is one bytearray, addressed from 0. What it cannot do, or the ISA forbids, is a Fault."""

import math
import re
import struct

LANES = range(32)


class Fault(Exception):
    """An instruction that is not known, or must not be executed."""


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]


def bits_of(value):
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def half_of(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def half_bits(value):
    if math.isnan(value):
        return 0x7E00
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def brain_of(bits):
    return float_of(bits << 16)


def brain_bits(value):
    if math.isnan(value):
        return 0x7FC0
    bits = bits_of(value)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


# How to read and to write an element of a pair.
PAIRS = {"f16": (half_of, half_bits), "bf16": (brain_of, brain_bits)}


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def real(function):
    """On bits of f32; results are rounded once."""
    return lambda *lanes: bits_of(function(*map(float_of, lanes)))


def number(pick):
    """The larger or the smaller of two: a NaN loses."""
    return real(lambda a, b: b if math.isnan(a) else a if math.isnan(b) else pick(a, b))


def quotient(a, b):
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def power(x):
    return x if math.isnan(x) else 0.0 if x < -126 else math.inf if x >= 128 else 2.0**x


def pair(element, function):
    """On both halves of pairs."""
    read, write = PAIRS[element]

    def both(*lanes):
        halves = [write(function(*(read(lane >> at & 0xFFFF) for lane in lanes))) << at for at in (0, 16)]
        return halves[0] | halves[1]

    return both


def permuted(low, high, selector):
    source = high << 32 | low
    return sum((source >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i for i in range(4))


COMPARE = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "neu": lambda a, b: not a == b,
}  # fmt: skip
ARITHMETIC = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
LOGIC = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}


def float_table():
    table = {f"{name}.rn.f32": real(function) for name, function in ARITHMETIC.items()}
    table |= {f"setp.{name}.f32": lambda a, b, f=f: int(f(float_of(a), float_of(b))) for name, f in COMPARE.items()}
    table |= {"fma.rn.f32": real(lambda a, b, c: a * b + c), "div.rn.f32": real(quotient)}
    table |= {"max.f32": number(max), "min.f32": number(min), "neg.f32": lambda a: a ^ 0x80000000}
    table["ex2.approx.ftz.f32"] = real(power)
    table["lg2.approx.ftz.f32"] = real(lambda x: math.log2(x) if x > 0 else -math.inf)
    table["cvt.rn.f32.s32"] = lambda a: bits_of(signed(a, 32))
    table["cvt.f32.f16"] = lambda a: bits_of(half_of(a & 0xFFFF))
    for element, (_, write) in PAIRS.items():
        table[f"cvt.rn.{element}x2.f32"] = lambda a, b, w=write: w(float_of(a)) << 16 | w(float_of(b))
        table[f"fma.rn.{element}x2"] = pair(element, lambda a, b, c: a * b + c)
        table[f"add.rn.{element}x2"] = pair(element, lambda a, b: a + b)
    return table


def integer_table():
    """`selp` and `mov` only carry bits; `u` and `b` are read as they are."""
    table = {"prmt.b32": permuted, "bfe.u32": lambda a, at, count: a >> at & ((1 << count) - 1)}
    for bits in (32, 64):
        mask = (1 << bits) - 1
        for kind in "usb":
            read = (lambda a, b=bits: signed(a, b)) if kind == "s" else (lambda a, m=mask: a & m)
            of = f"{kind}{bits}"
            for name, f in (ARITHMETIC | LOGIC | {"min": min, "max": max}).items():
                table[f"{name}.{of}"] = lambda a, b, f=f, r=read, m=mask: f(r(a), r(b)) & m
            table |= {f"setp.{n}.{of}": lambda a, b, f=f, r=read: int(f(r(a), r(b))) for n, f in COMPARE.items()}
            table[f"shl.{of}"] = lambda a, n, m=mask: a << n & m
            table[f"shr.{of}"] = lambda a, n, r=read, m=mask: r(a) >> n & m
            table[f"mul.lo.{of}"] = table[f"mul.{of}"]
            table[f"mad.lo.{of}"] = lambda a, b, c, m=mask: a * b + c & m
            table[f"mul.wide.{of}"] = lambda a, b, r=read: r(a) * r(b) & (1 << 64) - 1
            table[f"mad.wide.{of}"] = lambda a, b, c, r=read: r(a) * r(b) + c & (1 << 64) - 1
    for name in LOGIC:
        table[f"{name}.pred"] = table[f"{name}.b32"]
    table["not.pred"] = lambda a: 1 - a
    for to, source in (("u64", "u32"), ("u32", "u64"), ("u16", "u32")):
        table[f"cvt.{to}.{source}"] = lambda a, m=(1 << min(int(to[1:]), int(source[1:]))) - 1: a & m
    table["cvt.s64.s32"] = lambda a: signed(a, 32) & (1 << 64) - 1
    for kind in ("b16", "b32", "b64", "u32", "pred", "f32"):
        table[f"mov.{kind}"] = lambda a: a
        table[f"selp.{kind}"] = lambda a, b, p: a if p else b
    return table


TABLE = float_table() | integer_table()


def operands_of(text):
    """Cut at commas; those in braces stay together."""
    return [part.strip() for part in re.findall(r"(?:[^,{]|\{[^}]*\})+", text)]


def names_of(group):
    return [name.strip() for name in group.strip("{}").split(",")]


class Warp:
    """`observe(address, size)` is called for what each lane loads."""

    def __init__(self, text, function, memory, observe=lambda address, size: None):
        self.memory, self.observe = memory, observe
        body = text[text.index(f" {function}(") :]
        self.parameters = re.findall(r"\.param \.b\d+ (\w+)", body[: body.index(")")])
        body = re.sub(r"//[^\n]*", "", body[body.index("\n{") + 2 : body.index("\n}")])
        self.code, self.labels = [], {}
        for line in map(str.strip, body.split("\n")):
            line = re.sub(r"^\{ \.reg \.b16 tmp; (.*) \}$", r"\1", line)
            if match := re.fullmatch(r"(\$\w+):", line):
                self.labels[match[1]] = len(self.code)
            elif line and not line.startswith("."):
                match = re.fullmatch(r"(?:@(!?)(%\w+)\s+)?(\S+?)(?:\s+(.*))?;", line)
                self.code.append((match[1], match[2], match[3], operands_of(match[4] or "")))

    def run(self, *arguments):
        self.arguments = dict(zip(self.parameters, arguments, strict=True))
        self.registers, self.active, meets, at = {}, [True] * 32, [], 0
        while True:
            while meets and meets[-1][0] == at:
                self.active = meets.pop()[1]
            negated, predicate, name, operands = self.code[at]
            at += 1
            if name == "ret":
                return
            taken = [bool(value) != bool(negated) for value in self.lanes(predicate)] if predicate else [True] * 32
            if not name.startswith("bra"):
                if predicate:
                    raise Fault(f"a predicate before {name}")
                self.execute(name, operands)
                continue
            target = self.labels[operands[0]]
            if all(taken[lane] for lane in LANES if self.active[lane]):
                at = target
            elif any(taken[lane] for lane in LANES if self.active[lane]):
                if target < at:
                    raise Fault("lanes leave a loop apart")
                meets.append((target, self.active))
                self.active = [active and not leaves for active, leaves in zip(self.active, taken)]

    def lanes(self, operand):
        if operand == "%tid.x":
            return list(LANES)
        if operand[0] == "%":
            return self.registers[operand]
        return [int(operand[2:], 16) if operand.startswith("0f") else int(operand, 0)] * 32

    def write(self, register, values):
        old = self.registers.get(register, values)
        self.registers[register] = [new if on else was for new, on, was in zip(values, self.active, old)]

    def addresses(self, operand):
        match = re.fullmatch(r"\[(%\w+)(?:\+(-?\d+))?\]", operand)
        return [address + int(match[2] or 0) for address in self.lanes(match[1])]

    def execute(self, name, operands):
        kind = name.split(".")[0]
        if kind in ("ld", "st"):
            self.move(name, operands)
        elif kind in ("mma", "movmatrix", "shfl", "vote", "bar"):
            if not all(self.active):
                raise Fault(f"{name} without some lanes")
            getattr(self, kind)(name, operands)
        elif kind == "mov" and "{" in operands[0]:
            low, high = names_of(operands[0])
            self.write(low, [value & 0xFFFF for value in self.lanes(operands[1])])
            self.write(high, [value >> 16 & 0xFFFF for value in self.lanes(operands[1])])
        elif name in TABLE:
            self.write(operands[0], [TABLE[name](*values) for values in zip(*map(self.lanes, operands[1:]))])
        else:
            raise Fault(f"unknown: {name}")

    def move(self, name, operands):
        size = int(re.search(r"\d+$", name)[0]) // 8
        if name.startswith("ld.param"):
            self.write(operands[0], [self.arguments[operands[1].strip("[]")] & (1 << 8 * size) - 1] * 32)
            return
        load = name.startswith("ld")
        group, place = operands if load else operands[::-1]
        addresses, names = self.addresses(place), names_of(group)
        values = [list(self.registers.get(name, [0] * 32)) if load else self.lanes(name) for name in names]
        for lane in LANES:
            if not self.active[lane]:
                continue
            address = addresses[lane]
            if address % (size * len(names)) or not 0 <= address <= len(self.memory) - size * len(names):
                raise Fault(f"{name} at {address:#x}")
            if load:
                self.observe(address, size * len(names))
            for number, lanes in enumerate(values):
                part = slice(address + size * number, address + size * (number + 1))
                if load:
                    lanes[lane] = int.from_bytes(self.memory[part], "little")
                else:
                    self.memory[part] = (lanes[lane] & (1 << 8 * size) - 1).to_bytes(size, "little")
        if load:
            for name, lanes in zip(names, values):
                self.write(name, lanes)

    def bar(self, name, operands):
        """All lanes are here."""

    def shfl(self, name, operands):
        if name != "shfl.sync.bfly.b32":
            raise Fault(f"unknown: {name}")
        values, mask = self.lanes(operands[1]), self.lanes(operands[2])
        self.write(operands[0].split("|")[0], [values[lane ^ mask[lane]] for lane in LANES])

    def vote(self, name, operands):
        values = self.lanes(operands[1])
        bits = sum(1 << lane for lane in LANES if values[lane])
        self.write(operands[0], [bits if "ballot" in name else int(bits != 0)] * 32)

    def movmatrix(self, name, operands):
        source = self.lanes(operands[1])
        element = lambda row, column: source[4 * row + column // 2] >> 16 * (column % 2) & 0xFFFF
        moved = lambda g, t: element(2 * t, g) | element(2 * t + 1, g) << 16
        self.write(operands[0], [moved(lane // 4, lane % 4) for lane in LANES])

    def mma(self, name, operands):
        """Lane = 4 g + t. A word of A or B holds `each` elements of a row or a column."""
        result, *groups = [names_of(group) for group in operands]
        a, b, sums = ([self.lanes(register) for register in group] for group in groups)
        left, right = name.split(".")[-3:-1]
        each, deep = (4, 32) if "m16n8k32" in name else (2, 16)

        def element(words, lane, k, kind):
            word, at = words[k // (deep // 2)][4 * lane + k % (deep // 2) // each], 32 // each * (k % each)
            bits = word >> at & (1 << 32 // each) - 1
            return PAIRS[kind][0](bits) if kind in PAIRS else signed(bits, 8) if kind == "s8" else bits

        rows = [[element(a[r // 8 :: 2], r % 8, k, left) for k in range(deep)] for r in range(16)]
        columns = [[element(b, c, k, right) for k in range(deep)] for c in range(8)]
        for i, register in enumerate(result):
            values = []
            for lane in LANES:
                row, column = rows[lane // 4 + i // 2 * 8], columns[lane % 4 * 2 + i % 2]
                total = sum(x * y for x, y in zip(row, column))
                was = sums[i][lane]
                values.append(total + was & 0xFFFFFFFF if each == 4 else bits_of(total + float_of(was)))
            self.write(register, values)
