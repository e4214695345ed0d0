// Marking and showing questions. The tolerance of a question covers rounding to the decimals that
// it asks for.
#include "learn/quiz.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "formats/json_writer.h"
#include "report/number_text.h"
#include "report/safe_text.h"
#include "report/text_table.h"

namespace fourfold {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// The text without the commas between groups of three digits; nothing when a comma stands
// elsewhere.
std::optional<std::string> without_groups(std::string_view text) {
  std::string plain;
  std::size_t digits = 0;  // since the start or the last comma, before any point
  bool grouped_number = false, whole = true;
  for (const char letter : text) {
    if (letter == ',') {
      if (!whole || digits == 0 || digits > 3 || (grouped_number && digits != 3))
        return std::nullopt;
      grouped_number = true;
      digits = 0;
      continue;
    }
    if (is_digit(letter)) {
      if (whole) ++digits;
    } else if (letter != '-' && letter != '+') {
      if (whole && grouped_number && digits != 3) return std::nullopt;
      whole = false;
    }
    plain += letter;
  }
  if (whole && grouped_number && digits != 3) return std::nullopt;
  return plain;
}

std::optional<double> parse_number(std::string_view text) {
  if (text.ends_with('%')) text = trimmed(text.substr(0, text.size() - 1));
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::optional<std::string> plain = without_groups(text);
  if (!plain || plain->empty() || !(is_digit(plain->back()) || plain->back() == '.'))
    return std::nullopt;  // also refuses "inf" and "nan"
  double value = 0;
  const char* end = plain->data() + plain->size();
  const auto read = std::from_chars(plain->data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> parse_letter(std::string_view text, std::size_t options) {
  if (text.starts_with('(')) text.remove_prefix(1);
  if (text.ends_with(')') || text.ends_with('.')) text.remove_suffix(1);
  if (text.size() != 1) return std::nullopt;
  const int index = (text[0] | 0x20) - 'a';
  if (index < 0 || index >= static_cast<int>(options)) return std::nullopt;
  return index;
}

std::string letter(std::size_t index) { return {static_cast<char>('a' + index)}; }

struct ParameterWriter {
  JsonWriter& json;
  void operator()(const std::vector<double>& values) const {
    json.begin_array(true);
    for (const double value : values) json.value(value);
    json.end_array();
  }
  template <class T>
  void operator()(const T& value) const {
    json.value(value);
  }
};

void write_texts(JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array(true);
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

}  // namespace

Mark mark_answer(const QuizQuestion& question, std::string_view text) {
  text = trimmed(text);
  const std::optional<double> given =
      question.options.empty() ? parse_number(text) : parse_letter(text, question.options.size());
  if (!given) return Mark::unreadable;
  return std::abs(*given - question.answer) <= question.tolerance ? Mark::right : Mark::wrong;
}

std::string right_answer(const QuizQuestion& question) {
  if (!question.options.empty()) {
    const auto index = static_cast<std::size_t>(question.answer);
    return letter(index) + ") " + question.options.at(index);
  }
  std::string text = question.tolerance == 0 && question.answer >= 0 && question.decimals == 0
                         ? grouped(static_cast<std::uint64_t>(question.answer))
                         : fixed(question.answer, question.decimals);
  return question.unit.empty() ? text : text + " " + question.unit;
}

std::string question_text(const QuizQuestion& question, std::size_t number, std::size_t count) {
  const std::string label = fmt::format("{} of {}  ", number, count);
  std::string text = label + wrap_text(question.question, kTextWidth, label.size());
  for (std::size_t i = 0; i < question.options.size(); ++i)
    text += fmt::format("   {}) {}", letter(i), wrap_text(question.options[i], kTextWidth, 6));
  return text;
}

std::string feedback_text(const QuizQuestion& question, Mark mark) {
  std::string text;
  switch (mark) {
    case Mark::right: text = "Right: "; break;
    case Mark::wrong: text = "Wrong, it is "; break;
    case Mark::unreadable: text = "No answer that can be read; it is "; break;
  }
  text += right_answer(question);
  if (!text.ends_with('.')) text += ".";
  return wrap_text(text, kTextWidth, 0) + "  " + wrap_text(question.working, kTextWidth, 2);
}

std::string quiz_json(const std::vector<QuizQuestion>& quiz, std::uint64_t seed) {
  JsonWriter json;
  json.begin_object().field("schema", "fourfold.learn-quiz/1").field("seed", seed);
  json.key("questions").begin_array();
  for (const QuizQuestion& question : quiz) {
    json.begin_object().field("kind", question.kind).field("question", question.question);
    json.key("parameters").begin_object();
    for (const auto& parameter : question.parameters) {
      json.key(parameter.first);
      std::visit(ParameterWriter{json}, parameter.second);
    }
    json.end_object();
    write_texts(json, "options", question.options);
    if (question.options.empty())
      json.field("answer", question.answer).field("tolerance", question.tolerance);
    else
      json.field("answer", letter(static_cast<std::size_t>(question.answer)))
          .key("tolerance")
          .null();
    json.field("unit", question.unit).field("working", question.working);
    write_texts(json, "sources", question.sources);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace fourfold
