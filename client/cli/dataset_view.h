#ifndef HEARTH_CLIENT_CLI_DATASET_VIEW_H_
#define HEARTH_CLIENT_CLI_DATASET_VIEW_H_

#include <ostream>
#include <vector>

#include "hearth/v1/datasets.pb.h"

namespace hearth::cli {

/// A line for each dataset.
void PrintDatasetList(const std::vector<v1::Dataset>& datasets,
                      std::ostream& out);

/// Everything about one dataset: sizes, statistics, what the import did, and
/// what looks like a mistake.
void PrintDataset(const v1::Dataset& dataset, std::ostream& out);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_DATASET_VIEW_H_
