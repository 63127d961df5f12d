#!/bin/sh
# Slurm epilog (Epilog= in slurm.conf): fails, and so drains the node, when a process still holds a device of the job.
# Which devices are examined: see prolog.sh.
set -u
ttmon=${TTMON:-/usr/bin/ttmon}
set -- ${SLURM_JOB_GPUS:+--device "$SLURM_JOB_GPUS"}
"$ttmon" wait "$@" --idle --timeout 60 || { "$ttmon" who; exit 1; }
message=$("$ttmon" check "$@" --healthy)
code=$?
[ "$code" -le 1 ] || { echo "$message"; exit 1; }
exit 0
