"""Boxes and arrows as SVG: small files that are the same wherever they are made."""

from html import escape

FILL = {
    "item": "#d6e6f5",
    "step": "#f4f4f4",
    "state": "#fde3c4",
    "slot": "#d3ecd2",
    "question": "#eadcf4",
}
INK = "#333"


class Picture:
    """A drawing of so many units; boxes are placed by their left upper corner."""

    def __init__(self, width: int, height: int, title: str):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="{INK}" role="img">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]

    def box(self, x: float, y: float, width: float, height: float, text: str = "", kind: str = "step") -> None:
        """A box; lines of text are separated by a newline."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{FILL[kind]}" stroke="{INK}"/>'
        )
        self.text(x + width / 2, y + height / 2, text)

    def text(self, x: float, y: float, text: str, size: int = 13, anchor: str = "middle") -> None:
        """Lines of text around a point."""
        lines = text.split("\n") if text else []
        for number, line in enumerate(lines):
            height = y + size * (0.35 + 1.2 * (number - (len(lines) - 1) / 2))
            style = f' font-size="{size}"' if size != 13 else ""
            self.parts.append(f'<text x="{x:g}" y="{height:.1f}" text-anchor="{anchor}"{style}>{escape(line)}</text>')

    def arrow(
        self, *points: float, text: str = "", at: tuple[float, float] | None = None, dashed: bool = False
    ) -> None:
        """A line through the points x, y, x, y, .. with a head at its end."""
        path = " ".join(f"{value:g}" for value in points)
        style = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{INK}"{style} marker-end="url(#head)"/>')
        if text:
            x, y = at or ((points[0] + points[2]) / 2, (points[1] + points[3]) / 2 - 10)
            self.text(x, y, text, 11)

    def rows(self, x: float, y: float, width: float, height: float, names: list[str], kind: str = "slot") -> None:
        """Boxes under one another."""
        for number, name in enumerate(names):
            self.box(x, y + number * height, width, height, name, kind)

    def chain(self, x: float, y: float, height: float, boxes: list[tuple[str, str, float]], gap: float = 28) -> list:
        """Boxes from left to right with arrows between: (text, kind, width); where each begins."""
        starts = []
        for number, (text, kind, width) in enumerate(boxes):
            if number:
                self.arrow(x, y + height / 2, x + gap, y + height / 2)
                x += gap
            starts.append(x)
            self.box(x, y, width, height, text, kind)
            x += width
        return starts

    def svg(self) -> str:
        """The file's text."""
        return "\n".join([*self.parts, "</svg>", ""])
