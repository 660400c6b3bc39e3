// The keeper's side of a claim's unix socket.
//
// How it works. In the claim's directory (0700) lies the socket `control`. A client of the same user, or root, sends one line
// and reads one line:
//   describe              ok id=ID pid=PID kind=run|claim until=MS|never
//   extend MS             ok until=MS         MS: milliseconds since 1970; recorded before it is confirmed
//   descriptors           ok N                with the N locked descriptors (SCM_RIGHTS)
//   ending                ok PID MS|never NAME  MS: until it is killed; "ok none" while nothing is ended
//   release               ok released         when the locks are free, which may take a command's patience
// The keeper holds a shared flock on that directory as long as it lives (claims/inner.hpp: sweeping after killed ones).
// A refusal is "no REASON". Clients are served without blocking: one that sends nothing, or does not read, delays nobody.
#pragma once

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "port/claim_control.hpp"

namespace thole::host {

class Door : public port::ClaimDoor {
 public:
  explicit Door(port::DoorSpec spec);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  int fd() const override { return ready_.get(); }
  port::Order serve() override;
  void ends_at(std::optional<WallTime> until) override { spec_.about.until = until; }
  void say_ending(const port::Ending& ending) override { ending_ = ending; }
  void let_go() override;

 private:
  struct Client { Fd fd; std::string line; bool waits_for_release = false; };

  void accept_clients();
  bool read_from(Client& client, port::Order& order);   // false when this client is done with
  bool answer(Client& client, port::Order& order);
  std::string extend(std::string_view argument, port::Order& order);
  void hand_out_locks(Client& client);

  port::DoorSpec spec_;
  Fd directory_, listener_, ready_;   // ready_: an epoll descriptor over the listener and the clients
  std::vector<Client> clients_;
  std::optional<port::Ending> ending_;
  bool over_ = false;                 // the claim has ended: its directory goes too
};

// The claim's directory, checked: a real directory of ours with mode 0700. Made when `make`. Throws Error(unavailable).
Fd open_claim_directory(const std::string& path, bool make);

}  // namespace thole::host
