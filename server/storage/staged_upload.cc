// Steps of receiving a file:
//   1. `incoming` is made, empty; received bytes are written to it and added to
//      its digest;
//   2. once it has its size, the digest is compared with the announced one; if
//      they differ, `incoming` is dropped;
//   3. it is synced, renamed to source/PATH, and the folder is synced.
// FinishFile does 2 and 3; it holds the file, but no lock that other calls
// need.
// A daemon that starts finds complete files in source, and the size of
// `incoming`. Files cannot be opened to append to them, and the digest was in
// memory: before more bytes are taken, `incoming` is copied to `incoming.tmp`
// (CatchUp), which is renamed to `incoming` and appended to.
#include "server/storage/staged_upload.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {
namespace {

constexpr char kManifestName[] = "upload";
constexpr char kSourceName[] = "source";
constexpr char kIncomingName[] = "incoming";
constexpr int kMaxFiles = 1000;
constexpr size_t kMaxPathBytes = 512;
constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxParts = 17;
constexpr uint64_t kMaxUploadBytes = uint64_t{1} << 48;
constexpr uint64_t kMaxManifestBytes = 2 << 20;
constexpr uint64_t kStepBytes = 4 << 20;

bool IsBelow(absl::string_view path) {
  if (path.size() > kMaxPathBytes) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return parts.size() <= kMaxParts &&
         std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
           return !part.empty() && part != "." && part != ".." &&
                  part.size() <= kMaxNameBytes &&
                  part.find('\0') == absl::string_view::npos;
         });
}

// Adds violations where a path is given twice, or as a file and as a folder.
void CheckDistinct(const v1::BeginUploadRequest& request,
                   FieldViolations& violations) {
  std::set<std::string> paths;
  std::set<std::string> folders;
  for (int i = 0; i < request.files_size(); ++i) {
    const std::string& path = request.files(i).path();
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      folders.insert(path.substr(0, slash));
    }
    if (!paths.insert(path).second) {
      violations.Add(absl::StrCat("files[", i, "].path"), "is there twice");
    }
  }
  for (int i = 0; i < request.files_size(); ++i) {
    if (folders.contains(request.files(i).path())) {
      violations.Add(absl::StrCat("files[", i, "].path"),
                     "is a folder of another file");
    }
  }
}

// Checks one file; adds its size to `bytes`.
void CheckFile(const v1::UploadFile& file, const std::string& field,
               uint64_t& bytes, FieldViolations& violations) {
  if (!IsBelow(file.path())) {
    violations.Add(
        absl::StrCat(field, ".path"),
        absl::StrCat("must be a path below a folder, without "
                     "\".\" and \"..\", of at most ",
                     kMaxPathBytes, " bytes and ", kMaxParts - 1, " folders"));
  }
  if (!Sha256::IsHexDigest(file.sha256())) {
    violations.Add(absl::StrCat(field, ".sha256"),
                   "must be 64 hexadecimal digits, in small letters");
  }
  if (file.size_bytes() > kMaxUploadBytes - bytes) {
    violations.Add(absl::StrCat(field, ".size_bytes"),
                   absl::StrCat("makes more than ", kMaxUploadBytes,
                                " bytes of the upload"));
  } else {
    bytes += file.size_bytes();
  }
}

std::string SealOf(absl::string_view text) {
  Sha256 digest;
  digest.Update(text);
  return digest.HexDigest();
}

uint64_t SizeOf(const v1::BeginUploadRequest& request) {
  uint64_t bytes = 0;
  for (const v1::UploadFile& file : request.files()) bytes += file.size_bytes();
  return bytes;
}

// Makes the folders between `base` and the file `path` below it. Returns `base`
// and these folders, the innermost last.
absl::StatusOr<std::vector<std::string>> MakeFolders(io::FileSystem& files,
                                                     const std::string& base,
                                                     const std::string& path) {
  std::vector<std::string> folders = {base};
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    folders.push_back(io::JoinPath(base, path.substr(0, slash)));
    HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folders.back()));
  }
  return folders;
}

}  // namespace

absl::Status CheckUploadRequest(const v1::BeginUploadRequest& request) {
  FieldViolations violations;
  if (!IsValidName(request.name())) {
    violations.Add("name", "must be a name that a dataset can have");
  }
  if (request.files_size() == 0 || request.files_size() > kMaxFiles) {
    violations.Add("files", absl::StrCat("must be 1 to ", kMaxFiles, ", not ",
                                         request.files_size()));
    return violations.ToStatus();
  }
  if (request.is_file() && (request.files_size() != 1 ||
                            absl::StrContains(request.files(0).path(), '/'))) {
    violations.Add("is_file", "is for one file that is in no folder");
  }
  uint64_t bytes = 0;
  for (int i = 0; i < request.files_size(); ++i) {
    CheckFile(request.files(i), absl::StrCat("files[", i, "]"), bytes,
              violations);
  }
  CheckDistinct(request, violations);
  return violations.ToStatus();
}

StagedUpload::StagedUpload(const Options& options, std::string owner,
                           v1::BeginUploadRequest request)
    : files_(options.files),
      clock_(options.clock),
      folder_(options.folder),
      owner_(std::move(owner)),
      request_(std::move(request)),
      size_bytes_(SizeOf(request_)),
      last_progress_(options.clock.SteadySeconds()) {}

absl::StatusOr<std::unique_ptr<StagedUpload>> StagedUpload::Make(
    const Options& options, const std::string& owner,
    const v1::BeginUploadRequest& request) {
  const std::string text =
      absl::StrCat(owner, "\n", request.SerializeAsString());
  HEARTH_RETURN_IF_ERROR(options.files.CreateDirectory(options.folder));
  HEARTH_RETURN_IF_ERROR(
      options.files.CreateDirectory(io::JoinPath(options.folder, kSourceName)));
  HEARTH_RETURN_IF_ERROR(io::WriteFileAtomically(
      options.files, io::JoinPath(options.folder, kManifestName),
      absl::StrCat(SealOf(text), "\n", text)));
  HEARTH_RETURN_IF_ERROR(
      options.files.SyncDirectory(io::ParentDirectory(options.folder)));
  return std::unique_ptr<StagedUpload>(
      new StagedUpload(options, owner, request));
}

absl::StatusOr<std::unique_ptr<StagedUpload>> StagedUpload::Load(
    const Options& options) {
  const std::string path = io::JoinPath(options.folder, kManifestName);
  HEARTH_ASSIGN_OR_RETURN(
      const std::string sealed,
      io::ReadWholeFile(options.files, path, kMaxManifestBytes));
  const std::pair<std::string, std::string> parted =
      absl::StrSplit(sealed, absl::MaxSplits('\n', 1));
  const std::pair<std::string, std::string> text =
      absl::StrSplit(parted.second, absl::MaxSplits('\n', 1));
  v1::BeginUploadRequest request;
  if (SealOf(parted.second) != parted.first ||
      !request.ParseFromString(text.second)) {
    return absl::DataLossError(
        absl::StrCat(path, ": does not have its checksum"));
  }
  std::unique_ptr<StagedUpload> upload(
      new StagedUpload(options, text.first, std::move(request)));
  HEARTH_RETURN_IF_ERROR(upload->FindProgress());
  absl::MutexLock lock(&upload->mutex_);
  HEARTH_RETURN_IF_ERROR(upload->FindReceived());
  return upload;
}

absl::Status StagedUpload::FindReceived() {
  const std::string source = io::JoinPath(folder_, kSourceName);
  int file = 0;
  uint64_t before = 0;
  for (; file < request_.files_size(); ++file) {
    const v1::UploadFile& announced = request_.files(file);
    const absl::StatusOr<io::FileInfo> info =
        files_.Stat(io::JoinPath(source, announced.path()));
    if (absl::IsNotFound(info.status())) break;
    HEARTH_RETURN_IF_ERROR(info.status());
    if (!info->is_regular || info->size_bytes != announced.size_bytes()) {
      return absl::DataLossError(absl::StrCat(
          source, "/", announced.path(), ": has ", info->size_bytes,
          " bytes, not the ", announced.size_bytes(), " that have come"));
    }
    before += announced.size_bytes();
  }
  const absl::StatusOr<io::FileInfo> incoming = files_.Stat(IncomingPath());
  if (!absl::IsNotFound(incoming.status())) {
    HEARTH_RETURN_IF_ERROR(incoming.status());
  }
  file_ = file;
  before_ = before;
  come_ = incoming.ok() && !IsWholeLocked()
              ? std::min(incoming->size_bytes, current().size_bytes())
              : 0;
  incoming_ = nullptr;
  return absl::OkStatus();
}

absl::Status StagedUpload::FindProgress() {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo folder, files_.Stat(folder_));
  absl::Time newest = folder.modified;
  const absl::StatusOr<io::FileInfo> incoming = files_.Stat(IncomingPath());
  if (incoming.ok()) newest = std::max(newest, incoming->modified);
  // The wall clock may have jumped: at worst the time starts again.
  last_progress_ = clock_.SteadySeconds() -
                   std::max(0.0, absl::ToDoubleSeconds(clock_.Now() - newest));
  return absl::OkStatus();
}

std::string StagedUpload::IncomingPath() const {
  return io::JoinPath(folder_, kIncomingName);
}

std::string StagedUpload::SourcePath() const {
  const std::string source = io::JoinPath(folder_, kSourceName);
  return request_.is_file() ? io::JoinPath(source, request_.files(0).path())
                            : source;
}

void StagedUpload::Touch() { last_progress_ = clock_.SteadySeconds(); }

uint64_t StagedUpload::received_bytes() const {
  absl::MutexLock lock(&mutex_);
  return before_ + come_;
}

bool StagedUpload::IsWhole() const {
  absl::MutexLock lock(&mutex_);
  return IsWholeLocked();
}

absl::StatusOr<bool> StagedUpload::CatchUp() {
  Touch();
  absl::MutexLock lock(&mutex_);
  if (IsWholeLocked() || is_finishing_ || incoming_ != nullptr) return true;
  if (come_ == 0) {
    HEARTH_RETURN_IF_ERROR(OpenIncoming());
    return true;
  }
  const absl::StatusOr<bool> done = CopyStep();
  // After an error the copy starts again; what was copied is overwritten.
  if (!done.ok() || *done) copy_ = {};
  return done;
}

absl::StatusOr<bool> StagedUpload::CopyStep() {
  const std::string path = IncomingPath();
  const std::string temporary = path + io::kTemporarySuffix;
  if (copy_.from == nullptr) {
    digest_ = Sha256();
    HEARTH_ASSIGN_OR_RETURN(copy_.from, files_.OpenForRead(path));
    HEARTH_ASSIGN_OR_RETURN(copy_.to, files_.Create(temporary));
  }
  std::vector<std::byte> step(std::min(kStepBytes, come_ - copy_.bytes));
  HEARTH_RETURN_IF_ERROR(copy_.from->Read(copy_.bytes, absl::MakeSpan(step)));
  HEARTH_RETURN_IF_ERROR(copy_.to->Write(copy_.bytes, step));
  digest_.Update(step);
  copy_.bytes += step.size();
  if (copy_.bytes < come_) return false;
  HEARTH_RETURN_IF_ERROR(files_.Rename(temporary, path));
  incoming_ = std::move(copy_.to);
  return true;
}

absl::Status StagedUpload::OpenIncoming() {
  HEARTH_ASSIGN_OR_RETURN(incoming_, files_.Create(IncomingPath()));
  digest_ = Sha256();
  come_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<size_t> StagedUpload::Append(uint64_t offset,
                                            absl::Span<const std::byte> data) {
  Touch();
  absl::MutexLock lock(&mutex_);
  const uint64_t received = before_ + come_;
  if (offset != received) {
    return absl::OutOfRangeError(absl::StrCat("offset: ", received,
                                              " bytes have come; the next ones "
                                              "begin there, not at ",
                                              offset));
  }
  if (data.size() > size_bytes_ - received) {
    return absl::OutOfRangeError(
        absl::StrCat("data: ", data.size(), " bytes at ", offset,
                     " end beyond the ", size_bytes_, " bytes of the upload"));
  }
  if (IsWholeLocked() || IsFileFullLocked()) return size_t{0};
  if (incoming_ == nullptr) {
    return absl::InternalError("an upload that was not caught up with");
  }
  data = data.first(
      std::min<uint64_t>(data.size(), current().size_bytes() - come_));
  HEARTH_RETURN_IF_ERROR(incoming_->Write(come_, data));
  digest_.Update(data);
  come_ += data.size();
  return data.size();
}

bool StagedUpload::IsFileFull() const {
  absl::MutexLock lock(&mutex_);
  return IsFileFullLocked();
}

bool StagedUpload::IsFileFullLocked() const {
  return is_finishing_ || (!IsWholeLocked() && incoming_ != nullptr &&
                           come_ == current().size_bytes());
}

absl::Status StagedUpload::FinishFile() {
  absl::MutexLock one_at_a_time(&finishing_);
  std::unique_ptr<io::WritableFile> file;
  std::string path;
  bool has_digest = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!IsFileFullLocked()) return absl::OkStatus();
    is_finishing_ = true;
    file = std::move(incoming_);
    path = current().path();
    has_digest = digest_.HexDigest() == current().sha256();
  }
  if (!has_digest) {
    DropFile();
    return absl::AbortedError(absl::StrCat(
        path,
        ": what has come does not have the SHA-256 that was announced; "
        "it has to come again, or the file has changed since"));
  }
  if (const absl::Status synced = file->Sync(); !synced.ok()) {
    // A failed sync leaves an unknown state on the disk.
    DropFile();
    return synced;
  }
  const absl::Status status = Place(path);
  if (status.ok()) return OpenNext();
  absl::MutexLock lock(&mutex_);
  is_finishing_ = false;
  incoming_ = std::move(file);
  // The file may be in its place nevertheless; then nothing is appended to it.
  FindReceived().IgnoreError();
  return status;
}

absl::Status StagedUpload::Place(const std::string& path) {
  const std::string source = io::JoinPath(folder_, kSourceName);
  HEARTH_ASSIGN_OR_RETURN(std::vector<std::string> folders,
                          MakeFolders(files_, source, path));
  HEARTH_RETURN_IF_ERROR(
      files_.Rename(IncomingPath(), io::JoinPath(source, path)));
  for (; !folders.empty(); folders.pop_back()) {
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folders.back()));
  }
  return absl::OkStatus();
}

absl::Status StagedUpload::OpenNext() {
  bool is_last = false;
  {
    absl::MutexLock lock(&mutex_);
    is_last = file_ + 1 == request_.files_size();
  }
  absl::StatusOr<std::unique_ptr<io::WritableFile>> next = nullptr;
  if (!is_last) next = files_.Create(IncomingPath());
  absl::MutexLock lock(&mutex_);
  before_ += come_;
  ++file_;
  come_ = 0;
  digest_ = Sha256();
  is_finishing_ = false;
  if (next.ok()) incoming_ = *std::move(next);
  return next.status();
}

void StagedUpload::DropFile() {
  // The file is emptied anyway when it is sent again.
  files_.RemoveTree(IncomingPath()).IgnoreError();
  absl::MutexLock lock(&mutex_);
  come_ = 0;
  is_finishing_ = false;
}

}  // namespace hearth::server
