# Sourced by the scripts beside it: finds what a build needs, installs what is missing, chooses the number of jobs.
#
# Each need is probed by use (a program on PATH, a header the compiler finds), so that a toolchain from elsewhere than
# the distribution's packages counts too. Only what is missing is installed, and only by apt.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${THOLE_BUILD:-$root/build}

say() { printf '\n== %s\n' "$*"; }

# program or header -> Debian and Ubuntu package (the same names from Debian 12 and Ubuntu 22.04 on)
program_packages='g++ g++
gcc gcc
cmake cmake
ninja ninja-build
python3 python3'
test_program_packages='pkg-config pkg-config
git git
vim vim
zsh zsh
fish fish
groff groff-base
mypy mypy'
header_packages='fmt/core.h libfmt-dev
nlohmann/json.hpp nlohmann-json3-dev
toml++/toml.h libtomlplusplus-dev
hwloc.h libhwloc-dev
pugixml.hpp libpugixml-dev
sqlite3.h libsqlite3-dev'
test_header_packages='gtest/gtest.h libgtest-dev
gmock/gmock.h libgmock-dev
rapidcheck.h librapidcheck-dev'

has_header() { g++ -std=c++20 -isystem "$build/headers" -E -x c++ - <<<"#include <$1>" >/dev/null 2>&1; }

# Ubuntu 22.04 has no package of toml++. A source archive at PyPI carries its headers, which this puts into the build folder.
fetch_toml() {
  say "no package of toml++ here; its headers come with pytomlpp 1.1.0 of PyPI"
  python3 - "$build/headers" <<'PYTHON'
import hashlib, io, pathlib, sys, tarfile, urllib.request
url = ("https://files.pythonhosted.org/packages/10/fe/50ca1ac0c1a932d3e71311baff531c0395e546ec0cd42bc8a8a88c36e00b/"
       "pytomlpp-1.1.0.tar.gz")
try:
    archive = urllib.request.urlopen(url, timeout=60).read()
except OSError as error:
    sys.exit(f"cannot fetch {url}: {error}\nPut the folder toml++ of github.com/marzer/tomlplusplus into /usr/local/include")
if hashlib.sha256(archive).hexdigest() != "61a0f73e7ba2fe8bba4e99ce6d2701491885850b53aad8f3e46d03c4b31e594d":
    sys.exit(f"{url} is not what it was")
headers = "pytomlpp-1.1.0/third_party/tomlplusplus/include/"
with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
    for member in tar:
        if member.isfile() and member.name.startswith(headers + "toml++/"):
            target = pathlib.Path(sys.argv[1], member.name[len(headers):])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tar.extractfile(member).read())
PYTHON
}

# The interpreter that has pytest: the one on PATH, else the distribution's.
python_with_pytest() {
  local python itself
  for python in python3 /usr/bin/python3; do
    # Itself, where it knows: what pyenv has under its name is a script, which takes longer than it to start.
    if itself=$("$python" -c 'import pytest, sys; print(sys.executable)' 2>/dev/null); then
      echo "${itself:-$(command -v "$python")}"
      return
    fi
  done
  return 1
}

# Python modules that the tests use where one interpreter has them: the one on PATH, or the distribution's.
has_modules() {  # names, comma-separated
  local python
  for python in python3 /usr/bin/python3; do
    command -v "$python" >/dev/null && "$python" -c "import $1" 2>/dev/null && return
  done
  return 1
}

missing_packages() {  # $1: build | test
  local name package programs=$program_packages headers=$header_packages
  if [ "$1" = test ]; then
    programs+=$'\n'$test_program_packages
    headers+=$'\n'$test_header_packages
  fi
  while read -r name package; do
    command -v "$name" >/dev/null || echo "$package"
  done <<<"$programs"
  while read -r name package; do
    command -v g++ >/dev/null && has_header "$name" || echo "$package"
  done <<<"$headers"
  if [ "$1" = test ]; then
    python_with_pytest >/dev/null || echo python3-pytest
    "$(python_with_pytest || echo python3)" -m pip --version >/dev/null 2>&1 || echo python3-pip
    has_modules ipykernel,nbclient || echo python3-ipykernel python3-nbclient
    has_modules joblib || echo python3-joblib
  fi
}

install_missing() {  # $1: build | test
  local packages become_root=()
  packages=$(missing_packages "$1")
  packages=${packages//$'\n'/ }
  [ -n "$packages" ] || return 0
  say "missing: $packages"
  local line="apt-get update && apt-get install --yes --no-install-recommends $packages"
  if ! command -v apt-get >/dev/null; then
    echo "This is no Debian or Ubuntu. Install what these packages of theirs hold, then run this again:" >&2
    echo "  $packages" >&2
    exit 1
  fi
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && [ -t 2 ]; }; }; then
      become_root=(sudo)
    else
      echo "Ask an administrator to run this line, then run $0 again:" >&2
      echo "  sudo sh -c '$line'" >&2
      exit 1
    fi
  fi
  # shellcheck disable=SC2086  # the list is meant to be split into words
  local apt=("${become_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q --yes)
  "${apt[@]}" update || true   # what follows says what is missing because of it
  local toml=
  if [[ " $packages " == *" libtomlplusplus-dev "* ]] && ! apt-cache show libtomlplusplus-dev >/dev/null 2>&1; then
    toml=fetch packages=${packages//libtomlplusplus-dev/}
  fi
  # shellcheck disable=SC2086
  if ! "${apt[@]}" install --no-install-recommends $packages; then
    echo "apt-get could not install them. The line was:" >&2
    echo "  sudo sh -c '$line'" >&2
    exit 1
  fi
  [ -z "$toml" ] || fetch_toml
  packages=$(missing_packages "$1")
  if [ -n "$packages" ]; then
    echo "still missing after installing:" $packages >&2
    exit 1
  fi
}

# One compiler per CPU, but not more than memory allows (a source with templates takes up to 1 GiB).
jobs() {
  local cpus gib
  cpus=$(nproc)
  gib=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$gib" -ge 1 ] || gib=1
  echo $((cpus < gib ? cpus : gib))
}

configure() {  # further cmake arguments
  local launcher=() python
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
  fi
  if python=$(python_with_pytest); then
    launcher+=("-DPython3_EXECUTABLE=$python")
  fi
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INCLUDE_PATH="$build/headers" "${launcher[@]}" "$@"
}

# The newest glibc interface that programs or libraries ask for: its least version.
least_glibc() { objdump -T "$@" 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1 | sed s/GLIBC_//; }

# Refuses what would not run elsewhere.
needs_only_glibc() {
  local needed
  needed=$(objdump -p "$@" | sed -n 's/^ *NEEDED *//p' | sort -u |
    grep -vE '^(lib(c|m|dl|pthread)|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$') || return 0
  echo "needs more than glibc:" $needed "(a sanitized build?)" >&2
  exit 1
}
