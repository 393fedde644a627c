#include "wheelcache/cache/types/removal.h"

namespace wheelcache {

absl::string_view RemovalCauseName(RemovalCause cause) {
  switch (cause) {
    case RemovalCause::kExpired:
      return "expired";
    case RemovalCause::kEvicted:
      return "evicted";
    case RemovalCause::kDeleted:
      return "deleted";
    case RemovalCause::kReplaced:
      return "replaced";
  }
  return "unknown";
}

}  // namespace wheelcache
