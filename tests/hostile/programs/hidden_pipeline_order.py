"""Pipelines in orders that the reasons of their steps forbid: none can be made."""

# expect: TransformError
import tirlower as tl
from tirlower.driver.pipelines import Pipeline, pipeline_for

for target, early, late in (
    ("llvm", "VectorizeLoop", "StorageRewrite"),
    ("llvm", "LoopPartition", "VectorizeLoop"),
    ("llvm", "Simplify", "LowerIntrin"),
    ("llvm", "FlattenBuffer", "VectorizeLoop"),
    ("nvptx -arch=sm_80", "StorageRewrite", "ThreadSync"),
    ("nvptx -arch=sm_80", "ThreadSync", "InjectPTXAsyncCopy"),
):
    steps = list(pipeline_for(tl.Target(target)))
    moved = [step for step in steps if step.name == early]
    left = [step for step in steps if step.name != early]
    at = max(n for n, step in enumerate(left) if step.name == late)
    try:
        Pipeline((*left[: at + 1], *moved, *left[at + 1 :]))
    except tl.TransformError:
        continue
    raise SystemExit(f"{early} stands behind {late}")
Pipeline(tuple(reversed(list(pipeline_for(tl.Target("llvm"))))))
