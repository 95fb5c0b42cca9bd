#include "client/cli/options/option_values.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "proto/options/command_line.h"

namespace hearth::cli {

namespace {

absl::Status LineError(const std::string& name, const YAML::Mark& mark,
                       const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " line ", mark.line + 1, ": ", what));
}

// A scalar as it is written; a list of scalars joined by `separator`: "10,10".
absl::StatusOr<std::string> ValueText(const std::string& name,
                                      const std::string& key,
                                      const YAML::Node& value,
                                      const char* separator) {
  if (value.IsScalar()) return value.Scalar();
  std::vector<std::string> elements;
  if (value.IsSequence()) {
    for (const YAML::Node& element : value) {
      if (element.IsScalar()) elements.push_back(element.Scalar());
    }
  }
  if (elements.empty() || elements.size() != value.size()) {
    return LineError(name, value.Mark(),
                     absl::StrCat(key, " needs a value or a list of values"));
  }
  return absl::StrJoin(elements, separator);
}

// "; did you mean epochs?", or all known keys.
std::string UnknownWords(const std::string& key,
                         const std::vector<std::string>& known,
                         const std::vector<std::string>& maps) {
  std::vector<std::string> all = known;
  all.insert(all.end(), maps.begin(), maps.end());
  const std::string meant = options::DidYouMean(key, all);
  return meant.empty()
             ? absl::StrCat("; there are ", absl::StrJoin(known, ", "))
             : meant;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Adds the option `key`, whose value is at `mark`.
absl::Status AddValue(const std::string& name, const YAML::Mark& mark,
                      const std::string& key, const YAML::Node& node,
                      const char* separator, OptionValues& values) {
  HEARTH_ASSIGN_OR_RETURN(std::string text,
                          ValueText(name, key, node, separator));
  const std::string source =
      absl::StrCat(name, " line ", mark.line + 1, ": ", key);
  if (!values.insert({key, {std::move(text), source}}).second) {
    return LineError(name, mark, absl::StrCat(key, " is given twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<OptionValues> FromDocument(
    const YAML::Node& document, const std::string& name,
    const std::vector<std::string>& known,
    const std::vector<std::string>& maps) {
  OptionValues values;
  if (document.IsNull()) return values;
  if (!document.IsMap()) {
    return LineError(name, document.Mark(),
                     "expected lines of the form \"option: value\"");
  }
  for (const auto& entry : document) {
    const YAML::Mark mark = entry.first.Mark();
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (Contains(maps, key)) {
      if (!entry.second.IsMap()) {
        return LineError(name, entry.second.Mark(),
                         absl::StrCat(key, " needs lines of its own"));
      }
      for (const auto& inner : entry.second) {
        HEARTH_RETURN_IF_ERROR(AddValue(
            name, inner.first.Mark(),
            absl::StrCat(key, ".",
                         inner.first.IsScalar() ? inner.first.Scalar() : ""),
            inner.second, "|", values));
      }
      continue;
    }
    if (!Contains(known, key)) {
      return LineError(name, mark,
                       absl::StrCat("unknown option \"", key, "\"",
                                    UnknownWords(key, known, maps)));
    }
    HEARTH_RETURN_IF_ERROR(
        AddValue(name, mark, key, entry.second, ",", values));
  }
  return values;
}

// Collects the marks at which the documents of a text begin.
class DocumentMarks final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    marks_.push_back(mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  const std::vector<YAML::Mark>& marks() const { return marks_; }

 private:
  std::vector<YAML::Mark> marks_;
};

// Marks of the first two documents. YAML::LoadAll does not end for a text that
// begins with a comma: it makes empty documents until memory is spent.
std::vector<YAML::Mark> FindDocuments(const std::string& yaml) {
  std::istringstream text(yaml);
  YAML::Parser parser(text);
  DocumentMarks documents;
  while (documents.marks().size() < 2 && parser.HandleNextDocument(documents)) {
  }
  return documents.marks();
}

}  // namespace

absl::StatusOr<OptionValues> ParseYamlOptions(
    const std::string& yaml, const std::string& name,
    const std::vector<std::string>& known,
    const std::vector<std::string>& maps) {
  if (yaml.size() > kMaxYamlBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": more than ", kMaxYamlBytes, " bytes"));
  }
  // yaml-cpp throws; no exception leaves this function.
  try {
    const std::vector<YAML::Mark> documents = FindDocuments(yaml);
    if (documents.empty()) return OptionValues();
    if (documents.size() > 1) {
      return LineError(name, documents[1], "a second document");
    }
    return FromDocument(YAML::Load(yaml), name, known, maps);
  } catch (const YAML::Exception& exception) {
    return LineError(name, exception.mark, exception.msg);
  }
}

absl::StatusOr<OptionValues> ReadYamlOptions(
    const std::string& path, const std::vector<std::string>& known,
    const std::vector<std::string>& maps) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoStatus(errno, path, "open");
  // One byte over the limit shows that the file is too long.
  std::string yaml(kMaxYamlBytes + 1, '\0');
  file.read(yaml.data(), static_cast<std::streamsize>(yaml.size()));
  if (file.bad()) return ErrnoStatus(errno, path, "read");
  yaml.resize(static_cast<size_t>(file.gcount()));
  return ParseYamlOptions(yaml, path, known, maps);
}

}  // namespace hearth::cli
