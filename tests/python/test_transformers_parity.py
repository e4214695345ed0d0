"""Layers of the Python package against the FFN modules of transformers, tiny and random.

Router weights go through float32 in some modules, so bounds are float32's: 1e-5 of each tensor's
norm.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.llama import modeling_llama as llama
from transformers.models.llama4 import modeling_llama4 as llama4
from transformers.models.mixtral import modeling_mixtral as mixtral
from transformers.models.olmoe import modeling_olmoe as olmoe
from transformers.models.phi import modeling_phi as phi
from transformers.models.qwen2_moe import modeling_qwen2_moe as qwen2

import fourfold as ff

BATCH, SEQ, D_MODEL, D_FF, N_EXPERTS, TOP_K, SHARED = 2, 5, 7, 11, 6, 3, 13
Array = np.ndarray[Any, Any]


def filled(module: nn.Module) -> nn.Module:
    """Random values for all parameters and the router's selection bias."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5 + 0.03)
        for name, buffer in module.named_buffers():
            if name.endswith("correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.3)
    return module.double().train()


def array(tensor: torch.Tensor) -> Array:
    return tensor.detach().float().numpy()


def check(module: nn.Module, layer: Any, grads_of: Any) -> None:
    """y, dx and the gradients. grads_of(grads): our gradients laid out as the module's, by name."""
    torch.manual_seed(3)
    x = torch.randn(BATCH, SEQ, D_MODEL).double().requires_grad_()
    dy = torch.randn(BATCH, SEQ, D_MODEL).double()
    y = module(x)
    y = (y[0] if isinstance(y, tuple) else y).reshape(x.shape)
    y.backward(dy)
    ours, saved = layer.forward(array(x), save=True)
    dx, grads = layer.backward(saved, array(dy))
    pairs = {"y": (ours, y), "dx": (dx, x.grad)}
    named = dict(module.named_parameters())
    found = grads_of(grads)
    assert found.keys() == named.keys()
    for name, value in found.items():
        pairs[name] = (value, named[name].grad)
    for name, (got, want) in pairs.items():
        exact = want.detach().numpy()
        assert got.shape == exact.shape, name
        assert np.linalg.norm(got - exact) <= 1e-5 * np.linalg.norm(exact), name


def gated_names(grads: Any, prefix: str = "") -> dict[str, Array]:
    return {
        f"{prefix}gate_proj.weight": grads.gate,
        f"{prefix}up_proj.weight": grads.up,
        f"{prefix}down_proj.weight": grads.down,
    }


def gated_layer(module: Any) -> Any:
    return ff.GatedFFN(
        array(module.gate_proj.weight),
        array(module.up_proj.weight),
        array(module.down_proj.weight),
    )


def expert_arrays(experts: Any) -> dict[str, Any]:
    """Rows of gate_up_proj: first all of gate, then all of up."""
    both = array(experts.gate_up_proj)
    return {"gate": both[:, :D_FF], "up": both[:, D_FF:], "down": array(experts.down_proj)}


def expert_names(grads: Any) -> dict[str, Array]:
    return {
        "experts.gate_up_proj": np.concatenate([grads.gate, grads.up], axis=1),
        "experts.down_proj": grads.down,
    }


def test_llama_mlp() -> None:
    config = llama.LlamaConfig(
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        mlp_bias=True,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=2,
    )
    module = filled(llama.LlamaMLP(config))
    layer = ff.GatedFFN(
        array(module.gate_proj.weight),
        array(module.up_proj.weight),
        array(module.down_proj.weight),
        gate_bias=array(module.gate_proj.bias),
        up_bias=array(module.up_proj.bias),
        down_bias=array(module.down_proj.bias),
    )

    def names(grads: Any) -> dict[str, Array]:
        biases = {
            "gate_proj.bias": grads.gate_bias,
            "up_proj.bias": grads.up_bias,
            "down_proj.bias": grads.down_bias,
        }
        return {**gated_names(grads), **biases}

    check(module, layer, names)


@pytest.mark.parametrize(
    "activation",
    ["gelu_new", "gelu", "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu2", "mish", "relu6",
     "leaky_relu", "swish", "linear", "tanh", "sigmoid", "relu"],
)  # fmt: skip
def test_phi_mlp_with_the_spellings_of_configurations(activation: str) -> None:
    config = phi.PhiConfig(hidden_size=D_MODEL, intermediate_size=D_FF, hidden_act=activation)
    module = filled(phi.PhiMLP(config))
    layer = ff.DenseFFN(
        array(module.fc1.weight),
        array(module.fc2.weight),
        array(module.fc1.bias),
        array(module.fc2.bias),
        activation=activation,
    )
    check(
        module,
        layer,
        lambda grads: {
            "fc1.weight": grads.up,
            "fc1.bias": grads.up_bias,
            "fc2.weight": grads.down,
            "fc2.bias": grads.down_bias,
        },
    )


def test_mixtral_block() -> None:
    config = mixtral.MixtralConfig(
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_local_experts=N_EXPERTS,
        num_experts_per_tok=TOP_K,
    )
    module = filled(mixtral.MixtralSparseMoeBlock(config))
    layer = ff.MoEFFN(array(module.gate.weight), **expert_arrays(module.experts), top_k=TOP_K)
    check(module, layer, lambda g: {"gate.weight": g.router, **expert_names(g)})


@pytest.mark.parametrize("renormalize", [False, True])
def test_qwen2_block_with_gated_shared_expert(renormalize: bool) -> None:
    config = qwen2.Qwen2MoeConfig(
        hidden_size=D_MODEL,
        moe_intermediate_size=D_FF,
        shared_expert_intermediate_size=SHARED,
        num_experts=N_EXPERTS,
        num_experts_per_tok=TOP_K,
        norm_topk_prob=renormalize,
    )
    module = filled(qwen2.Qwen2MoeSparseMoeBlock(config))
    layer = ff.MoEFFN(
        array(module.gate.weight),
        **expert_arrays(module.experts),
        top_k=TOP_K,
        renormalize=renormalize,
        shared=gated_layer(module.shared_expert),
        shared_gate=array(module.shared_expert_gate.weight)[0],
    )
    check(
        module,
        layer,
        lambda g: {
            "gate.weight": g.router,
            **expert_names(g),
            **gated_names(g.shared, "shared_expert."),
            "shared_expert_gate.weight": g.shared_gate[None, :],
        },
    )


def test_olmoe_block_keeps_raw_probabilities() -> None:
    config = olmoe.OlmoeConfig(
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_experts=N_EXPERTS,
        num_experts_per_tok=TOP_K,
        norm_topk_prob=False,
    )
    module = filled(olmoe.OlmoeSparseMoeBlock(config))
    layer = ff.MoEFFN(
        array(module.gate.weight), **expert_arrays(module.experts), top_k=TOP_K, renormalize=False
    )
    check(module, layer, lambda g: {"gate.weight": g.router, **expert_names(g)})


@pytest.mark.parametrize("renormalize", [False, True])
def test_deepseek_block_with_groups_and_selection_bias(renormalize: bool) -> None:
    config = deepseek.DeepseekV3Config(
        hidden_size=D_MODEL,
        moe_intermediate_size=D_FF,
        n_routed_experts=N_EXPERTS,
        num_experts_per_tok=TOP_K,
        n_group=3,
        topk_group=2,
        n_shared_experts=1,
        routed_scaling_factor=2.5,
        norm_topk_prob=renormalize,
    )
    module = filled(deepseek.DeepseekV3MoE(config))
    layer = ff.MoEFFN(
        array(module.gate.weight),
        **expert_arrays(module.experts),
        top_k=TOP_K,
        scoring="sigmoid",
        renormalize=renormalize,
        selection_bias=array(module.gate.e_score_correction_bias),
        scaling=2.5,
        n_groups=3,
        top_groups=2,
        shared=gated_layer(module.shared_experts),
    )
    check(
        module,
        layer,
        lambda g: {
            "gate.weight": g.router,
            **expert_names(g),
            **gated_names(g.shared, "shared_experts."),
        },
    )


def test_gpt_oss_block_with_interleaved_rows_and_clamp() -> None:
    config = gpt_oss.GptOssConfig(
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_local_experts=N_EXPERTS,
        num_experts_per_tok=TOP_K,
    )
    module = filled(gpt_oss.GptOssMLP(config))
    with torch.no_grad():
        module.experts.gate_up_proj.mul_(6)  # the clamps are reached
    both = array(module.experts.gate_up_proj).transpose(0, 2, 1)  # columns: gate, up, gate, up ...
    bias = array(module.experts.gate_up_proj_bias)
    layer = ff.MoEFFN(
        array(module.router.weight),
        both[:, 0::2],
        both[:, 1::2],
        array(module.experts.down_proj).transpose(0, 2, 1),
        gate_bias=bias[:, 0::2],
        up_bias=bias[:, 1::2],
        down_bias=array(module.experts.down_proj_bias),
        router_bias=array(module.router.bias),
        activation="swiglu_oai",
        scoring="softmax_topk",
        top_k=TOP_K,
    )

    def interleaved(gate: Array, up: Array) -> Array:
        merged = np.empty((N_EXPERTS, 2 * D_FF, *gate.shape[2:]), np.float32)
        merged[:, 0::2], merged[:, 1::2] = gate, up
        return merged

    check(
        module,
        layer,
        lambda g: {
            "router.weight": g.router,
            "router.bias": g.router_bias,
            "experts.gate_up_proj": interleaved(g.gate, g.up).transpose(0, 2, 1),
            "experts.gate_up_proj_bias": interleaved(g.gate_bias, g.up_bias),
            "experts.down_proj": g.down.transpose(0, 2, 1),
            "experts.down_proj_bias": g.down_bias,
        },
    )


def test_llama4_block_weights_the_input() -> None:
    config = llama4.Llama4TextConfig(
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_local_experts=N_EXPERTS,
        num_experts_per_tok=1,
    )
    module = filled(llama4.Llama4TextMoe(config))
    both = array(module.experts.gate_up_proj).transpose(0, 2, 1)
    layer = ff.MoEFFN(
        array(module.router.weight),
        both[:, :D_FF],
        both[:, D_FF:],
        array(module.experts.down_proj).transpose(0, 2, 1),
        top_k=1,
        scoring="sigmoid",
        renormalize=False,
        weight_input=True,
        shared=gated_layer(module.shared_expert),
    )
    check(
        module,
        layer,
        lambda g: {
            "router.weight": g.router,
            "experts.gate_up_proj": np.concatenate([g.gate, g.up], axis=1).transpose(0, 2, 1),
            "experts.down_proj": g.down.transpose(0, 2, 1),
            **gated_names(g.shared, "shared_expert."),
        },
    )
