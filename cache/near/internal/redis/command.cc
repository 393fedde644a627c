#include "wheelcache/cache/near/internal/redis/command.h"

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace wheelcache::internal {

bool AppendCommand(absl::Span<const absl::string_view> arguments,
                   std::string* bytes) {
  constexpr size_t kUsual = 8;
  absl::InlinedVector<const char*, kUsual> texts;
  absl::InlinedVector<size_t, kUsual> sizes;
  for (const absl::string_view argument : arguments) {
    texts.push_back(argument.data());
    sizes.push_back(argument.size());
  }
  char* formatted = nullptr;
  // An int in hiredis 0.14, a long long in 1.x.
  const int64_t size = redisFormatCommandArgv(
      &formatted, static_cast<int>(texts.size()), texts.data(), sizes.data());
  if (size < 0) return false;
  bytes->append(formatted, static_cast<size_t>(size));
  redisFreeCommand(formatted);
  return true;
}

}  // namespace wheelcache::internal
