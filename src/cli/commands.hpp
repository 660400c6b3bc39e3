// The commands, one source file each. They return the exit status, or throw Error.
#pragma once

#include "cli/context.hpp"

namespace thole::cli {

int status(Context& context);
int why(Context& context);
int run(Context& context);
int bind(Context& context);
int claim(Context& context);
int release(Context& context);
int extend(Context& context);
int topo(Context& context);
int doctor(Context& context);
int capture(Context& context);
int init(Context& context);
int plan(Context& context);
int compat(Context& context);
int map(Context& context);
int submit(Context& context);
int jobs(Context& context);
int logs(Context& context);
int wait(Context& context);
int cancel(Context& context);
int retry(Context& context);
int hold(Context& context);
int resume(Context& context);
int pause(Context& context);
int proceed(Context& context);  // `continue`
int drain(Context& context);
int edit(Context& context);
int simulate(Context& context);
int jupyter(Context& context);

// Machinery: no configuration, no machine.
int completion(const Invocation& invocation);
int complete(const Invocation& invocation, const wire::Config& config);
std::vector<std::string> jupyter_kernels(const wire::Config& config);  // the names of those that thole made

}  // namespace thole::cli
