#include "host/surroundings/logout.hpp"

#include "base/text.hpp"

namespace thole::host {

std::string logind_settings(const Tree& tree) {
  std::string text = tree.text("/etc/systemd/logind.conf").value_or("");
  for (const std::string& name : tree.names("/etc/systemd/logind.conf.d"))
    if (name.ends_with(".conf")) text += "\n" + tree.text("/etc/systemd/logind.conf.d/" + name).value_or("");
  return text;
}

bool ends_with_the_session(const std::string& settings) {
  bool ends = false;
  for (std::string_view line : split_lines(settings))
    if (trim(line).starts_with("KillUserProcesses=")) {
      const std::string value = to_lower(trim(trim(line).substr(std::string_view("KillUserProcesses=").size())));
      ends = value == "yes" || value == "true" || value == "1" || value == "on";
    }
  return ends;
}

model::Logout read_logout(const Tree& tree, const std::string& user) {
  model::Logout logout;
  logout.logind = tree.exists("/run/systemd/seats");   // logind makes it; see sd_login(3)
  logout.ends_all = logout.logind && ends_with_the_session(logind_settings(tree));
  logout.lingers = tree.exists("/var/lib/systemd/linger/" + user);
  return logout;
}

}  // namespace thole::host
