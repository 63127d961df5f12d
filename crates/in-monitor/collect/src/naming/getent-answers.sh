#!/bin/sh
# Stands for getent in a test.
echo "bea:*:$2:100::/home/bea:/bin/sh"
