// Breadth first from the feed-forward sublayer, so that no idea hangs deeper than it must.
#include "learn/concept_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "formats/json_writer.h"
#include "formats/utf8.h"
#include "fourfold/error.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold {
namespace {

constexpr std::string_view kRoot = "ffn";

const LessonConcept* by_id(std::string_view id) {
  for (const LessonConcept& idea : lesson().concepts)
    if (idea.id == id) return &idea;
  return nullptr;
}

struct Tree {
  std::map<std::string, std::vector<std::string>> children;
  std::map<std::string, std::vector<std::string>> others;  // links to ideas that hang elsewhere
};

Tree concept_tree() {
  Tree tree;
  std::map<std::string, std::string> placed{{std::string(kRoot), ""}};  // id, what it hangs on
  std::vector<std::string> order{std::string(kRoot)};
  for (std::size_t next = 0; next < order.size(); ++next) {
    const std::string id = order[next];
    const LessonConcept* idea = by_id(id);
    if (idea == nullptr) continue;
    for (const std::string& link : idea->links) {
      const bool is_new = placed.emplace(link, id).second;
      if (!is_new && placed.at(id) == link) continue;  // back to the branch it hangs on
      (is_new ? tree.children : tree.others)[id].push_back(link);
      if (is_new) order.push_back(link);
    }
  }
  return tree;
}

std::string joined(const std::vector<std::string>& ids) {
  return fmt::format("{}", fmt::join(ids, ", "));
}

void add_branch(const Tree& tree, const std::string& id, const std::string& lead,
                const std::string& below, std::string& text) {
  const LessonConcept* idea = by_id(id);
  if (idea == nullptr) return;
  std::string line = idea->title + " [" + id + "]";
  if (const auto others = tree.others.find(id); others != tree.others.end())
    line += "  also " + joined(others->second);
  const std::size_t columns = display_width(lead);
  std::string wrapped = wrap_text(line, kTextWidth, columns + 4);
  // Lines after the first keep the branches of the tree.
  const std::string blank(columns + 4, ' ');
  const bool has_children = tree.children.count(id) > 0;
  std::string rest = below + (has_children ? "│   " : "    ");
  std::string out;
  for (std::size_t at = 0; at < wrapped.size();) {
    const std::size_t end = wrapped.find('\n', at);
    const std::string one = wrapped.substr(at, end - at);
    out += at == 0 ? lead + one : rest + one.substr(std::min(one.size(), columns + 4));
    out += '\n';
    at = end + 1;
  }
  text += out;
  if (!has_children) return;
  const std::vector<std::string>& children = tree.children.at(id);
  for (std::size_t i = 0; i < children.size(); ++i) {
    const bool last = i + 1 == children.size();
    add_branch(tree, children[i], below + (last ? "└── " : "├── "),
               below + (last ? "    " : "│   "), text);
  }
}

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter | 0x20);
  return result;
}

std::string initials(std::string_view id) {
  std::string letters;
  for (std::size_t i = 0; i < id.size(); ++i)
    if (i == 0 || id[i - 1] == '-') letters += id[i];
  return letters;
}

std::vector<std::string> leading_to(const std::string& id) {
  std::vector<std::string> ids;
  for (const LessonConcept& idea : lesson().concepts)
    if (std::find(idea.links.begin(), idea.links.end(), id) != idea.links.end())
      ids.push_back(idea.id);
  return ids;
}

std::vector<const LessonCard*> cards_of(const std::string& id) {
  std::vector<const LessonCard*> cards;
  for (const LessonCard& card : lesson().cards)
    if (std::find(card.concepts.begin(), card.concepts.end(), id) != card.concepts.end())
      cards.push_back(&card);
  return cards;
}

void write_ids(JsonWriter& json, std::string_view key, const std::vector<std::string>& ids) {
  json.key(key).begin_array(true);
  for (const std::string& id : ids) json.value(id);
  json.end_array();
}

}  // namespace

std::string concept_tree_text() {
  std::string text;
  add_branch(concept_tree(), std::string(kRoot), "", "", text);
  return text + "\nfourfold learn map IDEA shows one idea and where it leads.\n";
}

std::string concept_text(const LessonConcept& idea) {
  std::string text =
      fmt::format("{} [{}]\n\n{}\n", idea.title, idea.id, wrap_text(idea.text, kTextWidth, 0));
  const auto list = [&](std::string_view label, const std::vector<std::string>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const LessonConcept* other = by_id(ids[i]);
      text += fmt::format(
          "{:<11}{}", i == 0 ? label : "",
          wrap_text(fmt::format("{} [{}]", other != nullptr ? other->title : "", ids[i]),
                    kTextWidth, 11));
    }
  };
  list("Leads to", idea.links);
  list("Comes from", leading_to(idea.id));
  std::string_view label = "Cards";
  for (const LessonCard* card : cards_of(idea.id)) {
    text += fmt::format("{:<11}{}", label, wrap_text(card->question, kTextWidth, 11));
    label = "";
  }
  label = "Sources";
  for (const std::string& id : idea.sources)
    for (const LessonSource& source : lesson().sources)
      if (source.id == id) {
        text += fmt::format(
            "{:<11}{}", label,
            wrap_text(source.text + (source.url.empty() ? "" : ", " + source.url), kTextWidth, 11));
        label = "";
      }
  return text;
}

std::string concept_map_json(const LessonConcept* only) {
  JsonWriter json;
  json.begin_object().field("schema", "fourfold.learn-map/1").key("concepts").begin_array();
  for (const LessonConcept& idea : lesson().concepts) {
    if (only != nullptr && &idea != only) continue;
    json.begin_object().field("id", idea.id).field("title", idea.title).field("text", idea.text);
    write_ids(json, "links", idea.links);
    write_ids(json, "linked_from", leading_to(idea.id));
    std::vector<std::string> cards;
    for (const LessonCard* card : cards_of(idea.id)) cards.push_back(card->id);
    write_ids(json, "cards", cards);
    write_ids(json, "sources", idea.sources);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

const LessonConcept& find_concept(std::string_view name) {
  const std::string wanted = lowered(name);
  const std::vector<LessonConcept>& all = lesson().concepts;
  for (const LessonConcept& idea : all)
    if (idea.id == wanted || lowered(idea.title) == wanted) return idea;
  for (const LessonConcept& idea : all)
    if (initials(idea.id).size() > 1 && initials(idea.id) == wanted) return idea;
  std::vector<const LessonConcept*> close;
  for (const LessonConcept& idea : all)
    if (!wanted.empty() && (idea.id.find(wanted) != std::string::npos ||
                            lowered(idea.title).find(wanted) != std::string::npos))
      close.push_back(&idea);
  if (close.size() == 1) return *close.front();
  std::vector<std::string> ids;
  for (const LessonConcept* idea : close) ids.push_back(idea->id);
  if (ids.empty())
    for (const LessonConcept& idea : all) ids.push_back(idea.id);
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} idea is called \"{}\"; {}: {}", close.empty() ? "no" : "no single",
                  printable(name, 64), close.empty() ? "ideas" : "did you mean", joined(ids)));
}

}  // namespace fourfold
