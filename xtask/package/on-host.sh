#!/bin/sh
# Tries the tar.gz, the rpm and the wheel on this machine: on-host.sh FOLDER, which has them and is free to use.
set -u
here=$1
. "$here/steps.sh"

unpack() { mkdir "$here/tar" && tar -xf "$here"/ttmon-*.tar.gz --strip-components=1 -C "$here/tar"; }
# A program that was written for TT-Metal's experimental client, with the names that pkg-config gives.
compile() {
  export PKG_CONFIG_PATH="$here/tar/lib/pkgconfig"
  c++ -std=c++17 -Wall -Wextra -Werror -o "$here/reports" "$here/reports.cpp" $(pkg-config --cflags --libs ttmon-client) &&
    printf '#include <ttmon_monitor.h>\nint main(void) { return 0; }\n' >"$here/monitor.c" &&
    cc -Wall -Wextra -Werror -o "$here/monitor" "$here/monitor.c" $(pkg-config --cflags --libs ttmon-monitor) && "$here/monitor"
}
reports() { "$here/tar/bin/ttmon" run -- "$here/reports"; }
rpm_lists_every_file() {
  (cd "$here/tar" && find . ! -type d | sed 's,^[.],/usr,' | sort) >"$here/staged"
  rpm -qlp "$here"/ttmon-*.rpm | while read -r file; do [ -d "$here/tar/${file#/usr/}" ] || echo "$file"; done | sort | diff "$here/staged" -
}
environment() {
  python3 -m venv "$here/venv" && "$here/venv/bin/pip" install --quiet --no-index --no-deps "$here"/ttmon-*.whl &&
    "$here/venv/bin/ttmon" --sim t3k | grep 'n300 L'
}
wheel_python() { "$here/venv/bin/python" -c 'import ttmon; assert ttmon.available'; }
wheel_manual() { MANPATH="$here/venv/share/man" man --path ttmon; }
# As uvx starts it: its own environment is the first in PATH, and the command is the user's.
foreign_python() {
  PATH="$here/venv/bin:$PATH" ttmon run --quiet -- python3 -c "import sys; assert not sys.prefix.startswith('$here'), sys.prefix"
}
# An environment that the user activated is the user's.
own_python() {
  VIRTUAL_ENV="$here/venv" PATH="$here/venv/bin:$PATH" \
    ttmon run --quiet -- python3 -c "import sys; assert sys.prefix.startswith('$here'), sys.prefix"
}

step unpack unpack
step tar_run tracked "$here/tar/bin/ttmon"
step compile compile
step reports reports
step rpm_lists_every_file rpm_lists_every_file
step wheel_installs environment
step wheel_python wheel_python
step wheel_manual wheel_manual
step wheel_run tracked "$here/venv/bin/ttmon"
step foreign_python foreign_python
step own_python own_python
finish
