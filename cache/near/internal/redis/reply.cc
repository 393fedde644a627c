#include "wheelcache/cache/near/internal/redis/reply.h"

#include <string>

#include "absl/strings/string_view.h"

namespace wheelcache::internal {

ReplyReader::ReplyReader() : reader_(redisReaderCreate()) {}

void ReplyReader::Feed(absl::string_view bytes) {
  // An error stays with the reader, and Next returns it.
  if (reader_ != nullptr) {
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
  }
}

ReplyReader::Result ReplyReader::Next(Reply* reply) {
  void* parsed = nullptr;
  if (reader_ == nullptr ||
      redisReaderGetReply(reader_.get(), &parsed) != REDIS_OK) {
    return kBroken;
  }
  reply->reset(static_cast<redisReply*>(parsed));
  return parsed == nullptr ? kNeedsMore : kReply;
}

std::string ReplyReader::error() const {
  return reader_ == nullptr ? "out of memory" : reader_->errstr;
}

}  // namespace wheelcache::internal
