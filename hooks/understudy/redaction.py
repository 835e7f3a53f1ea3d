"""Shortens texts that leave the process of a driver or a supervisor, and masks secrets in them.

An error of a script may quote a megabyte of rows, a JDBC URL with its password, a signed link. Such texts end up in documents,
which hold 1 MiB, in Events, in logs and in ``understudy status``, which more people read than may know a password.

*Not* guaranteed: that every secret is found. A value is masked because of its name or its form; a bare word stays.
"""

from __future__ import annotations

import re

#: Stands in place of a secret.
MASK = "***"
#: The longest text that is handed on, in characters.
LONGEST = 2000
#: A secret that begins before the cut is masked if it ends within this many characters after it.
_OVERLAP = 4096

_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s&;"'<>]+)"""
_LONG_VALUE = r"""(?:"[^"]{8,}"|'[^']{8,}'|[^\s&;"'<>]{8,})"""
_NAME = (
    "passw(?:or)?d|pwd|passphrase|secret|api[_.-]?key|access[_.-]?key|account[_.-]?key|private[_.-]?key"
    "|fs[.]azure[.]sas|sasl[.]jaas"
)
#: Words that also mean something else ("unexpected token: )"): only before `=` or as a quoted key, and with a longer value.
_ALSO_A_WORD = "token|credentials?|signature|auth"

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", rf"\1{MASK}"),
        # user:password@host, up to the last @ before a slash: a password may hold one
        (r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/:@\"']{0,200}:[^\s/\"']{0,2000}@", rf"\1{MASK}@"),
        (r"(jdbc:oracle:\w{1,10}:)[^\s/@]{1,100}/[^\s@]{1,500}@", rf"\1{MASK}@"),
        (
            r"(?i)([?&](?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig(?:nature)?)=)[^\s&\"'<>]+",
            rf"\1{MASK}",
        ),
        (rf"(?i)((?:{_NAME})[\w.-]{{0,40}}[\"']?\s{{0,3}}[=:]\s{{0,3}}){_VALUE}", rf"\1{MASK}"),
        (
            rf"(?i)((?:{_ALSO_A_WORD})(?:[\w.-]{{0,40}}\s{{0,3}}=|[\w.-]{{0,40}}[\"']\s{{0,3}}:)\s{{0,3}}){_LONG_VALUE}",
            rf"\1{MASK}",
        ),
        (r"(?i)\b(authorization\s{0,3}[:=]\s{0,3})(?:(?:bearer|basic)\s{1,3})?[^\s\"',]+", rf"\1{MASK}"),
        (r"(?i)\b(bearer\s{1,3})[\w.~+/=-]{8,}", rf"\1{MASK}"),
        (r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b", MASK),
        (r"\bey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?", MASK),
        (r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|dapi)[A-Za-z0-9_-]{16,}", MASK),
    )
)
_USERINFO = _RULES[1]


def presentable(text: str) -> str:
    """Mask secrets and keep at most ``LONGEST`` characters. A text that was cut says how long it was."""
    masked = text[: LONGEST + _OVERLAP]
    for pattern, replacement in _RULES:
        masked = pattern.sub(replacement, masked)
    if len(text) <= LONGEST + _OVERLAP and len(masked) <= LONGEST:
        return masked
    return f"{masked[:LONGEST]}… ({len(text)} characters)"


def presentable_location(location: str) -> str:
    """Mask a password in a path or URL and keep the rest: it is opened, and compared with others."""
    pattern, replacement = _USERINFO
    return pattern.sub(replacement, location)
