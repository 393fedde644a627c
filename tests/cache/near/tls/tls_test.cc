// TLS between a RedisStore and a real server, with certificates of the test's
// own.

#include "wheelcache/cache/near/tls/tls.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "wheelcache/cache/near/internal/redis/server_url.h"
#include "wheelcache/cache/near/internal/redis/socket.h"
#include "wheelcache/cache/near/near_cache.h"
#include "wheelcache/cache/near/near_options.h"
#include "wheelcache/cache/near/redis_store.h"
#include "wheelcache/tests/cache/near/tls/certificates.h"
#include "wheelcache/tests/testing/child.h"
#include "wheelcache/tests/testing/loopback.h"
#include "wheelcache/tests/testing/recording_listener.h"
#include "wheelcache/tests/testing/redis_cluster.h"
#include "wheelcache/tests/testing/redis_server.h"
#include "wheelcache/wheel/clock.h"

namespace wheelcache {
namespace {

using internal::PollEvents;
using internal::PollUntil;
using internal::Stream;
using testing::CertificateAuthority;
using testing::CertificateFiles;
using testing::FreePort;
using testing::RecordingListener;
using testing::RedisClient;
using testing::RedisCluster;
using testing::RedisServer;

constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kStaleness = absl::Seconds(3);

// What a child does in exit(), behind all that OpenSSL does there.
bool (*at_exit)() = nullptr;

// The same for all tests.
const CertificateAuthority& Authority() {
  static const auto* const authority = [] {
    std::atexit([] {
      if (at_exit != nullptr) _exit(at_exit() ? 0 : 1);
    });
    // The system allows all versions.
    const std::string settings = testing::TestFile("openssl.cnf");
    std::ofstream(settings)
        << "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\n"
           "system_default = versions\n[versions]\nMinProtocol = TLSv1\n"
           "CipherString = ALL:@SECLEVEL=0\n";
    setenv("OPENSSL_CONF", settings.c_str(), 1);
    // As the first that uses OpenSSL.
    static_cast<void>(LoadTls());
    return new CertificateAuthority("ca");
  }();
  return *authority;
}

TlsOptions Trusting(const CertificateAuthority& authority) {
  TlsOptions options;
  options.ca_file = authority.file();
  return options;
}

// What a server needs for TLS.
std::vector<std::string> Serving(
    const CertificateFiles& certificate = Authority().Issue("server"),
    const std::vector<std::string>& more = {"--tls-auth-clients", "no"}) {
  std::vector<std::string> options = {
      "--tls-cert-file", certificate.certificate, "--tls-key-file",
      certificate.key,   "--tls-ca-cert-file",    Authority().file()};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::unique_ptr<RedisServer> StartServer(
    const std::vector<std::string>& options = Serving()) {
  auto server = RedisServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

RedisStoreOptions OptionsFor(int port, const TlsOptions& tls) {
  RedisStoreOptions options;
  options.url = absl::StrCat("rediss://127.0.0.1:", port);
  auto loaded = LoadTls(tls);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  if (loaded.ok()) options.tls = *loaded;
  return options;
}

std::unique_ptr<RedisStore> NewStore(const RedisStoreOptions& options) {
  auto store = RedisStore::Create(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

// What a write through such a connection ends with.
absl::Status Use(const RedisServer& server, const TlsOptions& tls) {
  const auto store = NewStore(OptionsFor(server.tls_port(), tls));
  return store->Put({"p:key", "value"}, kTimeout);
}

void ExpectFails(const absl::Status& status, absl::StatusCode code,
                 absl::string_view part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
}

class TlsStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = StartServer();
    ASSERT_NE(server_, nullptr);
    other_ = std::make_unique<RedisClient>(server_->port());
    store_ = NewStore(OptionsFor(server_->tls_port(), Trusting(Authority())));
    ASSERT_NE(store_, nullptr);
  }

  std::string Fetch(absl::string_view key) {
    const auto fetched = store_->Fetch({key}, kTimeout)[0];
    if (!fetched.ok()) return std::string(fetched.status().message());
    return fetched->bytes.value_or("(absent)");
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisClient> other_;
  std::unique_ptr<RedisStore> store_;
};

// Promise: A near cache is never staler than its bound
TEST_F(TlsStoreTest, ReadsWritesAndIsToldOfWrites) {
  RecordingListener listener;
  ASSERT_TRUE(store_->Attach("p:", kStaleness, &listener).ok());
  EXPECT_TRUE(listener.AwaitLease());
  EXPECT_TRUE(store_->Put({"p:key", "value", absl::Hours(1)}, kTimeout).ok());
  EXPECT_EQ(other_->Run({"GET", "p:key"}), "value");
  EXPECT_EQ(Fetch("p:key"), "value");
  listener.Clear();
  other_->Run({"SET", "p:key", "other"});
  EXPECT_TRUE(
      listener.Await([&] { return listener.keys.count("p:key") == 1; }));
  EXPECT_EQ(Fetch("p:key"), "other");
  EXPECT_TRUE(*store_->Remove("p:key", kTimeout));
  EXPECT_EQ(Fetch("p:key"), "(absent)");
  store_->Detach(&listener);
}

TEST_F(TlsStoreTest, ComesBackWithTheServer) {
  RecordingListener listener;
  ASSERT_TRUE(store_->Attach("p:", kStaleness, &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  const uint64_t session = listener.Session();
  server_->Kill();
  ASSERT_TRUE(server_->Restart().ok());
  EXPECT_TRUE(listener.AwaitLease(session));
  while (!store_->Put({"p:key", "value"}, kTimeout).ok()) {
  }
  store_->Detach(&listener);
}

// Values of all lengths around those of records, and some that no buffer takes.
TEST_F(TlsStoreTest, ValuesOfAnySizePass) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (const size_t size :
       {0, 1, 16'383, 16'384, 16'385, 32'700, 65'536, 5 << 20, 17 << 20, 100}) {
    keys.push_back(absl::StrCat("p:", size));
    std::string& value = values.emplace_back();
    for (size_t i = 0; i < size; ++i) {
      value.push_back(static_cast<char>(i % 251));
    }
    ASSERT_TRUE(store_->Put({keys.back(), value}, kTimeout).ok()) << size;
    EXPECT_TRUE(Fetch(keys.back()) == value) << size;
  }
  const auto all =
      store_->Fetch({keys[0], keys[4], keys[8], keys[7], keys[6]}, kTimeout);
  EXPECT_TRUE(all[0]->bytes == values[0]);
  EXPECT_TRUE(all[1]->bytes == values[4]);
  EXPECT_TRUE(all[2]->bytes == values[8]);
  EXPECT_TRUE(all[3]->bytes == values[7]);
  EXPECT_TRUE(all[4]->bytes == values[6]);
}

TEST_F(TlsStoreTest, ThreadsShareIt) {
  RecordingListener listener;
  ASSERT_TRUE(store_->Attach("p:", kStaleness, &listener).ok());
  ASSERT_TRUE(listener.AwaitLease());
  // One thread receives it while the others send.
  const std::string large(200'000, 'l');
  ASSERT_TRUE(store_->Put({"p:large", large}, kTimeout).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 100; ++i) {
        const std::string key = absl::StrCat("p:", t, ":", i % 7);
        const std::string value = absl::StrCat(i, std::string(i * 200, 'x'));
        EXPECT_TRUE(store_->Put({key, value}, kTimeout).ok());
        EXPECT_EQ(Fetch(key), value);
        EXPECT_TRUE(Fetch("p:large") == large);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(
      listener.Await([&] { return listener.keys.count("p:3:6") == 1; }));
  store_->Detach(&listener);
}

// Its nodes tell TLS clients of their ports for TLS.
TEST(TlsClusterTest, EachNodeIsUsed) {
  const auto cluster = RedisCluster::Start(
      RedisCluster::kWithoutReplicas,
      Serving(Authority().Issue("node"),
              {"--tls-auth-clients", "no", "--tls-cluster", "yes"}));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  RedisStoreOptions options =
      OptionsFor((*cluster)->node(0).tls_port(), Trusting(Authority()));
  options.cluster = true;
  options.cluster_node_timeout = RedisCluster::kNodeTimeout;
  const auto store = NewStore(options);
  RecordingListener listener;
  ASSERT_TRUE(store->Attach("p:", kStaleness, &listener).ok());
  for (int i = 0; i < 20; ++i) {
    const std::string key = absl::StrCat("p:", i);
    EXPECT_TRUE(store->Put({key, "value"}, kTimeout).ok());
    EXPECT_EQ((*cluster)->RunForKey({"GET", key}), "value");
    EXPECT_TRUE(listener.Await([&] { return listener.keys.count(key) == 1; }));
  }
  store->Detach(&listener);
}

// As the thread of a store that nobody destroys may.
TEST_F(TlsStoreTest, ServesDuringExit) {
  if (!testing::kChildMayStartThreads) GTEST_SKIP() << "in a child";
  static int port = 0;
  port = server_->tls_port();
  store_ = nullptr;
  EXPECT_TRUE(testing::HoldsInChild([] {
    at_exit = [] {
      const auto store = NewStore(OptionsFor(port, Trusting(Authority())));
      return store->Put({"p:key", "value"}, kTimeout).ok();
    };
    std::exit(1);
    return false;
  }));
}

TEST(TlsCertificateTest, ServerMustHaveTheNameOfTheUrl) {
  const auto server = StartServer(Serving(Authority().Issue(
      "named", "DNS:cache.example,DNS:p*.cache.example,IP:127.0.0.2")));
  TlsOptions options = Trusting(Authority());
  ExpectFails(Use(*server, options), absl::StatusCode::kUnauthenticated,
              "the server's certificate is refused: IP address mismatch");
  options.server_name = "other.example";
  ExpectFails(Use(*server, options), absl::StatusCode::kUnauthenticated,
              "hostname mismatch");
  options.server_name = "parts.cache.example";
  ExpectFails(Use(*server, options), absl::StatusCode::kUnauthenticated,
              "hostname mismatch");
  options.server_name = std::string("cache.example\0.x", 16);
  EXPECT_FALSE(Use(*server, options).ok());
  for (const absl::string_view name : {"cache.example", "127.0.0.2"}) {
    options.server_name = std::string(name);
    EXPECT_TRUE(Use(*server, options).ok()) << name;
  }
}

TEST(TlsCertificateTest, ServerMustHaveOneThatIsValid) {
  const auto expired = StartServer(
      Serving(Authority().Issue("expired", "IP:127.0.0.1", -absl::Hours(1))));
  ExpectFails(Use(*expired, Trusting(Authority())),
              absl::StatusCode::kUnauthenticated, "certificate has expired");
}

TEST(TlsCertificateTest, ServerMustHaveOneOfAKnownCa) {
  const auto server = StartServer();
  const CertificateAuthority other("other");
  for (const TlsOptions& options : {TlsOptions(), Trusting(other)}) {
    ExpectFails(Use(*server, options), absl::StatusCode::kUnauthenticated,
                "self-signed certificate in certificate chain");
  }
}

TEST(TlsCertificateTest, CasMayLieInAFolder) {
  // As `openssl rehash` names it.
  TlsOptions options;
  options.ca_folder = testing::TestFile("cas");
  const std::string name =
      absl::StrCat(options.ca_folder, "/", Authority().file_name_in_folder());
  ASSERT_EQ(mkdir(options.ca_folder.c_str(), 0700), 0);
  ASSERT_EQ(symlink(Authority().file().c_str(), name.c_str()), 0);
  const auto server = StartServer();
  EXPECT_TRUE(Use(*server, options).ok());
}

TEST(TlsCertificateTest, AnyWillDoWithoutVerification) {
  const auto server = StartServer(
      Serving(Authority().Issue("any", "DNS:other.example", -absl::Hours(1))));
  TlsOptions options;
  options.verify = false;
  EXPECT_TRUE(Use(*server, options).ok());
}

TEST(TlsCertificateTest, ServerMayAskForThatOfTheClient) {
  for (const std::string version : {"TLSv1.2", "TLSv1.3"}) {
    const auto server = StartServer(
        Serving(Authority().Issue("asking"),
                {"--tls-auth-clients", "yes", "--tls-protocols", version}));
    ASSERT_NE(server, nullptr);
    TlsOptions options = Trusting(Authority());
    const absl::Status without = Use(*server, options);
    EXPECT_FALSE(without.ok());
    const CertificateFiles stranger =
        CertificateAuthority("strange").Issue("stranger");
    options.certificate_file = stranger.certificate;
    options.key_file = stranger.key;
    ExpectFails(Use(*server, options), absl::StatusCode::kUnauthenticated,
                "alert unknown ca; give certificate_file");
    const CertificateFiles client = Authority().Issue("client");
    options.certificate_file = client.certificate;
    options.key_file = client.key;
    EXPECT_TRUE(Use(*server, options).ok()) << version;
    // The earlier one tells of a failure, and not of its reason.
    if (version == "TLSv1.2") continue;
    ExpectFails(without, absl::StatusCode::kUnauthenticated,
                "alert certificate required; give certificate_file");
  }
}

TEST(TlsCertificateTest, VersionsBelow12AreRefused) {
  const auto server = StartServer(
      Serving(Authority().Issue("old"),
              {"--tls-auth-clients", "no", "--tls-protocols", "TLSv1.1"}));
  ASSERT_NE(server, nullptr);
  ExpectFails(Use(*server, Trusting(Authority())),
              absl::StatusCode::kUnavailable, "alert protocol version");
}

// However long the caller would wait.
TEST(TlsCertificateTest, WaitingForASessionEndsWhereOneIsRefused) {
  const auto server = StartServer();
  const auto store = NewStore(OptionsFor(server->tls_port(), {}));
  NearCacheOptions options;
  options.key_prefix = "p:";
  const auto near = NearCache<std::string>::Create(options, store.get());
  ASSERT_TRUE(near.ok()) << near.status();
  ExpectFails((*near)->WaitUntilReady(absl::InfiniteDuration()),
              absl::StatusCode::kUnauthenticated, "certificate is refused");
}

// A listener of the test's own.
class TlsStreamTest : public ::testing::Test {
 protected:
  TlsStreamTest() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = testing::Loopback(port_);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    EXPECT_EQ(listen(listener_, 8), 0);
  }
  ~TlsStreamTest() override { close(listener_); }

  // Begins to connect.
  static std::unique_ptr<Stream> Connect(int port, const TlsOptions& options) {
    return *(*LoadTls(options))
                ->Wrap(*internal::Socket::Connect(Address(port)),
                       *internal::ParseServerUrl("rediss://localhost"));
  }

  // As another user of OpenSSL may on this thread.
  static void LeaveAnError() { ERR_raise(ERR_LIB_USER, 1); }

  static bool Await(const Stream& stream, PollEvents events) {
    return PollUntil(stream.fd(), events,
                     Clock::Monotonic().NanosAfter(kTimeout),
                     Clock::Monotonic());
  }

  // Waits, and goes on with the handshake.
  static absl::StatusOr<PollEvents> Advance(Stream& stream, PollEvents events) {
    EXPECT_TRUE(Await(stream, events));
    LeaveAnError();
    return stream.Prepare();
  }

  static std::unique_ptr<Stream> Open(const RedisServer& server) {
    auto stream = Connect(server.tls_port(), Trusting(Authority()));
    absl::StatusOr<PollEvents> events = PollEvents{POLLOUT};
    while (events.ok() && *events != 0) events = Advance(*stream, *events);
    EXPECT_TRUE(events.ok()) << events.status();
    return stream;
  }

  // Receives so many bytes, a few at a time.
  static std::string Receive(Stream& stream, size_t size) {
    std::string received;
    std::array<char, 1000> buffer;
    while (received.size() < size &&
           (stream.has_more() || Await(stream, POLLIN))) {
      LeaveAnError();
      const auto more =
          stream.Receive(absl::MakeSpan(buffer), Stream::Wait::kNever);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok()) break;
      received.append(buffer.data(), more->value_or(0));
    }
    return received;
  }

  const int port_ = FreePort();
  const int listener_;

 private:
  static internal::SocketAddress Address(int port) {
    const sockaddr_in address = testing::Loopback(port);
    internal::SocketAddress any;
    std::memcpy(&any.storage, &address, sizeof(address));
    any.size = sizeof(address);
    return any;
  }
};

TEST_F(TlsStreamTest, TellsTheServerTheNameThatItAsksFor) {
  TlsOptions named;
  named.server_name = "cache.example";
  TlsOptions addressed;
  addressed.server_name = "192.0.2.77";
  for (const auto& [options, name, is_told] :
       {std::tuple(TlsOptions(), "localhost", true),
        std::tuple(named, "cache.example", true),
        std::tuple(addressed, "192.0.2.77", false)}) {
    const auto stream = Connect(port_, options);
    EXPECT_EQ(*Advance(*stream, POLLOUT), POLLIN);
    const int peer = accept(listener_, nullptr, nullptr);
    std::array<char, 4096> hello;
    const ssize_t size = recv(peer, hello.data(), hello.size(), 0);
    close(peer);
    ASSERT_GT(size, 100);
    EXPECT_EQ(
        absl::StrContains(
            absl::string_view(hello.data(), static_cast<size_t>(size)), name),
        is_told)
        << name;
  }
}

TEST_F(TlsStreamTest, ServerWithoutTlsIsNamed) {
  const auto stream = Connect(port_, {});
  EXPECT_EQ(*Advance(*stream, POLLOUT), POLLIN);
  const int peer = accept(listener_, nullptr, nullptr);
  EXPECT_EQ(send(peer, "-ERR what?\r\n", 12, 0), 12);
  ExpectFails(Advance(*stream, POLLIN).status(), absl::StatusCode::kUnavailable,
              "TLS: wrong version number");
  close(peer);
}

TEST_F(TlsStreamTest, ServerThatEndsTheHandshakeIsNamed) {
  const auto stream = Connect(port_, {});
  EXPECT_EQ(*Advance(*stream, POLLOUT), POLLIN);
  close(accept(listener_, nullptr, nullptr));
  const absl::Status status = Advance(*stream, POLLIN).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(status.message(), "TLS: ")) << status;
}

TEST_F(TlsStreamTest, HandshakeThatStallsEndsWithTheTimeout) {
  RedisStoreOptions options = OptionsFor(port_, {});
  options.connect_timeout = absl::Milliseconds(50);
  ExpectFails(NewStore(options)->Put({"p:key", "value"}, kTimeout),
              absl::StatusCode::kUnavailable, "connect: no answer in 50ms");
}

// What OpenSSL has, poll() does not see.
TEST_F(TlsStreamTest, TellsOfWhatItHolds) {
  const auto server = StartServer();
  const auto stream = Open(*server);
  const std::string reply =
      absl::StrCat("$100000\r\n", std::string(100'000, 'w'), "\r\n");
  const std::string command = absl::StrCat("*2\r\n$4\r\nECHO\r\n", reply);
  ASSERT_EQ(*stream->Send(command), command.size());
  EXPECT_TRUE(Receive(*stream, reply.size()) == reply);
  EXPECT_FALSE(stream->has_more());
}

// Of a part of the last bytes, OpenSSL has made a record already.
TEST_F(TlsStreamTest, GoesOnFromWhereThereWasNoRoom) {
  const auto server = StartServer();
  const auto stream = Open(*server);
  const std::string value(20 << 20, 'v');
  std::string rest = absl::StrCat("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$",
                                  value.size(), "\r\n", value, "\r\n");
  server->Stop();
  for (size_t sent = 1; sent != 0; rest = rest.substr(sent)) {
    LeaveAnError();
    const auto result = stream->Send(rest);
    ASSERT_TRUE(result.ok()) << result.status();
    sent = *result;
  }
  server->Continue();
  ASSERT_FALSE(rest.empty());
  while (!rest.empty()) {
    ASSERT_TRUE(Await(*stream, POLLOUT));
    // Elsewhere each time.
    const auto sent = stream->Send(rest);
    ASSERT_TRUE(sent.ok()) << sent.status();
    rest = rest.substr(*sent);
  }
  EXPECT_EQ(Receive(*stream, 5), "+OK\r\n");
  EXPECT_TRUE(RedisClient(server->port()).Run({"GET", "key"}) == value);
}

// The other direction goes on meanwhile.
TEST_F(TlsStreamTest, SendsAPartAtATime) {
  const auto server = StartServer();
  const auto stream = Open(*server);
  EXPECT_LE(*stream->Send(std::string(1 << 20, '\n')), 256 << 10);
}

TEST_F(TlsStreamTest, SendAfterTheEndRaisesNoSignal) {
  const auto server = StartServer();
  const auto stream = Open(*server);
  auto* const before = signal(SIGPIPE, SIG_DFL);
  stream->Shutdown();
  // The first may find something else.
  for (int i = 0; i < 3; ++i) {
    ExpectFails(stream->Send("PING\r\n").status(),
                absl::StatusCode::kUnavailable, "send: ");
  }
  signal(SIGPIPE, before);
}

// Though it comes with the last bytes.
TEST_F(TlsStreamTest, EndOfTheStreamIsAnError) {
  const auto server = StartServer();
  const auto stream = Open(*server);
  ASSERT_EQ(*stream->Send("QUIT\r\n"), 6);
  ASSERT_TRUE(Await(*stream, POLLRDHUP));
  std::array<char, 100> buffer;
  const auto received =
      stream->Receive(absl::MakeSpan(buffer), Stream::Wait::kNever);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(*received, 5);
  EXPECT_TRUE(stream->has_more());
  ExpectFails(
      stream->Receive(absl::MakeSpan(buffer), Stream::Wait::kNever).status(),
      absl::StatusCode::kUnavailable, "TLS: the server closed the connection");
}

// Makes a copy of a key, with a passphrase.
void Lock(const std::string& key_file, const std::string& copy) {
  std::FILE* file = std::fopen(key_file.c_str(), "r");
  EVP_PKEY* const key = PEM_read_PrivateKey(file, nullptr, nullptr, nullptr);
  std::fclose(file);
  file = std::fopen(copy.c_str(), "w");
  PEM_write_PKCS8PrivateKey(file, key, EVP_aes_128_cbc(), nullptr, 0, nullptr,
                            const_cast<char*>("secret"));
  std::fclose(file);
  EVP_PKEY_free(key);
}

TEST(TlsOptionsTest, WhatIsWrongIsNamedWithItsRule) {
  const CertificateFiles one = Authority().Issue("one");
  const CertificateFiles two = Authority().Issue("two");
  const std::string empty = one.key + ".empty";
  std::ofstream(empty).close();
  struct Case {
    std::string TlsOptions::*first;
    std::string value;
    std::string TlsOptions::*second;
    std::string second_value;
    std::string start;
  };
  const std::string locked = one.key + ".locked";
  Lock(one.key, locked);
  for (const Case& each : {
           Case{&TlsOptions::certificate_file, one.certificate,
                &TlsOptions::key_file, locked,
                absl::StrCat("key_file: \"", locked,
                             "\" is no private key in PEM, without a "
                             "passphrase, of certificate_file: interrupted or "
                             "cancelled")},
           Case{&TlsOptions::ca_file, "/no\nfile", &TlsOptions::ca_folder, "",
                "ca_file: \"/no\\nfile\" is no file of certificates in PEM: No "
                "such file"},
           Case{&TlsOptions::ca_file, empty, &TlsOptions::ca_folder, "",
                absl::StrCat("ca_file: \"", empty, "\" is no file of")},
           Case{&TlsOptions::ca_folder, one.key, &TlsOptions::ca_file, "",
                absl::StrCat("ca_folder: \"", one.key, "\" is not a folder")},
           Case{&TlsOptions::ca_folder, "/no/folder", &TlsOptions::ca_file, "",
                "ca_folder: \"/no/folder\" is not a folder"},
           Case{&TlsOptions::certificate_file, one.certificate,
                &TlsOptions::key_file, "",
                "key_file: \"\" is empty, but certificate_file is not"},
           Case{&TlsOptions::certificate_file, "", &TlsOptions::key_file,
                one.key, "certificate_file: \"\" is no file of certificates"},
           Case{&TlsOptions::certificate_file, one.key, &TlsOptions::key_file,
                one.key,
                absl::StrCat("certificate_file: \"", one.key, "\" is no file")},
           Case{&TlsOptions::certificate_file, one.certificate,
                &TlsOptions::key_file, two.key,
                absl::StrCat("key_file: \"", two.key,
                             "\" is no private key in PEM, without a "
                             "passphrase, of certificate_file: key values "
                             "mismatch")},
           Case{&TlsOptions::certificate_file, one.certificate,
                &TlsOptions::key_file, one.certificate,
                absl::StrCat("key_file: \"", one.certificate, "\" is no")},
       }) {
    TlsOptions options;
    options.*each.first = each.value;
    options.*each.second = each.second_value;
    const auto loaded = LoadTls(options);
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StartsWith(loaded.status().message(), each.start))
        << loaded.status();
    EXPECT_EQ(ERR_peek_error(), 0) << "is left to other users of OpenSSL";
  }
}

TEST(TlsOptionsTest, UrlAndOptionAgree) {
  RedisStoreOptions options;
  options.url = "rediss://localhost";
  ExpectFails(RedisStore::Create(options).status(),
              absl::StatusCode::kInvalidArgument,
              "tls: is null, but the url is of rediss://");
  options.tls = *LoadTls();
  EXPECT_TRUE(RedisStore::Create(options).ok());
  for (const absl::string_view url : {"redis://localhost", "unix:///run/x"}) {
    options.url = std::string(url);
    ExpectFails(RedisStore::Create(options).status(),
                absl::StatusCode::kInvalidArgument,
                "tls: is set, but the url is not of rediss://");
  }
}

}  // namespace
}  // namespace wheelcache
