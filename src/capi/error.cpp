// Errors of the C ABI.
#include <cstdlib>
#include <exception>
#include <new>

#include "base/refusal.hpp"
#include "base/printable_lines.hpp"
#include "base/text.hpp"
#include "base/want.hpp"
#include "capi/handles.hpp"

namespace thole::capi {

namespace {

constexpr std::size_t longest_object = 4096;   // a path

static_assert(THOLE_CANCELLED == 130, "ErrorCode::interrupted has this exit status; error_test checks the others");

// There may be no memory for an error that says so.
thole_error& out_of_memory() {
  static thole_error error{THOLE_UNAVAILABLE, ENOMEM, "out of memory", "out of memory", "", mend_of_want(ENOMEM),
                           name(ErrorCode::unavailable)};
  return error;
}

thole_error* made_from(const Error& error, thole_code code, const char* word) {
  return new thole_error{code, error.sys_errno(), printable_lines(error.full()), printable_lines(error.what()),
                         printable(error.object(), longest_object), printable_lines(hint_of(error)), word};
}

thole_error* made_from(const Error& error) {
  return made_from(error, static_cast<thole_code>(exit_status(error.code())), reason(error));
}

}  // namespace

void report(thole_error** error) noexcept {
  if (!error) return;
  try {
    try {
      throw;
    } catch (const TooLate& late) {
      *error = made_from(late, THOLE_TOO_LATE, "too-late");
    } catch (const Error& known) {
      *error = made_from(known);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& unknown) {
      *error = made_from(Error(ErrorCode::internal, unknown.what()));
    }
  } catch (...) {
    *error = &out_of_memory();
  }
}

}  // namespace thole::capi

thole_code thole_error_code(const thole_error* error) { return error ? error->code : THOLE_OK; }
const char* thole_error_text(const thole_error* error) { return error ? error->text.c_str() : "no error"; }
const char* thole_error_message(const thole_error* error) { return error ? error->message.c_str() : ""; }
const char* thole_error_object(const thole_error* error) { return error ? error->object.c_str() : ""; }
const char* thole_error_hint(const thole_error* error) { return error ? error->hint.c_str() : ""; }
const char* thole_error_reason(const thole_error* error) { return error ? error->reason : ""; }
int thole_error_errno(const thole_error* error) { return error ? error->sys_errno : 0; }

void thole_error_free(thole_error* error) {
  if (error != &thole::capi::out_of_memory()) delete error;
}

void thole_free(char* text) { std::free(text); }
