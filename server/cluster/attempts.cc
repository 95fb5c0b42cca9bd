#include "server/cluster/attempts.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

namespace hearth::server {

namespace {

constexpr uint64_t kMostFileBytes = 4096;

absl::Status Adopted(const std::string& leader, const std::string& job,
                     const Attempt& known) {
  return absl::FailedPreconditionError(absl::StrCat(
      leader, "'s ", job, " was adopted: ", known.adopter, " goes on with it",
      known.adopter_job.empty() ? ""
                                : absl::StrCat(", as ", known.adopter_job)));
}

}  // namespace

// Names of members and ids of jobs have no slash.
std::string Attempts::PathOf(const std::string& leader,
                             const std::string& job) const {
  return io::JoinPath(folder_, absl::StrCat(leader, "~", job, ".json"));
}

absl::StatusOr<Attempt> Attempts::Read(const std::string& path) {
  const auto text = io::ReadWholeFile(files_, path, kMostFileBytes);
  if (absl::IsNotFound(text.status())) return Attempt();
  HEARTH_RETURN_IF_ERROR(text.status());
  const auto json = nlohmann::json::parse(*text, nullptr,
                                          /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("number") && json.contains("nonce") &&
      json["number"].is_number_unsigned() && json["nonce"].is_string()) {
    return Attempt{.number = json["number"],
                   .nonce = json["nonce"],
                   .rank_job = json.value("rank_job", ""),
                   .adopter = json.value("adopter", ""),
                   .adopter_job = json.value("adopter_job", "")};
  }
  return absl::DataLossError(absl::StrCat(path, ": is damaged"));
}

absl::Status Attempts::Write(const std::string& path, const Attempt& attempt) {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  const nlohmann::json json = {{"number", attempt.number},
                               {"nonce", attempt.nonce},
                               {"rank_job", attempt.rank_job},
                               {"adopter", attempt.adopter},
                               {"adopter_job", attempt.adopter_job}};
  return io::WriteFileAtomically(files_, path, json.dump());
}

absl::StatusOr<Attempt> Attempts::Find(const std::string& leader,
                                       const std::string& job) {
  absl::MutexLock lock(&mutex_);
  return Read(PathOf(leader, job));
}

absl::Status Attempts::CheckAgainst(const Attempt& known,
                                    const std::string& leader,
                                    const std::string& job,
                                    const Attempt& attempt) {
  if (!known.adopter.empty()) return Adopted(leader, job, known);
  if (attempt.number > known.number) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "attempt ", attempt.number, " at ", leader, "'s ", job,
      " is not newer than attempt ", known.number, ", which is known"));
}

absl::Status Attempts::Check(const std::string& leader, const std::string& job,
                             const Attempt& attempt) {
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(const Attempt known, Read(PathOf(leader, job)));
  return CheckAgainst(known, leader, job, attempt);
}

absl::Status Attempts::Note(const std::string& leader, const std::string& job,
                            const Attempt& attempt) {
  absl::MutexLock lock(&mutex_);
  const std::string path = PathOf(leader, job);
  HEARTH_ASSIGN_OR_RETURN(const Attempt known, Read(path));
  HEARTH_RETURN_IF_ERROR(CheckAgainst(known, leader, job, attempt));
  return Write(path, attempt);
}

absl::Status Attempts::NoteAdopted(const std::string& leader,
                                   const std::string& job,
                                   const std::string& adopter,
                                   const std::string& adopter_job) {
  absl::MutexLock lock(&mutex_);
  const std::string path = PathOf(leader, job);
  HEARTH_ASSIGN_OR_RETURN(Attempt known, Read(path));
  if (!known.adopter.empty() && known.adopter != adopter) {
    return Adopted(leader, job, known);
  }
  const bool is_known =
      known.adopter == adopter &&
      (adopter_job.empty() || known.adopter_job == adopter_job);
  if (is_known) return absl::OkStatus();
  known.adopter = adopter;
  known.adopter_job = adopter_job;
  return Write(path, known);
}

absl::Status Attempts::SetRankJob(const std::string& leader,
                                  const std::string& job,
                                  const std::string& rank_job) {
  absl::MutexLock lock(&mutex_);
  const std::string path = PathOf(leader, job);
  HEARTH_ASSIGN_OR_RETURN(Attempt known, Read(path));
  known.rank_job = rank_job;
  return Write(path, known);
}

}  // namespace hearth::server
