// fourfold learn page: the lesson as one HTML file.
#include <memory>

#include "cli/learn_commands.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "fourfold/learn.h"
#include "report/safe_text.h"

namespace fourfold::cli {

void add_learn_page(CLI::App& learn, Runner& run) {
  struct Options {
    std::string html;
    bool quiet = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = learn.add_subcommand(
      "page", "The lesson as one offline HTML page with a machine to play with");
  set_examples(*command,
               "  fourfold learn page --html lesson.html\n"
               "  fourfold learn page --html lesson.html && xdg-open lesson.html\n"
               "  fourfold learn page --html - | gzip > lesson.html.gz\n");
  command->add_option("--html", options->html, "write the page here; - for stdout")
      ->type_name("OUT")
      ->required();
  command->add_flag("--quiet,-q", options->quiet, "nothing but the page");
  command->callback([options, &run] {
    run = [options] {
      if (options->html == "-") {
        print(lesson_page_html());
        return kDone;
      }
      check_outputs({options->html}, {}, "");
      write_file(options->html, lesson_page_html());
      if (!options->quiet)
        print("The lesson is " + visible_text(options->html) + ": open it in a browser.\n");
      return kDone;
    };
  });
}

}  // namespace fourfold::cli
