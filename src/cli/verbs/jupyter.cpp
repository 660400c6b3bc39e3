// `thole jupyter`: notebook kernels that start with GPUs of their own.
//
// How this works. Jupyter finds kernels as folders with a kernel.json below its data directory; "argv" there is the command it
// starts and signals. Ours starts the usual kernel of a Python through `thole run`, so that the claim lives exactly as long as
// the kernel: it waits its turn at the start, is given back however the kernel ends, and is made anew by a restart. The words
// of the request are kept as they were typed; `thole run` reads them when the kernel starts. What we wrote is known by "thole"
// in its metadata, and nothing else is listed, replaced or removed.
//
// `thole run` becomes the kernel (--no-supervisor): a kernel ends itself when its parent is no longer the notebook server,
// which with a supervisor between them it would never see. With --time somebody must end it, so then there is a supervisor.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/command_life.hpp"
#include "app/claim/selection.hpp"
#include "base/fd.hpp"
#include "base/made.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/context.hpp"
#include "cli/jupyter_kernels.hpp"
#include "cli/line/foreign.hpp"
#include "cli/line/request.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/show/overview.hpp"
#include "wire/carry.hpp"

namespace thole::cli {

namespace {

namespace fs = std::filesystem;
using model::Json;

struct JupyterOptions {
  std::string venv;                     // whose Python the kernel runs; "" = the active one
  std::string name;                     // of the kernel; "" = made from the GPUs and the environment
};

constexpr Option jupyter_options[] = {
  {0, "venv", "DIR", "install: the virtual environment whose Python the kernel runs (default: the active one, else python3)",
   [](JupyterOptions& o, const Word& w) { o.venv = text_of(w); }, Offer::directories},
  {0, "name", "NAME", "install: what Jupyter calls the kernel (default: such as thole-1gpu-myproject)",
   [](JupyterOptions& o, const Word& w) { o.name = text_of(w); }},
};

std::string variable(const wire::Config& config, const char* name) {
  const auto found = config.settings.environment.find(name);
  return found == config.settings.environment.end() ? "" : found->second;
}

std::string python_of(const Context& context) {
  const std::string& venv = context.invocation.own.as<JupyterOptions>().venv;
  if (!venv.empty()) {
    const std::string python = wire::from_anywhere(fs::path(venv) / "bin/python");  // a link, known by its own path
    if (!may_execute(python))
      throw Error(ErrorCode::usage, "no virtual environment").about(venv).hint("python3 -m venv " + shell_quote(venv));
    return python;
  }
  for (const char* active : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string prefix = variable(context.config, active); !prefix.empty() && may_execute(prefix + "/bin/python"))
      return prefix + "/bin/python";
  const std::string path = variable(context.config, "PATH");
  for (std::string_view directory : split(path, ':'))
    if (std::string python = std::string(directory) + "/python3"; directory.starts_with('/') && may_execute(python))
      return python;
  throw Error(ErrorCode::unavailable, "no python3 on PATH").hint("name one: --venv DIR");
}

void require_ipykernel(Context& context, const std::string& python) {
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  port::ProcessSpec spec;
  spec.argv = {python, "-c", "import ipykernel"};
  spec.output = nowhere.get();
  if (app::live(context.wire.commands(), context.wire.clock(), spec).exit_code != 0)
    throw Error(ErrorCode::unavailable, "this Python has no ipykernel")
        .about(python)
        .hint(shell_quote(python) + " -m pip install ipykernel");
}

const Option* option_of(const Verb& verb, std::string_view word) {
  if (word.size() < 2 || word.front() != '-') return nullptr;
  const bool is_long = word.starts_with("--");
  const std::string_view name = is_long ? word.substr(2, word.find('=') - 2) : word.substr(1, 1);
  for (const Option* row : options_of(verb))
    if (is_long ? row->name == name : row->letter == name.front()) return row;
  return nullptr;
}

// What was typed of the request, for `thole run` to read.
std::vector<std::string> request_words(const Invocation& invocation) {
  std::vector<std::string> words;
  const std::vector<std::string>& typed = invocation.typed;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    const Option* option = option_of(*invocation.verb, typed[i]);
    if (!option) continue;
    const bool attached = typed[i].starts_with("--") ? typed[i].find('=') != std::string::npos : typed[i].size() > 2;
    const bool takes_next = !option->value.empty() && !attached;
    const auto& rows = invocation.verb->request;
    if (option >= rows.data() && option < rows.data() + rows.size())
      words.insert(words.end(), typed.begin() + static_cast<std::ptrdiff_t>(i),
                   typed.begin() + static_cast<std::ptrdiff_t>(i + 1 + takes_next));
    i += takes_next;
  }
  return words;
}

// "thole-2gpu", "thole-2gpu-myproject": the characters that Jupyter allows.
std::string default_name(const std::string& environment, unsigned gpus) {
  std::string name = fmt::format("thole-{}gpu{}{}", gpus, environment.empty() ? "" : "-", to_lower(environment));
  for (char& c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.') c = '-';
  return name;
}

// What people call a virtual environment: its folder, or for ".venv" the project it lies in.
std::string environment_name(const std::string& python) {
  const fs::path prefix = fs::path(python).parent_path().parent_path();
  if (!fs::exists(prefix / "pyvenv.cfg") && !fs::exists(prefix / "conda-meta")) return "";
  const std::string name = prefix.filename();
  return name.starts_with('.') || name == "venv" ? prefix.parent_path().filename().string() : name;
}

Json kernel_json(const Context& context, const std::string& python, const std::vector<std::string>& request,
                 const std::string& shown) {
  Json argv = {context.config.settings.program, "run"};
  if (!context.invocation.request.time) argv.push_back("--no-supervisor");
  for (const std::string& word : request) argv.push_back(word);
  for (const char* word : {"--", python.c_str(), "-m", "ipykernel_launcher", "-f", "{connection_file}"}) argv.push_back(word);
  return {{"argv", std::move(argv)},
          {"display_name", shown},
          {"language", "python"},
          {"interrupt_mode", "signal"},
          {"env", context.carry()},
          {"metadata", {{"debugger", true}, {"thole", {{"python", python}, {"request", join(request, " ")}}}}}};
}

void print_as_json(const Context& context, const std::vector<JupyterKernel>& kernels) {
  Json rows = Json::array();
  for (const JupyterKernel& kernel : kernels)
    rows.push_back(
        {{"name", kernel.name}, {"display_name", kernel.shown}, {"python", kernel.python}, {"request", kernel.request}});
  context.print_json({{"schema", "thole/jupyter/1"}, {"kernels", std::move(rows)}});
}

// What root makes in a user's home the user cannot change.
void refuse_anothers_home(fs::path at, uid_t uid) {
  while (at.has_relative_path() && !fs::exists(at)) at = at.parent_path();
  struct stat found;
  if (uid != 0 || ::stat(at.c_str(), &found) != 0 || found.st_uid == uid) return;
  const std::string user = wire::user_name(found.st_uid);
  throw Error(ErrorCode::unavailable, "this directory is " + printable(user) + "'s, and what root makes in it would be root's")
      .about(at)
      .hint("sudo -H -u " + shell_quote(user) + " thole jupyter install, or JUPYTER_DATA_DIR=…");
}

// Where the machine's GPUs are known: each start of the kernel would be refused.
void refuse_what_never_starts(Context& context) {
  const app::Overview overview = glance_over(context);
  if (overview.units.empty()) return;
  static_cast<void>(app::select_of_machine(overview, context.invocation.request));
}

int install(Context& context) {
  const fs::path root = context.wire.paths().jupyter_kernels();
  const JupyterOptions& options = context.invocation.own.as<JupyterOptions>();
  refuse_what_never_starts(context);
  const std::string python = python_of(context), environment = environment_name(python);
  require_ipykernel(context, python);
  const unsigned gpus = context.invocation.request.gpus;
  const std::string name = options.name.empty() ? default_name(environment, gpus) : options.name;
  if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != std::string::npos ||
      name.starts_with('.'))
    throw Error(ErrorCode::usage, "a kernel's name has letters, digits, '-', '_' and '.' only").about(printable(name, 60));
  const fs::path folder = root / name;
  if (fs::exists(folder / "kernel.json") && !read_jupyter_kernel(folder))
    throw Error(ErrorCode::usage, "there is another kernel of this name, which thole did not make")
        .about(folder)
        .hint("another --name");
  refuse_anothers_home(folder, context.wire.settings().uid);
  if (!make_directories(folder, 0777)) throw Error(ErrorCode::unavailable, "cannot create").about(folder).because(errno);
  const std::string shown =
      fmt::format("Python{}, {}", environment.empty() ? "" : " (" + environment + ")", plural(gpus, "GPU"));
  write_file(folder / "kernel.json",
             model::dump(kernel_json(context, python, request_words(context.invocation), shown)) + "\n",
             left_by_umask(0666));
  if (context.invocation.global.json) print_as_json(context, {*read_jupyter_kernel(folder)});
  else context.print(name + "\n");
  context.note(fmt::format("\"{}\" can be chosen in Jupyter now; {}", printable(shown), folder.string()));
  return 0;
}

int list(Context& context) {
  const std::vector<JupyterKernel> kernels = jupyter_kernels(fs::path(context.wire.paths().jupyter_kernels()));
  if (context.invocation.global.json) {
    print_as_json(context, kernels);
    return 0;
  }
  std::size_t width = 0;
  for (const JupyterKernel& kernel : kernels) width = std::max(width, kernel.name.size());
  std::string text;
  for (const JupyterKernel& kernel : kernels)
    text += fmt::format("{:<{}}  {}  {}\n", printable(kernel.name), width, printable(kernel.python), printable(kernel.request));
  context.print(text);
  if (kernels.empty()) context.note("no kernel was made by thole; such as: thole jupyter install -g 1");
  return 0;
}

int remove(Context& context) {
  const fs::path root = fs::path(context.wire.paths().jupyter_kernels());
  std::vector<std::string> known, names(context.invocation.words.begin() + 1, context.invocation.words.end());
  for (const JupyterKernel& kernel : jupyter_kernels(root)) known.push_back(kernel.name);
  if (names.empty()) throw Error(ErrorCode::usage, "jupyter remove: NAME missing").hint("see: thole jupyter list");
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_unknown("no kernel that thole made has this name:", name, known, "see: thole jupyter list");
  for (const std::string& name : names) {
    std::error_code problem;
    fs::remove_all(root / name, problem);
    if (problem) throw Error(ErrorCode::unavailable, "cannot remove").about(root / name).because(problem.value());
  }
  if (context.invocation.global.json) print_as_json(context, jupyter_kernels(root));
  return 0;
}

int jupyter(Context& context) {
  const std::string& what = context.invocation.words.front();
  if (what == "remove") return remove(context);
  if ((what == "install" || what == "list") && context.invocation.words.size() > 1)
    throw Error(ErrorCode::usage,
                fmt::format("jupyter {}: one word too many, {}", what, in_quotes(context.invocation.words[1])));
  if (what == "install") return install(context);
  if (what == "list") return list(context);
  if (const auto hint = hint_for_operand("jupyter", what))
    throw Error(ErrorCode::usage, fmt::format("jupyter: unknown word {}", in_quotes(what))).hint(*hint);
  throw_unknown("jupyter: unknown word", what, {"install", "list", "remove"}, "one of install, list, remove");
}

constexpr Example jupyter_examples[] = {
  {"thole jupyter install -g 1 --venv .venv", "a kernel with a GPU of its own, for Jupyter to offer"},
  {"thole jupyter install -g 2 --memory 20G --name two", "one with two GPUs of 20 GiB free memory"},
  {"thole jupyter list", "the kernels that thole made"},
};

}  // namespace

extern constexpr Verb jupyter_verb = {
    .name = "jupyter",
    .group = "run",
    .summary = "notebook kernels that start with GPUs of their own",
    .operands = "install|list|remove [NAME...]",
    .options = jupyter_options,
    .request = request_rows,
    .examples = jupyter_examples,
    .offer = Offer::kernels,
    .min_words = 1,
    .max_words = 128,
    .run = jupyter,
};

}  // namespace thole::cli
