#!/bin/sh
# Builds the container image from the static program: needs umoci and skopeo, no daemon and no root.
# usage: build.sh PROGRAM OUTPUT.tar [VERSION]      PROGRAM: target/package's static ttmon (cargo xtask package tar)
set -eu
program=$1 output=$2 version=${3:-0.1.0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umoci init --layout "$work/image"
umoci new --image "$work/image:$version"
umoci unpack --rootless --image "$work/image:$version" "$work/bundle"
install -D -m 0755 "$program" "$work/bundle/rootfs/usr/bin/ttmon"
mkdir -p "$work/bundle/rootfs/run/ttmon" "$work/bundle/rootfs/tmp" "$work/bundle/rootfs/dev/shm"
umoci repack --image "$work/image:$version" "$work/bundle"
umoci config --image "$work/image:$version" --config.entrypoint /usr/bin/ttmon --config.cmd serve \
    --config.exposedports 9478/tcp --author ttmon --created 1970-01-01T00:00:00Z
skopeo --insecure-policy copy "oci:$work/image:$version" "docker-archive:$output:ttmon:$version"
echo "$output: docker load < $output, or skopeo copy docker-archive:$output docker://REGISTRY/ttmon:$version"
