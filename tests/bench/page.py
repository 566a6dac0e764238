# SPDX-License-Identifier: Apache-2.0
"""What the pages that are written from data are made of: numbers as text, Markdown tables, where
numbers are from, and pictures."""
import csv
import shlex
from xml.sax.saxutils import escape

COLOURS = ("#0b6e99", "#c4570e", "#6b7785", "#7a4fa3", "#3f7d3a", "#b0892b")
NOT_MEASURED = "Not measured yet.\n"


class BadInput(Exception):
    """The data cannot be used; the text says which file, and why."""


# ---- texts ----------------------------------------------------------------------------------

def text_ns(value):
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def text_block(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def text_gib(size):
    return f"{size / (1 << 30):.3f} GiB"


def table(headings, rows):
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(headings) - 1)
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
                     for row in (headings, rule, *rows)) + "\n"


def provenance(facts, source):
    """The table under a table that says where its numbers are from."""
    def fact(key, form="{}"):
        return form.format(facts[key]) if facts.get(key) else "not in the data"
    gpu = fact("gpu")
    row = [fact("command", "`{}`"), fact("commit", "`{}`"), gpu, fact("driver_cuda", "CUDA {}"),
           fact("cpus"), f"[{source}](benchmarks/{source})"]
    lines = table(["command", "commit", "GPU", "driver", "CPUs", "data"], [row])
    if gpu.startswith("simulated"):
        lines += ("\n**SIMULATED DEVICE: driver calls cost what the simulation costs. These are no "
                  "results.**\n")
    return lines


def provenance_row(comment, keys, source):
    """The same for data whose first line says other things than `tenure bench` does."""
    facts = dict(word.split("=", 1) for word in shlex.split(comment) if "=" in word)
    return table([*keys, "data"], [[*(f"`{facts[key]}`" if key in facts else "not in the data"
                                      for key in keys), f"[{source}](benchmarks/{source})"]])


def csv_rows(path):
    """The rows of a CSV file as dictionaries, and its first comment; nothing without the file."""
    if not path.exists():
        return [], ""
    lines = path.read_text("utf-8").splitlines()
    comment = next((line[2:] for line in lines if line.startswith("# ")), "")
    return list(csv.DictReader(line for line in lines if not line.startswith("#"))), comment


def facts_table(comment, source):
    """The provenance of a CSV: a table if its first line says command, commit and the rest."""
    if "command=" not in comment:
        return f"{comment}.\n"
    facts = dict(word.split("=", 1) for word in shlex.split(comment) if "=" in word)
    return provenance(facts, source)


# ---- pictures -------------------------------------------------------------------------------

class Picture:
    """An SVG with a white ground, so that it reads the same on every page."""

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"\n'
            f'  width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
        self.text(width / 2, 20, title, "middle", size=14)

    def text(self, x, y, text, anchor="start", size=12, colour="#222222"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"\n'
                          f'  font-size="{size}" fill="{colour}">{escape(str(text))}</text>')

    def line(self, x1, y1, x2, y2, colour="#cccccc", width=1):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"\n'
                          f'  stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

    def bar(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"\n'
                          f'  height="{height:.1f}" fill="{colour}"/>')

    def finish(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"
