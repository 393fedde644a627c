"""As in @rules_cc."""

load(":builtin.bzl", "builtin_cc_common")

cc_common = builtin_cc_common
