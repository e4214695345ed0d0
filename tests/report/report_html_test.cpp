#include "report/report_html.h"

#include <doctest/doctest.h>
#include <simdjson.h>

#include <limits>
#include <string>

#include "report/report_json.h"
#include "report/sample_report.h"
#include "report/sha256.h"

using namespace fourfold;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t to = text.find(end, from + begin.size());
  REQUIRE(to != std::string::npos);
  return text.substr(from + begin.size(), to - from - begin.size());
}

const std::string kScript = "<script type=\"application/json\" id=\"profile\">";

}  // namespace

TEST_CASE("each figure has charts and one table; headings and landmarks are in order") {
  const std::string html = profile_html(sample_profile());
  CHECK(count(html, "<figure>") == 5);
  std::size_t at = 0;
  for (int i = 0; i < 5; ++i) {
    at = html.find("<figure>", at) + 1;
    const std::string figure = html.substr(at, html.find("</figure>", at) - at);
    CHECK(count(figure, "<svg") >= 1);
    CHECK(count(figure, "<table>") == 1);
  }
  CHECK(count(html, "<svg") == 4 + 6);
  CHECK(count(html, "<svg") == count(html, "</svg>"));
  CHECK(count(html, "<h1>") == 1);
  CHECK(count(html, "<main>") == 1);
  CHECK(html.find("<html lang=\"en\">") != std::string::npos);
  CHECK(html.find("<h1>") < html.find("<h2"));
  CHECK(html.find("<h2") < html.find("<h3"));
  CHECK(count(html, "<details class=\"card\"") == 6);
}

TEST_CASE("every link in the page has its target, and ids are unique") {
  const std::string html = profile_html(sample_profile());
  for (std::size_t at = html.find("href=\"#"); at != std::string::npos;
       at = html.find("href=\"#", at + 1)) {
    const std::string target = between(html.substr(at), "#", "\"");
    CHECK(count(html, "id=\"" + target + "\"") == 1);
  }
  for (std::size_t at = html.find(" id=\""); at != std::string::npos;
       at = html.find(" id=\"", at + 1)) {
    const std::string id = between(html.substr(at), "id=\"", "\"");
    CHECK_MESSAGE(count(html, " id=\"" + id + "\"") == 1, id);
  }
}

TEST_CASE("the policy names the hash of the very style in the page, and nothing runs") {
  const std::string html = profile_html(sample_profile());
  const std::string style = between(html, "<style>", "</style>");
  CHECK(html.find("default-src 'none'; style-src 'sha256-" + sha256_base64(style) + "'") !=
        std::string::npos);
  CHECK(count(html, "<style") == 1);
  CHECK(count(html, " style=\"") == 0);
  CHECK(count(html, "<script") == 1);
  CHECK(count(html, "http://") + count(html, "https://") == 0);
  CHECK(style.find("url(") == std::string::npos);
}

TEST_CASE("the embedded JSON is the profile") {
  const ProfileReport report = sample_profile();
  const std::string html = profile_html(report);
  const simdjson::padded_string text(between(html, kScript, "</script>"));
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(text);
  const simdjson::padded_string expected_text(profile_json(report));
  simdjson::dom::parser expected_parser;
  const simdjson::dom::element expected = expected_parser.parse(expected_text);
  CHECK(simdjson::minify(root) == simdjson::minify(expected));
}

TEST_CASE("hostile names stay text") {
  const std::string html = profile_html(hostile_profile());
  CHECK(count(html, "<script") == 1);
  CHECK(count(html, "</script>") == 1);
  CHECK(html.find("<img") == std::string::npos);
  CHECK(html.find("\xE2\x80\xAE") == std::string::npos);
  CHECK(html.find('\0') == std::string::npos);
  CHECK(html.find('\x1b') == std::string::npos);
  CHECK(html.find('\xff') == std::string::npos);
  CHECK(html.find("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;") != std::string::npos);
  CHECK(html.find("\\u202Egnp.exe\\x00") != std::string::npos);

  const simdjson::padded_string text(between(html, kScript, "</script>"));
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(text);
  const std::string_view name = root["text"]["name"];
  CHECK(name.find("</script><img src=x onerror=alert(1)>&\"' \xE2\x80\xAEgnp.exe") == 0);
}

TEST_CASE("the token is marked in its context, a piece of a word inside a word") {
  ProfileReport report = sample_profile(1, 53);
  StrongToken& whole = report.layers[0].statistics.top_neurons[0].tokens[0];
  whole.text = "ring";
  whole.context = "a string and a Ring and more and more and more string";
  StrongToken& piece = report.layers[0].statistics.top_neurons[0].tokens[1];
  piece.text = "##ring";
  piece.context = "the ring and a string";
  const std::string html = profile_html(report);
  CHECK(html.find("a string and a <mark>Ring</mark> and more") != std::string::npos);
  CHECK(html.find("the ring and a st<mark>ring</mark>") != std::string::npos);
  whole.text = "absent";
  CHECK(profile_html(report).find("<mark>absent</mark> a string") != std::string::npos);
}

TEST_CASE("a long context is cut between characters") {
  ProfileReport report = sample_profile(1, 53);
  StrongToken& token = report.layers[0].statistics.top_neurons[0].tokens[0];
  token.text = "xyz";
  token.context = "a";
  for (int i = 0; i < 700; ++i) token.context += "日";
  token.context += "xyz";
  for (int i = 0; i < 700; ++i) token.context += "é";
  const std::string html = profile_html(report);
  CHECK(html.find("日<mark>xyz</mark>é") != std::string::npos);
  CHECK(html.find("\xEF\xBF\xBD") == std::string::npos);
}

TEST_CASE("a page of 32 layers stays below 1.5 MB") {
  CHECK(profile_html(sample_profile(32, 11008)).size() < 1500000);
}

TEST_CASE("empty and broken profiles still make a page") {
  CHECK(profile_html({}).find("no layers") != std::string::npos);
  ProfileReport report = sample_profile(2);
  report.finite = false;
  report.forward_ms = std::numeric_limits<double>::quiet_NaN();
  for (LayerProfile& layer : report.layers) {
    layer.time_ms.expand = std::numeric_limits<double>::infinity();
    layer.share_of_limit = std::numeric_limits<double>::quiet_NaN();
    layer.statistics.max_abs = std::numeric_limits<float>::infinity();
    layer.statistics.top_neurons.clear();
    layer.statistics.firing_rate_histogram.fill(0);
  }
  const std::string html = profile_html(report);
  CHECK(html.find("NaN or infinite") != std::string::npos);
  CHECK(html.find("width=\"nan") == std::string::npos);
  CHECK(html.find("\"inf") == std::string::npos);
}
