#!/bin/sh
# Installs the deb in a fresh root of Debian, uses it and removes it. The root, its mounts and its processes belong to this script.
set -u
here=/try
mount -t proc proc /proc
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
. $here/steps.sh

# All files but those that dpkg and man-db keep for themselves.
files() {
  find / -xdev -path /tmp -prune -o -path /var/lib/dpkg -prune -o -path /var/log -prune -o -path /var/cache/man -prune -o -print | sort
}
units_are_disabled() { [ "$(systemctl is-enabled ttmon.service ttmon.socket | sort -u)" = disabled ]; }
snapshot() { ttmon --sim t3k | grep 'n300 L'; }
doctor() {
  ttmon doctor >/tmp/doctor
  [ $? -le 2 ] && grep -F /usr/lib/ttmon/ /tmp/doctor || { cat /tmp/doctor; return 1; }
}
manual() { man ttmon | grep SYNOPSIS && man ttmon-run | grep SYNOPSIS; }
configure() { systemctl enable ttmon.socket && mkdir /etc/ttmon && touch /etc/ttmon/config.toml; }
removed() { dpkg --remove ttmon && [ ! -e /usr/bin/ttmon ] && [ -e /etc/ttmon/config.toml ]; }
purged() {
  dpkg --purge ttmon && files >/tmp/after && diff /tmp/before /tmp/after
}
# The program alone, as `cargo install` gives it: its libraries are unpacked.
alone() {
  XDG_CACHE_HOME=/tmp/cache tracked $here/ttmon && [ "$(stat -c %a /tmp/cache/ttmon/lib-*)" = 700 ]
}
alone_noexec() {
  mkdir /tmp/noexec && mount -t tmpfs -o noexec tmpfs /tmp/noexec
  XDG_CACHE_HOME=/tmp/noexec $here/ttmon run -- true >/tmp/noexec.log 2>&1
  [ $? = 125 ] && grep noexec /tmp/noexec.log || { cat /tmp/noexec.log; return 1; }
}

files >/tmp/before
step install dpkg --install $here/ttmon.deb
step units_are_disabled units_are_disabled
step snapshot snapshot
step doctor doctor
step manual manual
step run tracked ttmon
step configure configure
step remove_keeps_configuration removed
step purge_leaves_nothing purged
step alone alone
step alone_noexec alone_noexec
finish
