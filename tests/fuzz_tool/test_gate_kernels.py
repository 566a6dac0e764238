#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PTX of gated programs does what tools/fuzz/gate_touch.c says it does.

Where there is no GPU nothing else runs it: so here is an interpreter for the few instructions that
it has, one thread after the other, and the same visits written down once more.
"""
import os
import re
import struct
import subprocess
import unittest

PRINT = os.environ["GATE_KERNELS_PRINT"]
MASK = 2**64 - 1
TAG_FACTOR, ADDRESS_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
CHECK, WRITE, LOAD = 0, 1, 2
FOUND, RECORD = 0x7000, 0x9000


def kernels():
    """name -> list of (label or None, guard or None, opcode, operands)."""
    text = subprocess.run([PRINT], capture_output=True, text=True, check=True).stdout
    result = {}
    for name, body in re.findall(r"\.entry (\w+)\(.*?\)\n\{\n(.*?)\n\}", text, re.S):
        lines = []
        for statement in re.sub(r"\.reg[^;]*;", "", body).replace("\n", " ").split(";"):
            label, guard = None, None
            statement = statement.strip()
            match = re.match(r"(\w+):\s*(.*)", statement)
            while match:
                lines.append((match[1], None, "nop", []))
                statement = match[2]
                match = re.match(r"(\w+):\s*(.*)", statement)
            match = re.match(r"@(!?%\w+)\s+(.*)", statement)
            if match:
                guard, statement = match[1], match[2]
            if statement:
                opcode, _, rest = statement.partition(" ")
                lines.append((label, guard, opcode, [part.strip() for part in rest.split(",")
                                                     if part.strip()]))
        result[name] = lines
    return result


class Machine:
    def __init__(self, lines, params, memory, order=None):
        self.lines, self.params, self.memory, self.order = lines, params, memory, order
        self.labels = {line[0]: i for i, line in enumerate(lines) if line[0]}
        self.loads = []

    def run(self, blocks=1, width=1):
        for block in range(blocks):
            for thread in range(width):
                self.run_thread({"%ctaid.x": block, "%ntid.x": width, "%nctaid.x": blocks,
                                 "%tid.x": thread})

    def value(self, registers, operand):
        return registers[operand] if operand.startswith("%") else int(operand, 0)

    def place(self, registers, operand):
        base, _, offset = operand.strip("[]").partition("+")
        return registers[base] + int(offset or 0)

    def run_thread(self, registers):
        at = steps = 0
        while True:
            _, guard, opcode, operands = self.lines[at]
            at += 1
            steps += 1
            assert steps < 200000, "it does not end"
            if guard and bool(registers[guard.lstrip("!")]) == guard.startswith("!"):
                continue
            if opcode == "ret":
                return
            if opcode == "bra":
                at = self.labels[operands[0]]
            elif opcode != "nop":
                self.execute(registers, opcode, operands)

    def execute(self, registers, opcode, operands):
        name, kind = opcode.split(".")[0], opcode.split(".")[-1]
        if name in ("st", "red", "membar"):
            return self.store(registers, opcode, operands)
        to, rest = operands[0], operands[1:]
        if name == "ld" and ".param" in opcode:
            base, _, offset = rest[0].strip("[]").partition("+")
            data = self.params[base]
            size = 8 if kind == "u64" else 4
            registers[to] = int.from_bytes(data[int(offset or 0):][:size], "little")
            return None
        if name == "ld":
            address = self.place(registers, rest[0])
            self.loads.append(address)
            registers[to] = self.memory(address) if callable(self.memory) else \
                self.memory.get(address, 0)
            return None
        if name == "atom":
            address = self.place(registers, rest[0])
            registers[to] = self.memory.get(address, 0)
            if registers[to] == self.value(registers, rest[1]):
                self.memory[address] = self.value(registers, rest[2])
            return None
        values = [self.value(registers, operand) for operand in rest]
        bits = 2**32 - 1 if kind.endswith("32") and not name.startswith(("mul", "cvt")) else MASK
        if kind == "s32":
            values = [value - 2**32 if value >= 2**31 else value for value in values]
        registers[to] = {
            "mov": lambda a: a, "cvta": lambda a: a, "cvt": lambda a: a,
            "not": lambda a: int(not a),
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
            "mad": lambda a, b, c: a * b + c,
            "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
            "selp": lambda a, b, p: a if p else b,
            "setp": lambda a, b: {"eq": a == b, "ne": a != b, "lt": a < b,
                                  "ge": a >= b}[opcode.split(".")[1]],
        }[name](*values)
        if name not in ("setp", "not"):
            registers[to] &= bits
        return None

    def store(self, registers, opcode, operands):
        if opcode.startswith("membar"):
            return
        address, value = self.place(registers, operands[0]), self.value(registers, operands[1])
        if self.order is not None:
            self.order.append(address)
        self.memory[address] = self.memory.get(address, 0) + value if opcode.startswith("red") \
            else value


def visits(address, words, tag, grid):
    """(count, page, first of the grid, its step, the words): as gate_touch.c says."""
    if words <= 4096:
        return words, 0, 0, 0, set(range(words))
    page = (tag * TAG_FACTOR & MASK) >> 32
    page = page % (words // 512) * 512
    first = -(-address // grid) * grid
    on_grid = [(at - address) // 8 for at in range(first, address + words * 8, grid)]
    chosen = set(range(8)) | set(range(words - 8, words)) | set(range(page, page + 512))
    return 528 + len(on_grid), page, (first - address) // 8, grid // 8, chosen | set(on_grid)


def word(tag, address):
    return tag if tag >> 56 else (tag * TAG_FACTOR + address * ADDRESS_FACTOR) & MASK


class Kernels(unittest.TestCase):
    def setUp(self):
        self.kernels = kernels()
        self.memory, self.order = {}, []

    def touch(self, *parts, blocks=3):
        """Each part: (address, words, tag, how). Returns the machine."""
        data = b""
        for address, words, tag, how in list(parts) + [(0, 0, 0, 0)] * (2 - len(parts)):
            count, page, first, step, _ = visits(address, words, tag, 512)
            data += struct.pack("<8Q", address, words, tag, count, page, first, step, how)
        data += struct.pack("<3Q", 77, FOUND, RECORD)
        machine = Machine(self.kernels["tenure_gate_touch"], {"p_launch": data}, self.memory,
                          self.order)
        machine.run(blocks, 16)
        return machine

    SIZES = (0, 1, 7, 8, 9, 100, 4096, 4097, 5000, 70000)

    def test_a_write_visits_what_it_should_and_leaves_what_it_should(self):
        for words in self.SIZES:
            for tag in (1, 123456, 0x0707070707070707):
                with self.subTest(words=words, tag=tag):
                    self.memory.clear()
                    address = 0x101000000000 + 256
                    self.touch((address, words, tag, WRITE))
                    chosen = visits(address, words, tag, 512)[4]
                    self.assertEqual(self.memory, {address + 8 * at: word(tag, address + 8 * at)
                                                   for at in chosen})

    def test_a_check_finds_nothing_where_nothing_is_wrong(self):
        for words in self.SIZES:
            with self.subTest(words=words):
                self.memory.clear()
                self.touch((0x200000, words, 9, WRITE))
                machine = self.touch((0x200000, words, 9, CHECK))
                self.assertEqual(self.memory.get(FOUND, 0), 0)
                self.assertEqual({(at - 0x200000) // 8 for at in machine.loads},
                                 visits(0x200000, words, 9, 512)[4])

    def test_a_check_finds_each_wrong_word_and_reports_the_first(self):
        words, tag = 5000, 5
        for at in sorted(visits(0x200000, words, tag, 512)[4])[::97]:
            with self.subTest(at=at):
                self.memory.clear()
                self.order.clear()
                self.touch((0x200000, words, tag, WRITE))
                place = 0x200000 + 8 * at
                self.memory[place] ^= 1 << 63
                self.order.clear()
                self.touch((0x200000, words, tag, CHECK))
                self.assertEqual(self.memory[FOUND], 1)
                self.assertIn(self.memory[FOUND + 8], (1, 2, 3))  # some words are visited twice
                record = [self.memory[RECORD + 8 * i] for i in range(5)]
                self.assertEqual(record, [1, 77, place, word(tag, place), self.memory[place]])
                written = [place for place in self.order if place >= RECORD]
                self.assertEqual(written[-1], RECORD)  # complete when it is seen

    def test_many_wrong_words_are_counted_and_one_is_reported(self):
        self.touch((0x200000, 100, 5, WRITE))
        self.touch((0x200000, 100, 6, CHECK))
        self.assertEqual((self.memory[FOUND], self.memory[FOUND + 8]), (1, 100))

    def test_a_load_checks_nothing(self):
        machine = self.touch((0x200000, 100, 0, LOAD))
        self.assertEqual(len(set(machine.loads)), 100)
        self.assertEqual(self.memory, {})

    def test_a_copy_checks_one_block_and_writes_the_other(self):
        self.touch((0x200000, 50, 5, WRITE))
        self.touch((0x200000, 50, 5, CHECK), (0x400000, 60, 6, WRITE))
        self.assertNotIn(FOUND, self.memory)
        self.touch((0x400000, 60, 6, CHECK), (0x200000, 50, 7, WRITE))
        self.assertNotIn(FOUND, self.memory)

    def test_a_gate_waits_for_its_number_and_opens_for_later_ones(self):
        for gate, seen, opens in ((5, (3, 4, 5), 3), (5, (9,), 1), (2, (2**32 - 1, 2), 2),
                                  (2**32 - 1, (2**32 - 2, 1), 2)):
            with self.subTest(gate=gate, seen=seen):
                values = iter(seen)
                machine = Machine(self.kernels["tenure_gate_hold"],
                                  {"p_word": struct.pack("<Q", 64),
                                   "p_number": struct.pack("<I", gate)},
                                  lambda address, values=values: next(values))
                machine.run()
                self.assertEqual(machine.loads, [64] * opens)

    def test_a_mark_is_written(self):
        Machine(self.kernels["tenure_gate_mark"],
                {"p_word": struct.pack("<Q", 68), "p_number": struct.pack("<I", 41)},
                self.memory).run()
        self.assertEqual(self.memory, {68: 41})


if __name__ == "__main__":
    unittest.main()
