# -O3 makes the program a sixth larger, and its start is mostly page faults (bench/program.py). What gains by it is placing 8 of
# 16 GPUs, by a twelfth (bench_plan).
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# One interface target carries every compile and link flag of the project.
add_library(thole_flags INTERFACE)
target_compile_options(thole_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -fvisibility=hidden -fno-semantic-interposition
  -UNDEBUG -D_GLIBCXX_ASSERTIONS)  # a bug aborts, in a release too
# GCC 12 and 13 warn of overlapping copies in std::string::operator=(const char*) where there are none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  target_compile_options(thole_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>>)
endif()
# Clang takes the unnamed namespace of a source that was joined before for an outer scope.
if(THOLE_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(thole_flags INTERFACE -Wno-shadow)
endif()
target_compile_definitions(thole_flags INTERFACE _GNU_SOURCE)
target_include_directories(thole_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(THOLE_WERROR)
  target_compile_options(thole_flags INTERFACE -Werror)
endif()
if(THOLE_BUILD_FUZZ)
  target_compile_options(thole_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -g)
  target_link_options(thole_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(thole_flags INTERFACE THOLE_SANITIZED=1)
elseif(THOLE_SANITIZE)
  target_compile_options(thole_flags INTERFACE -fsanitize=${THOLE_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(thole_flags INTERFACE -fsanitize=${THOLE_SANITIZE})
  target_compile_definitions(thole_flags INTERFACE THOLE_SANITIZED=1)
else()
  # The program starts in about a millisecond and runs on any glibc of its age or newer.
  target_link_options(thole_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()

function(thole_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${THOLE_UNITY} UNITY_BUILD_BATCH_SIZE 30)
  if(THOLE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")   # GCC takes included sources for headers
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
