#include "model/job_json.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::model {

namespace {

// Writes what differs from the usual, and reads it back.
class Sparse {
 public:
  template <class T>
  void put(const char* key, const T& value, const T& usual) {
    if (!(value == usual)) json_[key] = value;
  }
  template <class T>
  void put(const char* key, const std::optional<T>& value) {
    if (value) json_[key] = *value;
  }
  void put(const char* key, Json value) {
    if (!value.empty()) json_[key] = std::move(value);
  }
  template <class Enum>
  void name(const char* key, Enum value, Enum usual) {
    if (value != usual) json_[key] = to_string(value);
  }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

template <class T>
void get(const Json& json, const char* key, T& value) {
  if (const auto found = json.find(key); found != json.end()) value = found->template get<T>();
}
template <class T>
void get(const Json& json, const char* key, std::optional<T>& value) {
  if (const auto found = json.find(key); found != json.end()) value = found->template get<T>();
}
template <class T>
void name(const Json& json, const char* key, std::optional<T> (*parse)(std::string_view), T& value) {
  const auto found = json.find(key);
  if (found == json.end()) return;
  const auto parsed = parse(found->get<std::string>());
  if (!parsed) throw Error(ErrorCode::unavailable, fmt::format("{}: \"{}\" is not known here", key, found->get<std::string>()));
  value = *parsed;
}
Json member(const Json& json, const char* key) { return json.value(key, Json::object()); }
Seconds seconds(const Json& json, const char* key, Seconds usual) { return Seconds(json.value(key, usual.count())); }

Json to_json(const Retry& retry) {
  const Retry usual;
  Sparse json;
  json.put("times", retry.times, usual.times);
  json.put("any_failure", retry.any_failure, usual.any_failure);
  json.put("exit_codes", Json(retry.exit_codes));
  json.put("signals", Json(retry.signals));
  json.put("gpu_out_of_memory", retry.gpu_out_of_memory, usual.gpu_out_of_memory);
  json.put("lost", retry.lost, usual.lost);
  json.put("pause_s", retry.pause.count(), usual.pause.count());
  return json.take();
}

Retry retry_from(const Json& json) {
  Retry retry;
  get(json, "times", retry.times);
  get(json, "any_failure", retry.any_failure);
  get(json, "exit_codes", retry.exit_codes);
  get(json, "signals", retry.signals);
  get(json, "gpu_out_of_memory", retry.gpu_out_of_memory);
  get(json, "lost", retry.lost);
  retry.pause = seconds(json, "pause_s", retry.pause);
  return retry;
}

Json to_json(const Sweep& sweep) {
  Sparse json;
  json.put("columns", Json(sweep.columns));
  Json grid = Json::array();
  for (const GridVariable& variable : sweep.grid) {
    Json one{{"name", variable.name}};
    if (variable.range) one["range"] = {variable.range->first, variable.range->last, variable.range->step};
    else one["values"] = variable.values;
    grid.push_back(std::move(one));
  }
  json.put("grid", std::move(grid));
  return json.take();
}

Sweep sweep_from(const Json& json) {
  Sweep sweep;
  get(json, "columns", sweep.columns);
  for (const Json& one : json.value("grid", Json::array())) {
    GridVariable& variable = sweep.grid.emplace_back();
    get(one, "name", variable.name);
    get(one, "values", variable.values);
    if (const auto range = one.find("range"); range != one.end())
      variable.range =
          Range{range->at(0).get<std::int64_t>(), range->at(1).get<std::int64_t>(), range->at(2).get<std::int64_t>()};
  }
  return sweep;
}

std::string reserve_text(const Reserve& reserve) {
  if (std::holds_alternative<FirstOfL3>(reserve)) return "first-of-l3";
  const auto* cpus = std::get_if<CpuSet>(&reserve);
  return cpus ? cpus->to_string() : "none";
}

std::string threads_text(const Threads& threads) {
  switch (threads.mode) {
    case Threads::Mode::keep: return "keep";
    case Threads::Mode::automatic: return "auto";
    case Threads::Mode::fixed: return fmt::format("{}", threads.count);
  }
  return "keep";
}

Json to_json(const CompatOptions& compat) {
  Json json{{"affinity", to_string(compat.affinity)}, {"scope", to_string(compat.scope)}, {"balanced", compat.balanced},
            {"min_cores", compat.min_cores}};
  if (compat.max_cores) json["max_cores"] = *compat.max_cores;
  return json;
}

CompatOptions compat_from(const Json& json) {
  CompatOptions compat;
  name(json, "affinity", parse_affinity, compat.affinity);
  name(json, "scope", parse_scope, compat.scope);
  get(json, "balanced", compat.balanced);
  get(json, "min_cores", compat.min_cores);
  get(json, "max_cores", compat.max_cores);
  return compat;
}

BindOptions bind_from(const Json& json) {
  BindOptions options;
  if (const auto mode = json.find("mode"); mode != json.end() && !parse_bind_mode(mode->get<std::string>(), options))
    throw Error(ErrorCode::unavailable, "a way of binding that is not known here: " + mode->get<std::string>());
  get(json, "widen", options.widen);
  name(json, "smt", parse_smt, options.smt);
  get(json, "balanced", options.balanced);
  get(json, "lend", options.lend);
  get(json, "strict", options.strict);
  get(json, "peers", options.peers);
  name(json, "reserve", parse_reserve, options.reserve);
  name(json, "memory", parse_memory_policy, options.memory);
  get(json, "memory_nodes", options.memory_nodes);
  name(json, "nic", parse_nic_mode, options.nic);
  name(json, "threads", parse_threads, options.threads);
  if (json.contains("compat")) options.compat = compat_from(member(json, "compat"));
  return options;
}

JobSpec spec_from(const Json& json) {
  JobSpec spec;
  get(json, "argv", spec.argv);
  get(json, "name", spec.name);
  get(json, "tags", spec.tags);
  spec.request = request_from_json(member(json, "request"));
  spec.bind = bind_from(member(json, "bind"));
  get(json, "ids", spec.ids);
  get(json, "directory", spec.directory);
  get(json, "umask", spec.umask);
  get(json, "limits", spec.limits);
  spec.sweep = sweep_from(member(json, "sweep"));
  spec.retry = retry_from(member(json, "retry"));
  spec.patience = seconds(json, "patience_s", spec.patience);
  get(json, "per_gpu", spec.per_gpu);
  get(json, "leave", spec.leave);
  get(json, "linger", spec.linger);
  get(json, "log_limit_mib", spec.log_limit_mib);
  get(json, "notify", spec.notify);
  get(json, "snapshot", spec.snapshot);
  return spec;
}

}  // namespace

Json to_json(const Request& request) {
  const Request usual;
  Sparse json;
  json.put("gpus", Json(request.gpus));
  json.put("on", Json(request.on));
  json.put("not", Json(request.not_on));
  json.put("model", request.model, usual.model);
  json.put("memory_mib", request.memory_mib);
  json.put("share", request.share, usual.share);
  if (request.share_with == ShareWith::any) json.put("share_with", Json("any"));
  json.name("beside", request.beside, usual.beside);
  json.put("max_load_percent", request.max_load_percent);
  json.put("max_memory_percent", request.max_memory_percent);
  json.name("pick", request.pick, usual.pick);
  json.name("shape", request.shape, usual.shape);
  json.put("order", Json(request.order));
  json.put("trust_claims", request.trust_claims, usual.trust_claims);
  return json.take();
}

Json to_json(const BindOptions& options) {
  const BindOptions usual;
  Sparse json;
  json.put("mode", Json(bind_name(options)));
  json.put("widen", options.widen, usual.widen);
  json.name("smt", options.smt, usual.smt);
  json.put("balanced", options.balanced, usual.balanced);
  json.put("lend", options.lend, usual.lend);
  json.put("strict", options.strict, usual.strict);
  json.put("peers", options.peers, usual.peers);
  json.put("reserve", reserve_text(options.reserve), reserve_text(usual.reserve));
  json.name("memory", options.memory, usual.memory);
  json.put("memory_nodes", options.memory_nodes);
  json.name("nic", options.nic, usual.nic);
  json.put("threads", threads_text(options.threads), threads_text(usual.threads));
  if (options.mode == BindMode::compat) json.put("compat", to_json(options.compat));
  return json.take();
}

Json to_json(const JobSpec& spec) {
  const JobSpec usual;
  Sparse json;
  json.put("argv", Json(spec.argv));
  json.put("name", spec.name, usual.name);
  json.put("tags", Json(spec.tags));
  json.put("request", to_json(spec.request));
  json.put("bind", to_json(spec.bind));
  json.put("ids", spec.ids, usual.ids);
  json.put("directory", spec.directory, usual.directory);
  json.put("umask", spec.umask, usual.umask);
  json.put("limits", spec.limits, usual.limits);
  json.put("sweep", to_json(spec.sweep));
  json.put("retry", to_json(spec.retry));
  json.put("patience_s", spec.patience.count(), usual.patience.count());
  json.put("per_gpu", spec.per_gpu, usual.per_gpu);
  json.put("leave", spec.leave, usual.leave);
  json.put("linger", spec.linger, usual.linger);
  json.put("log_limit_mib", spec.log_limit_mib);
  json.put("notify", spec.notify, usual.notify);
  json.put("snapshot", spec.snapshot, usual.snapshot);
  return json.take();
}

std::string pack(const JobSpec& spec) {
  std::string bytes;
  Json::to_cbor(to_json(spec), bytes);           // does not look into strings, as from_cbor does not
  return bytes;
}

JobSpec unpack_job_spec(std::string_view bytes, const std::string& what) try {
  return spec_from(Json::from_cbor(bytes));
} catch (const Json::exception& error) {
  throw Error(ErrorCode::unavailable, fmt::format("{}: {}", what, error.what()));
}

std::string request_class(const JobSpec& spec) {
  Json json = to_json(spec.request);
  if (spec.leave > 0) json["leave"] = spec.leave;
  return dump(json, -1);
}

}  // namespace thole::model
