// fourfold::Error as the exception classes of fourfold/errors.py.
#include <exception>

#include "bindings.h"
#include "fourfold/error.h"

namespace fourfold::python {
namespace {

const char* class_for(const Error& error) {
  if (dynamic_cast<const TornLayer*>(&error) != nullptr) return "Error";
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::shape_mismatch: return "ArgumentError";
    case ErrorCode::unsupported: return error.path.empty() ? "ArgumentError" : "FileError";
    case ErrorCode::bad_file:
    case ErrorCode::missing_tensor:
    case ErrorCode::io: return "FileError";
    case ErrorCode::out_of_memory: return "Error";
  }
  return "Error";
}

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.data(), text.size()));
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const char* name = class_for(error);
    const nb::object type = nb::module_::import_("fourfold.errors").attr(name);
    const std::string_view code = error_code_name(error.code);
    const nb::object raised = type(error.what(), nb::str(code.data(), code.size()));
    if (std::string_view(name) == "FileError") {
      raised.attr("path") = text_or_none(error.path);
      raised.attr("tensor") = text_or_none(error.tensor);
      raised.attr("rule") = text_or_none(error.rule);
      if (error.offset != Error::kNoOffset) raised.attr("offset") = nb::int_(error.offset);
    }
    PyErr_SetObject(type.ptr(), raised.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(&translate); }

}  // namespace fourfold::python
