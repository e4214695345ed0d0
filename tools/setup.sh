#!/usr/bin/env bash
# setup.sh GROUP...: installs what building, testing and linting need and is missing. Groups: build, model, test, lint,
# deep, bench. Debian packages by apt-get; Python packages into $BUILD/venv (default build/venv). With nothing missing it only
# looks, and prints nothing.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
venv=$build/venv
log=$build/setup.log

# The one list of Debian packages.
build_packages="g++ cmake ninja-build libsimdjson-dev libfmt-dev libcli11-dev libutf8proc-dev doctest-dev"
model_packages="python3 python3-venv ca-certificates"
python_packages="python3-dev"
lint_packages="git binutils clang-format-14 clang-tidy-14"
bench_packages="libdnnl-dev"
deep_packages="clang-14 libclang-rt-14-dev llvm-14 chromium fonts-dejavu-core"

say() { echo "setup: $*" >&2; }

# Compilers and build tools may come from elsewhere in PATH; libraries are looked for among the packages.
have_tool() {
  case $1 in
    g++) g++ --version ;;
    cmake) command -v cmake && cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || v[2] >= 25) }' ;;
    ninja-build) ninja --version ;;
    git) git --version ;;
    *) return 1 ;;
  esac >/dev/null 2>&1
}

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || have_tool "$package" || echo "$package"
  done
}

install_packages() {
  local missing
  missing=$(missing_packages "$@" | tr '\n' ' ')
  missing=${missing% }
  [ -z "$missing" ] && return 0
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "this is no Debian system. Fourfold needs what these Debian 12 packages bring; install them your system's way:"
    say "  $missing"
    say "On Debian: sudo apt-get install $missing"
    exit 1
  fi
  if [ "$(id -u)" != 0 ]; then
    say "packages are missing and only root can install them. Run this, then try again:"
    say "  sudo apt-get install $missing"
    exit 1
  fi
  say "installing $missing"
  export DEBIAN_FRONTEND=noninteractive
  local apt="apt-get -q -y -o DPkg::Lock::Timeout=300"
  if ! $apt update >>"$log" 2>&1; then
    sleep 5
    $apt update >>"$log" 2>&1 || say "apt-get update failed; trying with the package lists that are here"
  fi
  # shellcheck disable=SC2086  # a list of words
  if ! $apt install --no-install-recommends $missing >>"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    say "apt-get install failed (whole output: $log). Is the network there? By hand: sudo apt-get install $missing"
    exit 1
  fi
}

good_python() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# A Python from elsewhere will do; make_venv takes the same one.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3; do
    good_python "$candidate" && echo "$candidate" && return 0
  done
  return 1
}

# Debian's Python has its headers in a package, others bring their own.
have_headers() {
  "${1:-/usr/bin/python3}" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' >/dev/null 2>&1
}

venv_is_ready() { [ -e "$venv/.ready" ] && "$venv/bin/python" -c '' 2>/dev/null; }

make_venv() {
  venv_is_ready && return 0
  local python
  if ! python=$(find_python); then
    say "needs Python 3.11 or newer with its venv module; found $(python3 --version 2>&1)"
    exit 1
  fi
  say "creating $venv"
  rm -rf "$venv"
  if ! "$python" -m venv "$venv" >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    say "could not create $venv (whole output: $log)"
    exit 1
  fi
  touch "$venv/.ready"
}

pip_install() {
  if ! "$venv/bin/python" -m pip install -q "$@" >>"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    say "pip install $* failed (whole output: $log). Is the network there?"
    exit 1
  fi
}

# What the Python package is built with.
install_build_packages() {
  make_venv
  local stamp wanted
  stamp=$venv/.requirements-python.sha256
  wanted=$(sha256sum <requirements-python.txt)
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return 0
  say "installing $(grep -E '^[a-z]' requirements-python.txt | tr '\n' ' ')into $venv"
  pip_install -r requirements-python.txt
  echo "$wanted" >"$stamp"
}

install_python_packages() {
  make_venv
  local stamp wanted
  stamp=$venv/.requirements.sha256
  wanted=$(sha256sum <requirements-test.txt)
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return 0
  # torch first and alone: what other packages ask of it must not pull in another build of it.
  local torch
  torch=$(grep -E '^torch==' requirements-test.txt)
  say "installing $torch into $venv"
  pip_install "$torch"
  say "installing the other Python test packages"
  pip_install -r requirements-test.txt
  echo "$wanted" >"$stamp"
}

# Peers of `make bench`. One that cannot be had is left out, with a word: the bench names it and goes on.
install_bench_packages() {
  install_python_packages
  local stamp wanted
  stamp=$venv/.requirements-bench.sha256
  wanted=$(sha256sum <requirements-bench.txt)
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return 0
  say "installing $(grep -E '^[a-z]' requirements-bench.txt | tr '\n' ' ')into $venv"
  if "$venv/bin/python" -m pip install -q -r requirements-bench.txt >>"$log" 2>&1 </dev/null; then
    echo "$wanted" >"$stamp"
  else
    say "pip install failed (whole output: $log); these peers will not be measured"
  fi
}

[ $# -gt 0 ] || { say "usage: tools/setup.sh build|python|model|test|lint|deep|bench ..."; exit 2; }
mkdir -p "$build" || exit 1
: >"$log"
# All packages at once, so that whoever must ask for them asks once.
packages=""
for group in "$@"; do
  case $group in
    build) packages+=" $build_packages" ;;
    lint) packages+=" $lint_packages" ;;
    deep) packages+=" $deep_packages" ;;
    bench) packages+=" $bench_packages" ;;
    python) have_headers "$(venv_is_ready && echo "$venv/bin/python" || find_python)" || packages+=" $python_packages" ;;
    model | test) ;;
    *) say "unknown group $group; groups are build, python, model, test, lint, deep, bench"; exit 2 ;;
  esac
  case $group in
    python | model | test | lint | bench) venv_is_ready || find_python >/dev/null || packages+=" $model_packages" ;;
  esac
done
# shellcheck disable=SC2086  # a list of words
[ -z "$packages" ] || install_packages $packages
for group in "$@"; do
  case $group in
    python) install_build_packages ;;
    model) make_venv ;;
    test | lint) install_python_packages ;;
    bench) install_bench_packages ;;
  esac
done
