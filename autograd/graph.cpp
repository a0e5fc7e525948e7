#include "autograd/graph.h"

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

namespace seqgrad {
namespace {

using View = Tape::View;

constexpr const char* of_parameter = "shape=box, style=bold";
constexpr const char* of_leaf = "shape=box";
constexpr const char* of_constant = "shape=box, style=dotted";
constexpr const char* of_operation = "shape=ellipse";
constexpr const char* of_view = "shape=ellipse, style=dashed";

// The text in quotes; its line breaks are DOT's.
std::string label_of(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + '"';
}

bool is_source(const View& node) { return node.inputs.empty(); }

const char* style_of(const View& node) {
  const std::string_view op = node.op;
  if (op == "parameter") return of_parameter;
  if (op == "leaf") return of_leaf;
  if (op == "constant") return of_constant;
  return node.is_view ? of_view : of_operation;
}

double norm(const Tensor& x) {
  double squares = 0;
  for (const double value : x.to(DType::f64).to_vector<double>()) squares += value * value;
  return std::sqrt(squares);
}

class Drawing {
 public:
  Drawing(const std::vector<View>& nodes, const GraphOptions& options) : nodes_(nodes), options_(options) {}

  std::string text() {
    text_ = "digraph tape {\n";
    if (!options_.title.empty()) text_ += fmt::format("  label={};\n  labelloc=t;\n", label_of(options_.title));
    text_ += "  node [fontname=\"Helvetica\", fontsize=12, margin=\"0.06,0.03\", height=0.3];\n";
    text_ += "  graph [fontname=\"Helvetica\", fontsize=16, ranksep=0.22, nodesep=0.12];\n  edge [arrowsize=0.6];\n";
    for (std::size_t g = 0; g < options_.groups.size(); ++g) draw_group(g);
    draw_members(none, "  ");
    for (const View& node : nodes_)
      for (const std::size_t input : node.inputs)
        text_ += fmt::format("  {} -> {};\n", id_for(input, group_of(node)), id(node.id));
    if (options_.legend) draw_legend();
    return text_ + "}\n";
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::size_t group_of(const View& node) const {
    for (std::size_t g = 0; g < options_.groups.size(); ++g)
      if (options_.groups[g].begin <= node.id && node.id < options_.groups[g].end) return g;
    return none;
  }

  static std::string id(std::size_t node) { return fmt::format("n{}", node); }
  // A source has an image of its own in each group that uses it.
  std::string id_for(std::size_t node, std::size_t group) const {
    return is_source(nodes_[node]) && group != none ? fmt::format("n{}_{}", node, group) : id(node);
  }

  void draw_node(const View& node, const std::string& name, const char* indent) {
    std::string label = node.name.empty() ? node.op : node.name;
    if (node.output > 0) label += fmt::format(", output {}", node.output + 1);
    label += fmt::format("{}{}", node.name.empty() ? " " : "\n", node.shape);
    // A view has the gradient of what it looks at, when that has one.
    const bool has_gradient = node.grad.defined() && (!node.is_view || nodes_[node.inputs[0]].grad.defined());
    if (has_gradient) label += fmt::format("{}gradient {:.2g}", node.name.empty() ? "\n" : ", ", norm(node.grad));
    text_ += fmt::format("{}{} [label={}, {}];\n", indent, name, label_of(label), style_of(node));
  }

  // The group's operations, and images of the sources they use; a source that nothing uses is drawn where it was made.
  void draw_members(std::size_t group, const char* indent) {
    std::set<std::size_t> sources;
    for (const View& node : nodes_) {
      if (is_source(node) || group_of(node) != group) continue;
      for (const std::size_t input : node.inputs)
        if (is_source(nodes_[input]) && sources.insert(input).second) draw_node(nodes_[input], id_for(input, group), indent);
      draw_node(node, id(node.id), indent);
    }
    for (const View& node : nodes_)
      if (is_source(node) && group_of(node) == group && !used().contains(node.id))
        draw_node(node, id_for(node.id, group), indent);
  }

  const std::set<std::size_t>& used() {
    if (used_.empty())
      for (const View& node : nodes_) used_.insert(node.inputs.begin(), node.inputs.end());
    return used_;
  }

  void draw_group(std::size_t group) {
    text_ += fmt::format("  subgraph cluster_{} {{\n    label={};\n    labeljust=l;\n", group,
                         label_of(options_.groups[group].name));
    draw_members(group, "    ");
    text_ += "  }\n";
  }

  void draw_legend() {
    constexpr std::array<std::pair<const char*, const char*>, 5> kinds{{{"parameter", of_parameter},
                                                                        {"leaf", of_leaf},
                                                                        {"constant", of_constant},
                                                                        {"operation", of_operation},
                                                                        {"view, no copy", of_view}}};
    std::set<std::string_view> seen;
    for (const View& node : nodes_) seen.insert(style_of(node));
    text_ += "  subgraph cluster_legend {\n    label=\"legend\";\n    labeljust=l;\n";
    std::string before;
    int number = 0;
    for (const auto& [name, style] : kinds) {
      if (!seen.contains(style)) continue;
      const std::string id = fmt::format("legend{}", number++);
      text_ += fmt::format("    {} [label=\"{}\", {}];\n", id, name, style);
      if (!before.empty()) text_ += fmt::format("    {} -> {} [style=invis];\n", before, id);
      before = id;
    }
    text_ += "  }\n";
  }

  const std::vector<View>& nodes_;
  const GraphOptions& options_;
  std::set<std::size_t> used_;
  std::string text_;
};

}  // namespace

std::string to_dot(const Tape& tape, const GraphOptions& options) {
  const std::vector<View> nodes = tape.nodes();
  return Drawing(nodes, options).text();
}

}  // namespace seqgrad
