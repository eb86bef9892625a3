"""Find the places of the source where a small change should fail a test.

Python is read with `ast`, Cython and C with one small tokenizer. A change replaces bytes of one
file. Places whose change no test should notice are left out: docstrings, comments, annotations, the
texts of errors, `__repr__`, logging, progress bars and what only a type checker reads.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

OPPOSITES = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
ARITHMETIC = {
    "+": "-",
    "-": "+",
    "*": "//",
    "//": "*",
    "/": "*",
    "%": "//",
    "<<": ">>",
    ">>": "<<",
    "&": "|",
    "|": "&",
    "+=": "-=",
    "-=": "+=",
}
GUARDS = re.compile(
    r"(?:\b|_)(?:f?sync|check|verif|valid|require|refuse|forbid|ensure|flush|close|lock|release|"
    r"renew|confirm)"
)
# What they return or write is read by people.
TOLD = {"__repr__", "__str__", "_repr_html_", "_repr_pretty_", "_ipython_display_"}
LOGGING = {"_log", "log", "logger", "logging", "warnings"}
# Without it, C does the same a little later, or only when it is compiled for tests.
UNHEARD = re.compile(r"(?i)prefetch|madvise|\bassert\b|^\s*@")


@dataclass(frozen=True, order=True)
class Change:
    """One change of one file.

    Attributes:
        file: Path of the file, from the root of the checkout.
        start, end: Range of the bytes that are replaced.
        new: Replacement.
        kind: Name of the operator, such as "comparison".
        first, last: Lines of the statement, by which its tests are found.
    """

    file: str
    start: int
    end: int
    new: str
    kind: str
    first: int
    last: int

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def line(self, source: bytes) -> int:
        """Return the number of the line in which the change begins."""
        return source.count(b"\n", 0, self.start) + 1

    def diff(self, source: bytes) -> str:
        """Return the lines before and after the change, with - and + in front."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        end = source.find(b"\n", self.end)
        end = len(source) if end < 0 else end
        before = source[begin:end].decode()
        after = (source[begin : self.start] + self.new.encode() + source[self.end : end]).decode()
        return "\n".join(
            sign + line for sign, text in (("-", before), ("+", after)) for line in text.split("\n")
        )


def changes_of(file: str, source: bytes) -> list[Change]:
    """Return every change of a file of Python, Cython or C, in the order of the file."""
    if file.endswith(".py"):
        reader = PythonReader(file, source)
        reader.visit(ast.parse(source))
        found = reader.found
    elif file.endswith(".pyx"):
        found = heard(source, cython_changes(file, source))
    else:
        found = heard(source, c_changes(file, source))
    return sorted({one for one in found if one.new.encode() != source[one.start : one.end]})


def heard(source: bytes, changes: Iterator[Change]) -> list[Change]:
    """Return the changes outside of lines that only give hints."""
    lines = source.decode("latin-1").split("\n")
    return [one for one in changes if not UNHEARD.search(lines[one.line(source) - 1])]


class PythonReader(ast.NodeVisitor):
    """The changes of a Python module, as its syntax tree gives them."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file = file
        self.source = source
        self.found: list[Change] = []
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.statement = (1, 1)
        self.depth = 0

    # ---- positions ----

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def add(self, start: int, end: int, new: str, kind: str) -> None:
        self.found.append(Change(self.file, start, end, new, kind, *self.statement))

    def between(self, one: ast.expr, other: ast.expr, pattern: str) -> re.Match[bytes] | None:
        """Find an operator between two operands, unless a comment is there too."""
        start, end = self.end(one), self.start(other)
        if b"#" in self.source[start:end]:
            return None
        return re.compile(pattern.encode()).search(self.source, start, end)

    # ---- what is left out ----

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            before = self.statement
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            self.statement = (node.lineno, max(node.lineno, last or 0))
            super().visit(node)
            self.statement = before
        else:
            super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        returned = ast.unparse(node.returns) if node.returns else ""
        if node.name in TOLD or node.name.endswith("_error") or returned.endswith("Error"):
            return
        self.depth += 1
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.depth -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if not names & {"__all__", "__slots__"}:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave it out: it tells a type checker what is known."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it out: it is a text."""

    # ---- changes ----

    def visit_Compare(self, node: ast.Compare) -> None:
        if "version_info" in ast.unparse(node) or "sys.platform" in ast.unparse(node):
            return
        operands = [node.left, *node.comparators]
        for one, other in itertools.pairwise(operands):
            found = self.between(one, other, r"not\s+in|is\s+not|<=|>=|==|!=|<|>|\bin\b|\bis\b")
            if found is not None:
                for new in OPPOSITES[re.sub(r"\s+", " ", found[0].decode())]:
                    self.add(*found.span(), new, "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for one, other in zip(node.values, node.values[1:], strict=False):
            found = self.between(one, other, r"\band\b|\bor\b")
            if found is not None:
                self.add(*found.span(), "or" if found[0] == b"and" else "and", "and/or")
        self.generic_visit(node)

    def negate(self, test: ast.expr) -> None:
        if "version_info" not in ast.unparse(test):
            self.add(self.start(test), self.end(test), f"not ({self.text(test)})", "condition")

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for statement in node.orelse:
                self.visit(statement)
            return
        self.negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self.negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.negate(test)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            found = re.compile(rb"not\s*").match(self.source, self.start(node))
            assert found is not None
            self.add(*found.span(), "", "not")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        operands = (node.left, node.right)
        texts = any(
            isinstance(one, ast.JoinedStr | ast.List | ast.Tuple)
            or (isinstance(one, ast.Constant) and isinstance(one.value, str | bytes))
            for one in operands
        )
        found = self.between(*operands, r"//|<<|>>|[-+*/%&|]")
        if found is not None and not texts and not isinstance(node.op, ast.Pow):
            self.add(*found.span(), ARITHMETIC[found[0].decode()], "arithmetic")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        found = self.between(node.target, node.value, r"[-+]=")
        if found is not None and not isinstance(node.value, ast.JoinedStr | ast.List):
            self.add(*found.span(), ARITHMETIC[found[0].decode()], "arithmetic")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        kind = "off by one" if self.depth else "constant"
        if isinstance(node.value, bool):
            self.add(self.start(node), self.end(node), str(not node.value), "constant")
        elif isinstance(node.value, int):
            for new in (node.value + 1, node.value - 1):
                if new >= 0:
                    self.add(self.start(node), self.end(node), str(new), kind)
        elif isinstance(node.value, float):
            self.add(self.start(node), self.end(node), str(node.value * 2 + 1), "constant")

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if isinstance(bound, ast.Name | ast.Attribute | ast.Call):
                self.add(
                    self.start(bound), self.end(bound), f"{self.text(bound)} + 1", "off by one"
                )
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        root, name = node.func, ""
        while isinstance(root, ast.Attribute):
            name = name or root.attr
            root = root.value
        first = root.id if isinstance(root, ast.Name) else ""
        if first in LOGGING or "progress" in (name or first).lower() or first == "cast":
            return
        simple = ast.Name | ast.Attribute
        for one, other in zip(node.args, node.args[1:], strict=False):
            if isinstance(one, simple) and isinstance(other, simple):
                swapped = self.source[self.end(one) : self.start(other)].decode()
                new = f"{self.text(other)}{swapped}{self.text(one)}"
                if self.text(one) != self.text(other):
                    self.add(self.start(one), self.end(other), new, "arguments")
                break
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg != "stacklevel":
                self.visit(keyword.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            known = len(self.found)
            self.visit(node.value)
            called = ast.unparse(node.value.func)
            told = called.split(".")[0] in LOGGING or "progress" in called.lower()
            if not told and "super()" not in called:
                kind = "dropped check" if GUARDS.search(called.lower()) else "dropped call"
                self.found.insert(
                    known,
                    Change(
                        self.file, self.start(node), self.end(node), "pass", kind, *self.statement
                    ),
                )
        elif not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add(self.start(node), self.end(node), "pass", "dropped raise")

    def visit_Break(self, node: ast.Break) -> None:
        self.add(self.start(node), self.end(node), "continue", "break/continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add(self.start(node), self.end(node), "break", "break/continue")


# ---- Cython and C ------------------------------------------------------------------------------

TOKEN = r"""
    (?P<text>'''.*?''' | \"\"\".*?\"\"\" | [a-zA-Z]{0,2}"(?:\\.|[^"\\\n])*" |
        [a-zA-Z]{0,2}'(?:\\.|[^'\\\n])*')
    | (?P<number>(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?)[uUlL]*\b)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator><<=|>>=|->|\+\+|--|[-+*/%&|^<>=!]=|<<|>>|&&|\|\||[-+*/%&|^<>=!~?:;,.@(){}\[\]])
    | (?P<line>\n)
"""
C_TOKEN = re.compile(rf"(?P<skip>/\*.*?\*/|//[^\n]*|\\\n){'|'}{TOKEN}", re.S | re.X)
CYTHON_TOKEN = re.compile(rf"(?P<skip>\#[^\n]*|\\\n){'|'}{TOKEN}", re.S | re.X)
DECLARING = {"import", "cimport", "from", "@", "class", "def", "cpdef", "ctypedef", "assert"}
WORDS = {"if", "while", "for", "switch", "return", "sizeof", "do", "else", "case"}


@dataclass(frozen=True)
class Token:
    """A token of Cython or C, with where it stands."""

    kind: str
    text: str
    start: int
    end: int
    line: int


def tokens_of(pattern: re.Pattern[str], source: str) -> list[Token]:
    """Split a source into tokens, without comments and spaces."""
    found, line, counted = [], 1, 0
    for match in pattern.finditer(source):
        assert match.lastgroup is not None
        line += source.count("\n", counted, match.start())
        counted = match.start()
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup, match[0], match.start(), match.end(), line))
    return found


def closing(tokens: list[Token], opening: int) -> int:
    """Return which token closes the bracket that one opens, or -1."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += (tokens[number].text in "([{") - (tokens[number].text in ")]}")
        if depth == 0:
            return number
    return -1


def operator_changes(file: str, source: str, tokens: list[Token], at: int) -> Iterator[Change]:
    """Yield the changes of one token that are the same in Cython and C."""
    token = tokens[at]
    spaced = source[token.start - 1 : token.start] == " " and source[token.end : token.end + 1] in (
        " ",
        "\n",
    )
    where = (file, token.start, token.end)
    lines = (token.line, token.line)
    if token.kind == "operator" and spaced:
        for new in OPPOSITES.get(token.text, ()):
            yield Change(*where, new, "comparison", *lines)
        # Any pointer can be multiplied by mistake: * is left out.
        if token.text in ("+", "-", "<<", ">>", "&", "|", "%", "+=", "-="):
            yield Change(*where, ARITHMETIC[token.text].replace("//", "/"), "arithmetic", *lines)
    elif token.kind == "number" and token.text.isdecimal():
        for value in (int(token.text) + 1, int(token.text) - 1):
            if value >= 0:
                yield Change(*where, str(value), "off by one", *lines)


def c_changes(file: str, source: bytes) -> Iterator[Change]:
    """Yield the changes of a C file."""
    text = source.decode("latin-1")
    # Only definitions are changed, of what the preprocessor reads.
    text = re.sub(
        r"^[ \t]*\#(?!define).*$", lambda line: " " * len(line[0]), text, flags=re.MULTILINE
    )
    tokens = [one for one in tokens_of(C_TOKEN, text) if one.kind != "line"]
    for at, token in enumerate(tokens):
        lines = (token.line, token.line)
        before = tokens[at - 1].text if at else ""
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        yield from operator_changes(file, text, tokens, at)
        if token.text in ("&&", "||"):
            new = "||" if token.text == "&&" else "&&"
            yield Change(file, token.start, token.end, new, "and/or", *lines)
        elif token.text == "!":
            yield Change(file, token.start, token.end, "", "not", *lines)
        elif token.text in ("if", "while") and after == "(" and before != "}":
            opened = tokens[at + 1]
            last = closing(tokens, at + 1)
            if last > 0:
                end = tokens[last].end
                new = f"(!{text[opened.start : end]})"
                yield Change(file, opened.start, end, new, "condition", *lines)
        elif (
            token.kind == "name"
            and token.text not in WORDS
            and after == "("
            and before in (";", "{", "}", ")", "else")
        ):
            last = closing(tokens, at + 1)
            if 0 < last < len(tokens) - 1 and tokens[last + 1].text == ";":
                kind = "dropped check" if GUARDS.search(token.text) else "dropped call"
                yield Change(file, token.start, tokens[last].end, "", kind, *lines)
        elif token.text in ("break", "continue") and after == ";":
            new = "continue" if token.text == "break" else "break"
            yield Change(file, token.start, token.end, new, "break/continue", *lines)


def cython_changes(file: str, source: bytes) -> Iterator[Change]:
    """Yield the changes of a Cython module: of its statements, not of its declarations."""
    text = source.decode("latin-1")
    for line in cython_lines(tokens_of(CYTHON_TOKEN, text)):
        first, rest = line[0], line[1:]
        start, end = first.start, line[-1].end
        lines = (first.line, line[-1].line)
        if first.text == "raise":
            yield Change(file, start, end, "pass", "dropped raise", *lines)
            continue
        if first.text in ("if", "elif", "while") and line[-1].text == ":":
            begin, over = rest[0].start, line[-1].start
            new = f"not ({text[begin:over]})"
            yield Change(file, begin, over, new, "condition", *lines)
        elif first.text in ("break", "continue") and not rest:
            new = "continue" if first.text == "break" else "break"
            yield Change(file, start, end, new, "break/continue", *lines)
        elif first.kind == "name" and line[-1].text == ")":
            opening = next((n for n, one in enumerate(line) if one.text == "("), 0)
            path = line[:opening]
            if (
                path
                and closing(line, opening) == len(line) - 1
                and all(one.kind == "name" or one.text == "." for one in path)
                and first.text not in ("return", "yield", "cdef", "cimport", "del", "not")
            ):
                called = text[start : line[opening].start]
                kind = "dropped check" if GUARDS.search(called.lower()) else "dropped call"
                yield Change(file, start, end, "pass", kind, *lines)
        for at, token in enumerate(line):
            before = [one.text for one in line[max(0, at - 3) : at]]
            if token.kind == "number" and "except" in before:
                continue
            yield from operator_changes(file, text, line, at)
            if token.text in ("and", "or"):
                new = "or" if token.text == "and" else "and"
                yield Change(file, token.start, token.end, new, "and/or", *lines)
            elif token.text == "not" and at + 1 < len(line) and line[at + 1].text != "in":
                if not before or before[-1] != "is":
                    yield Change(file, token.start, token.end + 1, "", "not", *lines)
            elif token.text == "is" and at + 1 < len(line) and line[at + 1].text != "not":
                yield Change(file, token.start, token.end, "is not", "comparison", *lines)
            elif token.text in ("True", "False"):
                new = str(token.text == "False")
                yield Change(file, token.start, token.end, new, "constant", *lines)


def cython_lines(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield the logical lines of Cython that are statements, each as its tokens."""
    line: list[Token] = []
    depth, outside, begin = 0, -1, 0
    for token in [*tokens, Token("line", "\n", 0, 0, 0)]:
        if token.kind == "line" and depth <= 0:
            if line:
                column = line[0].start - begin
                if outside >= 0 and column <= outside:
                    outside = -1
                if outside < 0:
                    if begins_declarations(line):
                        outside = column
                    elif is_statement(line):
                        yield line
            line = []
            begin = token.end
            continue
        if token.kind == "line":
            continue
        depth += (token.text in "([{") - (token.text in ")]}")
        line.append(token)


def begins_declarations(line: list[Token]) -> bool:
    """Whether the lines below one are no statements, or are read by people."""
    words = [one.text for one in line]
    return "extern" in words[:2] or words[:2] in (
        [word, name] for word in ("def",) for name in TOLD
    )


def is_statement(line: list[Token]) -> bool:
    """Whether a line does something, other than to declare or import."""
    words = [one.text for one in line]
    if words[0] in (
        "import",
        "cimport",
        "from",
        "@",
        "class",
        "def",
        "cpdef",
        "ctypedef",
        "assert",
    ):
        return False
    if words[0] == "cdef":
        return "=" in words and words[-1] != ":"
    return line[0].kind != "text"
