// Pictures from DOT text by Graphviz's `dot`, where it is installed. For one thread.
#pragma once

#include <optional>
#include <string>

namespace seqgrad::tools {

// The SVG text; nothing where there is no `dot` to be found. Error (a failure): `dot` runs but fails.
std::optional<std::string> draw_svg(const std::string& dot);

}  // namespace seqgrad::tools
