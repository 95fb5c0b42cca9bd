// Debian's gRPC and Protobuf are not instrumented, so ThreadSanitizer does not
// see what orders the accesses that their headers inline into our objects.
// Only for --config=tsan.

// Each pattern is anchored: it matches no function of ours that one of these
// calls, and none that merely has such a name within its own.
extern "C" const char* __tsan_default_suppressions() {
  return "race:^grpc::internal::\n"
         "race:^grpc::Server::\n"
         // One of gRPC's threads may drop the last reference to an object that
         // another thread made.
         "race:^grpc::AuthMetadataProcessorAyncWrapper::Destroy\n"
         "race:^google::protobuf::\n";
}
