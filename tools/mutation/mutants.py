"""Finds the small faults that can be made in a C++ source.

  >>> source = '''
  ... int Count(const Box& box) {
  ...   if (box.empty() && !box.open()) return 0;
  ...   total_ += box.size();  // No fault here: 1 + 1.
  ...   return Sum(box, 3);
  ... }
  ... '''
  >>> for mutant in find(source):
  ...     print(mutant.line, "|", mutant.before, "|", mutant.after)
  3 | box.empty() && !box.open() | !(box.empty() && !box.open())
  3 | && | ||
  3 | !box | box
  3 | 0 | 1
  4 | total_ += box.size(); | {}
  4 | += | -=
  5 | 3 | 4
  5 | 3 | 2

  >>> [mutant.before for mutant in find("template <\\n    typename T, bool kIsSmall = (sizeof(T) <= 8)>\\n")]
  ['<=', '8', '8']

Each knows what has to be chosen as a whole where the fault is switched on and off at run time; see switches.py:

  >>> for mutant in find(source)[1:6]:
  ...     print(mutant.kind, "|", source[mutant.whole_start : mutant.whole_end])
  choice | box.empty() && !box.open()
  negation | !box.open()
  choice | 0
  statement | total_ += box.size();
  choice | total_ += box.size()

Changes whose effect no test can show are left out: those of comments, preprocessor lines, code for sanitizers and for
other modes and systems, assertions, prefetches, interleaving points, compiler barriers and alignments. So are memory
orders and locks: tests on x86-64 do not show the former, and Clang's thread annotations check the latter.
"""

import dataclasses
import re

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
      |(?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*(?:\.\d*)?(?:[eE][+-]?\d+)?)[uUlLzZfF]*)
      |(?P<word>[A-Za-z_]\w*)
      |(?P<operator><<=|>>=|->\*|\.\.\.|<=|>=|==|!=|&&|\|\||\+\+|--|->|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|>>|::|.)""",
    re.VERBOSE | re.DOTALL,
)
# Code for sanitizers, without which the tests are run: up to the #else or the #endif.
_SANITIZER = re.compile(
    r"^#ifdef ABSL_HAVE_(?:THREAD|ADDRESS)_SANITIZER\n(?:(?!#(?:else|endif|ifdef|if\b)).*\n)*", re.MULTILINE
)
# Code for other compilers' modes, CPUs and systems: what follows the #else.
_ELSEWHERE = re.compile(
    r"^#if(?:def)? [^\n!]*\b(?:ABSL_HAVE_EXCEPTIONS|__SSE2__|__linux__)\b[^\n!]*\n(?:(?!#(?:else|elif|endif|if)).*\n)*"
    r"#else.*\n(?P<hidden>(?:(?!#(?:endif|if)).*\n)*)#endif",
    re.MULTILINE,
)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)

# Only where spaces surround them: in clang-format's style, what has none is no binary operator.
_BINARY = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
    "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "^": "|", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=",
    "|=": "&=", "&=": "|=",
}  # fmt: skip
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
_UNARY = {"++": "--", "--": "++"}
_WORDS = {"true": "false", "false": "true", "min": "max", "max": "min"}

# A statement with one of these has no effect that a test could show, or is a declaration.
_NO_EFFECT = re.compile(
    r"\b(assert|static_assert|Interleave|\w*Prefetch\w*|alignas|AssertHeld|PrefetchRemoval|atomic_signal_fence)\b"
)
_CONTROL = {
    "return", "if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "goto", "using",
    "namespace", "typedef", "template", "class", "struct", "enum", "union", "public", "private", "protected", "friend",
    "static", "const", "constexpr", "inline", "auto", "try", "catch", "throw", "extern", "explicit", "virtual",
    "operator", "mutable", "thread_local", "bool", "int", "char", "void", "unsigned",
}  # fmt: skip
_TYPE = re.compile(r"^\s*(template\s*<.*>\s*)?(typedef\s+)?(class|struct|enum|union|namespace|extern)\b", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """`after` in the place of `before`, at an offset of the source.

    The expression or statement around it, from `whole_start` on, is what can be chosen at run time. By kind: "choice"
    for an expression, "negation" for one that becomes its contrary, and "statement".
    """

    start: int
    end: int
    before: str
    after: str
    line: int
    kind: str
    whole_start: int
    whole_end: int

    def apply(self, source):
        return source[: self.start] + self.after + source[self.end :]


@dataclasses.dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def _tokens(source):
    """Without comments and preprocessor lines."""
    blank = source
    for match in _ELSEWHERE.finditer(source):
        start, end = match.span("hidden")
        blank = blank[:start] + re.sub(r"[^\n]", " ", source[start:end]) + blank[end:]
    for hidden in (_SANITIZER, _PREPROCESSOR):
        blank = hidden.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), blank)
    return [
        _Token(match.lastgroup, match[0], match.start(), match.end())
        for match in _TOKEN.finditer(blank)
        if match.lastgroup != "space"
    ]


def _partners(tokens):
    """The index of the closing bracket for that of each opening one."""
    partners, open_brackets = {}, []
    for i, token in enumerate(tokens):
        if token.text in ("(", "{", "["):
            open_brackets.append(i)
        elif token.text in (")", "}", "]") and open_brackets:
            partners[open_brackets.pop()] = i
    return partners


class _Finder:
    def __init__(self, source):
        self._source = source
        self._tokens = _tokens(source)
        self._partners = _partners(self._tokens)
        self._openings = {close: opening for opening, close in self._partners.items()}
        self._found = []

    def find(self):
        self._find_conditions()
        self._find_tokens()
        self._find_statements()
        hidden = self._hidden_spans()
        visible = [m for m in self._found if not any(start <= m.start < end for start, end in hidden)]
        return sorted(visible, key=lambda mutant: (mutant.line, mutant.start, -mutant.end))

    def _add(self, start, end, after, kind, whole=None):
        line = self._source.count("\n", 0, start) + 1
        self._found.append(Mutant(start, end, self._source[start:end], after, line, kind, *(whole or (start, end))))

    def _find_conditions(self):
        for i, token in enumerate(self._tokens[:-1]):
            if token.text not in ("if", "while") or self._tokens[i + 1].text != "(":
                continue
            close = self._partners.get(i + 1)
            if close is None:
                continue
            # Behind the declaration, if there is one.
            first = i + 2
            depth = 0
            for j in range(i + 2, close):
                depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(self._tokens[j].text, 0)
                if self._tokens[j].text == ";" and depth == 0:
                    first = j + 1
            start, end = self._tokens[first].start, self._tokens[close].start
            self._add(start, end, f"!({self._source[start:end]})", "negation")

    def _find_tokens(self):
        for i, token in enumerate(self._tokens):
            if token.kind == "number":
                if not self._is_pure(i):
                    self._find_number(token)
            elif token.text in ("true", "false"):
                self._add(token.start, token.end, _WORDS[token.text], "choice")
            elif token.text in _WORDS:
                self._add(token.start, token.end, _WORDS[token.text], "choice", self._expression_around(i))
            elif token.text in _UNARY:
                self._add(token.start, token.end, _UNARY[token.text], "choice", self._expression_around(i))
            elif token.text in _BINARY and self._is_operator(i):
                self._add(token.start, token.end, _BINARY[token.text], "choice", self._expression_around(i))
            elif token.text == "!" and i + 1 < len(self._tokens) and self._tokens[i + 1].kind == "word":
                following = self._tokens[i + 1]
                whole = (token.start, self._end_of_operand(i + 1))
                self._add(token.start, following.end, following.text, "negation", whole)

    def _is_pure(self, i):
        """Whether this is the 0 of a pure virtual function."""
        return i >= 2 and self._tokens[i - 1].text == "=" and self._tokens[i - 2].text in (")", "const", "noexcept")

    def _is_operator(self, i):
        """Whether this stands between two operands, and does not open the parameters of a template."""
        return self._has_spaces(self._tokens[i]) and (i == 0 or self._tokens[i - 1].text != "template")

    def _has_spaces(self, token):
        return self._source[token.start - 1].isspace() and self._source[token.end : token.end + 1].isspace()

    def _find_number(self, token):
        match = re.fullmatch(r"(0[xX][0-9a-fA-F']+|[\d']+)([uUlLzZ]*)", token.text)
        if match is None:
            return  # A fraction.
        digits, suffix = match[1].replace("'", ""), match[2]
        value = int(digits, 0) if digits.lower().startswith("0x") else int(digits)
        self._add(token.start, token.end, f"{value + 1}{suffix}", "choice")
        if value > 1:
            self._add(token.start, token.end, f"{value - 1}{suffix}", "choice")

    def _expression_around(self, i):
        """From the bracket, comma, assignment or the like before an operator to that behind it."""
        ends = {"(", "[", "{", ",", ";", "?", ":", "return", "else", "do", "case", "throw"}
        if self._tokens[i].text not in _ASSIGNMENTS:
            ends |= _ASSIGNMENTS
        first = i
        while first > 0 and self._tokens[first - 1].text not in ends and not self._ends_before(first):
            first = self._openings.get(first - 1, first - 1)
        last = i
        while last + 1 < len(self._tokens) and self._tokens[last + 1].text not in (")", "]", "}", ",", ";", "?", ":"):
            last = self._partners.get(last + 1, last + 1)
        return self._tokens[first].start, self._tokens[last].end

    def _ends_before(self, i):
        """Whether a block, or the condition of a statement, ends before this token."""
        before = self._tokens[i - 1]
        if before.text == ")":
            opening = self._openings.get(i - 1, 0)
            return opening > 0 and self._tokens[opening - 1].text in ("if", "for", "while", "switch", "constexpr")
        token = self._tokens[i]
        continued = token.text in (".", "->") or (token.text in _BINARY and self._has_spaces(token))
        return before.text == "}" and not continued

    def _end_of_operand(self, i):
        """The end of a name with its members, calls and subscripts."""
        last = i
        while last + 1 < len(self._tokens):
            following = self._tokens[last + 1].text
            if following in ("(", "["):
                last = self._partners.get(last + 1, last + 1)
            elif following in (".", "->", "::"):
                last += 2
            else:
                break
        return self._tokens[last].end

    def _find_statements(self):
        """Drops each statement that calls or assigns; returns instead of it, where the function returns nothing."""
        scopes = []  # For each open brace, whether statements are in it, and whether they may say `return;`.
        head = 0  # The first token since the last end of a statement.
        i = 0
        while i < len(self._tokens):
            text = self._tokens[i].text
            if text == "{":
                scopes.append(self._scope(head, i, scopes))
                head = i + 1
            elif text == "}":
                if scopes:
                    scopes.pop()
                head = i + 1
            elif text == "(" and self._is_control(head, i) and scopes and scopes[-1][0]:
                i = self._partners.get(i, i)
                head = i + 1  # The statement that it controls.
            elif text == "(" or text == "[":
                close = self._partners.get(i, i)
                if not any(token.text == "{" for token in self._tokens[i:close]):
                    i = close
            elif text == "else":
                head = i + 1
            elif text == ":" and self._tokens[head].text in ("case", "default", "public", "private", "protected"):
                head = i + 1
            elif text == ";":
                if scopes and scopes[-1][0] and i > head:
                    self._find_statement(head, i, scopes[-1][1])
                head = i + 1
            i += 1

    def _is_control(self, head, i):
        return i > head and self._tokens[i - 1].text in ("if", "for", "while", "switch")

    def _scope(self, head, brace, scopes):
        text = self._source[self._tokens[head].start : self._tokens[brace].start] if head < brace else ""
        if _TYPE.match(text):
            return (False, False)
        if scopes and scopes[-1][0]:
            return (True, scopes[-1][1] and "](" not in text and "] {" not in text)
        return ("(" in text, re.search(r"\bvoid\b[^()]*\(", text) is not None)

    def _find_statement(self, head, end, returns_nothing):
        first = self._tokens[head]
        words = [token.text for token in self._tokens[head:end]]
        if first.text in _CONTROL or not self._calls_or_assigns(head, end, words):
            return
        # Not `;`: an empty statement of an if is an error.
        self._add(first.start, self._tokens[end].end, "{}", "statement")
        if returns_nothing:
            self._add(first.start, self._tokens[end].end, "return;", "statement")

    def _calls_or_assigns(self, head, end, words):
        if words[0] in ("++", "--", "*", "("):
            return True
        # `Type name` and `Type* name` and `Type<...>` begin a declaration; `name.`, `name->`, `name(`, `name[` do not.
        i = 0
        while i + 2 < len(words) and words[i + 1] == "::":
            i += 2
        following = words[i + 1 : i + 2]
        return self._tokens[head].kind == "word" and following != [] and following[0] in (
            ".", "->", "(", "[", "=", "+=", "-=", "|=", "&=", "^=", "*=", "/=", "<<=", ">>=", "++", "--",
        )  # fmt: skip

    def _hidden_spans(self):
        """Where changes show in no test: from such a word to the end of its statement or argument list."""
        spans = []
        for i, token in enumerate(self._tokens):
            if token.kind == "word" and token.text.startswith("memory_order"):
                spans.append((token.start, token.end))
            if token.kind != "word" or not _NO_EFFECT.fullmatch(token.text):
                continue
            start = token.start
            # The object or the namespace that it is called on goes with it.
            j = i
            while j >= 2 and self._tokens[j - 1].text in (".", "->", "::"):
                j -= 2
                if self._tokens[j].text == ")":
                    j = max(self._openings.get(j, j) - 1, 0)
                start = self._tokens[j].start
            spans.append((start, self._end_of_call(i)))
        return spans

    def _end_of_call(self, i):
        """The end of the arguments or, if the function is defined here, of its body."""
        last = self._partners.get(i + 1, i)
        body = last + 1
        while body < len(self._tokens) and self._tokens[body].text in ("const", "noexcept"):
            body += 1
        if last > i and body < len(self._tokens) and self._tokens[body].text == "{":
            last = self._partners.get(body, last)
        return self._tokens[last].end


def find(source):
    """Returns the mutants of a source, in its order."""
    return _Finder(source).find()
