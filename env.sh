# Sourced by the scripts beside it: makes sure that `python` has the project and what it needs.

# ensure_environment 'module, module': use the active python where it is 3.11 or newer and imports these modules, else
# .venv, which is made where it is missing or broken, and filled again where pyproject.toml, or the checkout's place, is
# another than when it was filled, or filling it was interrupted.
ensure_environment() {
  local check="import sys; assert sys.version_info >= (3, 11); import $1"
  if python -c "$check" 2>/dev/null; then
    return
  fi
  if ! .venv/bin/python -c "" 2>/dev/null; then
    local base
    base="$(find_python)"
    echo "setting up .venv with $("$base" --version), once" >&2
    "$base" -m venv --clear .venv
  fi
  local state="$PWD $(cksum <pyproject.toml)"
  if [ "$(cat .venv/filled 2>/dev/null)" != "$state" ] || ! .venv/bin/python -c "$check" 2>/dev/null; then
    rm -f .venv/filled
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
    .venv/bin/python -c "$check" # what is still missing is told
    printf '%s\n' "$state" >.venv/filled
  fi
  export PATH="$PWD/.venv/bin:$PATH"
}

# The first Python that is new enough: PYTHON where it is set, else by the usual names.
find_python() {
  local name
  for name in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3.14 python3 python; do
    if "$name" -c "import sys; assert sys.version_info >= (3, 11)" 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  echo "tirlower needs Python 3.11 or newer; PYTHON=/path/to/python names one that is not on the PATH" >&2
  return 1
}
