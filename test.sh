#!/usr/bin/env bash
# The tests: sets up .venv where no environment with the project is active, then runs pytest.
set -euo pipefail
cd "$(dirname "$0")"
. ./env.sh
need='tirlower.ir, tirlower.llvm.jit, islpy, pytest, pytest_benchmark, xdist, hypothesis, mpmath, onnx, onnxruntime, scipy_openblas32'
ensure_environment "$need"
exec python -m pytest -n "${TIRLOWER_TEST_WORKERS:-2}" "$@"
