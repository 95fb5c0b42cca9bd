"""Prints a C++ header with the named files as string constants: page.html as kPageHtml."""

import sys
from pathlib import Path

# The longest literal that compilers must take.
PIECE = 16000

print("#pragma once\n\n#include \"absl/strings/string_view.h\"\n\nnamespace hearth::server {")
for name in sys.argv[1:]:
    path = Path(name)
    text = path.read_text(encoding="utf-8")
    assert ')asset"' not in text, name
    constant = "k" + path.stem.capitalize() + path.suffix[1:].capitalize()
    pieces = [text[at:at + PIECE] for at in range(0, len(text), PIECE)]
    literals = "\n".join(f'R"asset({piece})asset"' for piece in pieces)
    print(f"inline constexpr absl::string_view {constant} =\n{literals};")
print("}  // namespace hearth::server")
