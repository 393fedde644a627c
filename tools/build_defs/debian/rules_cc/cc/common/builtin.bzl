"""What the two files beside this one give the names of the builtins again, which hides these there."""

builtin_cc_common = cc_common
builtin_cc_info = CcInfo
