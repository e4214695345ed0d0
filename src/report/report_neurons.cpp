// The strongest neurons of each layer. A token is marked inside its context, near the middle of
// which it stands.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/html_table.h"
#include "report/number_text.h"
#include "report/report_panels.h"
#include "report/safe_text.h"

namespace fourfold {
namespace {

constexpr std::size_t kContextBytes = 160;  // shown around the token; the JSON holds all of it

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The token as it stands in the text: without WordPiece's "##" and the word marks of BPE and
// SentencePiece.
std::string_view bare_token(std::string_view token) {
  for (const std::string_view mark : {"##", "\xC4\xA0", "\xE2\x96\x81", " "})
    if (token.size() > mark.size() && token.substr(0, mark.size()) == mark)
      return token.substr(mark.size());
  return token;
}

bool letter(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || (c & 0x80) != 0;
}

// Where the token stands in its context, or npos. An occurrence that starts a word (for a
// continuing piece: that does not) beats any other, then the one nearest the middle.
std::size_t find_token(std::string_view context, std::string_view token, bool continues) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  std::size_t best = std::string_view::npos, best_distance = 0;
  if (token.empty()) return best;
  for (auto at = context.begin();; ++at) {
    at = std::search(at, context.end(), token.begin(), token.end(), same);
    if (at == context.end()) return best;
    const auto begin = static_cast<std::size_t>(at - context.begin());
    const std::size_t twice = 2 * begin + token.size();
    std::size_t distance = twice > context.size() ? twice - context.size() : context.size() - twice;
    const bool inside = begin > 0 && letter(context[begin - 1]) && letter(token.front());
    if (inside != continues) distance += 2 * context.size();
    if (best == std::string_view::npos || distance < best_distance) {
      best = begin;
      best_distance = distance;
    }
  }
}

bool inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

std::string context_html(const StrongToken& token) {
  std::string context = token.context;
  std::replace_if(
      context.begin(), context.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; },
      ' ');
  const std::string_view whole = context;
  const std::string_view needle = bare_token(token.text);
  const std::size_t at =
      find_token(whole, needle, std::string_view(token.text).substr(0, 2) == "##");
  if (at == std::string_view::npos)
    return fmt::format("<mark>{}</mark> {}", html_text(token.text, 40),
                       html_text(whole, kContextBytes));

  std::size_t begin = at > kContextBytes / 2 ? at - kContextBytes / 2 : 0;
  while (inside_character(whole, begin)) ++begin;
  const std::size_t after = at + needle.size();
  std::size_t end = std::min(whole.size(), after + kContextBytes / 2);
  while (end < whole.size() && inside_character(whole, end)) --end;
  begin = std::min(begin, at);
  end = std::max(end, after);
  return fmt::format("{}{}<mark>{}</mark>{}{}", begin > 0 ? "…" : "",
                     html_text(whole.substr(begin, at - begin)),
                     html_text(whole.substr(at, needle.size()), 40),
                     html_text(whole.substr(after, end - after)), end < whole.size() ? "…" : "");
}

// A heading row for the neuron, then a row per token.
std::string neuron_rows(const TopNeuron& neuron) {
  std::string out = fmt::format(
      "<tbody><tr><th scope=\"rowgroup\" colspan=\"3\">neuron {} <span class=\"about\">mean energy "
      "{}</span></th></tr>\n",
      neuron.neuron, short_number(neuron.mean_energy));
  for (const StrongToken& token : neuron.tokens)
    fmt::format_to(
        std::back_inserter(out),
        "<tr><td class=\"n\">{}</td><td class=\"context\">{}</td><td class=\"n\">{}</td></tr>\n",
        short_number(token.value), context_html(token),
        token.position ? grouped(*token.position) : "-");
  return out + "</tbody>\n";
}

}  // namespace

std::string neuron_panel(const ProfileReport& report) {
  std::string out;
  for (const LayerProfile& layer : report.layers) {
    const std::vector<TopNeuron>& neurons = layer.statistics.top_neurons;
    if (neurons.empty()) continue;
    const std::string caption =
        fmt::format("Layer {}: the {} strongest neurons", layer.index, neurons.size());
    std::string table =
        "<table class=\"neurons\">\n<caption>" + caption +
        "</caption>\n<thead><tr><th scope=\"col\" class=\"n\">hidden value</th><th "
        "scope=\"col\">token in "
        "its context</th><th scope=\"col\" class=\"n\">position</th></tr></thead>\n";
    for (const TopNeuron& neuron : neurons) table += neuron_rows(neuron);
    out += fmt::format(
        "<details class=\"card\"{}>\n<summary><h3>Layer {}</h3></summary>\n{}</details>\n",
        out.empty() ? " open" : "", layer.index, scroll_box(caption, table + "</table>\n"));
  }
  return out.empty() ? "<p>No neuron was recorded.</p>\n" : out;
}

}  // namespace fourfold
