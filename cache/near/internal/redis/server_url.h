// Where a Redis server is and as whom to log in, from a URL.
//
//   absl::StatusOr<ServerUrl> url =
//       ParseServerUrl("redis://reader:secret@cache.example:6379/2");
//   if (!url.ok()) return url.status();
//   EXPECT_EQ(url->hosts[0].host, "cache.example");
//   EXPECT_EQ(url->database, 2);
//
// Schemes: redis://[user:password@]host[:port][,host[:port]...][/database], the
// same as rediss:// for TLS, unix://[user:password@]/path/of/the/socket
// [?db=database], and
// redis+sentinel://[user:password@]host[:port][,host[:port]...]/name[/database]
// for the primary that these Sentinels know by that name.
//
// A host of IPv6 stands in brackets: redis://[::1]:6379. In user and password,
// %40 stands for "@", and so on. A password without a user,
// redis://:secret@host, belongs to the user "default".
//
// Errors. InvalidArgument names the part of the URL, what it was and the rule.
// No message contains a password.

#ifndef WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVER_URL_H_
#define WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVER_URL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache::internal {

struct ServerUrl {
  struct Host {
    // How messages name it: "host:port".
    std::string name() const;

    std::string host;
    uint16_t port;
  };

  // The servers of which any will do, or with a primary_name its Sentinels.
  // Empty: the server is at the socket_path.
  std::vector<Host> hosts = {};
  std::string socket_path = {};
  std::string primary_name = {};

  bool has_tls = false;
  std::string user = {};      // Empty: "default".
  std::string password = {};  // Empty: no AUTH.
  int database = 0;

  // How messages name the server: "host:port", the path, or the primary's name.
  std::string name() const;
};

WHEELCACHE_EXPORT absl::StatusOr<ServerUrl> ParseServerUrl(
    absl::string_view url);

}  // namespace wheelcache::internal

#endif  // WHEELCACHE_CACHE_NEAR_INTERNAL_REDIS_SERVER_URL_H_
