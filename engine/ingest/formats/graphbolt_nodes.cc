#include "engine/ingest/formats/graphbolt_nodes.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/set_labels.h"
#include "engine/ingest/formats/torch_arrays.h"
#include "engine/ingest/formats/torch_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"

namespace hearth::ingest {
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

  /// The array as a matrix: GraphBolt has one column of a list.
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

  /// Whether the yaml's `type`, empty in a homogeneous graph, is that of nodes.
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

  /// Whether the seeds of its sets are single nodes.
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

  /// Notes the arrays of a set that have no place in a dataset.
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
