#!/usr/bin/env python3
"""ONNX Runtime on the CPU, float32: all graph optimisations, threads pinned, outputs bound."""

import os
import tempfile
from typing import Any

import numpy as np
from peer import Array, Cannot, Case, Work, parse_arguments, serve


class Session:
    """All copies as one graph from the same x, so that one call runs them one after the other."""

    def __init__(self, case: Case, ort: Any) -> None:
        self.version = "onnxruntime " + ort.__version__
        options = ort.SessionOptions()
        options.intra_op_num_threads = case.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        pinned = len(case.cpus) == case.threads
        if pinned and case.threads > 1:
            # Of the workers, counted from 1; the caller is pinned below.
            workers = ";".join(str(cpu + 1) for cpu in case.cpus[1:])
            options.add_session_config_entry("session.intra_op_thread_affinities", workers)
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        with tempfile.TemporaryDirectory(dir=".") as folder:
            path = os.path.join(folder, "graph.onnx")
            save = save_encoder if case.kind == "model" else save_layers
            save(case, path)
            self.session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
        if pinned:
            os.sched_setaffinity(0, {case.cpus[0]})
        if case.kind == "model":
            ids = case.ids()
            arrays = [ids, np.ones_like(ids)]
        else:
            arrays = [case.f32("x", case.number("tokens"), case.number("d_model"))]
        self.arrays = arrays
        self.binding = self.session.io_binding()
        for port, array in zip(self.session.get_inputs(), arrays, strict=True):
            self.binding.bind_cpu_input(port.name, array)
        self.found = []
        for port in self.session.get_outputs():
            shape = arrays[0].shape if case.kind != "model" else (*ids.shape, port.shape[-1])
            self.found.append(np.empty(shape, np.float32))
            self.binding.bind_output(
                port.name, "cpu", 0, np.float32, shape, self.found[-1].ctypes.data
            )

    def run(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def outputs(self) -> dict[str, Array]:
        self.run()
        return {"y": self.found[0]}


def save_layers(case: Case, path: str) -> None:
    import onnx
    from onnx import helper, numpy_helper

    if case.kind == "moe" or case.backward == "1":
        raise Cannot("times forward passes of dense and gated layers only")
    nodes, weights, results = [], [], []
    shape = [case.number("tokens"), case.number("d_model")]

    def add(kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(name: str, array: Array) -> str:
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def activate(name: str, x: str) -> str:
        simple = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "mish": "Mish"}
        if case.activation in simple:
            return add(simple[case.activation], name, x)
        if case.activation == "silu":
            return add("Mul", name, x, add("Sigmoid", name + "s", x))
        if case.activation in ("gelu", "gelu_tanh"):
            how = "tanh" if case.activation == "gelu_tanh" else "none"
            return add("Gelu", name, x, approximate=how)
        raise Cannot(f"{case.activation} is not one of its operations")

    for copy in range(case.number("copies")):
        own = case.layer_weights(copy)
        up = add("MatMul", f"up{copy}", "x", constant(f"wu{copy}", own["up"].T))
        if case.gated:
            gate = add("MatMul", f"gate{copy}", "x", constant(f"wg{copy}", own["gate"].T))
            hidden = add("Mul", f"h{copy}", activate(f"a{copy}", gate), up)
        else:
            biased = add("Add", f"b{copy}", up, constant(f"bu{copy}", own["up_bias"]))
            hidden = activate(f"h{copy}", biased)
        y = add("MatMul", f"y{copy}", hidden, constant(f"wd{copy}", own["down"].T))
        if not case.gated:
            y = add("Add", f"z{copy}", y, constant(f"bd{copy}", own["down_bias"]))
        results.append(helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, shape))
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        results,
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True)


def last_hidden_state(folder: str) -> Any:
    """The encoder as a module from ids and mask to its last layer."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    ).eval()

    class LastHiddenState(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask, return_dict=False)[0]

    return LastHiddenState().eval()


def save_encoder(case: Case, path: str) -> None:
    import torch

    ids = torch.from_numpy(case.ids())
    with torch.no_grad():
        torch.onnx.export(
            last_hidden_state(case.model()),
            (ids, torch.ones_like(ids)),
            path,
            input_names=["ids", "mask"],
            output_names=["hidden"],
            opset_version=17,
            dynamo=False,
        )


def main() -> None:
    threads, cpus = parse_arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"

    def make(case: Case) -> Work:
        if case.bf16:
            raise Cannot("onnxruntime multiplies no bf16 matrices on CPUs")
        if case.isa in ("scalar", "avx2"):
            raise Cannot(f"onnxruntime cannot be held to {case.isa}")
        os.sched_setaffinity(0, set(cpus))  # the session's threads inherit it
        import onnxruntime

        return Session(case, onnxruntime)

    serve(make, threads, cpus)


if __name__ == "__main__":
    main()
