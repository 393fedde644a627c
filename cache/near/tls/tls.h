// TLS for the connections of a RedisStore, by OpenSSL.
//
//   wheelcache::TlsOptions tls;
//   tls.ca_file = ca_file;
//   auto loaded = wheelcache::LoadTls(tls);
//   if (!loaded.ok()) return loaded.status();
//   wheelcache::RedisStoreOptions options;
//   options.url = "rediss://localhost:6379";
//   options.tls = *loaded;
//
// A library of its own, so that the near cache needs no OpenSSL:
// //cache/near/tls, wheelcache::near_tls, or wheelcache_near_tls of pkg-config.
//
// Guarantees. TLS 1.2 or later, without renegotiation. Unless `verify` is
// false, the server has proved with a certificate of a known CA that it is the
// host of the URL, before anything of the store's is sent, a password
// included. No SIGPIPE is raised. Messages contain nothing of a key.
//
// Threads. What LoadTls returns is immutable, and may serve many stores.
//
// Errors. InvalidArgument of LoadTls names the option, its value and the rule.
// What a connection runs into, the calls of a store and OnLoss say:
// Unauthenticated where one side refuses the other's certificate, and why;
// otherwise Unavailable.
//
// Cost. LoadTls reads all files; for a certificate that has been renewed, load
// it again and create another store. A connection has about 64 KiB of buffers
// more.
//
// Exit. OpenSSL is told not to clean up at exit(), since the thread of a store
// that nobody destroys may be using it.

#ifndef WHEELCACHE_CACHE_NEAR_TLS_TLS_H_
#define WHEELCACHE_CACHE_NEAR_TLS_TLS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "wheelcache/wheel/base/export.h"

namespace wheelcache {

namespace internal {
class StreamMaker;
}

struct TlsOptions {
  // The CAs of servers: a file of certificates in PEM, or a folder of such
  // files under the names that `openssl rehash` gives them, or both. Without,
  // those of the system.
  std::string ca_file = {};
  std::string ca_folder = {};

  // For servers that ask for it: the client's certificate in PEM, followed by
  // those between it and its CA if there are any, and its private key, without
  // a passphrase.
  std::string certificate_file = {};
  std::string key_file = {};

  // The name or the address that the server's certificate must have, where it
  // is not the host of the URL. In a cluster, that of all nodes; without it,
  // each node must have that by which the cluster calls it.
  std::string server_name = {};

  // False: any certificate will do, so that whoever is in between can read and
  // change everything.
  bool verify = true;
};

// Returns the value of RedisStoreOptions::tls.
WHEELCACHE_EXPORT absl::StatusOr<std::shared_ptr<const internal::StreamMaker>>
LoadTls(const TlsOptions& options = {});

}  // namespace wheelcache

#endif  // WHEELCACHE_CACHE_NEAR_TLS_TLS_H_
