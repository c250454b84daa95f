#!/usr/bin/env bash
# The main job: compiles real kernels, checks them against NumPy and shows their speed.
set -euo pipefail
cd "$(dirname "$0")"
. ./env.sh
ensure_environment 'tirlower.ir, tirlower.llvm.jit, islpy'
python -m tirlower demo "$@"
echo
exec python -m examples.graph.first_models
