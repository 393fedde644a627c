"""A repository whose targets stand for libraries that the system's packages installed."""

_LINK_TARGET = """
cc_library(
    name = "{name}",
    linkopts = {link_flags},
    visibility = ["//visibility:public"],
)
"""

_TARGET = """
cc_library(
    name = "{name}",
    visibility = ["//visibility:public"],
    deps = ["//:system_link_flags"],
)
"""

_HEADER = 'load("@rules_cc//cc:defs.bzl", "cc_library")\n'

def _link_flags(repository_ctx):
    """Returns the flags that link every target: pkg-config puts them in order and leaves out the duplicates."""
    result = repository_ctx.execute(["pkg-config", "--libs"] + repository_ctx.attr.pkg_config)
    if result.return_code != 0:
        fail("pkg-config found no %s; ./bazelw installs it: %s" % (
            ", ".join(repository_ctx.attr.pkg_config),
            result.stderr,
        ))
    return repository_ctx.attr.extra_link_flags + [
        _prefer_archive(flag, repository_ctx.attr.static_prefix)
        for flag in result.stdout.strip().split(" ")
        if flag
    ]

def _prefer_archive(flag, static_prefix):
    if static_prefix and flag.startswith("-l" + static_prefix):
        return "-l:lib%s.a" % flag[len("-l"):]
    return flag

def _system_repository_impl(repository_ctx):
    packages = dict(repository_ctx.attr.targets)
    packages.setdefault("", [])
    for package, names in packages.items():
        content = _HEADER + "".join([_TARGET.format(name = name) for name in names])
        if not package:
            content += _LINK_TARGET.format(name = "system_link_flags", link_flags = _link_flags(repository_ctx))
        repository_ctx.file(package + "/BUILD.bazel" if package else "BUILD.bazel", content)

# The headers lie in the compiler's own search path, so a target has none to declare: it stands for link flags, and
# for the label that stays the same when MODULE.bazel fetches the library instead.
system_repository = repository_rule(
    implementation = _system_repository_impl,
    attrs = {
        "extra_link_flags": attr.string_list(doc = "Flags that come before those of pkg-config."),
        "pkg_config": attr.string_list(doc = "pkg-config modules that cover all the targets.", mandatory = True),
        "static_prefix": attr.string(doc = "Libraries whose name starts so are linked from their archives."),
        "targets": attr.string_list_dict(doc = "The target names of each package.", mandatory = True),
    },
    configure = True,
    local = True,
)
