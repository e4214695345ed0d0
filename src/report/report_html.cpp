// The page is written top to bottom: numbers, readings, machine, charts, neurons, definitions,
// data. Nothing in it runs; its policy allows its own style sheet and nothing else.
#include "report/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "report/html_table.h"
#include "report/number_text.h"
#include "report/report_json.h"
#include "report/report_panels.h"
#include "report/report_reading.h"
#include "report/report_style.h"
#include "report/safe_text.h"
#include "report/sha256.h"

namespace fourfold {
namespace {

// The last part of the model's path, in UTF-8 safe to cut: '/' never occurs inside a character.
std::string_view model_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && slash + 1 < path.size()) path.remove_prefix(slash + 1);
  return path;
}

std::string head(const ProfileReport& report) {
  const std::string_view style = report_style();
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'sha256-" +
      sha256_base64(style) + "'; base-uri 'none'; form-action 'none'\">\n";
  out +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Fourfold profile: ";
  out += html_text(model_name(report.model_path), 80);
  out += "</title>\n<style>";
  out += style;
  return out + "</style>\n</head>\n<body>\n";
}

std::string page_header(const ProfileReport& report) {
  return fmt::format(
      "<header>\n<h1>Feed-forward profile of {}</h1>\n<p class=\"about\">{}, {}, d_model {}, "
      "{}, computed in {} on {} of {}.</p>\n"
      "<nav aria-label=\"On this page\"><ul><li><a href=\"#run\">Machine and run</a></li>"
      "<li><a href=\"#time\">Time</a></li><li><a href=\"#values\">Hidden values</a></li>"
      "<li><a href=\"#neurons\">Strongest neurons</a></li>"
      "<li><a href=\"#numbers\">What the numbers mean</a></li></ul></nav>\n</header>\n",
      html_text(model_name(report.model_path), 80), html_text(report.architecture, 60),
      counted(report.n_layers, "layer"), grouped(report.d_model),
      counted(report.parameters.total, "parameter"), html_text(report.dtype, 40),
      counted(report.tokens, "counted token"), html_text(report.text_name, 80));
}

void tile(std::string& out, std::string_view name, std::string_view figure, std::string_view unit) {
  fmt::format_to(std::back_inserter(out),
                 "<div><dt>{}</dt><dd><span class=\"figure\">{}</span> <span "
                 "class=\"unit\">{}</span></dd></div>\n",
                 name, html_text(figure), unit);
}

std::string short_percent(double share) {
  return share > 0 && share < 0.001 ? "<0.1" : fixed(100 * share, 1);
}

std::string limit_range(const ProfileReport& report) {
  const auto [low, high] = std::minmax_element(
      report.layers.begin(), report.layers.end(),
      [](const auto& a, const auto& b) { return a.share_of_limit < b.share_of_limit; });
  const std::string from = fixed(100 * low->share_of_limit, 0),
                    to = fixed(100 * high->share_of_limit, 0);
  return from == to ? from : from + "–" + to;
}

std::string tiles(const ProfileReport& report) {
  std::string out = "<dl class=\"tiles\">\n";
  tile(out, "Forward pass, median window",
       fixed(report.forward_ms, decimals_for(report.forward_ms)), "ms");
  tile(out, "Speed", fixed(report.tokens_per_s, 0), "tokens/s");
  tile(out, "FFN share of time", short_percent(report.ffn_time_share), "%");
  if (report.parameters.total > 0)
    tile(out, "FFN share of parameters",
         short_percent(static_cast<double>(report.parameters.ffn) /
                       static_cast<double>(report.parameters.total)),
         "%");
  if (!report.layers.empty()) {
    tile(out, "FFN share of the machine's limit", limit_range(report), "%");
    double zero = 0;
    for (const LayerProfile& layer : report.layers) zero += layer.statistics.exact_zero;
    tile(out, "Hidden values exactly zero",
         short_percent(zero / static_cast<double>(report.layers.size())), "%");
  }
  return out + "</dl>\n";
}

// A no-break space before each percent sign.
std::string unbroken_percents(std::string text) {
  for (std::size_t at = text.find(" %"); at != std::string::npos; at = text.find(" %", at))
    text.replace(at, 1, "&nbsp;");
  return text;
}

std::string readings(const ProfileReport& report) {
  std::string out;
  if (!report.warnings.empty()) {
    out += "<div class=\"warnings\" role=\"note\">\n";
    for (const std::string& warning : report.warnings)
      out += "<p><strong>Warning:</strong> " + html_text(warning) + "</p>\n";
    out += "</div>\n";
  }
  out += "<ul class=\"readings\">\n";
  for (const std::string& reading : profile_readings(report))
    out += "<li>" + unbroken_percents(html_text(reading)) + "</li>\n";
  return out + "</ul>\n";
}

std::string run_section(const ProfileReport& report) {
  const MachineReport& machine = report.machine;
  std::string out =
      "<section aria-labelledby=\"run\">\n<h2 id=\"run\">Machine and run</h2>\n<dl class=\"card "
      "facts\">\n";
  const auto fact = [&](std::string_view name, std::string_view text) {
    out += "<dt>" + std::string(name) + "</dt><dd>" + html_text(text) + "</dd>\n";
  };
  fact("Model", report.model_path);
  fact("Text", fmt::format("{}: {} tokens in {} windows of up to {}, batch {}; special tokens {}",
                           report.text_name, grouped(report.tokens), grouped(report.windows),
                           grouped(report.seq_len), grouped(report.batch),
                           report.count_special ? "counted" : "not counted"));
  fact("Processor", fmt::format("{}, instruction set {}, {} thread{}", machine.cpu, machine.isa,
                                machine.threads, machine.threads == 1 ? "" : "s"));
  fact("Measured limits",
       fmt::format("peak {} GFLOP/s in {}; memory read at {} GB/s from a buffer of {}",
                   fixed(machine.peak_gflops_bf16.value_or(machine.peak_gflops_f32), 1),
                   machine.peak_gflops_bf16 ? "bf16" : "f32", fixed(machine.read_gbs, 1),
                   bytes_text(machine.read_buffer_bytes)));
  fact("Passes", fmt::format("timing {} s, statistics {} s", fixed(report.timing_seconds, 2),
                             fixed(report.statistics_seconds, 2)));
  fact("Outside the layers", fmt::format("{} ms of {} ms", fixed(report.outside_layers_ms, 3),
                                         fixed(report.forward_ms, 3)));
  out += "</dl>\n";
  if (!machine.thread_times.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < machine.thread_times.size(); ++i)
      rows.push_back({fmt::format("{}", i), fixed(machine.thread_times[i].busy_s, 3),
                      fixed(machine.thread_times[i].wait_s, 3)});
    out += "<details>\n<summary>Threads</summary>\n" +
           html_table("Seconds each thread computed and waited",
                      {{"thread"}, {"busy s"}, {"waiting s"}}, rows) +
           "</details>\n";
  }
  return out + "</section>\n";
}

std::string chart_sections(const ProfileReport& report) {
  std::string out =
      "<section aria-labelledby=\"time\">\n<h2 id=\"time\">Where the time goes</h2>\n";
  if (report.layers.empty()) return out + "<p>The profile holds no layers.</p>\n</section>\n";
  out +=
      "<div class=\"pair\">\n" + time_panel(report) + limit_panel(report) + "</div>\n</section>\n";
  out +=
      "<section aria-labelledby=\"values\">\n<h2 id=\"values\">What the hidden values look "
      "like</h2>\n";
  out += firing_panel(report) + "<div class=\"pair\">\n" + sparsity_panel(report) +
         outlier_panel(report);
  out += "</div>\n</section>\n<section aria-labelledby=\"neurons\">\n";
  out +=
      "<h2 id=\"neurons\">Strongest neurons</h2>\n<p>The neurons with the largest mean energy, "
      "each "
      "with the tokens on which its hidden value is largest in size.</p>\n";
  return out + neuron_panel(report) + "</section>\n";
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kTerms{{
    {"expand, contract",
     "The two halves of an FFN: expand goes from d_model to d_ff (with biases and activation), "
     "contract "
     "goes back to d_model."},
    {"attention, norm, other",
     "The rest of a layer: attention, normalisation, and what is neither."},
    {"time in ms",
     "Taken from the one window whose whole forward pass took the median time, in a pass that "
     "gathers no "
     "statistics."},
    {"GFLOP/s, GB/s",
     "Arithmetic done and bytes moved by the FFN, divided by the time of its stages. One "
     "multiply-add is "
     "two FLOPs."},
    {"share of limit",
     "The shortest time that the measured peak and the measured read rate allow, divided by the "
     "time "
     "taken. 100 % cannot be beaten except by measurement noise or caches."},
    {"hidden value (h)", "What enters the contract step: one number per neuron and token."},
    {"fires", "A neuron fires on a token when the input of its activation is above zero."},
    {"firing rate", "The share of counted tokens on which a neuron fires."},
    {"exactly zero", "The share of hidden values equal to zero."},
    {"<= 1e-3 of max",
     "The share of hidden values no larger in size than a thousandth of the largest one of the "
     "same token."},
    {"energy, energy_99",
     "The energy of a neuron on a token is (h times the length of its column of down) squared; "
     "energy_99 "
     "is the share of neurons, strongest first, that reaches 99 % of a token's energy, on "
     "average."},
    {"dead neuron",
     "A neuron that fired on no counted token. Defined only for activations that are exactly zero "
     "below "
     "zero, or with a threshold for |h|."},
    {"largest, median |h|", "Size of the largest and of the middle hidden value of the layer."},
}};

std::string terms_section() {
  std::string out =
      "<section aria-labelledby=\"numbers\">\n<h2 id=\"numbers\">What the numbers mean</h2>\n"
      "<dl class=\"terms\">\n";
  for (const auto& [term, meaning] : kTerms)
    out += "<dt>" + html_text(term) + "</dt><dd>" + html_text(meaning) + "</dd>\n";
  return out + "</dl>\n</section>\n";
}

}  // namespace

std::string profile_html(const ProfileReport& report) {
  std::string out = head(report) + page_header(report) + "<main>\n";
  out += tiles(report) + readings(report) + run_section(report) + chart_sections(report) +
         terms_section();
  out +=
      "</main>\n<footer>Written by Fourfold. The same numbers are in this file as JSON, in the "
      "element "
      "with the id profile.</footer>\n<script type=\"application/json\" id=\"profile\">";
  out += script_text(profile_json(report, false));
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace fourfold
