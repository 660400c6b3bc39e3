// What tests of claiming ask for, and how it fails.
#pragma once

#include <gtest/gtest.h>

#include "app/claim/acquire.hpp"
#include "base/error.hpp"
#include "support/fake_site.hpp"

namespace thole::test {

inline model::Request want(unsigned gpus) {
  model::Request request;
  request.gpus = gpus;
  return request;
}

inline ErrorCode failure_of(FakeSite& fake, const model::Request& request, const app::AcquireOptions& options = {}) {
  try {
    app::acquire(*fake.site, request, options);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

}  // namespace thole::test
