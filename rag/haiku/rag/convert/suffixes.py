"""Names: which format and language a suffix promises. The weakest evidence there is."""

from __future__ import annotations

#: Suffix → format, for formats of text that content alone cannot tell apart.
TEXT_FORMATS = {
    ".md": "md",
    ".markdown": "md",
    ".mdown": "md",
    ".mkd": "md",
    ".qmd": "md",
    ".rmd": "md",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".csv": "csv",
    ".tsv": "csv",
    ".tex": "latex",
    ".latex": "latex",
    ".ltx": "latex",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".eml": "email",
    ".mht": "mhtml",
    ".mhtml": "mhtml",
    ".vtt": "vtt",
}

#: Declared media type → format, likewise.
TEXT_TYPES = {
    "text/plain": "text",
    "text/markdown": "md",
    "text/x-markdown": "md",
    "text/asciidoc": "asciidoc",
    "text/x-asciidoc": "asciidoc",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "text/x-tex": "latex",
    "application/x-tex": "latex",
    "application/x-latex": "latex",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "message/rfc822": "email",
    "multipart/related": "mhtml",
    "application/x-mimearchive": "mhtml",
    "text/vtt": "vtt",
}

#: Suffixes that promise a binary format: text or unknown bytes under them are damage.
BINARY = frozenset({
    ".pdf", ".docx", ".docm", ".dotx", ".pptx", ".pptm", ".ppsx", ".potx", ".xlsx", ".xlsm",
    ".xltx", ".odt", ".ott", ".ods", ".ots", ".odp", ".otp", ".epub", ".doc", ".xls", ".ppt",
    ".msg", ".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp",
})  # fmt: skip

#: Format → the media type it is stored under.
MEDIA_TYPES = {
    "text": "text/plain",
    "code": "text/x-source-code",
    "md": "text/markdown",
    "asciidoc": "text/asciidoc",
    "csv": "text/csv",
    "latex": "application/x-tex",
    "html": "text/html",
    "mhtml": "multipart/related",
    "email": "message/rfc822",
    "vtt": "text/vtt",
    "jats": "application/jats+xml",
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "epub": "application/epub+zip",
    "msg": "application/vnd.ms-outlook",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "rtf": "application/rtf",
}

#: Suffix → language as Docling names it; "unknown" where it has no name for it.
LANGUAGES = {
    ".adb": "Ada", ".ads": "Ada", ".awk": "Awk", ".bash": "Bash", ".sh": "Bash", ".zsh": "Bash",
    ".c": "C", ".h": "C", ".cs": "C#", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".hh": "C++",
    ".hpp": "C++", ".cmake": "CMake", ".cob": "COBOL", ".cbl": "COBOL", ".css": "CSS",
    ".scss": "CSS", ".less": "CSS", ".clj": "Clojure", ".cljs": "Clojure", ".cr": "Crystal",
    ".cu": "Cuda", ".pyx": "Cython", ".pxd": "Cython", ".d": "D", ".dart": "Dart",
    ".ex": "Elixir", ".exs": "Elixir", ".erl": "Erlang", ".hrl": "Erlang", ".f": "FORTRAN",
    ".f90": "FORTRAN", ".f95": "FORTRAN", ".go": "Go", ".hs": "Haskell", ".hx": "Haxe",
    ".java": "Java", ".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript",
    ".jsx": "JavaScript", ".json": "JSON", ".jsonl": "JSON", ".ndjson": "JSON",
    ".geojson": "JSON", ".ipynb": "JSON", ".jl": "Julia", ".kt": "Kotlin", ".kts": "Kotlin",
    ".lisp": "Lisp", ".el": "Lisp", ".lua": "Lua", ".m": "ObjectiveC", ".mm": "ObjectiveC",
    ".nim": "Nim", ".ml": "OCaml", ".mli": "OCaml", ".php": "PHP", ".pas": "Pascal",
    ".pl": "Perl", ".pm": "Perl", ".py": "Python", ".pyi": "Python", ".pyw": "Python",
    ".rkt": "Racket", ".rb": "Ruby", ".rs": "Rust", ".sml": "SML", ".sql": "SQL",
    ".scala": "Scala", ".scm": "Scheme", ".swift": "Swift", ".ts": "TypeScript",
    ".tsx": "TypeScript", ".vb": "VisualBasic", ".vbs": "VisualBasic", ".xml": "XML",
    ".xsd": "XML", ".xsl": "XML", ".xslt": "XML", ".svg": "XML", ".yaml": "YAML",
    ".yml": "YAML", ".toml": "unknown", ".ini": "unknown", ".cfg": "unknown", ".conf": "unknown",
    ".properties": "unknown", ".gradle": "unknown", ".groovy": "unknown", ".r": "unknown",
    ".ps1": "unknown", ".psm1": "unknown", ".bat": "unknown", ".cmd": "unknown",
    ".vue": "unknown", ".svelte": "unknown", ".zig": "unknown", ".v": "unknown",
    ".vhd": "unknown", ".proto": "unknown", ".graphql": "unknown", ".tf": "unknown",
    ".hcl": "unknown", ".nix": "unknown", ".diff": "unknown", ".patch": "unknown",
    ".bib": "unknown", ".s": "unknown", ".asm": "unknown",
}  # fmt: skip

#: Whole names, lower case, that are source code without a suffix.
LANGUAGES_BY_NAME = {
    "dockerfile": "Dockerfile",
    "containerfile": "Dockerfile",
    "makefile": "unknown",
    "cmakelists.txt": "CMake",
    "rakefile": "Ruby",
    "gemfile": "Ruby",
    "jenkinsfile": "unknown",
}


def language_of(name: str) -> str | None:
    """The language of a source file by its name; None when the name promises none.

    "unknown" means source code in a language Docling has no label for.
    """
    base = name.rsplit("/", 1)[-1].lower()
    return LANGUAGES_BY_NAME.get(base) or LANGUAGES.get(_suffix(base))


def text_format_of(name: str) -> str | None:
    """The text format that the name's suffix promises, e.g. "md"; None when none."""
    return TEXT_FORMATS.get(_suffix(name.rsplit("/", 1)[-1].lower()))


def promises_binary(name: str) -> bool:
    """Whether the suffix is that of a binary document or picture."""
    return _suffix(name.rsplit("/", 1)[-1].lower()) in BINARY


def _suffix(base: str) -> str:
    stem, dot, end = base.rpartition(".")
    return f".{end}" if dot and stem.strip(".") else ""
