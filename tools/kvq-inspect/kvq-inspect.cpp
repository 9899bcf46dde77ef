// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// kvq-inspect: what is in a library, a calibration or a trace.
#include "calib/io/Trace.h"
#include "runtime/format/library_fields.h"
#include "runtime/format/method.h"
#include "tools/device/Flags.h"
#include "tools/kvq-inspect/DrawRecord.h"
#include "tools/kvq-inspect/Report.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>

namespace {

using namespace kvq;

constexpr const char *kUsage = R"(usage: kvq-inspect FILE [--json | --verify]
       kvq-inspect LIBRARY --draw FILE.svg [--page N] [--format I]
Says what is in a kernel library (.kvqlib), a calibration or a trace; the file tells which it is.
  --json         one JSON document instead of tables
  --verify       check the digests alone, and say whether the file is whole
  --draw FILE    write a picture (SVG) of a record, byte by byte: field, token, channels, lane
  --page N       of a page of N tokens (default: the page of the format)
  --format I     of this format of the library (default: 0)
Exit status 1 for a file that is damaged or something else, 2 for a wrong command line.
)";

struct Options {
  std::string file, drawing;
  bool json = false, verify = false;
  int64_t page = 0, format = 0;
};

/// A number of a flag, at most `high`.
int64_t numberOf(const Flags &flags, const std::string &name, int64_t low, int64_t high) {
  const int64_t value = parseNumber("--" + name, flags.text(name, ""), low);
  if (value > high)
    throw std::runtime_error("--" + name + ": expected a number up to " + std::to_string(high) +
                             ", got " + std::to_string(value));
  return value;
}

Options parse(int argc, char **argv) {
  const Flags flags(argc, argv, {"draw", "page", "format"}, {"json", "verify", "help"});
  if (flags.has("help")) {
    std::fputs(kUsage, stdout);
    std::exit(0);
  }
  if (flags.positional().size() != 1)
    throw std::runtime_error("expected one file, got " + std::to_string(flags.positional().size()) +
                             "; see --help");
  Options out;
  out.file = flags.positional().front(), out.drawing = flags.text("draw", "");
  out.json = flags.has("json"), out.verify = flags.has("verify");
  const bool draw = flags.has("draw");
  if (out.json + out.verify + draw > 1)
    throw std::runtime_error("expected one of --json, --verify and --draw");
  if (draw && out.drawing.empty())
    throw std::runtime_error("--draw: expected a file, got ''");
  if (!draw && (flags.has("page") || flags.has("format")))
    throw std::runtime_error("--page and --format: expected --draw beside them");
  if (flags.has("page"))
    out.page = numberOf(flags, "page", 1, 1 << 20);
  if (flags.has("format"))
    out.format = numberOf(flags, "format", 0, 1 << 20);
  return out;
}

/// Names in a file need not be UTF-8.
std::string jsonText(const Report &report) {
  return report.dump(2, ' ', false, Report::error_handler_t::replace) + "\n";
}

std::string draw(const LibraryView &view, const Options &options) {
  if (size_t(options.format) >= view.formats.size())
    return "--format: expected 0 to " + std::to_string(view.formats.size() - 1) + ", got " +
           std::to_string(options.format);
  std::error_code none; // of a file that is not there
  if (std::filesystem::equivalent(options.drawing, options.file, none))
    return "--draw: expected another file than the library, got '" + options.drawing + "'";
  const ByteSpan text = view.formats[size_t(options.format)].method;
  CacheMethod method;
  if (std::string error = parseMethod({static_cast<const char *>(text.data), text.size}, method);
      !error.empty())
    return "'" + options.file + "': method: " + error;
  RecordSpec spec = method.record();
  if (options.page)
    spec.page = int(options.page);
  if (std::string error = verifyRecord(spec); !error.empty())
    return "--page: " + error;
  const RecordLayout layout = buildRecord(spec);
  if (layout.stride > kMaxDrawnBytes)
    return "expected a record of at most " + std::to_string(kMaxDrawnBytes) +
           " bytes to draw, got " + std::to_string(layout.stride) + "; choose a smaller --page";
  const std::string picture = drawRecord(layout, "@" + method.name);
  if (std::string error = writeFile(options.drawing, {{picture.data(), picture.size()}});
      !error.empty())
    return error;
  std::printf("wrote %s: a record of @%s, page of %d tokens, %lld bytes\n", options.drawing.c_str(),
              method.name.c_str(), spec.page, (long long)layout.stride);
  return "";
}

std::string inspectLibrary(ByteSpan bytes, const Options &options) {
  LibraryView view;
  if (std::string error = parseLibrary(bytes, view); !error.empty())
    return "'" + options.file + "': " + error;
  if (!options.drawing.empty())
    return draw(view, options);
  if (options.verify) {
    std::printf("%s: library: %zu digests match\n", options.file.c_str(),
                2 + 1 + 2 * view.formats.size() + view.objects.size());
    return "";
  }
  Report report = {{"file", options.file}}, found;
  if (std::string error = reportLibrary(bytes, view, found); !error.empty())
    return "'" + options.file + "': " + error;
  report.update(found);
  std::fputs((options.json ? jsonText(report) : libraryTable(report)).c_str(), stdout);
  return "";
}

std::string inspectTensors(const Options &options) {
  Safetensors file;
  if (std::string error = Safetensors::open(options.file, file); !error.empty())
    return "expected a kvq library, a calibration or a trace: " + error;
  const bool calibration = file.metadata().count("kvq_calibration") != 0;
  if (!calibration && !file.metadata().count("kvq_trace"))
    return "'" + options.file +
           "': expected a kvq library, a calibration or a trace, got a safetensors file without "
           "the metadata key 'kvq_calibration' or 'kvq_trace'";
  if (!options.drawing.empty())
    return "--draw: expected a library, got '" + options.file + "', a " +
           (calibration ? "calibration" : "trace");
  Report report = {{"file", options.file}}, found;
  if (std::string error = calibration ? reportCalibration(options.file, file, found)
                                      : reportTrace(options.file, found);
      !error.empty())
    return error;
  report.update(found);
  if (options.verify)
    std::printf("%s: %s: the digest matches\n", options.file.c_str(),
                calibration ? "calibration" : "trace");
  else if (options.json)
    std::fputs(jsonText(report).c_str(), stdout);
  else
    std::fputs((calibration ? calibrationTable(report) : traceTable(report)).c_str(), stdout);
  return "";
}

std::string inspect(const Options &options) {
  FileBytes bytes;
  if (std::string error = FileBytes::map(options.file, bytes); !error.empty())
    return error;
  const ByteSpan span = bytes.span();
  const size_t magic = sizeof library_file::kMagic;
  if (span.size >= magic && std::memcmp(span.data, library_file::kMagic, magic) == 0)
    return inspectLibrary(span, options);
  return inspectTensors(options);
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "kvq-inspect: %s\n", error.what());
    return 2;
  }
  try {
    const std::string error = inspect(options);
    if (error.empty() && std::fflush(stdout) == 0 && !std::ferror(stdout))
      return 0;
    std::fprintf(stderr, "kvq-inspect: %s\n",
                 error.empty() ? "cannot write to standard output" : error.c_str());
  } catch (const std::exception &error) {
    std::fprintf(stderr, "kvq-inspect: %s\n", error.what());
  }
  return 1;
}
