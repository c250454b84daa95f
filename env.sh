# Sourced by the scripts beside it: makes sure that `python` has the project and what it needs.

# ensure_environment 'module, module': use the active python where it is 3.11 or newer and imports these modules, else
# .venv, which is made and filled when it is missing.
ensure_environment() {
  local check="import sys; assert sys.version_info >= (3, 11); import $1"
  if ! python -c "$check" 2>/dev/null; then
    if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c "$check" 2>/dev/null; then
      "$(command -v python3.11 || command -v python3)" -m venv .venv
      .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
    fi
    export PATH="$PWD/.venv/bin:$PATH"
  fi
}
