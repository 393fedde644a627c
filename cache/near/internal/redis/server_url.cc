#include "wheelcache/cache/near/internal/redis/server_url.h"

#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace wheelcache::internal {
namespace {

constexpr absl::string_view kForms =
    "; a URL is redis://[user:password@]host[:port][,...][/database], the same "
    "with rediss:// for TLS, unix://[user:password@]/path[?db=database], or "
    "redis+sentinel://[user:password@]host[:port][,...]/name[/database]";

constexpr uint16_t kServerPort = 6379;
constexpr uint16_t kSentinelPort = 26379;

absl::Status Invalid(absl::string_view part, absl::string_view value,
                     absl::string_view rule) {
  return absl::InvalidArgumentError(
      absl::StrCat("url: ", part, " \"", value, "\" ", rule, kForms));
}

// Takes off `text` what comes before the first `separator`, and that as well.
// Returns nothing, and leaves `text`, if there is none.
std::optional<absl::string_view> TakeUpTo(absl::string_view separator,
                                          absl::string_view& text) {
  const size_t at = text.find(separator);
  if (at == absl::string_view::npos) return std::nullopt;
  const absl::string_view before = text.substr(0, at);
  text.remove_prefix(at + separator.size());
  return before;
}

bool IsLetterOrDigit(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c));
}

bool IsOfHost(char c) {
  return IsLetterOrDigit(c) ||
         absl::string_view(".-_:%").find(c) != absl::string_view::npos;
}

int HexDigit(char c) {
  const auto digit = static_cast<unsigned char>(c);
  if (!absl::ascii_isxdigit(digit)) return -1;
  return absl::ascii_isdigit(digit) ? digit - '0'
                                    : absl::ascii_tolower(digit) - 'a' + 10;
}

std::optional<std::string> PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

// Takes "user:password@" off `rest`, if it begins so. The last "@" counts: a
// password may contain one although it should be written %40. Errors show
// nothing that may be a password in the wrong place.
absl::Status TakeUser(absl::string_view& rest, bool has_path, ServerUrl& url) {
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const size_t at = authority.rfind('@');
  const absl::string_view after =
      at == absl::string_view::npos ? rest : rest.substr(at + 1);
  // An "@" behind a slash was meant for one in a password.
  if (after.find('@') != absl::string_view::npos &&
      !(has_path && after[0] == '/')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: there is a \"/\" or \"?\" before the \"@\"; in a user or a "
        "password write %2F and %3F",
        kForms));
  }
  if (at == absl::string_view::npos) return absl::OkStatus();
  absl::string_view password = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  absl::string_view user = password;
  if (std::optional<absl::string_view> before = TakeUpTo(":", password)) {
    user = *before;
  } else {
    password = {};
  }
  std::optional<std::string> decoded_user = PercentDecoded(user);
  std::optional<std::string> decoded_password = PercentDecoded(password);
  if (!decoded_user || !decoded_password) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: the user or the password has a \"%\" without two hexadecimal "
        "digits after it; write %25 for the character itself",
        kForms));
  }
  if (decoded_password->empty() && !decoded_user->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: the user has no password after it; write user:password@, or "
        ":password@ without a user",
        kForms));
  }
  url.user = *std::move(decoded_user);
  url.password = *std::move(decoded_password);
  return absl::OkStatus();
}

absl::Status SetDatabase(absl::string_view text, ServerUrl& url) {
  // With an "@", it may be a password, and is not shown.
  if (text.find('@') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: what stands for the database has an \"@\", and is not a number",
        kForms));
  }
  if (!absl::SimpleAtoi(text, &url.database) || url.database < 0) {
    return Invalid("database", text, "is not a number from 0 on");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint16_t> ParsePort(absl::string_view text) {
  // Otherwise it may be a password without its "@", and is not shown.
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: what follows the \":\" is neither a port nor a password that "
        "ends with \"@\"",
        kForms));
  }
  uint32_t port = 0;
  if (!absl::SimpleAtoi(text, &port) || port == 0 || port > UINT16_MAX) {
    return Invalid("port", text, "is not a number from 1 to 65535");
  }
  return static_cast<uint16_t>(port);
}

absl::StatusOr<ServerUrl::Host> ParseHost(absl::string_view text,
                                          uint16_t default_port) {
  absl::string_view name = text;
  absl::string_view after;
  if (absl::ConsumePrefix(&name, "[")) {
    after = name;
    std::optional<absl::string_view> inside = TakeUpTo("]", after);
    if (!inside) return Invalid("host", text, "has no \"]\"");
    name = *inside;
    if (!after.empty() && after[0] != ':') {
      return Invalid("host", text, "has more after the \"]\" than a port");
    }
  } else {
    after = name.substr(std::min(name.find(':'), name.size()));
    name.remove_suffix(after.size());
  }
  if (name.empty()) return Invalid("host", text, "is empty");
  // With an "@", it may be a password, and is not shown.
  if (!std::all_of(name.begin(), name.end(), IsOfHost)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: the host has other characters than letters, digits and \".-_:%\"",
        kForms));
  }
  ServerUrl::Host host = {std::string(name), default_port};
  if (after.empty()) return host;
  after.remove_prefix(1);
  if (after.find(':') != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "url: the host has two \":\"; IPv6 stands in brackets", kForms));
  }
  absl::StatusOr<uint16_t> port = ParsePort(after);
  if (!port.ok()) return port.status();
  host.port = *port;
  return host;
}

// Hosts, and behind a "/" the database; for Sentinels, the name comes before.
absl::StatusOr<ServerUrl> ParseTcp(absl::string_view rest, bool is_sentinel) {
  using Halves = std::pair<absl::string_view, absl::string_view>;
  ServerUrl url;
  if (absl::Status status = TakeUser(rest, /*has_path=*/false, url);
      !status.ok()) {
    return status;
  }
  const Halves parts = absl::StrSplit(rest, absl::MaxSplits('/', 1));
  absl::string_view database = parts.second;
  if (is_sentinel) {
    const Halves path = absl::StrSplit(parts.second, absl::MaxSplits('/', 1));
    if (path.first.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "url: there is no name of a primary behind the Sentinels", kForms));
    }
    url.primary_name = std::string(path.first);
    database = path.second;
  }
  if (!database.empty()) {
    if (absl::Status status = SetDatabase(database, url); !status.ok()) {
      return status;
    }
  }
  for (const absl::string_view host : absl::StrSplit(parts.first, ',')) {
    absl::StatusOr<ServerUrl::Host> parsed =
        ParseHost(host, is_sentinel ? kSentinelPort : kServerPort);
    if (!parsed.ok()) return parsed.status();
    url.hosts.push_back(*std::move(parsed));
  }
  return url;
}

absl::StatusOr<ServerUrl> ParseUnix(absl::string_view rest) {
  ServerUrl url;
  if (absl::Status status = TakeUser(rest, /*has_path=*/true, url);
      !status.ok()) {
    return status;
  }
  absl::string_view path = rest;
  absl::string_view query = rest;
  if (std::optional<absl::string_view> before = TakeUpTo("?", query)) {
    path = *before;
    absl::string_view database = query;
    if (!absl::ConsumePrefix(&database, "db=")) {
      return Invalid("query", query, "is not db=<number>");
    }
    if (absl::Status status = SetDatabase(database, url); !status.ok()) {
      return status;
    }
  }
  if (path.empty() || path[0] != '/') {
    return Invalid("path", path, "does not begin with \"/\"");
  }
  // With its terminating null.
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Invalid("path", path,
                   absl::StrCat("is longer than ",
                                sizeof(sockaddr_un::sun_path) - 1, " bytes"));
  }
  url.socket_path = std::string(path);
  return url;
}

}  // namespace

std::string ServerUrl::Host::name() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", host, "]:", port)
                 : absl::StrCat(host, ":", port);
}

std::string ServerUrl::name() const {
  if (!socket_path.empty()) return socket_path;
  if (!primary_name.empty()) return absl::CHexEscape(primary_name);
  return hosts.front().name();
}

absl::StatusOr<ServerUrl> ParseServerUrl(absl::string_view url) {
  if (url.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("url: has a null character", kForms));
  }
  absl::string_view rest = url;
  const std::optional<absl::string_view> scheme = TakeUpTo("://", rest);
  if (scheme == "redis") return ParseTcp(rest, /*is_sentinel=*/false);
  if (scheme == "redis+sentinel") return ParseTcp(rest, /*is_sentinel=*/true);
  if (scheme == "unix") return ParseUnix(rest);
  if (scheme == "rediss") {
    absl::StatusOr<ServerUrl> parsed = ParseTcp(rest, /*is_sentinel=*/false);
    if (parsed.ok()) parsed->has_tls = true;
    return parsed;
  }
  // Without a scheme, what is there may be a password.
  if (!scheme ||
      !std::all_of(scheme->begin(), scheme->end(), IsLetterOrDigit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("url: there is no scheme before \"://\"", kForms));
  }
  return Invalid("scheme", *scheme,
                 "is none of redis, rediss, unix and redis+sentinel");
}

}  // namespace wheelcache::internal
