// Parses the fuzzer's bytes as the URL of a Redis server. Each is either
// rejected, by an error that shows no password, or means the same when it is
// written anew from its parts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"

namespace wheelcache::internal {
namespace {

void Require(bool condition, absl::string_view rule, absl::string_view url) {
  if (condition) return;
  std::cerr << rule << ": '" << absl::CHexEscape(url) << "'" << std::endl;
  std::abort();
}

std::string PercentEncoded(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    absl::StrAppendFormat(&encoded, "%%%02x", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string HostsOf(const ServerUrl& url) {
  std::string hosts;
  for (const ServerUrl::Host& each : url.hosts) {
    absl::StrAppend(&hosts, hosts.empty() ? "" : ",", each.name());
  }
  return hosts;
}

std::string Written(const ServerUrl& url) {
  std::string login;
  if (!url.user.empty() || !url.password.empty()) {
    login = absl::StrCat(PercentEncoded(url.user), ":",
                         PercentEncoded(url.password), "@");
  }
  if (!url.socket_path.empty()) {
    return absl::StrCat("unix://", login, url.name(), "?db=", url.database);
  }
  const std::string hosts = HostsOf(url);
  if (!url.primary_name.empty()) {
    return absl::StrCat("redis+sentinel://", login, hosts, "/",
                        url.primary_name, "/", url.database);
  }
  const absl::string_view scheme = url.has_tls ? "rediss://" : "redis://";
  return absl::StrCat(scheme, login, hosts, "/", url.database);
}

void CheckAccepted(const ServerUrl& url, absl::string_view text) {
  Require(url.hosts.empty() != url.socket_path.empty(), "hosts or a path",
          text);
  Require(url.primary_name.empty() || !url.hosts.empty(),
          "somebody knows the name", text);
  for (const ServerUrl::Host& each : url.hosts) {
    Require(!each.host.empty() && each.port != 0, "a host has a port", text);
  }
  Require(url.database >= 0, "the database is a number", text);
  Require(url.user.empty() || !url.password.empty(), "a user has a password",
          text);
  const absl::StatusOr<ServerUrl> again = ParseServerUrl(Written(url));
  Require(again.ok() && HostsOf(*again) == HostsOf(url) &&
              again->socket_path == url.socket_path &&
              again->primary_name == url.primary_name &&
              again->has_tls == url.has_tls && again->user == url.user &&
              again->password == url.password &&
              again->database == url.database,
          "it means the same when it is written anew", text);
}

// What may be a password: what stands before the last "@", behind a ":".
absl::string_view SecretOf(absl::string_view text) {
  const size_t start = text.find("://");
  const size_t at = text.rfind('@');
  if (start == absl::string_view::npos || at == absl::string_view::npos ||
      at < start + 3) {
    return {};
  }
  absl::string_view secret = text.substr(start + 3, at - start - 3);
  // A path may contain both, also after an empty login.
  if (absl::StartsWith(text, "unix://") &&
      (absl::StartsWith(secret, "/") || absl::StartsWith(secret, "@/"))) {
    return {};
  }
  return secret.substr(secret.find(':') + 1);
}

// The same URL with other letters and digits in the secret.
std::string Disguised(absl::string_view text, absl::string_view secret) {
  std::string disguised(text);
  for (size_t i = 0; i < secret.size(); ++i) {
    disguised[secret.data() - text.data() + i] =
        absl::ascii_isdigit(secret[i]) ? '7' : 'q';
  }
  return disguised;
}

void CheckRefused(const absl::Status& status, absl::string_view text) {
  Require(absl::IsInvalidArgument(status), "an invalid argument", text);
  Require(absl::StartsWith(status.message(), "url: "), "the field is named",
          text);
  const absl::string_view secret = SecretOf(text);
  if (!std::all_of(secret.begin(), secret.end(), absl::ascii_isalnum)) return;
  Require(status == ParseServerUrl(Disguised(text, secret)).status(),
          "no message shows a password", text);
}

}  // namespace
}  // namespace wheelcache::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace internal = wheelcache::internal;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<internal::ServerUrl> url =
      internal::ParseServerUrl(text);
  if (url.ok()) {
    internal::CheckAccepted(*url, text);
  } else {
    internal::CheckRefused(url.status(), text);
  }
  return 0;
}
