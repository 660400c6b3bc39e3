#include "base/signal_name.hpp"

#include <csignal>
#include <utility>

namespace thole {

namespace {

constexpr std::pair<int, std::string_view> signal_names[] = {
    {SIGHUP, "HUP"},         {SIGINT, "INT"},         {SIGQUIT, "QUIT"},       {SIGILL, "ILL"},         {SIGTRAP, "TRAP"},
    {SIGABRT, "ABRT"},       {SIGBUS, "BUS"},         {SIGFPE, "FPE"},         {SIGKILL, "KILL"},       {SIGUSR1, "USR1"},
    {SIGSEGV, "SEGV"},       {SIGUSR2, "USR2"},       {SIGPIPE, "PIPE"},       {SIGALRM, "ALRM"},       {SIGTERM, "TERM"},
    {SIGSTKFLT, "STKFLT"},   {SIGCHLD, "CHLD"},       {SIGCONT, "CONT"},       {SIGSTOP, "STOP"},       {SIGTSTP, "TSTP"},
    {SIGTTIN, "TTIN"},       {SIGTTOU, "TTOU"},       {SIGURG, "URG"},         {SIGXCPU, "XCPU"},       {SIGXFSZ, "XFSZ"},
    {SIGVTALRM, "VTALRM"},   {SIGPROF, "PROF"},       {SIGWINCH, "WINCH"},     {SIGPOLL, "POLL"},       {SIGPWR, "PWR"},
    {SIGSYS, "SYS"},
};

}  // namespace

std::string_view signal_name(int signal) {
  for (const auto& [number, name] : signal_names)
    if (number == signal) return name;
  return {};
}

}  // namespace thole
