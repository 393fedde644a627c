#include "wheelcache/cache/near/internal/redis/command.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace wheelcache::internal {
namespace {

// Appends the line that says how many arguments there are, or bytes of one. By
// hand, since absl::StrAppend takes three times the instructions.
void AppendCount(char type, size_t count, std::string* bytes) {
  std::array<char, 3 + std::numeric_limits<size_t>::digits10 + 1> line;
  line.front() = type;
  char* end = std::to_chars(std::next(line.begin()), line.end(), count).ptr;
  *end++ = '\r';
  *end++ = '\n';
  bytes->append(line.data(), end);
}

}  // namespace

void AppendCommandStart(size_t arguments, std::string* bytes) {
  AppendCount('*', arguments, bytes);
}

void AppendArgument(absl::string_view argument, std::string* bytes) {
  AppendCount('$', argument.size(), bytes);
  bytes->append(argument.data(), argument.size());
  bytes->append("\r\n", 2);
}

void AppendCommand(absl::Span<const absl::string_view> arguments,
                   std::string* bytes) {
  AppendCommandStart(arguments.size(), bytes);
  for (const absl::string_view argument : arguments) {
    AppendArgument(argument, bytes);
  }
}

}  // namespace wheelcache::internal
