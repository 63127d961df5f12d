# step NAME COMMAND...: runs one check. The first that fails ends the script and shows what the command printed.
passed=0
output=$(mktemp)

step() {
  name=$1
  shift
  if "$@" >"$output" 2>&1; then
    echo "test $name ... ok"
    passed=$((passed + 1))
    return
  fi
  cat "$output"
  echo "test $name ... FAILED"
  echo "test result: FAILED. $passed passed; 1 failed"
  exit 1
}

finish() {
  rm -f "$output"
  echo "test result: ok. $passed passed; 0 failed"
}

# tracked TTMON: `ttmon run` on a program of the stand-in library, which allocates one buffer in DRAM.
tracked() {
  printf 'load %s\nopen 0 1\nallocate 0 0 1048576 2048\n' "$here/libtt_metal.so" |
    "$1" run --report "$output.json" -- "$here/program" || return
  grep '"peak": 1048576' "$output.json" || { cat "$output.json"; return 1; }
  rm "$output.json"
}
