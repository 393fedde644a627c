// The examples of docs/tuning.md: caches that are compiled in one file alone.

#include <memory>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "wheelcache/cache/cache.h"

namespace own_class {

struct User {
  std::string name;
};

// users.h
class Users {
 public:
  Users();
  ~Users();
  void Set(const std::string& id, const User& user);
  std::optional<User> Get(const std::string& id);

 private:
  struct Caches;
  const std::unique_ptr<Caches> caches_;
};

// users.cc
struct Users::Caches {
  std::unique_ptr<wheelcache::Cache<std::string, User>> by_id =
      *wheelcache::Cache<std::string, User>::Create({});
};
Users::Users() : caches_(std::make_unique<Caches>()) {}
Users::~Users() = default;
void Users::Set(const std::string& id, const User& user) {
  caches_->by_id->Set(id, user);
}
std::optional<User> Users::Get(const std::string& id) {
  return caches_->by_id->Get(id);
}

TEST(SeparateCompilationExamples, OwnClass) {
  Users users;
  users.Set("1", {"ada"});
  EXPECT_EQ(users.Get("1")->name, "ada");
  EXPECT_FALSE(users.Get("2"));
}

}  // namespace own_class

struct Session {
  int user = 0;
};

// sessions.h
using Sessions = wheelcache::Cache<std::string, Session>;
extern template class wheelcache::Cache<std::string, Session>;

// sessions.cc
template class wheelcache::Cache<std::string, Session>;

TEST(SeparateCompilationExamples, ExternTemplate) {
  auto sessions = *Sessions::Create({});
  sessions->Set("ada", Session{7});
  EXPECT_EQ(sessions->Get("ada")->user, 7);
}
