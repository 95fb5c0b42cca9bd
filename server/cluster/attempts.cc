#include "server/cluster/attempts.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

namespace hearth::server {

namespace {

constexpr uint64_t kMostFileBytes = 65536;
constexpr char kDeleted[] = ".deleted.json";

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

std::string Attempts::DeletedPathOf(const std::string& leader,
                                    const std::string& job) const {
  return io::JoinPath(folder_, absl::StrCat(leader, "~", job, kDeleted));
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
                   .members = json.value("members", std::set<std::string>()),
                   .adopter = json.value("adopter", ""),
                   .adopter_job = json.value("adopter_job", "")};
  }
  return absl::DataLossError(absl::StrCat(path, ": is damaged"));
}

absl::Status Attempts::Write(const std::string& path, const Attempt& attempt) {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  const nlohmann::json json = {
      {"number", attempt.number},     {"nonce", attempt.nonce},
      {"rank_job", attempt.rank_job}, {"members", attempt.members},
      {"adopter", attempt.adopter},   {"adopter_job", attempt.adopter_job}};
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

absl::Status Attempts::NoteDeleted(const std::string& leader,
                                   const std::string& job) {
  absl::MutexLock lock(&mutex_);
  const std::string path = PathOf(leader, job);
  HEARTH_ASSIGN_OR_RETURN(const Attempt known, Read(path));
  if (known.number == 0) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(files_.Rename(path, DeletedPathOf(leader, job)));
  return files_.SyncDirectory(folder_);
}

absl::StatusOr<std::vector<std::string>> Attempts::DeletedJobs(
    const std::string& leader, const std::string& member) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> jobs;
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files_.List(folder_));
  for (absl::string_view name : names) {
    if (!absl::ConsumePrefix(&name, absl::StrCat(leader, "~")) ||
        !absl::ConsumeSuffix(&name, kDeleted)) {
      continue;
    }
    const std::string job(name);
    // Nobody is told of a job whose file is damaged.
    const absl::StatusOr<Attempt> known = Read(DeletedPathOf(leader, job));
    if (known.ok() && known->members.contains(member)) jobs.push_back(job);
  }
  return jobs;
}

absl::Status Attempts::NoteTold(const std::string& leader,
                                const std::vector<std::string>& jobs,
                                const std::string& member) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& job : jobs) {
    const std::string path = DeletedPathOf(leader, job);
    HEARTH_ASSIGN_OR_RETURN(Attempt known, Read(path));
    known.members.erase(member);
    HEARTH_RETURN_IF_ERROR(known.members.empty() ? files_.RemoveTree(path)
                                                 : Write(path, known));
  }
  return absl::OkStatus();
}

absl::Status Attempts::Forget(const std::string& leader,
                              const std::string& job) {
  absl::MutexLock lock(&mutex_);
  return files_.RemoveTree(PathOf(leader, job));
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
