"""Compares frames in one interpreter of embedded.c. `case` is its name, `outer` has the frames around it."""

import sys

import probe


def walked(frame):
    lines = []
    while frame is not None and len(lines) < 64:
        code = frame.f_code
        name = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
        lines.append(f"{code.co_filename}:{frame.f_lineno}:{name}")
        frame = frame.f_back
    return lines


def check(depth=3):
    if depth:
        return check(depth - 1)
    found, own = probe.frames(), walked(sys._getframe())
    if isinstance(found, int):
        return "none"
    found = found.splitlines()
    if found == own:
        return "own"
    assert found == globals().get("outer"), f"{case}:\n{found}\n{own}"
    return "outer"


results = {check() for _ in range(50)}
sys.stdout.write(f"{case}: {' '.join(sorted(results))}\n")
sys.stdout.flush()


def import_interpreters():
    """None in a static Python: it is an extension that is linked to the shared library."""
    for name in "_interpreters", "_xxsubinterpreters":
        try:
            return __import__(name)
        except ImportError:
            pass


interpreters = case.startswith("plain") and import_interpreters()
if interpreters:
    rest = f"case, path = 'run_string', {path!r}; exec(compile(open(path).read(), path, 'exec'))"
    number = interpreters.create()
    failed = interpreters.run_string(number, f"outer = {walked(sys._getframe())!r}; {rest}")
    interpreters.destroy(number)
    assert not failed, failed
