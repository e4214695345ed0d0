#include <fmt/format.h>

#include <bit>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/output_guard.h"
#include "formats/json_writer.h"
#include "report/number_text.h"
#include "report/safe_text.h"

namespace fourfold::cli {
namespace {

struct Options : CommonOptions, EmbedOptions {
  std::string model, text_file, out, dtype_text = "auto";
  std::vector<std::string> texts;
  bool yes = false, no = false;
};

// One text per line; an empty line is an empty text; a final newline ends the last line.
std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

// NumPy's format 1.0: magic, header padded to 64 bytes, little-endian floats in C order.
std::string npy(const Embeddings& e) {
  static_assert(std::endian::native == std::endian::little);
  std::string header = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", e.count, e.dimension);
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(header.size() & 0xFF));
  file.push_back(static_cast<char>(header.size() >> 8));
  file += header;
  file.append(reinterpret_cast<const char*>(e.values.data()), e.values.size() * sizeof(float));
  return file;
}

std::string json(const Embeddings& e) {
  JsonWriter writer;
  writer.begin_object()
      .field("schema", "fourfold.embed/1")
      .field("dtype", dtype_name(e.dtype))
      .field("dimension", e.dimension);
  writer.key("embeddings").begin_array();
  for (std::size_t i = 0; i < e.count; ++i) {
    writer.begin_array(true);
    for (std::size_t j = 0; j < e.dimension; ++j) writer.value(e.values[i * e.dimension + j]);
    writer.end_array();
  }
  writer.end_array().end_object();
  return writer.take();
}

// One vector a line.
std::string text(const Embeddings& e) {
  std::string lines;
  for (std::size_t i = 0; i < e.count; ++i)
    for (std::size_t j = 0; j < e.dimension; ++j)
      lines +=
          fmt::format("{}{}", e.values[i * e.dimension + j], j + 1 == e.dimension ? '\n' : ' ');
  return lines;
}

int embed(Options& options) {
  options.dtype = parse_model_dtype(options.dtype_text);
  if (options.texts.empty() == options.text_file.empty())
    throw Error(ErrorCode::invalid_argument,
                "give texts as arguments or --text FILE, one of the two");
  check_outputs({options.out, options.json_out}, {options.text_file}, options.model);
  if (options.yes || options.no) options.normalize = options.yes;
  if (!options.text_file.empty()) options.texts = split_lines(read_input(options.text_file));
  Runtime runtime(threads_of(options));
  Workspace workspace(runtime);
  const Embeddings result = embed_texts(options.model, options.texts, options, workspace,
                                        progress_line(options, "texts"));
  if (!options.out.empty()) write_file(options.out, npy(result));
  show(
      options,
      [&] {
        return options.out.empty()
                   ? text(result)
                   : fmt::format("{} of {} floats: {}\n", counted(result.count, "vector"),
                                 result.dimension, visible_text(options.out));
      },
      [&] { return json(result); });
  return result.finite ? kDone : kFinding;
}

}  // namespace

void add_embed(CLI::App& program, Runner& run) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("embed", "Sentence vectors");
  set_examples(*command,
               "  fourfold embed MODEL \"How do I reset my password?\"\n"
               "  fourfold embed MODEL --text sentences.txt --out vectors.npy\n"
               "  fourfold embed MODEL --text - --pooling cls --no-normalize --json\n");
  command
      ->add_option("MODEL", options->model,
                   "folder, .safetensors file, or org/name in the local cache")
      ->required();
  command->add_option("TEXT", options->texts, "texts, one argument each");
  command->add_option("--text", options->text_file, "file with one text per line; - for stdin")
      ->type_name("FILE");
  command->add_option("--pooling", options->pooling,
                      "mean, cls or max (default: the model's modules.json, else mean)");
  auto* yes = command->add_flag("--normalize", options->yes, "vectors of length 1");
  command->add_flag("--no-normalize", options->no, "vectors as they are")->excludes(yes);
  command->add_option("--max-length", options->max_length,
                      "tokens of a text, at most, added tokens included");
  command->add_option("--batch", options->batch, "texts per forward pass")->capture_default_str();
  command->add_option("--dtype", options->dtype_text, kModelDtypes)->capture_default_str();
  command->add_option("--out", options->out, "write the vectors as a NumPy file")
      ->type_name("X.npy");
  add_common(*command, *options, true);
  command->callback([options, &run] { run = [options] { return embed(*options); }; });
}

}  // namespace fourfold::cli
