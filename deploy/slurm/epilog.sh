#!/bin/sh
# Slurm epilog (Epilog= in slurm.conf): fails, and so drains the node, when a process of the job still holds a device.
set -u
ttmon=${TTMON:-/usr/bin/ttmon}
"$ttmon" wait --idle --timeout 60 || { "$ttmon" who; exit 1; }
message=$("$ttmon" check --healthy)
code=$?
[ "$code" -le 1 ] || { echo "$message"; exit 1; }
exit 0
