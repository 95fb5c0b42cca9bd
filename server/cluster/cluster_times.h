#ifndef HEARTH_SERVER_CLUSTER_CLUSTER_TIMES_H_
#define HEARTH_SERVER_CLUSTER_CLUSTER_TIMES_H_

#include "absl/time/time.h"

namespace hearth::server {

/// How long machines wait for each other.
struct ClusterTimes {
  /// Between two signs of life.
  absl::Duration beat = absl::Seconds(1);
  /// Without a sign of life, after which a machine counts as lost.
  absl::Duration silence = absl::Seconds(5);
  /// For a place to run in at every member.
  absl::Duration place = absl::Seconds(10);
  /// For the connections of a rank to the others.
  absl::Duration connect = absl::Seconds(10);
  /// For the batch after which all leave together, before a rank that is to
  /// stop stops alone.
  absl::Duration leave = absl::Seconds(10);
  /// For what another rank says last.
  absl::Duration last_words = absl::Seconds(5);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_CLUSTER_TIMES_H_
