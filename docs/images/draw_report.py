"""Draw report.png: the top of a report on a light wide screen and on a dark phone.

From the root of the repository: make test-browser && python docs/images/draw_report.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

HEIGHT, GAP = 1560, 24


def main() -> None:
    """Put two pictures of the same page beside each other."""
    pictures = Path("browser-output")
    wide = Image.open(pictures / "against-wide-light.png").convert("RGB").crop((130, 0, 1070, HEIGHT))
    phone = Image.open(pictures / "against-phone-dark.png").convert("RGB").crop((0, 0, 375, HEIGHT))
    sheet = Image.new("RGB", (wide.width + GAP + phone.width, HEIGHT), "#8a929b")
    sheet.paste(wide, (0, 0))
    sheet.paste(phone, (wide.width + GAP, 0))
    sheet.quantize(256).save(Path(__file__).with_name("report.png"), optimize=True)


if __name__ == "__main__":
    main()
