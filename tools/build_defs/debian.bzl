"""What the Bazel of Debian 12 needs instead of the network: repositories of Debian's packages, and of this project."""

load(":system_libraries.bzl", "system_libraries")

def debian_repositories(wheelcache):
    """Defines them, under the names that MODULE.bazel gives them in later releases of Bazel.

    Args:
      wheelcache: the path of this project, from the folder of the WORKSPACE file.
    """
    system_libraries()

    # Bazel itself refers to these four. Debian has a package of rules_cc as well, but one for a later Bazel than its
    # own.
    for name, path in {
        "remote_coverage_tools": wheelcache + "/tools/build_defs/debian/remote_coverage_tools",
        "rules_cc": wheelcache + "/tools/build_defs/debian/rules_cc",
        "rules_java": "/usr/share/bazel/rules/java",
        "rules_proto": "/usr/share/bazel/rules/proto",
    }.items():
        native.local_repository(name = name, path = path)
