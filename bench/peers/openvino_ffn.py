#!/usr/bin/env python3
"""OpenVINO on the CPU: static shapes, latency hint, one stream; bf16 through its precision hint,
with float32 at the border as its users have it."""

from typing import Any

import numpy as np
from peer import Array, Cannot, Case, Work, parse_arguments, serve


class Compiled:
    """All copies as one graph from the same x, so that one call runs them one after the other."""

    def __init__(self, case: Case, openvino: Any) -> None:
        self.version = "openvino " + openvino.__version__.split("-")[0]
        core = openvino.Core()
        model = encoder(case, openvino) if case.kind == "model" else layers(case)
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": case.threads,
            "ENABLE_CPU_PINNING": True,
            "INFERENCE_PRECISION_HINT": "bf16" if case.bf16 else "f32",
        }
        self.request = core.compile_model(model, "CPU", settings).create_infer_request()
        if case.kind == "model":
            self.inputs = [case.ids(), np.ones_like(case.ids())]
        else:
            self.inputs = [case.f32("x", case.number("tokens"), case.number("d_model"))]
        self.tensors = [openvino.Tensor(array, shared_memory=True) for array in self.inputs]
        for index, tensor in enumerate(self.tensors):
            self.request.set_input_tensor(index, tensor)

    def run(self) -> None:
        self.request.infer()

    def outputs(self) -> dict[str, Array]:
        self.run()
        return {"y": np.array(self.request.get_output_tensor(0).data, np.float32)}


def layers(case: Case) -> Any:
    import openvino as ov
    import openvino.opset13 as op

    activations = {
        "identity": lambda x: x,
        "relu": op.relu,
        "sigmoid": op.sigmoid,
        "tanh": op.tanh,
        "silu": op.swish,
        "gelu": lambda x: op.gelu(x, "erf"),
        "gelu_tanh": lambda x: op.gelu(x, "tanh"),
        "mish": op.mish,
    }
    if case.kind == "moe" or case.backward == "1":
        raise Cannot("times forward passes of dense and gated layers only")
    if case.activation not in activations:
        raise Cannot(f"{case.activation} is not one of its operations")
    act = activations[case.activation]
    x = op.parameter([case.number("tokens"), case.number("d_model")], np.float32)
    results = []
    for copy in range(case.number("copies")):
        weights = case.layer_weights(copy)
        up = op.matmul(x, op.constant(weights["up"]), False, True)
        if case.gated:
            gate = op.matmul(x, op.constant(weights["gate"]), False, True)
            hidden = op.multiply(act(gate), up)
        else:
            hidden = act(op.add(up, op.constant(weights["up_bias"][None])))
        y = op.matmul(hidden, op.constant(weights["down"]), False, True)
        if not case.gated:
            y = op.add(y, op.constant(weights["down_bias"][None]))
        results.append(op.result(y))
    return ov.Model(results, [x])


def encoder(case: Case, openvino: Any) -> Any:
    import torch
    from onnxruntime_ffn import last_hidden_state

    ids = torch.from_numpy(case.ids())
    module = last_hidden_state(case.model())
    with torch.no_grad():
        model = openvino.convert_model(module, example_input=(ids, torch.ones_like(ids)))
    model.reshape({port: list(ids.shape) for port in model.inputs})
    return model


def main() -> None:
    threads, cpus = parse_arguments()

    def make(case: Case) -> Work:
        if case.isa in ("scalar", "avx2"):
            raise Cannot(f"openvino cannot be held to {case.isa}")
        import openvino

        return Compiled(case, openvino)

    serve(make, threads, cpus)


if __name__ == "__main__":
    main()
