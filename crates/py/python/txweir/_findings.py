"""The findings of a check, and the waits that explain a policy."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """A mistake in a text, or a likely one."""

    severity: str
    """``error``, ``warning`` or ``note``."""
    code: str
    """Its stable name, which ``ignore`` takes."""
    source: str
    """The name of the text."""
    line: int
    """The line, from 1."""
    column: int
    """The column, from 1, in characters."""
    message: str
    """The mistake, in one line."""
    text: str
    """The words of the text that it is about."""
    expected: str | None
    """The expected value; ``None`` if the message has it."""
    hint: str | None
    """The advice that is not a replacement."""
    suggestion: str | None
    """The replacement for ``text``."""
    drawing: str = field(repr=False)
    """The line, and a mark under the words."""

    def __str__(self) -> str:
        return self.drawing


@dataclass(frozen=True)
class Wait:
    """The longest wait of a packet in a leaf of a policy."""

    device: str
    """The device; empty if no line names it."""
    leaf: str
    """``root``, or a class."""
    kind: str
    """The kind of its queue."""
    holds: str
    """Its limit, as tc writes it."""
    rate_bit_s: int | None
    """Its guaranteed rate, if that is known."""
    bound_ns: int | None
    """The longest wait of a queued packet, if it is known."""
    target_ns: int | None
    """The target of its AQM, if it has one: a standing queue is about as long."""
    because: str
    """The assumptions."""
    text: str
    """The wait in words."""

    def __str__(self) -> str:
        return f"{self.leaf} ({self.kind}): {self.text}"
