#include "wheelcache/cache/near/internal/redis/wire.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace wheelcache::internal {

absl::Status Wire::Send(absl::string_view bytes) {
  if (unsent() == 0) {
    absl::StatusOr<size_t> sent = socket_.Send(bytes);
    if (!sent.ok()) return sent.status();
    bytes.remove_prefix(*sent);
  }
  unsent_.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status Wire::Flush() {
  absl::StatusOr<size_t> sent =
      socket_.Send(absl::string_view(unsent_).substr(flushed_));
  if (!sent.ok()) return sent.status();
  flushed_ += *sent;
  if (unsent() == 0) {
    // Not clear(), which keeps the memory of a large value.
    unsent_ = std::string();
    flushed_ = 0;
  }
  return absl::OkStatus();
}

absl::Status Wire::Receive(std::vector<Reply>* replies, Socket::Wait wait) {
  absl::StatusOr<std::optional<size_t>> size =
      socket_.Receive(absl::MakeSpan(buffer_), wait);
  if (!size.ok()) return size.status();
  if (!size->has_value()) return absl::OkStatus();
  reader_.Feed({buffer_.data(), **size});
  while (true) {
    Reply reply;
    switch (reader_.Next(&reply)) {
      case ReplyReader::kReply:
        replies->push_back(std::move(reply));
        break;
      case ReplyReader::kNeedsMore:
        return absl::OkStatus();
      case ReplyReader::kBroken:
        return absl::UnavailableError(absl::StrCat(
            "what arrived is not of the Redis protocol: ", reader_.error()));
    }
  }
}

}  // namespace wheelcache::internal
