"""The one error of txweir."""

from __future__ import annotations

from collections.abc import Sequence

from txweir._findings import Finding


class Error(ValueError):
    """A refusal: which object, which key of it, the expected and the given value.

    Each of them is ``None`` where it does not apply. ``findings`` has the places in a text, if the
    refusal is about some. The text of the error says all of it.
    """

    object: str | None
    key: str | None
    expected: str | None
    given: str | None
    findings: Sequence[Finding]

    def __init__(
        self,
        message: str,
        *,
        object: str | None = None,
        key: str | None = None,
        expected: str | None = None,
        given: str | None = None,
        findings: Sequence[Finding] = (),
    ) -> None:
        super().__init__(message)
        self.object = object
        self.key = key
        self.expected = expected
        self.given = given
        self.findings = tuple(findings)
