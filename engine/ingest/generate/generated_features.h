#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATED_FEATURES_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATED_FEATURES_H_

#include <cstdint>
#include <memory>

#include "engine/ingest/generate/computed_file.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generated_classes.h"

namespace hearth::ingest {

/// Bytes of memory that the features' centroids take.
uint64_t CentroidBytes(const GenerateOptions& options);

/// Rows of features: the centroid of the node's class and noise around it. The
/// centroids are so near each other that a row by itself seldom tells its class
/// for certain, while the mean over neighbors does. REQUIRES:
/// options.Validate(), and that `classes` are of the same options.
std::unique_ptr<ComputedItems> NewGeneratedFeatures(
    const GenerateOptions& options, const GeneratedClasses& classes);

/// Labels: the nodes' classes as int32.
std::unique_ptr<ComputedItems> NewGeneratedLabels(
    const GeneratedClasses& classes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATED_FEATURES_H_
