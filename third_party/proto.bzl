"""C++ code from .proto files, by Debian's protoc and gRPC plug-in."""

def hearth_proto_library(name, srcs, visibility = None):
    """A cc_library with the messages and services of proto/`srcs`.

    Args:
      name: the library.
      srcs: .proto files of this package; imports are relative to //proto.
      visibility: who may use it.
    """
    stems = [src[:-len(".proto")] for src in srcs]
    headers = [s + e for s in stems for e in (".pb.h", ".grpc.pb.h")]
    sources = [s + e for s in stems for e in (".pb.cc", ".grpc.pb.cc")]
    native.genrule(
        name = name + "_code",
        srcs = srcs,
        outs = headers + sources,
        cmd = " ".join([
            "protoc --proto_path=proto",
            "--cpp_out=$(GENDIR)/proto --grpc_out=$(GENDIR)/proto",
            "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin $(SRCS)",
        ]),
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Generated code includes its siblings relative to //proto, and is not
        # held to our warnings.
        copts = ["-w"],
        strip_include_prefix = "/proto",
        linkstatic = True,
        visibility = visibility,
        deps = ["//third_party:grpc"],
    )
