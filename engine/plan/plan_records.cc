#include "engine/plan/plan_records.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

namespace hearth::plan {

absl::Status CheckFileSizes(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const std::pair<const char*, uint64_t>> expected) {
  for (const auto& [name, bytes] : expected) {
    const std::string path = io::JoinPath(folder, name);
    const absl::StatusOr<io::FileInfo> info = files.Stat(path);
    if (absl::IsNotFound(info.status())) {
      return absl::DataLossError(
          absl::StrCat(path, ": is missing, though the plan is finished"));
    }
    HEARTH_RETURN_IF_ERROR(info.status());
    if (info->size_bytes != bytes) {
      return absl::DataLossError(absl::StrCat(path, ": has ", info->size_bytes,
                                              " bytes, not ", bytes));
    }
  }
  return absl::OkStatus();
}

namespace {

constexpr char kAboutFile[] = "about.json";
constexpr char kUseFile[] = "last_use";
constexpr char kDamageFile[] = "damaged";
constexpr int kFormat = 1;
// Upper bound of the size of each record.
constexpr uint64_t kMaxBytes = 4 << 10;

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

absl::Time ParseTimeText(const std::string& text) {
  absl::Time time;
  return absl::ParseTime(absl::RFC3339_full, text, &time, nullptr)
             ? time
             : absl::InfinitePast();
}

}  // namespace

std::string ValueOf(const PlanProperties& properties, absl::string_view name) {
  for (const auto& [known, value] : properties) {
    if (known == name) return value;
  }
  return "";
}

std::string PlanRecords::Path(const char* file) const {
  return io::JoinPath(folder_, file);
}

absl::Status PlanRecords::WriteAbout(const About& about) const {
  return io::WriteFileAtomically(
      files_, Path(kAboutFile),
      store::SealJson({{"format", kFormat},
                       {"created", TimeText(about.created)},
                       {"properties", about.properties}}));
}

absl::StatusOr<PlanRecords::About> PlanRecords::ReadAbout() const {
  const std::string path = Path(kAboutFile);
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          io::ReadWholeFile(files_, path, kMaxBytes));
  const absl::StatusOr<nlohmann::json> json = store::OpenSealedJson(text);
  HEARTH_RETURN_IF_ERROR(Annotate(json.status(), path));
  if (json->value("format", 0) != kFormat) {
    return absl::DataLossError(absl::StrCat(path, ": of another version"));
  }
  // The text is sealed, so its fields are as they were written.
  return About{.created = ParseTimeText(json->value("created", std::string())),
               .properties = json->value("properties", PlanProperties())};
}

absl::Status PlanRecords::WriteUse(absl::Time time) const {
  return io::WriteFileAtomically(files_, Path(kUseFile), TimeText(time));
}

absl::Time PlanRecords::ReadUse() const {
  const absl::StatusOr<std::string> text =
      io::ReadWholeFile(files_, Path(kUseFile), kMaxBytes);
  return text.ok() ? ParseTimeText(*text) : absl::InfinitePast();
}

absl::Status PlanRecords::WriteDamage(absl::string_view message) const {
  return io::WriteFileAtomically(files_, Path(kDamageFile),
                                 message.substr(0, kMaxBytes));
}

absl::StatusOr<std::string> PlanRecords::ReadDamage() const {
  return io::ReadWholeFile(files_, Path(kDamageFile), kMaxBytes);
}

absl::Status PlanRecords::CheckUndamaged() const {
  const absl::StatusOr<std::string> damage = ReadDamage();
  if (damage.ok()) return absl::DataLossError(*damage);
  return absl::IsNotFound(damage.status()) ? absl::OkStatus() : damage.status();
}

}  // namespace hearth::plan
