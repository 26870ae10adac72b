"""Models that can be asked for by name: public shapes, each with its source and its total.

``published``: the total its authors give, in parameters; tests hold the counted total against
it. gpt-3b-32 stands for one measured run, with its degrees; work/parallel.py says how its shape
was found.
"""

from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.nearest import one_of
from fanfold.work.model import Experts, Gqa, Mla, Model
from fanfold.work.parallel import Degrees


class Preset(NamedTuple):
    """A model, where its values stand, its published total, and degrees of a known run."""

    model: Model
    source: str
    published: int
    degrees: Degrees | None = None

    @property
    def name(self) -> str:
        """What one asks for."""
        return self.model.name


PRESETS: tuple[Preset, ...] = (
    Preset(
        Model(
            name="deepseek-v3",
            hidden=7168,
            n_layers=61,
            vocab=129_280,
            attention=Mla(
                n_heads=128, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, v_dim=128
            ),
            inner=18_432,
            experts=Experts(
                n_routed=256,
                top_k=8,
                inner=2048,
                layers=tuple(range(3, 61)),
                n_shared=1,
                shared_inner=2048,
                has_router_bias=True,
                n_groups=8,
                top_groups=4,
            ),
            n_mtp=1,
            dtype="fp8",
        ),
        "config.json of deepseek-ai/DeepSeek-V3; DeepSeek-V3 technical report, section 4.2",
        671_000_000_000,
        Degrees(gpus=2048, pp=16, ep=64, zero=1, n_micro=120, seq=4096, dispatch_dtype="fp8"),
    ),
    Preset(
        Model(
            name="llama3-70b",
            hidden=8192,
            n_layers=80,
            vocab=128_256,
            attention=Gqa(n_heads=64, n_kv_heads=8, head_dim=128),
            inner=28_672,
        ),
        "config.json of meta-llama/Meta-Llama-3-70B",
        70_600_000_000,
    ),
    Preset(
        Model(
            name="llama3-405b",
            hidden=16_384,
            n_layers=126,
            vocab=128_256,
            attention=Gqa(n_heads=128, n_kv_heads=8, head_dim=128),
            inner=53_248,
        ),
        "config.json of meta-llama/Llama-3.1-405B; The Llama 3 Herd of Models, table 4",
        405_900_000_000,
        Degrees(gpus=8192, tp=8, pp=16, zero=1, n_micro=32, seq=8192, sequence_parallel=True),
    ),
    Preset(
        Model(
            name="mixtral-8x7b",
            hidden=4096,
            n_layers=32,
            vocab=32_000,
            attention=Gqa(n_heads=32, n_kv_heads=8, head_dim=128),
            inner=14_336,
            experts=Experts(n_routed=8, top_k=2, inner=14_336, layers=tuple(range(32))),
        ),
        "config.json of mistralai/Mixtral-8x7B-v0.1",
        46_700_000_000,
    ),
    Preset(
        Model(
            name="llama4-maverick",
            hidden=5120,
            n_layers=48,
            vocab=202_048,
            attention=Gqa(n_heads=40, n_kv_heads=8, head_dim=128),
            inner=16_384,
            experts=Experts(
                n_routed=128,
                top_k=1,
                inner=8192,
                layers=tuple(range(1, 48, 2)),
                n_shared=1,
                shared_inner=8192,
            ),
        ),
        "text_config of meta-llama/Llama-4-Maverick-17B-128E; without the vision encoder",
        400_000_000_000,
    ),
    Preset(
        Model(
            name="qwen3-235b",
            hidden=4096,
            n_layers=94,
            vocab=151_936,
            attention=Gqa(n_heads=64, n_kv_heads=4, head_dim=128, has_qk_norm=True),
            inner=12_288,
            experts=Experts(n_routed=128, top_k=8, inner=1536, layers=tuple(range(94))),
        ),
        "config.json of Qwen/Qwen3-235B-A22B",
        235_000_000_000,
    ),
    Preset(
        Model(
            name="gpt-3b-32",
            hidden=2560,
            n_layers=36,
            vocab=50_257,
            attention=Gqa(n_heads=32, n_kv_heads=32, head_dim=80, qkv_bias=True, out_bias=True),
            inner=10_240,
            is_gated=False,
            mlp_bias=True,
            has_norm_bias=True,
            is_tied=True,
            n_positions=2048,
            dtype="fp16",
        ),
        "fitted to the volumes of Li et al., APNet 2024, doi 10.1145/3663408.3663409",
        3_000_000_000,
        Degrees(
            gpus=32,
            tp=4,
            pp=4,
            micro_batch=12,
            n_micro=8,
            seq=2048,
            recompute=True,
            act_dtype="fp16",
            grad_dtype="fp32",
        ),
    ),
)


def preset_of(name: str) -> Preset:
    """Preset of a name.

    Raises:
        ConfigError: no such preset.
    """
    names = [preset.name for preset in PRESETS]
    if name not in names:
        raise ConfigError("model", name, one_of(name, names, ", or a config.json"))
    return PRESETS[names.index(name)]
