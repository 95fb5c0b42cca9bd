#include "server/mapping/dataset_spec_mapping.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/store/array_type.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {
namespace {

constexpr size_t kMaxPathLength = 4'096;
constexpr uint64_t kMaxCount = uint64_t{1} << 48;
constexpr uint32_t kSmallIgbClasses = 19;
constexpr uint32_t kLargeIgbClasses = 2983;
constexpr char kNameRule[] =
    "must be 1 to 128 letters, digits, '.', '_' or '-', starting with a letter "
    "or digit, and not end in .tmp";

void CheckMemoryLimit(const char* field, uint64_t bytes,
                      FieldViolations& violations) {
  if (bytes >= kMinImportMemoryBytes) return;
  violations.Add(field, absl::StrCat("must be at least ", kMinImportMemoryBytes,
                                     ", not ", bytes));
}

template <typename Enum>
void CheckEnum(const char* field, Enum value, bool is_valid,
               FieldViolations& violations) {
  if (is_valid) return;
  violations.Add(field, absl::StrCat("is ", static_cast<int>(value),
                                     ", which this hearthd does not know"));
}

// Returns false, and adds a violation, for a number that the engine cannot
// hold.
bool CheckCount(const char* field, uint64_t count,
                FieldViolations& violations) {
  if (count <= kMaxCount) return true;
  violations.Add(field,
                 absl::StrCat("must be at most ", kMaxCount, ", not ", count));
  return false;
}

void CheckDataset(const char* field, const std::string& name,
                  FieldViolations& violations) {
  if (!IsValidName(name)) violations.Add(field, "must name a dataset");
}

void CheckEdgeList(const v1::EdgeListOptions& options,
                   FieldViolations& violations) {
  CheckEnum("import.edge_list.header", options.header(),
            v1::EdgeListHeader_IsValid(options.header()), violations);
  if (options.source_column().empty() != options.destination_column().empty()) {
    violations.Add(options.source_column().empty()
                       ? "import.edge_list.source_column"
                       : "import.edge_list.destination_column",
                   "must be set if the other column is");
  }
}

std::optional<bool> ToHasHeader(v1::EdgeListHeader header) {
  switch (header) {
    case v1::WITH_HEADER:
      return true;
    case v1::WITHOUT_HEADER:
      return false;
    default:
      return std::nullopt;
  }
}

void FillGenerateDefaults(v1::GenerateSpec& spec) {
  const ingest::GenerateOptions defaults;
  if (spec.feature_dim() == 0) {
    spec.set_feature_dim(static_cast<uint32_t>(defaults.feature_dim));
  }
  if (spec.feature_dtype().empty()) {
    spec.set_feature_dtype(store::Name(defaults.feature_dtype));
  }
  if (spec.num_classes() == 0) {
    spec.set_num_classes(static_cast<uint32_t>(defaults.num_classes));
  }
  if (spec.train_share() == 0) spec.set_train_share(defaults.train_share);
  if (spec.valid_share() == 0) spec.set_valid_share(defaults.valid_share);
  if (spec.test_share() == 0) spec.set_test_share(defaults.test_share);
  if (spec.memory_limit_bytes() == 0) {
    spec.set_memory_limit_bytes(ingest::ImportOptions().memory_limit_bytes);
  }
  if (spec.has_rmat()) {
    const ingest::RmatGraph rmat;
    v1::RmatGraph& graph = *spec.mutable_rmat();
    if (graph.a() == 0 && graph.b() == 0 && graph.c() == 0) {
      graph.set_a(rmat.a);
      graph.set_b(rmat.b);
      graph.set_c(rmat.c);
    }
  } else {
    const ingest::CommunityGraph communities;
    v1::CommunityGraph& graph = *spec.mutable_communities();
    if (graph.inside() == 0) graph.set_inside(communities.inside);
    if (graph.exponent() == 0) graph.set_exponent(communities.exponent);
  }
}

// A copy is what the other member has.
void CheckCopy(const v1::ImportSpec& spec, FieldViolations& violations) {
  if (!IsValidName(spec.from_member())) {
    violations.Add("import.from_member", "must name a member of the cluster");
  }
  if (!spec.share().empty() && spec.share() != "own" &&
      !ParseShare(spec.share()).has_value()) {
    violations.Add("import.share",
                   absl::StrCat("must be \"own\", or a part such as 2/4, of at "
                                "most ",
                                kMostShares));
  }
  std::vector<const google::protobuf::FieldDescriptor*> set;
  spec.GetReflection()->ListFields(spec, &set);
  for (const auto* field : set) {
    if (field->number() == v1::ImportSpec::kNameFieldNumber ||
        field->number() == v1::ImportSpec::kShareFieldNumber ||
        field->number() == v1::ImportSpec::kFromMemberFieldNumber) {
      continue;
    }
    violations.Add(absl::StrCat("import.", field->name()),
                   "must not be set for a copy of another member's dataset");
  }
}

ingest::SelfLoops ToSelfLoops(v1::SelfLoops self_loops) {
  switch (self_loops) {
    case v1::REMOVE_SELF_LOOPS:
      return ingest::SelfLoops::kRemove;
    case v1::ADD_SELF_LOOPS:
      return ingest::SelfLoops::kAdd;
    default:
      return ingest::SelfLoops::kKeep;
  }
}

ingest::NonFinite ToNonFinite(v1::NonFinite non_finite) {
  switch (non_finite) {
    case v1::KEEP_NON_FINITE:
      return ingest::NonFinite::kKeep;
    case v1::ZERO_NON_FINITE:
      return ingest::NonFinite::kZero;
    default:
      return ingest::NonFinite::kRefuse;
  }
}

}  // namespace

std::optional<SharePart> ParseShare(absl::string_view share) {
  const std::vector<absl::string_view> parts = absl::StrSplit(share, '/');
  SharePart part;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &part.number) ||
      !absl::SimpleAtoi(parts[1], &part.of) || part.number < 1 ||
      part.number > part.of || part.of > kMostShares) {
    return std::nullopt;
  }
  return part;
}

void CheckPath(const char* field, const std::string& path,
               FieldViolations& violations) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) {
    violations.Add(field, "must be an absolute path on the daemon's machine");
  } else if (path.size() > kMaxPathLength) {
    violations.Add(
        field, absl::StrCat("must be at most ", kMaxPathLength, " bytes long"));
  }
}

void CheckImport(v1::ImportSpec& spec, FieldViolations& violations) {
  if (!IsValidName(spec.name())) violations.Add("import.name", kNameRule);
  if (!spec.from_member().empty()) {
    CheckCopy(spec, violations);
    return;
  }
  if (!spec.share().empty()) {
    violations.Add("import.share",
                   "must be empty unless a dataset is copied from a member");
  }
  if (spec.upload().empty()) {
    CheckPath("import.path", spec.path(), violations);
  } else if (!spec.path().empty()) {
    violations.Add("import.path", "must not be set with an upload");
  }
  if (!spec.upload().empty() && spec.in_place()) {
    violations.Add("import.in_place",
                   "is not for an upload, whose files do not stay");
  }
  CheckEnum("import.format", spec.format(), v1::Format_IsValid(spec.format()),
            violations);
  CheckEnum("import.labels", spec.labels(),
            v1::LabelKind_IsValid(spec.labels()), violations);
  CheckEnum("import.edges.self_loops", spec.edges().self_loops(),
            v1::SelfLoops_IsValid(spec.edges().self_loops()), violations);
  CheckEnum("import.non_finite", spec.non_finite(),
            v1::NonFinite_IsValid(spec.non_finite()), violations);
  CheckEnum("import.fill_features", spec.fill_features(),
            v1::FeatureFill_IsValid(spec.fill_features()), violations);
  CheckEdgeList(spec.edge_list(), violations);
  if (spec.in_place() && spec.non_finite() == v1::ZERO_NON_FINITE) {
    violations.Add("import.non_finite",
                   "cannot be changed in features that are used in place");
  }
  if (spec.has_igb()) {
    const uint32_t classes = spec.igb().num_classes();
    if (classes == 0) {
      spec.mutable_igb()->set_num_classes(kSmallIgbClasses);
    } else if (classes != kSmallIgbClasses && classes != kLargeIgbClasses) {
      violations.Add("import.igb.num_classes",
                     absl::StrCat("must be 19 or 2983, not ", classes));
    }
  }
  if (spec.memory_limit_bytes() == 0) {
    spec.set_memory_limit_bytes(ingest::ImportOptions().memory_limit_bytes);
  }
  CheckMemoryLimit("import.memory_limit_bytes", spec.memory_limit_bytes(),
                   violations);
}

void CheckVerify(const v1::VerifySpec& spec, FieldViolations& violations) {
  CheckDataset("verify.dataset", spec.dataset(), violations);
}

void CheckGenerate(v1::GenerateSpec& spec, FieldViolations& violations) {
  FillGenerateDefaults(spec);
  if (spec.name().empty() == spec.destination().empty()) {
    violations.Add("generate.name",
                   "either a name or a destination must be set");
  } else if (!spec.name().empty() && !IsValidName(spec.name())) {
    violations.Add("generate.name", kNameRule);
  } else if (!spec.destination().empty()) {
    CheckPath("generate.destination", spec.destination(), violations);
  }
  CheckEnum("generate.format", spec.format(), v1::Format_IsValid(spec.format()),
            violations);
  if (!store::ParseDType(spec.feature_dtype()).ok()) {
    violations.Add("generate.feature_dtype",
                   "must be float32, float16 or bfloat16");
  } else if (CheckCount("generate.num_nodes", spec.num_nodes(), violations) &&
             CheckCount("generate.num_edges", spec.num_edges(), violations) &&
             CheckCount("generate.communities.num_communities",
                        spec.communities().num_communities(), violations)) {
    const absl::Status status = ToGenerateOptions(spec).Validate();
    if (!status.ok()) violations.Add("generate", std::string(status.message()));
  }
  CheckMemoryLimit("generate.memory_limit_bytes", spec.memory_limit_bytes(),
                   violations);
}

void CheckExportDataset(const v1::ExportDatasetSpec& spec,
                        FieldViolations& violations) {
  CheckDataset("export_dataset.dataset", spec.dataset(), violations);
  CheckPath("export_dataset.destination", spec.destination(), violations);
  CheckEnum("export_dataset.format", spec.format(),
            v1::Format_IsValid(spec.format()), violations);
}

std::string ToFormat(v1::Format format) {
  if (format == v1::FORMAT_UNSPECIFIED) return "";
  return absl::StrReplaceAll(absl::AsciiStrToLower(v1::Format_Name(format)),
                             {{"_", "-"}});
}

std::optional<store::LabelKind> ToLabelKind(v1::LabelKind kind) {
  switch (kind) {
    case v1::CLASSES:
      return store::LabelKind::kClasses;
    case v1::MULTI_LABEL:
      return store::LabelKind::kMultiLabel;
    case v1::TARGETS:
      return store::LabelKind::kTargets;
    default:
      return std::nullopt;
  }
}

ingest::ImportOptions ToImportOptions(const v1::ImportSpec& spec,
                                      const std::string& destination) {
  ingest::ImportOptions options;
  options.source = spec.path();
  options.name = spec.name();
  options.destination = destination;
  options.in_place = spec.in_place();
  options.memory_limit_bytes = spec.memory_limit_bytes();
  options.label_kind = ToLabelKind(spec.labels());
  options.edges.add_reverse = spec.edges().add_reverse();
  options.edges.remove_duplicates = spec.edges().remove_duplicates();
  options.edges.self_loops = ToSelfLoops(spec.edges().self_loops());
  options.non_finite = ToNonFinite(spec.non_finite());
  options.bfloat16_features = spec.bfloat16_features();
  options.fill_features = spec.fill_features() == v1::MEAN_OF_NEIGHBORS;
  return options;
}

ingest::FormatOptions ToFormatOptions(const v1::ImportSpec& spec) {
  ingest::FormatOptions options;
  options.edge_list.relabel = spec.edge_list().relabel();
  options.edge_list.has_header = ToHasHeader(spec.edge_list().header());
  options.edge_list.source_column = spec.edge_list().source_column();
  options.edge_list.destination_column = spec.edge_list().destination_column();
  options.graphbolt.labels = ToLabelKind(spec.labels());
  options.ogb.split = spec.ogb().split();
  if (spec.has_igb()) {
    options.igb.num_classes = static_cast<int>(spec.igb().num_classes());
    if (spec.igb().has_split_seed()) {
      options.igb.split_seed = spec.igb().split_seed();
    }
  }
  return options;
}

ingest::GenerateOptions ToGenerateOptions(const v1::GenerateSpec& spec) {
  ingest::GenerateOptions options;
  if (spec.has_rmat()) {
    options.graph = ingest::RmatGraph{
        .a = spec.rmat().a(), .b = spec.rmat().b(), .c = spec.rmat().c()};
  } else {
    options.graph = ingest::CommunityGraph{
        .inside = spec.communities().inside(),
        .exponent = spec.communities().exponent(),
        .num_communities =
            static_cast<int64_t>(spec.communities().num_communities())};
  }
  options.num_nodes = static_cast<int64_t>(spec.num_nodes());
  options.num_edges = static_cast<int64_t>(spec.num_edges());
  options.undirected = spec.undirected();
  options.feature_dim = spec.feature_dim();
  options.feature_dtype =
      store::ParseDType(spec.feature_dtype()).value_or(store::DType::kFloat32);
  options.num_classes = spec.num_classes();
  options.train_share = spec.train_share();
  options.valid_share = spec.valid_share();
  options.test_share = spec.test_share();
  options.seed = spec.seed();
  return options;
}

ingest::ImportOptions ToImportOptions(const v1::GenerateSpec& spec,
                                      const std::string& destination) {
  ingest::ImportOptions options;
  options.source = "the generated graph";
  options.name = spec.name();
  options.destination = destination;
  options.memory_limit_bytes = spec.memory_limit_bytes();
  return options;
}

}  // namespace hearth::server
