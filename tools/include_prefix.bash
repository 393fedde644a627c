# shellcheck shell=bash
#
# To be sourced in the root of the project. Bazel's include_prefix, without
# Bazel: in the folder ${include_dir}, "wheelcache/..." is the project. What a
# script makes may go there as well; it is removed when the script ends.

include_dir="$(mktemp --directory)"
readonly include_dir
trap 'rm -rf -- "${include_dir}"' EXIT
ln --symbolic -- "${PWD}" "${include_dir}/wheelcache"
