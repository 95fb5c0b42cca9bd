#ifndef HEARTH_SERVER_STORAGE_OUTSIDE_H_
#define HEARTH_SERVER_STORAGE_OUTSIDE_H_

#include <string>

#include "absl/status/status.h"
#include "engine/io/file_system.h"

namespace hearth::server {

/// OK if what would be made at the absolute path `destination` lies outside the
/// data directory `data_dir`, with ".." and all symbolic links resolved that
/// there are now. INVALID_ARGUMENT otherwise: a daemon owns all that lies in
/// its data directory and may remove it.
absl::Status CheckOutside(io::FileSystem& files, const std::string& data_dir,
                          const std::string& destination);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_OUTSIDE_H_
