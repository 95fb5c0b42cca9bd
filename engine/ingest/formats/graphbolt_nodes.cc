#include "engine/ingest/formats/graphbolt_nodes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/node_import.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/store/npy.h"

namespace hearth::ingest {

namespace {

constexpr int64_t kBlockElements = 32 << 10;
constexpr int32_t kUnlabeled = -1;

/// Shape of joined labels. Classes, too, are held as floats, which represent
/// all of them.
struct JoinedShape {
  store::LabelKind kind = store::LabelKind::kClasses;
  int64_t num_nodes = 0;
  int64_t width = 1;
};

/// Consecutive nodes whose labels are in memory.
class NodeWindow {
 public:
  NodeWindow(const JoinedShape& shape, int64_t first, int64_t count)
      : shape_(shape),
        width_(static_cast<size_t>(shape.width)),
        first_(first),
        is_set_(static_cast<size_t>(count)),
        labels_(is_set_.size() * width_,
                std::numeric_limits<float>::quiet_NaN()) {}

  /// Reads the labels of the window's nodes from a set.
  absl::Status Read(ImportContext& context, const SetLabels& set) {
    HEARTH_ASSIGN_OR_RETURN(LabelRows rows,
                            LabelRows::Open(context, *set.labels));
    const int64_t block = std::min(kBlockElements, rows.block_rows());
    for (int64_t first = 0; first < rows.num_rows(); first += block) {
      const int64_t count = std::min(block, rows.num_rows() - first);
      seeds_.resize(static_cast<size_t>(count));
      HEARTH_RETURN_IF_ERROR(
          set.seeds->ReadInts(first, absl::MakeSpan(seeds_)));
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const double> values,
                              rows.Read(first, count));
      for (int64_t i = 0; i < count; ++i) {
        HEARTH_RETURN_IF_ERROR(
            Set(set, rows, first + i, seeds_[static_cast<size_t>(i)],
                values.subspan(static_cast<size_t>(i) * width_, width_)));
      }
      HEARTH_RETURN_IF_ERROR(context.Advance(static_cast<uint64_t>(count)));
    }
    return absl::OkStatus();
  }

  /// Appends the labels to `joined` in the order of the nodes, in pieces,
  /// because `joined` buffers what it is given.
  absl::Status Write(ScratchArray& joined) const {
    for (absl::Span<const float> labels = labels_; !labels.empty();) {
      const auto piece = labels.first(
          std::min<size_t>(labels.size(), static_cast<size_t>(kBlockElements)));
      labels.remove_prefix(piece.size());
      if (shape_.kind != store::LabelKind::kClasses) {
        HEARTH_RETURN_IF_ERROR(joined.AppendValues(piece));
        continue;
      }
      std::vector<int32_t> classes;
      for (const float label : piece) {
        classes.push_back(std::isnan(label) ? kUnlabeled
                                            : static_cast<int32_t>(label));
      }
      HEARTH_RETURN_IF_ERROR(
          joined.AppendValues<int32_t>(absl::MakeConstSpan(classes)));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckValue(const LabelRows& rows, int64_t row, int64_t column,
                          double value) const {
    if (shape_.kind != store::LabelKind::kClasses) {
      return !std::isinf(static_cast<float>(value))
                 ? absl::OkStatus()
                 : rows.ErrorAt(row, column, ", more than a float32 can hold");
    }
    if (std::isnan(value)) return absl::OkStatus();
    if (value != std::floor(value) && std::isfinite(value)) {
      return rows.ErrorAt(
          row, column,
          ", not a whole number; --labels targets takes numbers "
          "to predict");
    }
    if (value >= kUnlabeled && value < static_cast<double>(kMaxClasses)) {
      return absl::OkStatus();
    }
    return rows.ErrorAt(row, column,
                        absl::StrCat("; labels are 0 .. ", kMaxClasses - 1,
                                     ", or -1 for none"));
  }

  absl::Status Set(const SetLabels& set, const LabelRows& rows, int64_t row,
                   int64_t node, absl::Span<const double> values) {
    if (node < 0 || node >= shape_.num_nodes) {
      return set.seeds->ErrorAt(
          row, absl::StrCat("is ", node, "; node ids are 0 .. ",
                            shape_.num_nodes - 1));
    }
    for (size_t i = 0; i < width_; ++i) {
      HEARTH_RETURN_IF_ERROR(
          CheckValue(rows, row, static_cast<int64_t>(i), values[i]));
    }
    const auto at = static_cast<uint64_t>(node - first_);
    if (node < first_ || at >= is_set_.size()) return absl::OkStatus();
    const absl::Span<float> there =
        absl::MakeSpan(labels_).subspan(at * width_, width_);
    for (size_t i = 0; i < width_; ++i) {
      const bool is_unlabeled_class =
          shape_.kind == store::LabelKind::kClasses && values[i] == kUnlabeled;
      const float label = is_unlabeled_class
                              ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(values[i]);
      const bool is_same =
          label == there[i] || (std::isnan(label) && std::isnan(there[i]));
      if (is_set_[at] && !is_same) {
        return rows.ErrorAt(row, static_cast<int64_t>(i),
                            absl::StrCat(", but node ", node, " has the label ",
                                         there[i], " already"));
      }
      there[i] = label;
    }
    is_set_[at] = true;
    return absl::OkStatus();
  }

  const JoinedShape& shape_;
  const size_t width_;
  const int64_t first_;
  /// Whether a set has the node.
  std::vector<bool> is_set_;
  /// Labels of the nodes, row by row; NaN: unlabeled.
  std::vector<float> labels_;
  std::vector<int64_t> seeds_;
};

absl::StatusOr<JoinedShape> ShapeOf(int64_t num_nodes,
                                    std::optional<store::LabelKind> wanted,
                                    const std::vector<SetLabels>& sets) {
  JoinedShape shape;
  shape.num_nodes = num_nodes;
  for (const SetLabels& set : sets) {
    HEARTH_RETURN_IF_ERROR(CheckSplitHeader(*set.seeds, num_nodes));
    const store::ArrayHeader& header = set.labels->header();
    HEARTH_RETURN_IF_ERROR(
        CheckLabelHeader(*set.labels, set.seeds->header().shape[0], wanted));
    const int64_t width = header.shape.size() == 1 ? 1 : header.shape[1];
    if (&set == &sets[0]) {
      shape.kind = KindOfLabels(header, wanted);
      shape.width = width;
    } else if (width != shape.width) {
      return set.labels->Error(absl::StrCat("has ", width, " columns; ",
                                            sets[0].labels->path(), " has ",
                                            shape.width));
    }
  }
  return shape;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    std::optional<store::LabelKind> wanted,
    const std::vector<SetLabels>& sets) {
  HEARTH_ASSIGN_OR_RETURN(const JoinedShape shape,
                          ShapeOf(num_nodes, wanted, sets));
  uint64_t elements = 0;
  for (const SetLabels& set : sets) {
    elements += static_cast<uint64_t>(set.seeds->header().shape[0]);
  }
  const auto row_bytes = static_cast<uint64_t>(shape.width) * sizeof(float);
  const auto window = std::max<int64_t>(
      1, static_cast<int64_t>(context.memory_limit_bytes() / 4 / row_bytes));
  const int64_t passes = (num_nodes - 1) / window + 1;
  HEARTH_RETURN_IF_ERROR(context.CheckSpace(
      static_cast<uint64_t>(num_nodes) * row_bytes, "joining the labels"));
  context.Begin("unpacking", elements * static_cast<uint64_t>(passes));
  const bool is_classes = shape.kind == store::LabelKind::kClasses;
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchArray> joined,
      ScratchArray::Create(context,
                           {is_classes ? store::ElementType::Kind::kInt
                                       : store::ElementType::Kind::kFloat,
                            sizeof(float)},
                           name));
  for (int64_t first = 0; first < num_nodes; first += window) {
    NodeWindow nodes(shape, first, std::min(window, num_nodes - first));
    for (const SetLabels& set : sets) {
      HEARTH_RETURN_IF_ERROR(nodes.Read(context, set));
    }
    HEARTH_RETURN_IF_ERROR(nodes.Write(*joined));
  }
  if (is_classes) return joined->Finish({num_nodes});
  return joined->Finish({num_nodes, shape.width});
}

namespace {

class NodesOpener {
 public:
  NodesOpener(ImportContext& context, const std::string& folder,
              const MetadataYaml& yaml, const GraphBoltOptions& options,
              SourceGraph& graph)
      : context_(context),
        folder_(folder),
        yaml_(yaml),
        options_(options),
        graph_(graph) {}

  absl::Status Open() {
    for (SourceNodes& nodes : graph_.nodes) {
      HEARTH_RETURN_IF_ERROR(OpenFeatures(nodes));
    }
    for (const MetadataFeature& feature : yaml_.features) {
      HEARTH_RETURN_IF_ERROR(CheckDomain(feature));
    }
    for (const MetadataFeature& feature : yaml_.graph_features) {
      LeaveOut(feature);
    }
    HEARTH_ASSIGN_OR_RETURN(const MetadataTask* const task, FindTask());
    return task == nullptr ? absl::OkStatus() : OpenTask(*task);
  }

 private:
  absl::StatusOr<std::unique_ptr<ArrayReader>> OpenArray(
      const MetadataFile& file) {
    const std::string path = io::JoinPath(folder_, file.path);
    if (file.format == MetadataFile::Format::kNumpy) {
      return ArrayReader::OpenNpy(context_.files(), path);
    }
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TorchFile> torch,
                            OpenTorchFile(context_.files(), path));
    return OpenTorchValue(*torch, &torch->root());
  }

  /// The array as a matrix: GraphBolt reads a list as a matrix of one column.
  absl::StatusOr<std::unique_ptr<ArrayReader>> AsMatrix(
      const MetadataFile& file, std::unique_ptr<ArrayReader> array) {
    store::ArrayHeader header = array->header();
    if (header.shape.size() != 1) return array;
    header.shape.push_back(1);
    header.fortran_order = false;
    const std::string path = io::JoinPath(folder_, file.path);
    if (file.format == MetadataFile::Format::kNumpy) {
      return ArrayReader::OpenRaw(context_.files(), path, std::move(header));
    }
    return array->Error("has one dimension; features have two");
  }

  void LeaveOut(const MetadataFeature& feature) {
    graph_.warnings.push_back(absl::StrCat(
        "the ", feature.domain, " feature \"", absl::CEscape(feature.name),
        "\"", feature.type.empty() ? "" : " of ", absl::CEscape(feature.type),
        " is left out"));
  }

  /// Whether `type` in the yaml, empty in a homogeneous graph, names these
  /// nodes.
  bool IsOf(const std::string& type, const SourceNodes& nodes) const {
    return type.empty() ? graph_.nodes.size() == 1 : type == nodes.type;
  }

  absl::Status CheckDomain(const MetadataFeature& feature) {
    if (feature.domain != "node") {
      LeaveOut(feature);
      return absl::OkStatus();
    }
    for (const SourceNodes& nodes : graph_.nodes) {
      if (IsOf(feature.type, nodes)) return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, ": feature ", absl::CEscape(feature.name),
                     " is of nodes of ", "type \"", absl::CEscape(feature.type),
                     "\", which the graph does not have"));
  }

  absl::Status OpenFeatures(SourceNodes& nodes) {
    using Opened =
        std::pair<const MetadataFeature*, std::unique_ptr<ArrayReader>>;
    std::vector<Opened> floats;
    for (const MetadataFeature& feature : yaml_.features) {
      if (feature.domain != "node" || !IsOf(feature.type, nodes)) continue;
      HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> array,
                              OpenArray(feature.file));
      if (feature.name == "label" || feature.name == "labels") {
        if (nodes.labels != nullptr) {
          return array->Error("is the second feature of labels");
        }
        nodes.labels = std::move(array);
      } else if (!array->header().type.IsFloat() && feature.name != "feat") {
        LeaveOut(feature);
      } else {
        floats.emplace_back(&feature, std::move(array));
      }
    }
    size_t taken = 0;
    while (taken < floats.size() && floats[taken].first->name != "feat") {
      ++taken;
    }
    if (floats.size() == 1) taken = 0;
    if (!floats.empty() && taken == floats.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder_, ": nodes have the features ",
          absl::StrJoin(floats, ", ",
                        [](std::string* out, const Opened& one) {
                          absl::StrAppend(out, absl::CEscape(one.first->name));
                        }),
          "; one must be called feat"));
    }
    for (size_t i = 0; i < floats.size(); ++i) {
      if (i != taken) {
        LeaveOut(*floats[i].first);
        continue;
      }
      HEARTH_ASSIGN_OR_RETURN(
          nodes.features,
          AsMatrix(floats[i].first->file, std::move(floats[i].second)));
    }
    return absl::OkStatus();
  }

  static const MetadataItem* Seeds(const MetadataSet& set) {
    const MetadataItem* const seeds = set.Find("seeds");
    return seeds != nullptr ? seeds : set.Find("seed_nodes");
  }

  /// Whether the seeds of the task's sets are single nodes.
  absl::StatusOr<bool> IsOfNodes(const MetadataTask& task) {
    for (const std::vector<MetadataSet>& part : task.sets) {
      for (const MetadataSet& set : part) {
        const MetadataItem* const seeds = Seeds(set);
        if (seeds == nullptr) return false;
        HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> array,
                                OpenArray(seeds->file));
        if (array->header().shape.size() != 1) return false;
      }
    }
    return !(task.sets[0].empty() && task.sets[1].empty() &&
             task.sets[2].empty());
  }

  /// The only task whose seeds are nodes; null if there is none.
  absl::StatusOr<const MetadataTask*> FindTask() {
    std::vector<const MetadataTask*> tasks;
    for (const MetadataTask& task : yaml_.tasks) {
      HEARTH_ASSIGN_OR_RETURN(const bool is_of_nodes, IsOfNodes(task));
      if (is_of_nodes) {
        tasks.push_back(&task);
      } else {
        graph_.warnings.push_back(
            absl::StrCat("the task \"", absl::CEscape(task.name),
                         "\" is left out: its seeds are not single nodes"));
      }
    }
    if (tasks.empty()) return nullptr;
    if (tasks.size() == 1) return tasks[0];
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, ": has several tasks over nodes: ",
        absl::StrJoin(tasks, ", ",
                      [](std::string* out, const MetadataTask* task) {
                        absl::StrAppend(out, "\"", absl::CEscape(task->name),
                                        "\"");
                      }),
        "; keep one"));
  }

  absl::StatusOr<SourceNodes*> FindNodes(const MetadataSet& set) {
    for (SourceNodes& nodes : graph_.nodes) {
      if (IsOf(set.type, nodes)) return &nodes;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(set.place, ": type is \"", absl::CEscape(set.type),
                     "\", which the graph does not have"));
  }

  /// Notes arrays of a set that a dataset does not keep.
  void NoteUnusedItems(const MetadataSet& set) {
    for (const MetadataItem& item : set.data) {
      if (&item != Seeds(set) && &item != set.Find("labels")) {
        unused_items_.insert(item.name);
      }
    }
  }

  absl::Status OpenTask(const MetadataTask& task) {
    std::map<SourceNodes*, std::vector<SetLabels>> labels;
    for (size_t i = 0; i < task.sets.size(); ++i) {
      for (const MetadataSet& set : task.sets[i]) {
        HEARTH_ASSIGN_OR_RETURN(SourceNodes* const nodes, FindNodes(set));
        if (nodes->split[i] != nullptr) {
          return absl::InvalidArgumentError(absl::StrCat(
              set.place, ": is the second set of this part and type"));
        }
        HEARTH_ASSIGN_OR_RETURN(nodes->split[i], OpenArray(Seeds(set)->file));
        NoteUnusedItems(set);
        const MetadataItem* const item = set.Find("labels");
        if (item == nullptr || nodes->labels != nullptr) continue;
        SetLabels opened;
        HEARTH_ASSIGN_OR_RETURN(opened.seeds, OpenArray(Seeds(set)->file));
        HEARTH_ASSIGN_OR_RETURN(opened.labels, OpenArray(item->file));
        labels[nodes].push_back(std::move(opened));
      }
    }
    for (const std::string& name : unused_items_) {
      graph_.warnings.push_back(absl::StrCat(
          "\"", absl::CEscape(name), "\" of the task's sets is left out"));
    }
    for (auto& [nodes, sets] : labels) {
      nodes->label_kind = options_.labels;
      HEARTH_ASSIGN_OR_RETURN(
          nodes->labels,
          JoinSetLabels(context_, nodes->num_nodes,
                        absl::StrCat(folder_, ": labels of ", nodes->type),
                        options_.labels, sets));
      graph_.transforms.push_back(
          absl::StrCat(nodes->type, ": labels joined from those of the split"));
    }
    return absl::OkStatus();
  }

  ImportContext& context_;
  const std::string& folder_;
  const MetadataYaml& yaml_;
  const GraphBoltOptions& options_;
  SourceGraph& graph_;
  std::set<std::string> unused_items_;
};

}  // namespace

absl::Status OpenGraphBoltNodes(ImportContext& context,
                                const std::string& folder,
                                const MetadataYaml& yaml,
                                const GraphBoltOptions& options,
                                SourceGraph& graph) {
  return NodesOpener(context, folder, yaml, options, graph).Open();
}

}  // namespace hearth::ingest
