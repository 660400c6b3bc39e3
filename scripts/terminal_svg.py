"""A small terminal screen and its picture: feeds on what a program writes to a terminal, gives SVG, still or moving.

Knows what thole writes (colours, carriage return, erasing, cursor movement), not all that terminals know.
"""
import html
import re

CELL_WIDTH, CELL_HEIGHT, MARGIN, TITLE = 8.43, 18, 12, 26
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
# Colours are names; the style sheet gives each a value where the reader's screen is dark and another where it is light.
BACKGROUND, FOREGROUND, BAR, TITLE_TEXT, EDGE = "bg", "fg", "bar", "title", "edge"
COLOURS = [f"c{n}" for n in range(8)]
BRIGHT = [f"b{n}" for n in range(8)]
NAMES = [BACKGROUND, FOREGROUND, BAR, TITLE_TEXT, EDGE, *COLOURS, *BRIGHT]
DARK = ("#1c2128 #d0d7de #2d333b #909dab #444c56 "
        "#545d68 #f47067 #6bc46d #daaa3f #539bf5 #b083f0 #39c5cf #d0d7de "
        "#768390 #ff938a #8ddb8c #eac55f #6cb6ff #dcbdfb #56d4dd #ffffff").split()
LIGHT = ("#f9fafb #1f2328 #e6eaef #59636e #c8d1da "
         "#57606a #cf222e #116329 #8a5a00 #0550ae #7a3fd1 #1b7c83 #424a53 "
         "#6e7781 #a40e26 #1a7f37 #7a5200 #0969da #8250df #13707a #1f2328").split()
ESCAPE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>78cM]")


class Screen:
    """Rows of cells; a cell is (character, style), a style is (foreground, background, bold, dim, underline, inverse)."""

    PLAIN = (None, None, False, False, False, False)

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [[] for _ in range(rows)]
        self.row = self.column = 0
        self.style = self.PLAIN
        self.rest = ""

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                escape = ESCAPE.match(text, at)
                if not escape:
                    self.rest = text[at:]
                    return
                if escape[2]:
                    self.control(escape[1], escape[2])
                at = escape.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row == self.rows:
                self.lines = self.lines[1:] + [[]]
                self.row -= 1
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character == "\t":
            self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)
        elif character >= " ":
            if self.column == self.columns:
                self.put("\n")
                self.column = 0
            line = self.lines[self.row]
            line.extend([(" ", self.PLAIN)] * (self.column + 1 - len(line)))
            line[self.column] = (character, self.style)
            self.column += 1

    def control(self, arguments, letter):
        numbers = [int(n) if n else 0 for n in arguments.lstrip("?").split(";")]
        count = max(1, numbers[0])
        if letter == "m":
            self.colour(numbers)
        elif letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "B":
            self.row = min(self.rows - 1, self.row + count)
        elif letter == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif letter == "D":
            self.column = max(0, self.column - count)
        elif letter == "G":
            self.column = count - 1
        elif letter in "Hf":
            self.row = min(self.rows, count) - 1
            self.column = max(1, numbers[1] if len(numbers) > 1 else 1) - 1
        elif letter == "K":
            line = self.lines[self.row]
            blank = [(" ", self.PLAIN)] * self.column
            self.lines[self.row] = {0: line[:self.column], 1: blank + line[self.column:], 2: []}[numbers[0]]
        elif letter == "J":
            first = 0 if numbers[0] == 2 else self.row + 1
            if numbers[0] == 0:
                self.lines[self.row] = self.lines[self.row][:self.column]
            for row in range(first, self.rows):
                self.lines[row] = []

    def colour(self, numbers):
        foreground, background, bold, dim, underline, inverse = self.style
        while numbers:
            n = numbers.pop(0)
            if n == 0:
                foreground, background, bold, dim, underline, inverse = self.PLAIN
            elif n == 1:
                bold = True
            elif n == 2:
                dim = True
            elif n == 4:
                underline = True
            elif n == 7:
                inverse = True
            elif n == 22:
                bold = dim = False
            elif n in (24, 27):
                underline, inverse = (False, inverse) if n == 24 else (underline, False)
            elif 30 <= n <= 37:
                foreground = COLOURS[n - 30]
            elif 90 <= n <= 97:
                foreground = BRIGHT[n - 90]
            elif n == 39:
                foreground = None
            elif 40 <= n <= 47:
                background = COLOURS[n - 40]
            elif n == 49:
                background = None
            elif n in (38, 48) and numbers and numbers[0] == 5:
                value = indexed_colour(numbers[1])
                del numbers[:2]
                foreground, background = (value, background) if n == 38 else (foreground, value)
        self.style = (foreground, background, bold, dim, underline, inverse)

    def cells(self):
        """What is to be seen, as a value."""
        return tuple(tuple(line) for line in self.lines)


def indexed_colour(n):
    if n < 16:
        return (COLOURS + BRIGHT)[n]
    if n >= 232:
        return "#" + f"{8 + 10 * (n - 232):02x}" * 3
    levels = [0, 95, 135, 175, 215, 255]
    n -= 16
    return "#" + "".join(f"{levels[i]:02x}" for i in (n // 36, n // 6 % 6, n % 6))


def paint(colour):
    """The attribute that fills with a colour: a name of the style sheet or a value."""
    return f'fill="{colour}"' if colour.startswith("#") else f'class="{colour}"'


def palette(values):
    fills = "".join(f".{name}{{fill:{value}}}" for name, value in zip(NAMES, values))
    return fills + f".s-{EDGE}{{stroke:{values[NAMES.index(EDGE)]}}}"


def size(columns, rows):
    return columns * CELL_WIDTH + 2 * MARGIN, rows * CELL_HEIGHT + 2 * MARGIN + TITLE


def window(columns, rows, title):
    """The frame around a screen, without its content."""
    width, height = size(columns, rows)
    return (f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" {paint(BACKGROUND)}/>'
            f'<path d="M0 8a8 8 0 0 1 8-8h{width - 16:.0f}a8 8 0 0 1 8 8v{TITLE - 8}H0z" {paint(BAR)}/>'
            f'<rect x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" fill="none" class="s-{EDGE}"/>'
            f'<text x="{width / 2:.0f}" y="17" text-anchor="middle" {paint(TITLE_TEXT)}>{html.escape(title)}</text>')


def runs(line):
    """Neighbouring cells of one style, as (column, text, style)."""
    column = 0
    while column < len(line):
        end = column
        while end < len(line) and line[end][1] == line[column][1]:
            end += 1
        yield column, "".join(cell[0] for cell in line[column:end]), line[column][1]
        column = end


def content(cells):
    """The characters of a screen."""
    parts = []
    for row, line in enumerate(cells):
        y = TITLE + MARGIN + row * CELL_HEIGHT
        for column, text, (foreground, background, bold, dim, underline, inverse) in runs(line):
            if inverse:
                foreground, background = background or BACKGROUND, foreground or FOREGROUND
            x, width = MARGIN + column * CELL_WIDTH, len(text) * CELL_WIDTH
            if background:
                parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{CELL_HEIGHT}" {paint(background)}/>')
            if not text.strip():
                continue
            more = ' font-weight="bold"' if bold else ""
            more += ' opacity="0.6"' if dim else ""
            more += ' text-decoration="underline"' if underline else ""
            more += " " + paint(foreground or FOREGROUND)
            parts.append(f'<text x="{x:.1f}" y="{y + 13.5:.1f}" textLength="{width:.1f}"{more}>{html.escape(text)}</text>')
    return "".join(parts)


def words(cells):
    """What stands there, for who cannot see it."""
    return "\n".join("".join(cell[0] for cell in line).rstrip() for line in cells).rstrip()


def document(width, height, title, about, body, style=""):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{html.escape(FONT)}" font-size="14" '
            'xml:space="preserve" role="img">'
            f"<title>{html.escape(title)}</title><desc>{html.escape(about)}</desc>"
            f"<style>text{{white-space:pre}}{palette(DARK)}"
            f"@media (prefers-color-scheme:light){{{palette(LIGHT)}}}{style}</style>"
            f"{body}</svg>\n")


def still(screen, title):
    rows = max((n + 1 for n, line in enumerate(screen.lines) if any(cell[0] != " " for cell in line)), default=1)
    width, height = size(screen.columns, rows)
    cells = screen.cells()[:rows]
    return document(width, height, title, words(cells), window(screen.columns, rows, title) + content(cells))


def moving(title, panes, rest_s=4.0):
    """Panes one below the other, each (name, columns, rows, [(time_s, cells)]); the last frame rests, then it begins again."""
    length = max(frames[-1][0] for _, _, _, frames in panes) + rest_s
    body, style, top, width = [], [], 0.0, 0.0
    for number, (name, columns, rows, frames) in enumerate(panes):
        pane_width, height = size(columns, rows)
        parts = [window(columns, rows, name)]
        for index, (start, cells) in enumerate(frames):
            end = frames[index + 1][0] if index + 1 < len(frames) else length
            frame = f"f{number}_{index}"
            a, b = 100 * start / length, 100 * end / length
            last = index + 1 == len(frames)
            first, still_there = ("visible" if yes else "hidden" for yes in (start == 0, last))
            begin = f"0%{{visibility:{first}}}{a:.3f}%{{visibility:visible}}"
            finish = "100%{visibility:visible}" if last else f"{b:.3f}%,100%{{visibility:hidden}}"
            style.append(f"@keyframes {frame}{{{begin}{finish}}}"
                         f".{frame}{{visibility:{still_there};animation:{frame} {length:.2f}s step-end infinite}}")
            parts.append(f'<g class="{frame}">{content(cells)}</g>')
        body.append(f'<g transform="translate(0 {top:.0f})">{"".join(parts)}</g>')
        top += height + 10
        width = max(width, pane_width)
    about = "\n".join(f"{name} at the end:\n{words(frames[-1][1])}" for name, _, _, frames in panes)
    return document(width, top - 10, title, about, "".join(body), "".join(style))
