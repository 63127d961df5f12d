#!/bin/sh
# Slurm prolog (Prolog= in slurm.conf): drains the node when a device is not healthy or still held by an earlier job.
# Prolog runs as root before the job; a failure drains the node and requeues the job.
# Slurm names the job's chips only when they are of the gres `gpu` (gres.conf). Otherwise all chips of the node are examined, which
# suits nodes that one job has at a time.
set -u
ttmon=${TTMON:-/usr/bin/ttmon}
set -- ${SLURM_JOB_GPUS:+--device "$SLURM_JOB_GPUS"}
if ! "$ttmon" wait "$@" --idle --timeout 30; then
    echo "ttmon: devices are still held: $("$ttmon" who 2>/dev/null | head -n 3)"
    exit 1
fi
# 0 ok, 1 warning: the job may run.
message=$("$ttmon" check "$@" --healthy --no-stale)
code=$?
[ "$code" -le 1 ] || { echo "$message"; exit 1; }
exit 0
