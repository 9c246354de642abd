import pytest
import torch
from safetensors.torch import save_file

from pipeline.engine import checkpoint
from pipeline.schema import ConfigError
from tests.compose import config
from tests.engine.layers import Shape

CPU = torch.device("cpu")
TINY = config("+exp=short_ctx", "model=tiny", "engine.device=cpu").model
FLASH = config("+exp=short_ctx", "model=v4_flash", "engine.device=cpu").model
PRO = config("+exp=short_ctx", "model=v4_pro", "engine.device=cpu").model


@pytest.mark.parametrize(
    ("model", "name", "shape"),
    [
        (FLASH, "wq_a", (1024, 4096)),
        (FLASH, "wq_b", (32768, 1024)),
        (FLASH, "wo_a", (8 * 1024, 4096)),
        (FLASH, "wo_b", (4096, 8192)),
        (FLASH, "compressor.wkv", (1024, 4096)),
        (FLASH, "compressor.ape", (4, 1024)),
        (FLASH, "indexer.wq_b", (8192, 1024)),
        (FLASH, "indexer.weights_proj", (64, 4096)),
        (FLASH, "indexer.compressor.wgate", (256, 4096)),
        (FLASH, "indexer.compressor.norm", (128,)),
        (PRO, "wq_b", (65536, 1536)),
        (PRO, "wo_a", (16 * 1024, 4096)),
        (PRO, "wo_b", (7168, 16384)),
        (PRO, "attn_sink", (128,)),
    ],
)
def test_shapes_of_the_checkpoint(model, name, shape):
    assert checkpoint.shapes(model, "csa")[name] == shape


def test_hca_pools_one_window_and_has_no_indexer():
    shapes = checkpoint.shapes(FLASH, "hca")
    assert shapes["compressor.wkv"] == (512, 4096)
    assert shapes["compressor.ape"] == (128, 512)
    assert not any(name.startswith("indexer") for name in shapes)


def test_a_rank_of_eight_holds_an_eighth_of_the_heads_and_the_whole_indexer():
    full, rank = checkpoint.shapes(FLASH, "csa"), checkpoint.shapes(FLASH, "csa", 8)
    assert rank["wq_b"] == (4096, 1024)
    assert rank["wo_a"] == (1024, 4096)
    assert rank["wo_b"] == (4096, 1024)
    assert rank["attn_sink"] == (8,)
    assert {name: shape for name, shape in rank.items() if full[name] == shape}.keys() >= {
        "indexer.wq_b",
        "indexer.weights_proj",
        "compressor.wkv",
    }


def test_ranks_add_up_to_the_whole_layer():
    """With the other ranks' wo_b at zero, the whole layer gives what the first rank gives."""
    shape = Shape("csa")
    tensors = shape.tensors(TINY)
    own = checkpoint.shapes(TINY, "csa", 2)["wo_b"][1]
    tensors["wo_b"][:, own:] = 0
    hidden = shape.hidden(30)
    whole, part = (shape.session("never", f"engine.tp={tp}", tensors=tensors) for tp in (1, 2))
    torch.testing.assert_close(part.feed({"a": hidden})["a"].output, whole.feed({"a": hidden})["a"].output)


def test_the_seed_fixes_the_weights():
    one, two, other = (checkpoint.draw(TINY, "csa", 1, seed, CPU) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["wq_a"], other["wq_a"])


def test_a_file_with_the_checkpoints_names_is_read_by_layer(tmp_path):
    layers = {number: checkpoint.draw(TINY, "csa", 1, number, CPU) for number in (1, 3)}
    stored = {}
    for number, tensors in layers.items():
        for name, tensor in tensors.items():
            bare = name.endswith(("attn_sink", "ape"))
            stored[f"layers.{number}.attn.{name}{'' if bare else '.weight'}"] = tensor
    stored["layers.3.ffn.w1.weight"] = torch.zeros(2, 2)
    save_file(stored, tmp_path / "w.safetensors")
    loaded = checkpoint.load(str(tmp_path / "w.safetensors"), 3)
    assert loaded.keys() == layers[3].keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in layers[3].items())


def test_only_the_names_that_are_asked_for_are_read(tmp_path):
    eighth = torch.ones(1, 1).to(torch.float8_e4m3fn)
    odd = {
        name: torch.zeros(1) for name in ("layers", "layers.1", "layers.1.attn", "embed.weight", "q_norm", "wkv.scale")
    }
    save_file(odd | {"layers.1.attn.wq_a": eighth, "layers.1.attn.wq_a.scale": 2 * torch.ones(1, 1)}, tmp_path / "w")
    loaded = checkpoint.load(str(tmp_path / "w"), 1, {"wq_a", "q_norm"})
    assert loaded.keys() == {"wq_a", "q_norm"} and loaded["wq_a"].item() == 2
    assert checkpoint.load(str(tmp_path / "w"), 1).keys() == {"wq_a", "q_norm", "embed"}


def test_fp8_blocks_are_multiplied_by_their_scales(tmp_path):
    values = torch.randn(256, 130).to(torch.float8_e4m3fn)
    scales = torch.tensor([[0.5, 2.0], [4.0, 1.0]])
    save_file({"wq_a.weight": values, "wq_a.scale": scales.to(torch.float8_e8m0fnu)}, tmp_path / "w.safetensors")
    loaded = checkpoint.load(str(tmp_path / "w.safetensors"), 0)["wq_a"]
    expected = values.float()
    expected[:128, :128] *= 0.5
    expected[:128, 128:] *= 2.0
    expected[128:, :128] *= 4.0
    assert torch.equal(loaded, expected.bfloat16())


def test_every_missing_and_misshapen_tensor_is_named():
    tensors = checkpoint.draw(TINY, "csa", 1, 0, CPU)
    del tensors["wkv"], tensors["indexer.compressor.ape"]
    tensors["attn_sink"] = torch.zeros(5)
    with pytest.raises(ConfigError) as caught:
        checkpoint.shard(tensors, TINY, "csa", 1)
    assert caught.value.lines == [
        "weights of a csa layer: tensor wkv is missing",
        "weights of a csa layer: tensor indexer.compressor.ape is missing",
        "weights of a csa layer: tensor attn_sink has shape [5], tiny needs [4]",
    ]


def test_a_broken_file_is_told(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(ConfigError, match="not a readable safetensors file"):
        checkpoint.load(str(tmp_path / "w.safetensors"), 0)
