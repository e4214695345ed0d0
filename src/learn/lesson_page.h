// The parts of the lesson page: static HTML that is whole without scripts, from the lesson's
// content and the library's numbers. Every text is escaped here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/learn.h"
#include "learn/sample_machine.h"

namespace fourfold {

// Texts of the page itself, key "page" of the lesson.
struct PageSection {
  std::string id, title;
  std::vector<std::string> paragraphs, sources;
};
struct PageStage {
  std::string id, title, text;
};
struct PageText {
  std::string title, intro;
  std::vector<PageStage> stages;
  std::vector<PageSection> sections;
};
PageText page_text();

// The page's template, style and script, made by CMake from src/learn/page.
std::string_view page_template();
std::string_view page_style();
std::string_view page_script();

// One number with its name, and a bar of its size on a scale that ends at `largest`.
std::string number_cell(std::string_view name, float value, float largest);
// "0.75", "−1.5", "0": at most three decimals, a real minus sign.
std::string plain_number(double value);

// lesson_page_content.cpp: from the content.
std::string prose(std::string_view text);  // escaped; `code` becomes <code>
std::string section_text(const PageSection& section, const Lesson& lesson);
std::string source_links(const std::vector<std::string>& ids, const Lesson& lesson);
std::string claims_html(const Lesson& lesson);
std::string cards_html(const Lesson& lesson);
std::string choices_html(const Lesson& lesson);
std::string explanations_html(const Lesson& lesson);
std::string sources_html(const Lesson& lesson);
std::string map_html(const Lesson& lesson);

// lesson_page_figures.cpp: from the numbers.
std::string what_picture(const MachineNumbers& numbers, const MachineSetting& setting);
std::string machine_steps(const PageText& text, const MachineNumbers& numbers,
                          const MachineSetting& setting);
std::string stage_notes(const PageText& text);  // for the script: texts of all steps
std::string together_pictures(const SentenceNumbers& numbers);
std::string size_figure();
std::string mistakes_html(const Lesson& lesson, Workspace& workspace);

// lesson_page_numbers.cpp: what the script starts from and is checked against, as JSON.
std::string page_numbers(Workspace& workspace);
std::span<const Activation> known_activations();

}  // namespace fourfold
